"""The ledger: one verdict per claim, shown at the end of a notebook and read back by `rndlib.paper.verify`.

Every check has one scalar value and passes if that value is at most a tolerance declared beforehand. The same check on
a wrong variant must exceed the tolerance: a check that would accept the wrong variant too shows nothing. A second
variant is wrong by little (the sensitivity check), and must exceed the tolerance as well.
"""

import json
from collections.abc import Iterable, Mapping
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
    control: float
    near: float
    estimate: float | None = None

    def __post_init__(self):
        for number in (self.value, self.claim.tolerance, *self.controls, *(self.interval or ())):
            if not isfinite(number):
                raise ValueError(f"{self.id}: {number!r} is not a finite number")

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def controls(self) -> tuple[float, float]:
        """The values of the wrong variant and of the sensitivity check."""
        return self.control, self.near

    @property
    def numbers(self) -> dict[str, Any]:
        """What is stored of it, in terms of JSON."""
        interval = self.interval and list(self.interval)
        return {"value": self.value, "interval": interval, "control": self.control, "near": self.near}

    @property
    def passed(self) -> bool:
        """Whether the value is at most the tolerance."""
        return self.value <= self.claim.tolerance

    @property
    def faults(self) -> list[str]:
        """What is wrong with it, a sentence each."""
        claim, found = self.claim, []
        if not self.passed:
            found.append(f"{claim.id} fails: {self.value:g} is above the tolerance {claim.tolerance:g}")
        if self.control <= claim.tolerance:
            found.append(f"{claim.id} shows nothing: its wrong variant passes too ({claim.control})")
        if self.near <= claim.tolerance:
            found.append(f"{claim.id} is too coarse: its sensitivity check passes too ({claim.near})")
        return found

    @property
    def holds(self) -> bool:
        """Whether the claim passed and its wrong variants were rejected."""
        return not self.faults

    def __repr__(self) -> str:
        return table([self])

    _repr_markdown_ = __repr__


class ClaimsFail(AssertionError):
    """A notebook ran to its end, and some of its claims do not hold."""


def table(verdicts: Iterable[Verdict]) -> str:
    """Two aligned Markdown tables, of the claims and of their wrong variants.

    Numbers are rounded so that every machine prints the same. The value of a wrong variant is the number that would
    have to be at most the tolerance.
    """
    claims, wrong = [], []
    for verdict in verdicts:
        claim = verdict.claim
        estimate = "" if verdict.estimate is None else rounded(verdict.estimate)
        criterion, passed = claim.criterion.format(rounded(claim.tolerance)), "PASS" if verdict.holds else "FAIL"
        claims.append([claim.id, estimate, interval(verdict), criterion, passed])
        for kind, variant, value in (
            ("wrong variant", claim.control, verdict.control),
            ("sensitivity check", claim.near, verdict.near),
        ):
            rejected = "rejected" if value > claim.tolerance else "NOT REJECTED"
            wrong.append([claim.id, kind, variant, rounded(value), rejected])
    head = ["claim", "estimate", "95 % limits", "criterion", "verdict"]
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

    def close(self) -> "Ledger":
        """Write the ledger, and return it to be shown; if a claim does not hold, print it and raise.

        Raises ClaimsFail, an AssertionError.
        """
        self.write()
        if wrong := [fault for verdict in self.verdicts for fault in verdict.faults]:
            print(self)
            raise ClaimsFail("; ".join(wrong))
        return self

    def write(self) -> None:
        """Write `claims.json` into the folder of this run (see `rndlib.paper.output`), if there is one."""
        if folder := output.folder():
            rows = [
                {
                    "id": verdict.id,
                    "statement": verdict.claim.statement,  # what is declared is for the reader, and not read back
                    "estimate": verdict.estimate,
                    **verdict.numbers,
                    "tolerance": verdict.claim.tolerance,
                    "holds": verdict.holds,
                }
                for verdict in self.verdicts
            ]
            content = {"notebook": self.notebook, "sources": self.sources, "claims": rows}
            output.write(folder / FILE, json.dumps(content, indent=2, allow_nan=False).encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        """The ledger of a `claims.json`, judged by today's declarations; a ValueError if the file is none."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            ledger = cls(content["notebook"], content["sources"])
            for row in content["claims"]:
                ledger.restore(row["id"], row)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{path} is not a ledger of today's claims ({error!r}): run the notebook again") from error
        return ledger

    def restore(self, claim_id: str, row: Mapping[str, Any]) -> None:
        """Record the stored `Verdict.numbers` of a claim."""
        interval = row["interval"] and (row["interval"][0], row["interval"][1])
        finding = Finding(row["value"], interval, row.get("estimate"))
        self.record(claim_id, finding, Finding(row["control"]), Finding(row["near"]))

    @property
    def stale(self) -> bool:
        """Whether the notebook, the library or the data have changed since the run."""
        return self.sources != sources.digest(self.notebook)

    def __repr__(self) -> str:
        return table(self.verdicts)

    _repr_markdown_ = __repr__
