"""Where a run's files go: the folder named by the environment variable RNDLIB_OUTPUT, or nowhere."""

import os
from pathlib import Path

VARIABLE = "RNDLIB_OUTPUT"


def folder() -> Path | None:
    """The folder that takes this run's files; None where nothing is to be written.

    Raises a ValueError if the variable names something that is not an existing folder.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named)
    if not path.is_dir():
        raise ValueError(f"{VARIABLE} = {named!r} is not a folder: create it first, or unset the variable")
    return path


def write(path: Path, content: bytes) -> None:
    """Write the whole file or nothing: under a temporary name beside it, then renamed."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
