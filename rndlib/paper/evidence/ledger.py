"""The ledger: one verdict per claim, shown at the end of a notebook and read back by the command line.

Every check has one scalar value and passes if that value is at most a tolerance declared beforehand. The same check on
a wrong variant (the negative control) must exceed the tolerance: a check that would accept the wrong variant too shows
nothing. A second variant is wrong by little (the near control), and must exceed the tolerance as well.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

from rndlib import output
from rndlib.paper.evidence.claims import CLAIMS, Claim, Finding
from rndlib.paper.evidence.tables import aligned

FILE = "claims.json"


@dataclass(frozen=True)
class Verdict:
    """The result of a run on one claim: its value, the interval of the value, and the values of the controls."""

    claim: Claim
    value: float
    interval: tuple[float, float] | None
    control_value: float
    near_value: float

    def __post_init__(self):
        for number in (self.value, self.claim.tolerance, *self.control_values, *(self.interval or ())):
            if not isfinite(number):
                raise ValueError(f"{self.id}: {number!r} is not a finite number")

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def passed(self) -> bool:
        """Whether the value is at most the tolerance."""
        return self.value <= self.claim.tolerance

    @property
    def control_rejected(self) -> bool:
        """Whether the negative control is above the tolerance."""
        return self.control_value > self.claim.tolerance

    @property
    def near_rejected(self) -> bool:
        """Whether the near control is above the tolerance."""
        return self.near_value > self.claim.tolerance

    @property
    def control_values(self) -> tuple[float, float]:
        """The values of the controls, in the order of `Claim.controls`."""
        return self.control_value, self.near_value

    def row(self) -> dict[str, Any]:
        """The claim and its verdict as one flat object, as in `claims.json`."""
        return asdict(self.claim) | {
            "value": self.value,
            "interval": self.interval and list(self.interval),
            "passed": self.passed,
            "control_value": self.control_value,
            "control_rejected": self.control_rejected,
            "near_value": self.near_value,
            "near_rejected": self.near_rejected,
        }


def holds(verdict: Verdict) -> bool:
    """Whether the claim passed and its negative controls were rejected."""
    return verdict.passed and verdict.control_rejected and verdict.near_rejected


def read(path: str | Path) -> list[Verdict]:
    """The verdicts of one `claims.json`; a ValueError if the file is not a consistent ledger."""
    path = Path(path)
    try:
        return [_verdict(row) for row in json.loads(path.read_text(encoding="utf-8"))["claims"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a ledger ({error}): run the notebook again") from error


def table(verdicts: Iterable[Verdict]) -> str:
    """An aligned Markdown table, numbers rounded so that every machine prints the same."""
    head = ["id", "statement", "statistic", "value", "interval", "tolerance", "negative controls", "their values"]
    return aligned([*head, "verdict"], map(_cells, verdicts))


def _cells(verdict: Verdict) -> list[str]:
    def judged(control: float) -> str:
        return f"{rounded(control)}, {'rejected' if control > verdict.claim.tolerance else 'NOT REJECTED'}"

    return [
        verdict.id,
        verdict.claim.statement,
        verdict.claim.statistic,
        rounded(verdict.value),
        "" if verdict.interval is None else f"[{', '.join(map(rounded, verdict.interval))}]",
        rounded(verdict.claim.tolerance),
        verdict.claim.controls,
        "; ".join(map(judged, verdict.control_values)),
        "PASS" if holds(verdict) else "FAIL",
    ]


def rounded(number: float) -> str:
    """Two significant digits and at most three decimals, because further digits of a nearly zero value are noise."""
    return f"{round(number, 3) + 0.0:.2g}"


class Ledger:
    """The verdicts of one notebook, in the order in which they were reached; shown as a table in a cell's output."""

    def __init__(self):
        self.verdicts: list[Verdict] = []

    def record(self, claim_id: str, finding: Finding, control: Finding, near: Finding) -> Verdict:
        """Judge a declared claim by its finding and by those of the same statistic on the claim's negative controls.

        A ValueError refuses undeclared claims, second verdicts, and numbers that are not finite or of another check.
        """
        if claim_id not in CLAIMS:
            raise ValueError(
                f"claim_id = {claim_id!r}: declare it in evidence/claims.toml, or use one of {', '.join(CLAIMS)}"
            )
        claim = CLAIMS[claim_id]
        for number in (finding, control, near):
            if number.check not in (None, claim.check):
                raise ValueError(
                    f"{claim_id}: judged by {number.check}, but {claim.check} is declared: use {claim.check}"
                )
        if any(verdict.id == claim_id for verdict in self.verdicts):
            raise ValueError(f"{claim_id} is on record already: give one verdict per claim")
        verdict = Verdict(claim, finding.value, finding.interval, control.value, near.value)
        self.verdicts.append(verdict)
        return verdict

    def write(self) -> None:
        """Write `claims.json` into the folder of this run (see `rndlib.output`), if there is one."""
        folder = output.folder()
        if folder is not None:
            rows = [verdict.row() for verdict in self.verdicts]
            output.write(folder / FILE, json.dumps({"claims": rows}, indent=2, allow_nan=False).encode() + b"\n")

    def __repr__(self) -> str:
        return table(self.verdicts)

    _repr_markdown_ = __repr__


def _verdict(row: Any) -> Verdict:
    row = {"check": "", "why": "", **row}  # which older files lack
    claim = Claim(**{field.name: row[field.name] for field in fields(Claim)})
    interval = row["interval"]
    if interval is not None:
        low, high = interval
        interval = (low, high)
    verdict = Verdict(claim, row["value"], interval, row["control_value"], row["near_value"])
    if verdict.row() != row:
        raise ValueError(f"{verdict.id} has other fields than a verdict, or contradicts its numbers: {row!r}")
    return verdict
