"""Checksums of a result: the file SHA256SUMS, which `sha256sum --check` reads too.

Written last, it names every file of the folder but hidden ones. So a file that was truncated, edited, lost or slipped
in is found, and so is a list that lost lines itself.
"""

import hashlib
from pathlib import Path

from rndlib import output

FILE = "SHA256SUMS"


def seal(folder: Path) -> None:
    """Write the checksums of all files in `folder`, and wait until they and it are on the disk."""
    files = _files(folder)
    lines = [f"{_sum(folder / name)}  {name}\n" for name in files]
    for path in {(folder / name) for name in files} | {folder / name for name in _folders(files)}:
        output.settle(path)
    output.write(folder / FILE, "".join(lines).encode())
    output.settle(folder)


def check(folder: Path) -> None:
    """Hold a folder against its checksums.

    Raises
    ------
    OSError: there are none, or a file that they name is gone.
    ValueError: a file is not what it was, or is not among them.
    """
    lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for name in sorted(set(listed) | set(_files(folder))):
        if name not in listed:
            raise ValueError(f"{FILE} does not name {name}")
        if _sum(folder / name) != listed[name]:
            raise ValueError(f"{name} was changed since it was written")


def _files(folder: Path) -> list[str]:
    """The files under `folder`, relative, sorted; without hidden ones, such as Jupyter's checkpoints."""
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(name.as_posix() for name in names if name.name != FILE and not _hidden(name))


def _folders(files: list[str]) -> set[str]:
    return {parent.as_posix() for name in files for parent in Path(name).parents}


def _hidden(name: Path) -> bool:
    return any(part.startswith(".") for part in name.parts)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
