"""What rndlib costs compared with what a user would write or install instead: `make bench`, or

    python ci/bench.py [--quick [--keep]] [SECTION ...]

A section is printed when it is complete, and takes the place of the one stored in `notebooks/bench.json`, which the
site shows. To go on after an interruption, name the sections that are left.

With `--quick` sizes are small, and ratios are compared with those in `notebooks/bench_quick.json`. Those that fell by
more than a third, in every repeat, are named, with an exit status of 1. `--quick --keep` stores them there.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.case import RATIO
from made import ROOT, made, said

from rndlib.paper import output

SECTIONS = ("kernels", "trained", "samples", "networks", "automatic", "bonus", "gpu")
FULL, QUICK = ROOT / "notebooks" / "bench.json", ROOT / "notebooks" / "bench_quick.json"
FALLEN = 2 / 3
"""Of the stored ratio: a ratio that is below that in every repeat is named."""


def load(name: str) -> ModuleType:
    """A section by its name. Importing one imports the libraries that it measures."""
    return import_module(f"benchmarks.{name}")


def measure(name: str, quick: bool) -> dict[str, Any]:
    """A section as it is stored."""
    section, rows = load(name), []
    for case in section.cases(quick):
        print(f"{name}: {case.name}", file=sys.stderr, flush=True)
        rows += case.rows()
    made_by = made(apart=("notebooks/bench.json", "notebooks/bench_quick.json"))
    return {"name": name, "title": section.TITLE, "note": section.NOTE, "made by": made_by, "rows": rows}


def read(path: Path) -> list[dict[str, Any]]:
    """The sections of a stored table; none where it has not been made."""
    return json.loads(path.read_text(encoding="utf-8"))["sections"] if path.is_file() else []


def store(path: Path, section: dict[str, Any]) -> None:
    """Put a section into the table at `path`, in place of an older one, in the order of `SECTIONS`."""
    sections = {other["name"]: other for other in read(path)} | {section["name"]: section}
    content = {"sections": [sections[name] for name in SECTIONS if name in sections]}
    output.write(path, json.dumps(content, indent=1).encode() + b"\n")


def fallen(section: dict[str, Any], stored: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line for each ratio that has fallen by more than a third, or of which there is none to compare with.

    A ratio has its smallest and largest with it, over repeats that other work on the machine may have interrupted.
    """
    before = {(row["case"], row["by"]): row[RATIO] for other in stored for row in other["rows"] if RATIO in row}
    for row in section["rows"]:
        if RATIO in row:
            now, then = row[RATIO][0], before.get((row["case"], row["by"]))
            if then is None:
                yield f"{row['case']}, {row['by']}: {now:.3g}, and none is stored"
            elif row[RATIO][2] < FALLEN * then[0]:
                yield f"{row['case']}, {row['by']}: {now:.3g}, stored {then[0]:.3g}"


def text(section: dict[str, Any]) -> str:
    """A section in Markdown: its note, one table per case, and how it was made."""
    parts = [f"## {section['title']}", section["note"]]
    for case in dict.fromkeys(row["case"] for row in section["rows"]):
        rows = [row for row in section["rows"] if row["case"] == case]
        head = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "case"]
        lines = [head, ["---"] * len(head), *([shown(row.get(name)) for name in head] for row in rows)]
        parts += [f"**{case}**", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join([*parts, said(section["made by"])])


def shown(cell: Any) -> str:
    """One cell: three digits of a number, with its interval in brackets where it has one."""
    if cell is None or isinstance(cell, str | int):
        return "" if cell is None else str(cell)
    if isinstance(cell, float):
        return f"{cell:.0f}" if 1e3 <= abs(cell) < 1e6 else f"{cell:.3g}"
    return "{} ({} to {})".format(*map(shown, cell))


def main(words: Sequence[str]) -> None:
    """Measure, print and store the sections that are asked for; exits with the ratios that have fallen."""
    parser = argparse.ArgumentParser(prog="bench.py", description="Measure what things cost; see the file's head.")
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all but gpu by default"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, some three minutes")
    parser.add_argument("--keep", action="store_true", help="with --quick: store its ratios, to compare later ones")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.sections if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}: choose among {', '.join(SECTIONS)}")
    if asked.keep and not asked.quick:
        parser.error("--keep is for --quick; a full run is always stored")
    lines: list[str] = []
    for name in asked.sections or [name for name in SECTIONS if name != "gpu"]:
        section = measure(name, asked.quick)
        if asked.keep or not asked.quick:
            store(QUICK if asked.quick else FULL, section)
        else:
            lines += fallen(section, read(QUICK))
        print(text(section), end="\n\n", flush=True)
    if lines:
        sys.exit("\n".join(["ratios that fell by more than a third, or that have none to compare with:", *lines]))


if __name__ == "__main__":
    main(sys.argv[1:])
