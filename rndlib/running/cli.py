"""The command line: list the notebooks, run one, and show what the results say.

Exit codes: 0 where every verdict holds, 1 where one does not, a notebook failed, or something that is needed is
missing, 2 where what was asked for cannot be done (nothing has run then), 130 and 143 where the run was interrupted or
terminated. Those that a batch or a scheduler tells apart: 70 where the kernel died, 74 where results cannot be
written, 75 where another process runs the same, 124 where it took too long. 141 where what reads the output, as `head`
does, ended first.
"""

import argparse
import dataclasses
import json
import logging
import os
import select
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NoReturn

from rndlib import cores, output
from rndlib.evidence import ledger
from rndlib.running import arguments, failures, locks, notebooks, provenance, reports, runs
from rndlib.running.exit_codes import BUSY, KERNEL_DIED, TOO_LONG, UNREAD, UNWRITABLE
from rndlib.running.parameters import UsageError


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
    except locks.Busy as error:
        print(f"rndlib: {error}", file=sys.stderr)
        return BUSY
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return UNREAD
        line = str(error) if isinstance(error, output.Unwritable) else output.refusal(error)
        if line is None:
            raise
        print(f"rndlib: {line}", file=sys.stderr)
        return UNWRITABLE


def _nobody_reads() -> bool:
    """Whether what reads stdout has gone; then nothing more goes there, which at exit would be an error once more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # asked for or not, it says whether the other end is closed
    gone = bool(poll.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return gone


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
        from rndlib.running.execution import KernelDied, NotebookFailed
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
    alone = asked.once and not asked.tied  # a batch has the lock, and keeps the record of what fails
    key = runs.key(notebook, values, provenance.code())
    try:
        with (
            locks.held(asked.results / runs.LOCK) if alone else nullcontext(),
            failures.recorded(key, asked.results) if alone else nullcontext(),
        ):
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
    _leave(failures.LATE, TOO_LONG)


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


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
