"""Records of long work, a line of JSON for each piece that is done: what is interrupted goes on where it was."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Every entry, the oldest first; a line that was cut short is none, and neither is a file that is not there."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def append(file: TextIO, entry: Mapping[str, Any]) -> None:
    """Add an entry to a file that is open for appending, and hand it to the system at once."""
    file.write("\n" * (file.tell() > 0) + json.dumps(entry))  # first, as the last line may be cut short
    file.flush()
