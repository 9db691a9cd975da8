"""The ledger: one verdict a claim, shown at the end of a notebook and read back by the command line.

Every check has one scalar value, and holds where that value is at most a tolerance declared beforehand. The
same check, at the same settings, applied to a wrong variant (the negative control) must exceed the tolerance:
a check that would accept the wrong variant too has shown nothing.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

from rndlib import output
from rndlib.evidence.claims import CLAIMS, Finding
from rndlib.evidence.tables import aligned

FILE = "claims.json"


@dataclass(frozen=True)
class Verdict:
    """What a run found about one claim.

    `value` is the number compared with `tolerance`, `interval` the confidence interval it comes from where it has
    one. `control_value` is the same number for the negative control. The other fields repeat the claim's declaration in
    `rndlib.evidence.claims`.

    Raises
    ------
    ValueError: a number is not finite, or `passed` or `control_rejected` contradicts the numbers.
    """

    id: str
    statement: str
    notebook: str
    source: str
    statistic: str
    unit: str
    kind: str
    value: float
    interval: tuple[float, float] | None
    tolerance: float
    passed: bool
    control: str
    control_value: float
    control_rejected: bool

    def __post_init__(self):
        for name in ("value", "tolerance", "control_value"):
            _finite(self.id, name, getattr(self, name))
        for end in self.interval or ():
            _finite(self.id, "interval", end)
        if self.passed != (self.value <= self.tolerance):
            raise ValueError(f"{self.id}: passed = {self.passed} contradicts {self.value} against {self.tolerance}")
        if self.control_rejected != (self.control_value > self.tolerance):
            raise ValueError(
                f"{self.id}: control_rejected = {self.control_rejected} contradicts {self.control_value} against "
                f"{self.tolerance}"
            )


def holds(verdict: Verdict) -> bool:
    """Whether the claim passed and its negative control was rejected."""
    return verdict.passed and verdict.control_rejected


def read(path: str | Path) -> list[Verdict]:
    """The verdicts of one `claims.json`.

    Raises
    ------
    FileNotFoundError: there is no such file.
    ValueError: the file is not a ledger, or a verdict in it lacks a field or contradicts its own numbers.
    """
    path = Path(path)
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["claims"]
        verdicts = [_verdict(row) for row in rows]
        _no_repeats(verdict.id for verdict in verdicts)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a ledger ({error}): run the notebook again") from error
    return verdicts


def table(verdicts: Iterable[Verdict]) -> str:
    """An aligned Markdown table, numbers rounded so that every machine prints the same."""
    head = [
        "id",
        "statement",
        "statistic",
        "value",
        "interval",
        "tolerance",
        "negative control",
        "its value",
        "verdict",
    ]
    return aligned(head, [_cells(verdict) for verdict in verdicts])


def _cells(verdict: Verdict) -> list[str]:
    return [
        verdict.id,
        verdict.statement,
        verdict.statistic,
        rounded(verdict.value),
        "" if verdict.interval is None else f"[{', '.join(map(rounded, verdict.interval))}]",
        rounded(verdict.tolerance),
        verdict.control,
        f"{rounded(verdict.control_value)}, {'rejected' if verdict.control_rejected else 'NOT REJECTED'}",
        "PASS" if holds(verdict) else "FAIL",
    ]


def rounded(number: float) -> str:
    """Two significant digits, and no more than three decimals: what is nearly zero has no digits to rely on."""
    return f"{round(number, 3) + 0.0:.2g}"


class Ledger:
    """The verdicts of one notebook, in the order in which they were reached; shown as a table in a cell's output."""

    def __init__(self):
        self.verdicts: list[Verdict] = []

    def record(self, claim_id: str, finding: Finding, control: Finding) -> Verdict:
        """Judge a declared claim.

        Parameters
        ----------
        claim_id: id of a row of `rndlib.evidence.claims.CLAIMS`.
        finding: the claim's statistic on what it is about.
        control: the same statistic, at the same settings, on the claim's negative control.

        Raises
        ------
        ValueError: no such claim, a number comes from another check than the claim declares, the claim is on record
            already, or a number is not finite.
        """
        if claim_id not in CLAIMS:
            raise ValueError(
                f"claim_id = {claim_id!r}: declare it in rndlib.evidence.claims, or use one of {', '.join(CLAIMS)}"
            )
        claim = CLAIMS[claim_id]
        for number in (finding, control):
            if number.check not in (None, claim.check):
                raise ValueError(f"{claim_id}: judged by {number.check}, and declared to be by {claim.check}: use that")
        verdict = Verdict(
            id=claim.id,
            statement=claim.statement,
            notebook=claim.notebook,
            source=claim.source,
            statistic=claim.statistic,
            unit=claim.unit,
            kind=claim.kind,
            value=finding.value,
            interval=finding.interval,
            tolerance=claim.tolerance,
            passed=finding.value <= claim.tolerance,
            control=claim.control,
            control_value=control.value,
            control_rejected=control.value > claim.tolerance,
        )
        _no_repeats(v.id for v in [*self.verdicts, verdict])
        self.verdicts.append(verdict)
        return verdict

    def write(self) -> None:
        """Write `claims.json` into the folder of this run (see `rndlib.output`); nothing where there is none."""
        folder = output.folder()
        if folder is not None:
            rows = [asdict(verdict) for verdict in self.verdicts]
            output.write(folder / FILE, json.dumps({"claims": rows}, indent=2, allow_nan=False).encode() + b"\n")

    def __repr__(self) -> str:
        return table(self.verdicts)

    _repr_markdown_ = __repr__


def _verdict(row: Any) -> Verdict:
    wanted = {field.name: field.type for field in fields(Verdict)}
    if not isinstance(row, dict) or set(row) != set(wanted):
        raise ValueError(f"a verdict has the fields {', '.join(wanted)}, and here is {row!r}")
    for name, type_ in wanted.items():
        if type_ is float:
            _finite(row["id"], name, row[name])
        elif type_ in (str, bool) and not isinstance(row[name], type_):
            raise ValueError(f"{name} = {row[name]!r} is not a {type_.__name__}")
    interval = row["interval"]
    if interval is not None:
        low, high = interval
        interval = (low, high)
    return Verdict(**{**row, "interval": interval})


def _finite(claim_id: Any, name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not isfinite(number):
        raise ValueError(f"{claim_id}: {name} = {number!r} is not a finite number")


def _no_repeats(ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for claim_id in ids:
        if claim_id in seen:
            raise ValueError(f"{claim_id} is on record twice: one verdict a claim")
        seen.add(claim_id)
