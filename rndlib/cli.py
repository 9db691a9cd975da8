"""The command line: list the notebooks, run one, and show what the results say.

Exit codes: 0 where every verdict holds, 1 where one does not or a notebook failed, 2 where what was asked for cannot
be done (nothing has run then), 130 and 143 where the run was interrupted or terminated. Those that a batch or a
scheduler tells apart: 70 where the kernel died, 74 where results cannot be written, 75 where another process runs the
same, 124 where it took too long.
"""

import argparse
import json
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import rndlib.batch
from rndlib import cores, ledger, locks, notebooks, output, reports, runs
from rndlib.codes import BUSY, KERNEL_DIED, TOO_LONG, UNWRITABLE
from rndlib.parameters import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on `arguments`, those of the process by default; returns the exit code."""
    asked = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # As for a job that a script left in the background.
            signal.signal(number, _stop)
    try:
        return asked.command(asked)
    except UsageError as error:
        print(f"rndlib: {error}", file=sys.stderr)
        return 2
    except locks.Busy as error:
        print(f"rndlib: {error}", file=sys.stderr)
        return BUSY
    except OSError as error:
        line = str(error) if isinstance(error, output.Unwritable) else output.refusal(error)
        if line is None:
            raise
        print(f"rndlib: {line}", file=sys.stderr)
        return UNWRITABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rndlib", description="Run the paper's notebooks and show their verdicts.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="the notebooks, with their parameters")
    listing.add_argument(
        "--claims", action="store_true", help="the claims, with their tolerances and controls, instead"
    )
    listing.set_defaults(command=_list)

    running = commands.add_parser("run", help="execute a notebook into results/NAME/")
    running.add_argument("name", metavar="NAME", help="a notebook's name, or the beginning of it, such as 05")
    running.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        metavar=("KEY", "VALUE"),
        dest="overrides",
        help="give a parameter another value, as in -p width 64 or -p widths '[32, 64]'; may be repeated",
    )
    running.add_argument(
        "--profile",
        default=notebooks.PAPER,
        help="the values to start from: paper (the default; what the notebook itself says) or smoke (small and quick)",
    )
    running.add_argument("--cell-timeout", type=int, metavar="SECONDS", help="fail where one cell takes longer")
    running.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="stop, with exit code 124, after so long")
    running.add_argument(
        "--once",
        action="store_true",
        help="only if DIR does not have this result already: of the same notebook, parameters, library and versions",
    )
    running.add_argument(
        "--threads", type=_count, metavar="N", help="compute with so many, on which the last bits of numbers depend"
    )
    # As a batch starts its runs: it holds the lock on DIR, and they end when it does and their stdin closes.
    running.add_argument("--tied", action="store_true", help=argparse.SUPPRESS)
    running.set_defaults(command=_run)

    batching = commands.add_parser(
        "batch",
        help="run a grid of notebooks, parameters and seeds",
        description=rndlib.batch.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    batching.add_argument("grid", type=Path, metavar="GRID.yaml", help="notebooks, with their parameters and seeds")
    batching.add_argument("--jobs", type=_count, metavar="N", help="cells at once (as many as there are cores)")
    batching.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="stop a cell after so long, unless the grid says otherwise"
    )
    batching.add_argument(
        "--commands", action="store_true", help="run nothing, and print the command of each cell, for a scheduler"
    )
    batching.add_argument("--json", action="store_true", help="the commands as a list of objects")
    batching.add_argument("--results", type=Path, metavar="DIR", help="folder of the batch (batches/GRID)")
    batching.set_defaults(command=_batch)

    verifying = commands.add_parser("verify", help="every claim that has run, with its verdict")
    verifying.add_argument("--json", action="store_true", help="as a list of objects")
    verifying.set_defaults(command=_verify)

    reporting = commands.add_parser("report", help="write results/report.md: claims, runs and figures")
    reporting.set_defaults(command=_report)

    for command in (running, verifying, reporting):
        command.add_argument(
            "--results", type=Path, default=Path("results"), metavar="DIR", help="folder of all results (results)"
        )
    return parser


def _list(asked: argparse.Namespace) -> int:
    if asked.claims:
        print(reports.declared())
        return 0
    for name in notebooks.names():
        notebook = notebooks.find(name)
        print(f"{name}: {notebook.title}")
        for parameter in notebook.parameters:
            print(f"    {parameter.name}: {parameter.type} = {parameter.default!r}  # {parameter.help}")
    return 0


def _run(asked: argparse.Namespace) -> int:
    notebook = notebooks.find(asked.name)
    values = notebook.settings(asked.profile, asked.overrides)
    try:
        from rndlib.execution import KernelDied, NotebookFailed
    except ImportError as error:
        raise UsageError(f"running notebooks needs {error.name}: pip install 'rndlib[notebooks]'") from error
    if asked.threads:
        os.environ.update(dict.fromkeys(cores.THREADS, str(asked.threads)))  # For the kernel.
    if asked.tied:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    if asked.timeout:
        signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_REAL, asked.timeout)
    asked.results.mkdir(parents=True, exist_ok=True)
    try:
        with locks.held(asked.results / runs.LOCK) if asked.once and not asked.tied else nullcontext():
            result = runs.kept(notebook, values, asked.results) if asked.once else None
            if result is None:
                result = runs.run(
                    notebook, values, asked.profile, asked.results, asked.cell_timeout, sys.stderr.isatty()
                )
    except NotebookFailed as error:
        print(f"rndlib: {error}", file=sys.stderr)
        return KERNEL_DIED if isinstance(error, KernelDied) else 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    print(ledger.table(result.verdicts))
    print(f"{notebook.name} ({asked.profile}): {reports.cost([result])}, in {result.folder}")
    return _settled([result])


def _batch(asked: argparse.Namespace) -> int:
    try:
        from rndlib.batch import batch
    except ImportError as error:
        raise UsageError(f"batches need {error.name}: pip install 'rndlib[notebooks]'") from error
    folder = asked.results or Path("batches") / asked.grid.stem
    if asked.json and not asked.commands:
        raise UsageError("--json says how --commands prints: give both")
    if asked.commands:
        jobs = batch.jobs(asked.grid, folder, asked.timeout)
        lines = (shlex.join(["rndlib", *job["command"]]) for job in jobs)
        print(json.dumps(jobs, indent=1) if asked.json else "\n".join(lines))
        return 0
    return 0 if batch.run(asked.grid, folder, asked.jobs, asked.timeout) else 1


def _verify(asked: argparse.Namespace) -> int:
    results = runs.read_all(asked.results)
    verdicts = [verdict for result in results for verdict in result.verdicts]
    print(json.dumps(reports.rows(verdicts), indent=2) if asked.json else ledger.table(verdicts))
    return _settled(results)


def _report(asked: argparse.Namespace) -> int:
    results = runs.read_all(asked.results)
    path = asked.results / "report.md"
    path.write_text(reports.report(results, asked.results, notebooks.folder()), encoding="utf-8")
    print(f"{path}: {len(results)} notebooks, {reports.cost(results)}")
    return 1 if reports.unsettled(results) else 0  # The report itself says why.


def _settled(results: Sequence[runs.Result]) -> int:
    """The exit code that results deserve, with what is wrong on stderr."""
    wrong = reports.unsettled(results)
    for line in wrong:
        print(f"rndlib: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few: give 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a time: give a number of seconds above 0")
    return float(text)


def _too_long(number: int, frame: object) -> NoReturn:
    logging.disable()
    print("rndlib: took longer than its time limit, and was stopped", file=sys.stderr)
    sys.exit(TOO_LONG)


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(number: int, frame: object) -> NoReturn:
    # As an exception, so that the kernel is ended and the temporary folder removed on the way out; quietly, since
    # what the kernel's client reports of a kernel that ends within a cell says nothing new.
    logging.disable()
    print("rndlib: stopped", file=sys.stderr)
    sys.exit(128 + number)
