"""Compare the ledgers of a new run of the notebooks with the stored ones, number by number.

    python ci/moved.py FOLDER

FOLDER has a folder for every notebook, with the `claims.json` that it wrote. The notebooks show two digits, so that
another CPU shows the same; here all digits are compared. Each claim must still hold, and no number may have moved by
more than a twentieth of its claim's tolerance: rounding in another order moves them by less, a change of the method by
more.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rndlib.paper.evidence import ledger
from rndlib.paper.evidence.ledger import Verdict

STORED = Path(__file__).resolve().parent.parent / "notebooks" / "ledger.json"
ALLOWED = 1 / 20  # of the tolerance


def moved(stored: Mapping[str, Any], verdicts: list[Verdict]) -> Iterator[str]:
    """What is wrong with these verdicts of a notebook, one line per fault."""
    if list(stored) != [verdict.id for verdict in verdicts]:
        yield f"verdicts on {', '.join(v.id for v in verdicts)}, and stored are those on {', '.join(stored)}"
        return
    for verdict in verdicts:
        if not ledger.holds(verdict):
            controls = ", ".join(f"{value:g}" for value in verdict.control_values)
            yield f"{verdict.id} does not hold: {verdict.value:g}, its controls {controls}"
        allowed = ALLOWED * abs(verdict.claim.tolerance)
        row = stored[verdict.id]
        ends = list(zip(("low end", "high end"), verdict.interval or (), row["interval"] or (), strict=False))
        # A control lies anywhere above the tolerance, and is as uncertain as it is large.
        controls = ("control", verdict.control_value, row["control"]), ("near control", verdict.near_value, row["near"])
        for name, now, then in [("value", verdict.value, row["value"]), *ends, *controls]:
            room = max(allowed, ALLOWED * abs(then)) if name.endswith("control") else allowed
            if abs(now - then) > room:
                yield f"{verdict.id}: {name} {now}, stored {then}, may move by {room:.2g}"


def main(folder: Path) -> int:
    """Print what has moved; 1 if anything has."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    wrong = [
        f"{name}: {line}"
        for name, rows in stored.items()
        for line in moved(rows, ledger.read(folder / name / ledger.FILE))
    ]
    print("\n".join(wrong) or f"{sum(map(len, stored.values()))} verdicts, every number where it was")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python ci/moved.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
