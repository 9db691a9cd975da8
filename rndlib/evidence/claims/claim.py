"""What a claim is, and what a statistic finds about it."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["equivalence", "rate", "floor"]


@dataclass(frozen=True)
class Claim:
    """One row of the ledger, as declared.

    id: the row's name, as in "E1".
    statement: the claim in one line.
    source: its place in the paper.
    notebook: the notebook that checks it.
    statistic: the number that is compared with `tolerance`; the check passes where it is at most that.
    check: the function of `rndlib.evidence.statistics` that computes it.
    unit: what is independent of what, hence what the interval counts.
    kind: "equivalence" at a margin, a "rate", or agreement with a Monte-Carlo "floor".
    tolerance: the largest value at which the check passes.
    why: where the tolerance comes from; nothing in it is a number that a run of the notebook found.
    control: the wrong variant that the same check must reject.
    """

    id: str
    statement: str
    source: str
    notebook: str
    statistic: str
    check: str
    unit: str
    kind: Kind
    tolerance: float
    why: str
    control: str


@dataclass(frozen=True)
class Finding:
    """What a statistic found: the number to hold against a claim's tolerance, and the interval it comes from.

    check: the function of `rndlib.evidence.statistics` that found it; None for a number that comes from elsewhere.
    """

    value: float
    interval: tuple[float, float] | None = None
    check: str | None = field(default=None, compare=False)
