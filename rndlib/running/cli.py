"""The command line: list the notebooks, run one, and show what the results say.

Exit codes: 0 where every verdict holds, 1 where one does not, a notebook failed, or something that is needed is
missing, 2 where what was asked for cannot be done (nothing has run then), 74 where results cannot be written, 124 where
a run took too long, 130 and 143 where it was interrupted or terminated, 141 where what reads the output, as `head`
does, ended first.
"""

import argparse
import dataclasses
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NoReturn

from rndlib import cores, output
from rndlib.evidence import ledger
from rndlib.running import arguments, failures, locks, notebooks, reports, runs
from rndlib.running.parameters import UsageError

UNWRITABLE = 74  # exit code, as in sysexits.h
SPARE = 30  # seconds for a run over its time limit to end by itself


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line on the arguments `given`, those of the process by default; returns the exit code."""
    asked = arguments.parser().parse_args(given)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # As for a job that a script left in the background.
            signal.signal(number, _stop)
    try:
        code = COMMANDS[asked.command](asked)
        sys.stdout.flush()  # here rather than at exit, where an error would be too late
        return code
    except UsageError as error:
        print(f"rndlib: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # Nothing more goes to stdout then, which at exit would be an error once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        line = str(error) if isinstance(error, output.Unwritable) else output.refusal(error)
        if line is None:
            raise
        print(f"rndlib: {line}", file=sys.stderr)
        return UNWRITABLE


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
        from rndlib.running.execution import NotebookFailed
    except ImportError as error:
        raise UsageError(f"running notebooks needs {error.name}: pip install 'rndlib[notebooks]'") from error
    if asked.threads:
        os.environ.update(dict.fromkeys(cores.THREADS, str(asked.threads)))  # For the kernel.
    if asked.timeout:
        signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_REAL, asked.timeout)
    asked.results.mkdir(parents=True, exist_ok=True)
    once = asked.once
    try:
        with (
            locks.held(asked.results / runs.LOCK) if once else nullcontext(),
            failures.recorded(asked.results) if once else nullcontext(),
        ):
            result = runs.kept(notebook, values, asked.results) if once else None
            if result is None:
                result = runs.run(
                    notebook, values, asked.profile, asked.results, asked.cell_timeout, sys.stderr.isatty()
                )
    except NotebookFailed as error:
        print(f"rndlib: {error}", file=sys.stderr)
        return 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if result.verdicts:
        print(ledger.table(result.verdicts))
    print(f"{notebook.name} ({asked.profile}): {reports.cost([result])}, in {result.folder}")
    return _settled([result])


def _batch(asked: argparse.Namespace) -> int:
    try:
        from rndlib.running.batch import batch
    except ImportError as error:
        raise UsageError(f"batches need {error.name}: pip install 'rndlib[notebooks]'") from error
    folder = asked.results or Path("batches") / asked.grid.stem
    if asked.commands:
        for command in batch.commands(asked.grid, folder, asked.timeout):
            print(shlex.join(["rndlib", *command, "--threads", str(asked.threads)]))
        return 0
    passed = batch.run(asked.grid, folder, asked.timeout, asked.jobs, asked.threads, asked.workflow_profile)
    return 0 if passed else 1


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


def _doctor(asked: argparse.Namespace) -> int:
    from rndlib.running import doctor

    found = []
    for check in doctor.checks(asked.results):
        found.append(check)
        if not asked.json:
            print(check, flush=True)
    if asked.json:
        print(json.dumps([dataclasses.asdict(check) for check in found], indent=2))
    return 1 if any(check.status == doctor.MISSING for check in found) else 0


def _settled(results: Sequence[runs.Result]) -> int:
    """The exit code that results deserve, with what is wrong on stderr."""
    wrong = reports.unsettled(results)
    for line in wrong:
        print(f"rndlib: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _too_long(number: int, frame: object) -> NoReturn:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # The next one kills.
    signal.setitimer(signal.ITIMER_REAL, SPARE)
    _leave(failures.LATE, failures.TOO_LONG)


def _stop(number: int, frame: object) -> NoReturn:
    _leave("stopped", 128 + number)


def _leave(why: str, code: int) -> NoReturn:
    """End from within a signal handler."""
    # As an exception, so that the kernel is ended and the temporary folder removed on the way out; quietly, since
    # what the kernel's client reports of a kernel that ends within a cell says nothing new.
    logging.disable()
    # Who reads this may be gone, as a batch that was killed. That error would take the place of the exit, and code that
    # was interrupted here and takes errors lightly would go on.
    with suppress(OSError):
        print(f"rndlib: {why}", file=sys.stderr)
    sys.exit(code)


COMMANDS = {"list": _list, "run": _run, "batch": _batch, "verify": _verify, "report": _report, "doctor": _doctor}
