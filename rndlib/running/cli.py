"""The command line: list the notebooks, run one, and show what the results say.

Exit codes: 0 where every verdict holds; 1 where one does not, a notebook failed, results cannot be written, or doctor
misses something; 2 where the request cannot be met and nothing has run; 124 where a run took too long; 130 and 143
where it was interrupted or terminated.
"""

import argparse
import logging
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rndlib import cores
from rndlib.paper.evidence import ledger
from rndlib.running import arguments, notebooks, reports, runs
from rndlib.running.notebooks import NotebookFailed
from rndlib.running.parameters import UsageError

TOO_LONG = 124  # exit code of a run over its time limit, as of timeout(1)
SPARE = 30  # seconds that a run over its time limit has to end by itself


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line on these words, by default those of the process; returns the exit code."""
    options = arguments.parser().parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # As for a job that a script left in the background.
            signal.signal(number, _stop)
    try:
        return COMMANDS[options.command](options)
    except ModuleNotFoundError as error:
        code, message = 2, f"{options.command} needs {error.name}: pip install 'rndlib[notebooks]'"
    except UsageError as error:
        code, message = 2, str(error)
    except BrokenPipeError:  # As in `rndlib list | head`. Python would report it once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (NotebookFailed, OSError) as error:
        code, message = 1, str(error)
    print(f"rndlib: {message}", file=sys.stderr)
    return code


def _list(options: argparse.Namespace) -> int:
    if options.claims:
        print(reports.declared())
        return 0
    for name in notebooks.names():
        notebook = notebooks.find(name)
        print(f"{name}: {notebook.title}")
        for parameter in notebook.parameters:
            print(f"    {parameter.name}: {parameter.type} = {parameter.default!r}  # {parameter.help}")
    return 0


def _run(options: argparse.Namespace) -> int:
    notebook = notebooks.find(options.name)
    values = notebook.settings(options.profile, options.overrides)
    if options.threads:
        os.environ.update(dict.fromkeys(cores.THREADS, str(options.threads)))  # For the kernel.
    if options.timeout:
        signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, options.timeout)
    try:
        result = runs.run(notebook, values, options.profile, options.results, options.once)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if result.verdicts:
        print(ledger.table(result.verdicts))
    print(f"{notebook.name} ({options.profile}): {reports.cost([result])}, in {result.folder}")
    return _exit_code([result])


def _batch(options: argparse.Namespace) -> int:
    from rndlib.running.batch import batch, grid

    folder = options.results or Path("batches") / options.grid.stem
    if options.commands:
        for cell in grid.read(options.grid):
            print(shlex.join(["rndlib", *cell.command(folder), "--threads", str(options.threads)]))
        return 0
    return 0 if batch.run(options.grid, folder, options.jobs, options.threads, options.workflow_profile) else 1


def _verify(options: argparse.Namespace) -> int:
    results = runs.read_all(options.results)
    print(ledger.table([verdict for result in results for verdict in result.verdicts]))
    return _exit_code(results)


def _report(options: argparse.Namespace) -> int:
    results = runs.read_all(options.results)
    path = options.results / "report.md"
    path.write_text(reports.report(results, options.results, notebooks.folder()), encoding="utf-8")
    print(f"{path}: {len(results)} notebooks, {reports.cost(results)}")
    return 1 if reports.unsettled(results) else 0  # The report itself says why.


def _doctor(options: argparse.Namespace) -> int:
    from rndlib.running import doctor

    code = 0
    for check in doctor.checks(options.results):
        print(check, flush=True)
        code = 1 if check.status == doctor.MISSING else code
    return code


def _exit_code(results: Sequence[runs.Result]) -> int:
    """The exit code that results deserve, with what is wrong on stderr."""
    wrong = reports.unsettled(results)
    for line in wrong:
        print(f"rndlib: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _stop(number: int, frame: object) -> NoReturn:
    """End by an exception, so that the kernel is ended, too, and temporary folders are removed on the way out."""
    logging.disable()  # What the kernel's client reports of a kernel that ends within a cell says nothing new.
    if number != signal.SIGALRM:
        print("rndlib: stopped", file=sys.stderr)
        sys.exit(128 + number)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # The next one kills.
    signal.setitimer(signal.ITIMER_REAL, SPARE)
    print("rndlib: took longer than its time limit, and was stopped", file=sys.stderr)
    sys.exit(TOO_LONG)


COMMANDS = {"list": _list, "run": _run, "batch": _batch, "verify": _verify, "report": _report, "doctor": _doctor}
