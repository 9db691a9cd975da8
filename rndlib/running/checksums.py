"""Checksums of a result: the file SHA256SUMS, in the form of `sha256sum --check`.

It is written last and names every file of the folder except hidden ones. So a file that was cut, edited, lost or
slipped in is found, and so is a list that lost lines itself.
"""

import hashlib
from pathlib import Path

from rndlib import output

FILE = "SHA256SUMS"


def seal(folder: Path) -> None:
    """Write the checksums of all files in `folder`."""
    output.write(folder / FILE, "".join(f"{line}\n" for line in _lines(folder)).encode())


def check(folder: Path) -> None:
    """Raise an OSError if there are no checksums, a ValueError if a file differs, is gone, or is not among them."""
    stored = (folder / FILE).read_text(encoding="utf-8").splitlines()
    differing = {line.partition("  ")[2] for line in set(stored) ^ set(_lines(folder))}
    if differing:
        raise ValueError(f"{', '.join(sorted(differing))} differs from what {FILE} says")


def _lines(folder: Path) -> list[str]:
    """One line per file: its checksum and its path in `folder`."""
    lines = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)  # Such as Jupyter's checkpoints.
        if path.is_file() and not hidden and name.name != FILE:
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name.as_posix()}")
    return lines
