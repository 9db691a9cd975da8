"""Compare the ledgers of a new run of the notebooks with the stored ones, number by number.

    python ci/moved.py FOLDER

FOLDER has a folder for every notebook, with the `claims.json` that it wrote. The notebooks show two digits, so that
another CPU shows the same; here all digits are compared. Each claim must still hold, and no number may have moved by
more than a twentieth of its claim's tolerance: rounding in another order moves them by less, a change of the method by
more.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rndlib.paper import sources
from rndlib.paper.evidence import ledger
from rndlib.paper.evidence.ledger import Ledger, Verdict

STORED = sources.NOTEBOOKS / "ledger.json"
ALLOWED = 1 / 20  # of the tolerance


def moved(stored: Mapping[str, Any], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What is wrong with these verdicts of a notebook, one line per fault."""
    if list(stored) != [verdict.id for verdict in verdicts]:
        yield f"verdicts on {', '.join(v.id for v in verdicts)}, and stored are those on {', '.join(stored)}"
        return
    for verdict in verdicts:
        yield from verdict.faults
        allowed = ALLOWED * abs(verdict.claim.tolerance)
        for key, now in verdict.numbers.items():
            then = stored[verdict.id][key]
            # A control lies anywhere above the tolerance, and is as uncertain as it is large.
            room = max(allowed, ALLOWED * abs(then)) if key in ("control", "near") else allowed
            pairs = list(zip(now, then, strict=True)) if now and then and key == "interval" else [(now, then)]
            if any(a != b and (a is None or b is None or abs(a - b) > room) for a, b in pairs):
                yield f"{verdict.id}: {key} {now}, stored {then}, may move by {room:.2g}"


def main(folder: Path) -> int:
    """Print what has moved; 1 if anything has."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    wrong = [
        f"{name}: {line}"
        for name, rows in stored.items()
        for line in moved(rows, Ledger.read(folder / name / ledger.FILE).verdicts)
    ]
    print("\n".join(wrong) or f"{sum(map(len, stored.values()))} verdicts, every number where it was")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python ci/moved.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
