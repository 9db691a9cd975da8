"""What things cost, against what a user would write instead and against what the machine allows: `make bench`, or

    python ci/bench.py [--quick] [--widths 512,2048] [SECTION ...]
    python ci/bench.py --texts

When a section is complete its table is printed and takes the place of the one stored in `notebooks/bench.json`, which
the report shows. With `--quick` the table goes to `results/bench-quick.json` instead. To go on after an interruption,
name the sections that are left. `--texts` measures nothing: it gives the stored sections their texts of today.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.section import Asked, Section
from tqdm import tqdm

from rndlib import output
from rndlib.running import costs, provenance

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("kernels", "ensembles", "heads", "sampling", "networks", "floor", "growth", "whole")


def load(name: str) -> Section:
    """A section by its name. Importing one imports the libraries that it measures."""
    return import_module(f"benchmarks.{name}").SECTION


def texts(section: Section) -> dict[str, Any]:
    """What a stored section says besides its numbers."""
    return {"name": section.name, "title": section.title, "note": section.note, "missed": section.missed}


def measure(section: Section, asked: Asked) -> dict[str, Any]:
    """A section as it is stored."""
    cases = list(section.cases(asked))
    rows: list[costs.Row] = []
    for case in tqdm(cases, unit="case", leave=False, disable=None):
        rows += case()
    return {
        **texts(section),
        "quick": asked.quick,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        # Without the name of the host, as the table is published.
        "hardware": {name: value for name, value in provenance.hardware().items() if name != "host"},
        "versions": provenance.versions(),
        # Without the stored table, which does not affect what is measured.
        "checkout": provenance.checkout(ROOT, f"notebooks/{costs.FILE}"),
        "rows": rows,
    }


def store(path: Path, section: Mapping[str, Any]) -> None:
    """Put a section into the table at `path`, in place of an older one, in the order of `SECTIONS`."""
    sections = {other["name"]: other for other in costs.read(path)} | {section["name"]: section}
    content = {"sections": [sections[name] for name in SECTIONS if name in sections]}
    output.write(path, json.dumps(content, indent=1).encode() + b"\n")


def restate(path: Path) -> None:
    """Give all stored sections today's texts; their numbers stay."""
    for stored in costs.read(path):
        store(path, stored | texts(load(stored["name"])))


def widths(given: str) -> tuple[int, ...]:
    """The widths of a list with commas."""
    found = tuple(map(int, given.split(",")))
    if min(found) < 1:
        raise ValueError
    return found


def arguments(words: Sequence[str]) -> tuple[list[str], Asked]:
    """The sections and sizes that the command line names; exits with a message if there are none such."""
    parser = argparse.ArgumentParser(prog="bench.py", description="Measure what things cost; see the file's head.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, under three minutes, not stored")
    parser.add_argument("--widths", type=widths, help="of the networks, where a section goes through several: 64,256")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.sections if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}: choose among {', '.join(SECTIONS)}")
    return asked.sections or list(SECTIONS), Asked(asked.quick, asked.widths)


def main(words: Sequence[str]) -> None:
    """Measure, print and store the sections that are asked for."""
    if words == ["--texts"]:
        restate(ROOT / "notebooks" / costs.FILE)
        return
    names, asked = arguments(words)
    place = ROOT / "results" / "bench-quick.json" if asked.quick else ROOT / "notebooks" / costs.FILE
    place.parent.mkdir(exist_ok=True)
    for name in names:
        section = measure(load(name), asked)
        if not section["rows"]:
            print(f"{name}: nothing on record; run `make reproduce` first\n")
            continue
        store(place, section)
        print("\n\n".join(costs.section(section)), end="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
