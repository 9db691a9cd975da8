"""The paper's claims, each declared once in `claims.toml`, and the finding of a statistic about one.

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
    """One row of the ledger, as declared in `claims.toml`.

    The claim holds if `statistic`, computed by the function `check` of `rndlib.paper.evidence.statistics`, is at most
    `tolerance`; `criterion` says so of its estimate and interval. `unit` is the unit of replication, which the interval
    counts. `why` derives the tolerance, without any number from a run of the notebook. The same check must reject two
    wrong variants: `control`, which is far off, and `near`, the sensitivity check, which is off by some 20 %.
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
    near: str
    criterion: str = "upper limit at most {}"


@dataclass(frozen=True)
class Finding:
    """The result of a statistic: the number to compare with a tolerance, and the estimate and interval it comes from.

    `check` is the function of `rndlib.paper.evidence.statistics` that computed it; None for a number from elsewhere.
    The larger of two findings is the one with the larger value, so `max` of several is judged in place of all.
    """

    value: float
    interval: tuple[float, float] | None = None
    estimate: float | None = None
    check: str | None = field(default=None, compare=False, kw_only=True)

    @property
    def numbers(self) -> tuple[float, tuple[float, float] | None, float | None]:
        """What is judged, the interval and the estimate."""
        return self.value, self.interval, self.estimate

    def __lt__(self, other: "Finding") -> bool:
        return self.value < other.value

    @classmethod
    def upper(cls, estimate: float, low: float, high: float) -> "Finding":
        """An estimate with its interval, judged by the upper confidence limit."""
        return cls(high, (low, high), estimate)

    @classmethod
    def farther(cls, estimate: float, low: float, high: float, target: float = 0.0) -> "Finding":
        """An estimate with its interval, judged by the distance from the target to the end that is farther from it."""
        return cls(max(high - target, target - low), (low, high), estimate)


_P = ParamSpec("_P")
_R = TypeVar("_R")


def check(statistic: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a statistic so that its findings carry its name: the ledger refuses findings of another one."""

    @wraps(statistic)
    def named(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        found: Any = statistic(*args, **kwargs)
        return replace(found, check=statistic.__name__)

    return named


def declared(text: str) -> dict[str, Claim]:
    """The claims of a table in TOML, by id; a ValueError if a claim lacks a field or has an unknown one."""
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
