"""What things cost, against what a user would write instead and against what the machine allows: `make bench`, or

    python ci/bench.py [--quick [--keep]] [--widths 512,2048] [SECTION ...]
    python ci/bench.py --texts

When a section is complete its table is printed and takes the place of the one stored in `notebooks/bench.json`, which
the report shows. To go on after an interruption, name the sections that are left. `--texts` measures nothing: it gives
the stored sections their texts of today.

With `--quick` sizes are small, and ratios are compared with those in `notebooks/bench_quick.json`. Those that fell by
more than a third are named, with an exit status of 1. `--quick --keep` stores them there.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import guard
from benchmarks.section import Asked, Section
from tqdm import tqdm

from rndlib import output
from rndlib.running import costs, provenance

ROOT = Path(__file__).resolve().parent.parent
QUICK = "bench_quick.json"
SECTIONS = ("kernels", "ensembles", "heads", "sampling", "many_points", "networks", "floor", "growth", "whole")


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
        # Without the stored tables, which do not affect what is measured.
        "checkout": provenance.checkout(ROOT, f"notebooks/{costs.FILE}", f"notebooks/{QUICK}"),
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
    parser.add_argument("--quick", action="store_true", help="small sizes, some three minutes")
    parser.add_argument("--widths", type=widths, help="of the networks, where a section goes through several: 64,256")
    parser.add_argument("--keep", action="store_true", help="with --quick: store its ratios, to compare later ones")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.sections if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}: choose among {', '.join(SECTIONS)}")
    if asked.keep and not asked.quick:
        parser.error("--keep is for --quick; a full run is always stored")
    return asked.sections or list(SECTIONS), Asked(asked.quick, asked.widths, asked.keep)


def main(words: Sequence[str]) -> None:
    """Measure, print and store the sections that are asked for; exits with the ratios that have fallen."""
    full, small = (ROOT / "notebooks" / name for name in (costs.FILE, QUICK))
    if words == ["--texts"]:
        restate(full)
        return
    names, asked = arguments(words)
    reference = {section["name"]: section["rows"] for section in costs.read(small)}
    fallen: list[str] = []
    for name in names:
        section = measure(load(name), asked)
        if not section["rows"]:
            print(f"{name}: nothing on record; run `make reproduce` first\n")
            continue
        if not asked.quick or asked.keep:
            store(small if asked.quick else full, section)
        else:
            fallen += guard.fallen(section["rows"], reference.get(name, []))
        print("\n\n".join(costs.section(section)), end="\n\n", flush=True)
    if fallen:
        sys.exit("\n".join(["ratios that fell by more than a third, or that have none to compare with:", *fallen]))


if __name__ == "__main__":
    main(sys.argv[1:])
