"""The paper's claims, each declared once in `claims.toml`, and what a statistic finds about one.

The tolerances are declared before any run; `why` says where each comes from. The ledgers of the notebooks, the command
line, the README and the site all show this table.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, TypeVar


@dataclass(frozen=True)
class Claim:
    """One row of the ledger, as declared.

    id: the row's name, as in "E1".
    statement: the claim in one line.
    source: its place in the paper.
    notebook: the notebook that checks it.
    statistic: the number that is compared with `tolerance`; the check passes if it is at most that.
    check: the function of `rndlib.evidence.statistics` that computes it.
    unit: the unit of replication, which the interval counts.
    kind: "equivalence" at a margin, a "rate", or agreement with a Monte-Carlo "floor".
    tolerance: the largest value at which the check passes.
    why: where the tolerance comes from, with no number from a run of the notebook.
    control: the wrong variant that the same check must reject.
    """

    id: str
    statement: str
    source: str
    notebook: str
    statistic: str
    check: str
    unit: str
    kind: Literal["equivalence", "rate", "floor"]
    tolerance: float
    why: str
    control: str


@dataclass(frozen=True)
class Finding:
    """What a statistic hands to the ledger: the number to compare with a tolerance, and the interval it comes from.

    check: the function of `rndlib.evidence.statistics` that found it; None for a number from elsewhere.
    """

    value: float
    interval: tuple[float, float] | None = None
    check: str | None = field(default=None, compare=False)

    @classmethod
    def upper(cls, low: float, high: float) -> "Finding":
        """The interval, judged by its upper end."""
        return cls(high, (low, high))

    @classmethod
    def farther(cls, low: float, high: float, target: float = 0.0) -> "Finding":
        """The interval, judged by the distance from the target to the end that is farther from it."""
        return cls(max(high - target, target - low), (low, high))


_P = ParamSpec("_P")
_R = TypeVar("_R")


def check(statistic: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a statistic so that what it returns names it: the ledger refuses the numbers of another one."""

    @wraps(statistic)
    def named(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        found: Any = statistic(*args, **kwargs)
        return replace(found, check=statistic.__name__)

    return named


def declared(text: str) -> dict[str, Claim]:
    """The claims of a table in TOML, by id; `claims.toml` says how it is laid out.

    Raises
    ------
    ValueError: a claim lacks a field or has one that no claim has.
    """
    table = tomllib.loads(text)
    by_check = table.pop("checks", {})
    claims = {}
    for notebook, rows in table.items():
        shared = {"notebook": notebook, "kind": "equivalence"} | rows.pop("shared", {})
        for id_, row in rows.items():
            try:
                claims[id_] = Claim(**({"id": id_} | shared | by_check.get(row.get("check"), {}) | row))
            except TypeError as error:
                raise ValueError(f"claim {id_} of {notebook}: {error}") from error
    return claims


TABLE = Path(__file__).with_name("claims.toml")
CLAIMS: Mapping[str, Claim] = MappingProxyType(declared(TABLE.read_text(encoding="utf-8")))
NO_CLAIMS = frozenset({"06_in_practice"})
"""Notebooks that compare and judge no claim of the paper. Any other notebook without a verdict has failed."""
