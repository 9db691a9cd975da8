"""How many claims hold, by today's declarations: `python -m rndlib.paper.verify [--brief] [RESULTS...]`.

RESULTS are folders in which papermill left a notebook with its `claims.json`; without any, those of `make reproduce`,
of which none may be missing. `--brief` prints one line per result and nothing else. A result is stale if its notebook,
the library or the data have changed since it was made. The exit code is 0 only if every claim holds, and no result is
missing or stale.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

from rndlib.paper.evidence import ledger
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS
from rndlib.paper.evidence.ledger import Ledger, Verdict, rounded
from rndlib.paper.evidence.tables import aligned

RESULTS = Path("results")
WIDTH = 80  # characters of a line


def main(words: Sequence[str] | None = None) -> int:
    """Print the verdicts of some results, by default all of the paper's; returns the exit code."""
    head, _, body = (__doc__ or "").partition(": ")
    parser = argparse.ArgumentParser(prog="python -m rndlib.paper.verify", description=f"{head}. {body}")
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULTS")
    parser.add_argument("--brief", action="store_true")
    asked = parser.parse_args(words)
    notebooks = sorted({claim.notebook for claim in CLAIMS.values()} | NO_CLAIMS)
    wrong: list[str] = []
    verdicts: list[Verdict] = []
    expected = 0
    for folder in asked.results or [RESULTS / name for name in notebooks]:
        name, found = folder.name, None
        try:
            found = Ledger.read(folder / ledger.FILE)
            name = found.notebook or name
        except OSError:
            wrong.append(f"{folder} has no result: run its notebook")
        except ValueError as error:
            wrong.append(str(error))
        declared = [claim.id for claim in CLAIMS.values() if claim.notebook == name]
        expected += len(declared)
        verdicts += found.verdicts if found else []
        wrong += faults(folder, found, declared) if found else []
        line = f"{name}: {count(found.verdicts, len(declared)) if found else 'no result'}"
        print(line if asked.brief else fill(line + changes(folder), WIDTH, subsequent_indent="  "))
    if not asked.brief:
        print(f"\n{table(verdicts)}\n\n{count(verdicts, expected)}")
        for line in wrong:
            print(fill(line, WIDTH, subsequent_indent="  "))
    return 1 if wrong else 0


def faults(folder: Path, found: Ledger, declared: Iterable[str]) -> list[str]:
    """What is wrong with a result, a sentence each."""
    try:
        stale = found.stale
    except FileNotFoundError:
        return [f"{folder} is of a notebook that is not here, {found.notebook}: call this in its checkout"]
    lines = [fault for verdict in found.verdicts for fault in verdict.faults]
    reached = {verdict.id for verdict in found.verdicts}
    lines += [f"{claim} has no verdict in {folder}" for claim in declared if claim not in reached]
    if stale:
        lines.append(f"{folder} is stale, as the notebook, the library or the data have changed: run it again")
    return lines


def changes(folder: Path) -> str:
    """The parameters that papermill was given, as in ", with heads = 64", by the executed notebook in a folder."""
    for path in folder.glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if "injected-parameters" in cell["metadata"].get("tags", []):
                lines = "".join(cell["source"]).splitlines()
                return f", with {', '.join(line for line in lines if not line.startswith('#'))}"
    return ""


def count(verdicts: Sequence[Verdict], expected: int) -> str:
    """How many claims hold."""
    held = sum(verdict.holds for verdict in verdicts)
    return f"{held} of {expected} claims hold" if expected else "it judges no claim"


def table(verdicts: Iterable[Verdict]) -> str:
    """The numbers of each claim, in 80 columns; the statements are in the notebooks and in the documentation."""
    rows = [
        [
            verdict.id,
            rounded(verdict.value),
            ledger.interval(verdict),
            rounded(verdict.claim.tolerance),
            ", ".join(map(rounded, verdict.controls)),
            "holds" if verdict.holds else "FAILS",
        ]
        for verdict in verdicts
    ]
    return aligned(["claim", "value", "interval", "at most", "wrong variants", "verdict"], rows)


if __name__ == "__main__":
    sys.exit(main())
