"""The ledger: one verdict per claim, shown at the end of a notebook and read back by `rndlib.paper.verify`.

Every check has one scalar value and passes if that value is at most a tolerance declared beforehand. The same check on
a wrong variant must exceed the tolerance: a check that would accept the wrong variant too shows nothing. A second
variant is wrong by little (the sensitivity check), and must exceed the tolerance as well.
"""

import json
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from rndlib.paper import output, sources
from rndlib.paper.evidence.claims import CLAIMS, Claim, Finding
from rndlib.paper.evidence.tables import aligned

FILE = "claims.json"


@dataclass(frozen=True)
class Verdict:
    """The result of a run on one claim: its value, estimate and interval, and the values of its wrong variants."""

    claim: Claim
    value: float
    interval: tuple[float, float] | None
    control_value: float
    near_value: float
    estimate: float | None = None

    def __post_init__(self):
        for number in (self.value, self.claim.tolerance, *self.control_values, *(self.interval or ())):
            if not isfinite(number):
                raise ValueError(f"{self.id}: {number!r} is not a finite number")

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def control_values(self) -> tuple[float, float]:
        """The values of the wrong variant and of the sensitivity check."""
        return self.control_value, self.near_value

    @property
    def passed(self) -> bool:
        """Whether the value is at most the tolerance."""
        return self.value <= self.claim.tolerance

    def row(self) -> dict[str, Any]:
        """The verdict as it stands in `claims.json`; what is declared is there for the reader, and not read back."""
        return {
            "id": self.id,
            "statement": self.claim.statement,
            "value": self.value,
            "estimate": self.estimate,
            "interval": self.interval and list(self.interval),
            "control_value": self.control_value,
            "near_value": self.near_value,
            "tolerance": self.claim.tolerance,
            "holds": holds(self),
        }

    def __repr__(self) -> str:
        return table([self])

    _repr_markdown_ = __repr__


class ClaimsFail(AssertionError):
    """A notebook ran to its end, and some of its claims do not hold."""


def holds(verdict: Verdict) -> bool:
    """Whether the claim passed and its wrong variants were rejected."""
    return verdict.passed and min(verdict.control_values) > verdict.claim.tolerance


def faults(verdict: Verdict) -> Iterator[str]:
    """What is wrong with a verdict, a sentence each."""
    claim = verdict.claim
    if not verdict.passed:
        yield f"{claim.id} fails: {verdict.value:g} is above the tolerance {claim.tolerance:g}"
    if verdict.control_value <= claim.tolerance:
        yield f"{claim.id} shows nothing: its wrong variant passes too ({claim.control})"
    if verdict.near_value <= claim.tolerance:
        yield f"{claim.id} is too coarse: its sensitivity check passes too ({claim.near})"


def table(verdicts: Iterable[Verdict]) -> str:
    """Two aligned Markdown tables, of the claims and of their wrong variants.

    Numbers are rounded so that every machine prints the same. The value of a wrong variant is the number that would
    have to be at most the tolerance.
    """
    verdicts = list(verdicts)
    claims = [
        [
            verdict.id,
            "" if verdict.estimate is None else rounded(verdict.estimate),
            interval(verdict),
            verdict.claim.criterion.format(rounded(verdict.claim.tolerance)),
            "PASS" if holds(verdict) else "FAIL",
        ]
        for verdict in verdicts
    ]
    wrong = [
        [verdict.id, kind, variant, rounded(value), "rejected" if value > verdict.claim.tolerance else "NOT REJECTED"]
        for verdict in verdicts
        for kind, variant, value in zip(
            ("wrong variant", "sensitivity check"),
            (verdict.claim.control, verdict.claim.near),
            verdict.control_values,
            strict=True,
        )
    ]
    head = ["claim", "estimate", "95 % interval", "criterion", "verdict"]
    return f"{aligned(head, claims)}\n\n{aligned(['claim', 'control', 'variant', 'value', 'verdict'], wrong)}"


def interval(verdict: Verdict) -> str:
    """The interval of a verdict in a table."""
    return "" if verdict.interval is None else f"[{', '.join(map(rounded, verdict.interval))}]"


def rounded(number: float) -> str:
    """Two significant digits and at most three decimals, because further digits of a nearly zero value are noise."""
    return f"{round(number, 3) + 0.0:.2g}"


class Ledger:
    """The verdicts of one notebook, in the order in which they were reached; shown as tables in a cell's output.

    notebook : name of the notebook, without the suffix; None outside of one.
    source : digest of what decides the numbers (`rndlib.paper.sources`). By default that of this moment, since what
        is edited during a run has not made its numbers.
    """

    def __init__(self, notebook: str | None = None, source: str | None = None):
        self.notebook = notebook
        self.sources = source or sources.digest(notebook)
        self.verdicts: list[Verdict] = []

    def record(self, claim_id: str, finding: Finding, control: Finding, near: Finding) -> Verdict:
        """Judge a declared claim by its finding and by those of the same statistic on the claim's wrong variants.

        A ValueError refuses undeclared claims, second verdicts, and numbers that are not finite or of another check.
        """
        if claim_id not in CLAIMS:
            remedy = f"declare it in rndlib/paper/evidence/claims.toml, or use one of {', '.join(CLAIMS)}"
            raise ValueError(f"claim_id = {claim_id!r}: {remedy}")
        claim = CLAIMS[claim_id]
        for number in (finding, control, near):
            if number.check not in (None, claim.check):
                raise ValueError(
                    f"{claim_id}: judged by {number.check}, but {claim.check} is declared: use {claim.check}"
                )
        if any(verdict.id == claim_id for verdict in self.verdicts):
            raise ValueError(f"{claim_id} is on record already: give one verdict per claim")
        verdict = Verdict(claim, finding.value, finding.interval, control.value, near.value, finding.estimate)
        self.verdicts.append(verdict)
        return verdict

    def last(self, count: int) -> "Ledger":
        """The last verdicts alone, to be shown below the cell that reached them."""
        shown = copy(self)
        shown.verdicts = self.verdicts[-count:]
        return shown

    def write(self) -> None:
        """Write `claims.json` into the folder of this run (see `rndlib.paper.output`), if there is one."""
        folder = output.folder()
        if folder is not None:
            rows = [verdict.row() for verdict in self.verdicts]
            content = {"notebook": self.notebook, "sources": self.sources, "claims": rows}
            output.write(folder / FILE, json.dumps(content, indent=2, allow_nan=False).encode() + b"\n")

    def close(self) -> "Ledger":
        """Write `claims.json`, and return the ledger to be shown; if a claim does not hold, print it and raise.

        Raises ClaimsFail, an AssertionError.
        """
        self.write()
        wrong = [fault for verdict in self.verdicts for fault in faults(verdict)]
        if wrong:
            print(self)
            raise ClaimsFail("; ".join(wrong))
        return self

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        """The ledger of a `claims.json`, judged by today's declarations; a ValueError if the file is none."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            ledger = cls(content["notebook"], content["sources"])
            for row in content["claims"]:
                ends = row["interval"] and (row["interval"][0], row["interval"][1])
                wrong = Finding(row["control_value"]), Finding(row["near_value"])
                ledger.record(row["id"], Finding(row["value"], ends, row["estimate"]), *wrong)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path} is not a ledger of today's claims ({error!r}): run the notebook again") from error
        return ledger

    @property
    def stale(self) -> bool:
        """Whether the notebook, the library or the data have changed since the run."""
        return self.sources != sources.digest(self.notebook)

    def __repr__(self) -> str:
        return table(self.verdicts)

    _repr_markdown_ = __repr__
