"""Errors inside a network that the user wrote, in a sentence."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sysconfig import get_paths


class Fault(ValueError):
    """An error inside a network that the user wrote, in a sentence."""


@contextmanager
def faults(what: str, remedy: str) -> Iterator[None]:
    """Turn any error into a `Fault`: what fails, at which line of the user's, why, and what works."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        reason = str(cause).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
        raise Fault(f"{what}{_line(cause)} ({type(cause).__name__}: {reason}): {remedy}") from cause


def _line(error: BaseException) -> str:
    """The last line of code that an error passed through outside of libraries."""
    libraries = (*(get_paths()[of] for of in ("stdlib", "purelib", "platlib")), str(Path(__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.line for frame in frames if not frame.filename.startswith(libraries)]
    return f" at {lines[-1]!r}" if lines and lines[-1] else ""
