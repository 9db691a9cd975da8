"""What things cost, against what a user would write instead and against what the machine allows: `make bench`, or

    python ci/bench.py [--quick] [--widths 512,2048] [SECTION ...]

Every case is put on record in `results/bench.jsonl` as soon as it is measured, so an interrupted bench goes on where it
stopped; a change of the library, its versions or the bench starts over. When a section is complete its table is printed
and takes the place of the one stored in `notebooks/bench.json`, which the report shows. With `--quick` the table goes
to `results/bench-quick.json` instead.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import records
from benchmarks.section import Asked, Section
from tqdm import tqdm

from rndlib import output
from rndlib.running import costs, provenance

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("kernels", "ensembles", "heads", "sampling", "floor", "growth", "whole")

Rows = list[costs.Row]


def load(name: str) -> Section:
    """A section by its name. Importing one imports the libraries that it measures."""
    return import_module(f"benchmarks.{name}").SECTION


def source() -> str:
    """A digest of what decides what is measured: the library, its versions, and the bench."""
    digest = hashlib.sha256(provenance.code().encode())
    for file in sorted(Path(__file__).parent.joinpath("benchmarks").glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def recorded(record: Path, key: Mapping[str, Any]) -> dict[str, Rows]:
    """The rows on record of every case of a section, by the case's name."""
    return {
        entry["case"]: entry["rows"]
        for entry in records.read(record)
        if all(entry.get(name) == value for name, value in key.items())
    }


def machine() -> dict[str, Any]:
    """The hardware, without the name of the host: the table is published."""
    return {name: value for name, value in provenance.hardware().items() if name != "host"}


def measure(section: Section, asked: Asked, record: Path) -> dict[str, Any]:
    """A section as it is stored, of what is on record and what is measured now."""
    size = {"section": section.name, "quick": asked.quick, "widths": json.dumps(asked.widths)}
    key = {"source": source(), "hardware": machine(), **size}
    found = recorded(record, key)
    cases = list(section.cases(asked))
    record.parent.mkdir(exist_ok=True)
    with (
        record.open("a", encoding="utf-8") as file,
        tqdm(total=len(cases), unit="case", leave=False, disable=None) as bar,
    ):
        for case in cases:
            if case.name not in found:
                entry = {**key, "case": case.name, "rows": case.rows()}
                records.append(file, entry)
                found[case.name] = json.loads(json.dumps(entry["rows"]))
            bar.update()
    return {
        "name": section.name,
        "title": section.title,
        "note": section.note,
        "quick": asked.quick,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": key["hardware"],
        "versions": provenance.versions(),
        "rows": [row for case in cases for row in found[case.name]],
    }


def store(path: Path, section: Mapping[str, Any]) -> None:
    """Put a section into the table at `path`, in place of an older one, in the order of `SECTIONS`."""
    sections = {other["name"]: other for other in costs.read(path)} | {section["name"]: section}
    content = {"sections": [sections[name] for name in SECTIONS if name in sections]}
    output.write(path, json.dumps(content, indent=1).encode() + b"\n")


def forget(record: Path, names: Sequence[str], quick: bool) -> None:
    """Drop sections that are stored from the record: asked for again, they are measured again."""
    kept = [entry for entry in records.read(record) if entry["section"] not in names or entry["quick"] != quick]
    output.write(record, "\n".join(map(json.dumps, kept)).encode())


def arguments(words: Sequence[str]) -> tuple[list[str], Asked]:
    """What the command line asks for; exits with a message where that is nothing there is."""
    parser = argparse.ArgumentParser(prog="bench.py", description="Measure what things cost; see the file's head.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, under three minutes, not stored")
    parser.add_argument("--widths", help="of the networks, with commas, where a section goes through several")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.sections if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}: choose among {', '.join(SECTIONS)}")
    try:
        widths = tuple(int(width) for width in asked.widths.split(",")) if asked.widths else None
    except ValueError:
        parser.error(f"--widths {asked.widths}: give whole numbers with commas between")
    if widths and min(widths) < 1:
        parser.error(f"--widths {asked.widths}: give widths of 1 or more")
    return asked.sections or list(SECTIONS), Asked(asked.quick, widths)


def main(words: Sequence[str]) -> None:
    """Measure, print and store the sections that are asked for."""
    names, asked = arguments(words)
    # Of no section's numbers is the table of the others a part.
    checkout = provenance.checkout(ROOT, f"notebooks/{costs.FILE}")
    record = ROOT / "results" / "bench.jsonl"
    place = ROOT / "results" / "bench-quick.json" if asked.quick else ROOT / "notebooks" / costs.FILE
    for name in names:
        section = measure(load(name), asked, record)
        if not section["rows"]:
            print(f"{name}: nothing on record; run `make reproduce` first\n")
            continue
        section["checkout"] = checkout
        store(place, section)
        print("\n\n".join(costs.section(section)), flush=True)
        print()
    forget(record, names, asked.quick)


if __name__ == "__main__":
    main(sys.argv[1:])
