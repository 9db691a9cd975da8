"""What a set-up makes of the two equalities, from the table of departures that was measured."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from rndlib.evidence.estimate import Estimate
from rndlib.practice.departures import DEPARTURES, Verdict, verdict

TABLE = "departures.json"
_WORST: tuple[Verdict, ...] = ("safe", "biased", "meaningless")


@dataclass(frozen=True)
class Row:
    """One measured setting: its departure and strength, and both ratios."""

    departure: str
    strength: str
    ratios: Mapping[str, Estimate]

    def verdict(self, name: str) -> Verdict:
        """That of "rnd" or "bayesian"."""
        return verdict(self.ratios[name])


@dataclass(frozen=True)
class Advice:
    """What was measured nearest to a set-up.

    rnd, bayesian: Whether half the RND error is an ensemble's variance, and the Bayesian RND error a posterior's:
        "safe" within a quarter, "biased" within a factor of 2, or "meaningless". The worst of all that was asked about.
    reasons: A sentence or three per departure.

    >>> from rndlib import explain_setting
    >>> explain_setting(time=1.0).rnd, explain_setting(time=1.0).bayesian
    ('safe', 'meaningless')
    """

    rnd: Verdict
    bayesian: Verdict
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        head = f"RND as an ensemble's variance: {self.rnd}; Bayesian RND as a posterior's: {self.bayesian}"
        return "\n".join([head, *(f"- {reason}" for reason in self.reasons)])


@cache
def rows() -> tuple[Row, ...]:
    """The measured table, in the order of `DEPARTURES`."""
    content = json.loads((files("rndlib.practice") / TABLE).read_text(encoding="utf-8"))
    return tuple(
        Row(row["departure"], row["strength"], {name: Estimate(*ratio) for name, ratio in row["ratios"].items()})
        for row in content["rows"]
    )


def cells() -> dict[str, list[tuple[str, dict[str, float], dict[str, Verdict]]]]:
    """The table for `figures.departure_map`: strengths, ratios and verdicts by departure."""
    names = "rnd", "bayesian"
    return {
        name: [
            (row.strength, {of: row.ratios[of].value for of in names}, {of: row.verdict(of) for of in names})
            for row in rows()
            if row.departure == name
        ]
        for name in DEPARTURES
    }


def explain_setting(**setting: Any) -> Advice:
    """How RND fares in a set-up, judged from networks that were trained in settings like it.

    Give what differs from the paper: a number or a name for each of width, depth, activation, heads, labels, time,
    points, distance, duplicates, rate, optimizer, parametrisation, architecture (`rndlib.practice.departures` says what
    each means). A number between two measured ones is judged by the worse of both, and beyond them by the last.
    Departures are measured one at a time; two at once may be worse than either.

    >>> from rndlib import explain_setting
    >>> explain_setting(labels=8).rnd
    'meaningless'
    """
    unknown = set(setting) - set(DEPARTURES)
    if unknown or not setting:
        raise ValueError(f"{', '.join(sorted(unknown)) or 'no argument'}: give some of {', '.join(DEPARTURES)}")
    found = [(name, value, _nearest(name, value)) for name, value in setting.items()]
    rnd, bayesian = (
        max((row.verdict(of) for _, _, near in found for row in near), key=_WORST.index) for of in ("rnd", "bayesian")
    )
    return Advice(rnd, bayesian, tuple(_reason(*each) for each in found))


def _nearest(name: str, value: Any) -> list[Row]:
    own = [row for row in rows() if row.departure == name]
    if isinstance(value, str):
        chosen = [row for row in own if row.strength == value]
        if not chosen:
            raise ValueError(f"{name} = {value!r}: measured were {', '.join(row.strength for row in own)}")
        return chosen
    numbers = {_number(row.strength): row for row in own}
    below = [number for number in numbers if number <= value]
    above = [number for number in numbers if number >= value]
    ends = {max(below)} if below else set()
    return [numbers[number] for number in sorted(ends | ({min(above)} if above else set()))]


def _number(text: str) -> float:
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)


def _reason(name: str, value: Any, near: list[Row]) -> str:
    departure = DEPARTURES[name]
    measured = "; ".join(
        f"at {row.strength} RND is {row.ratios['rnd'].value:.2g} of the ensemble's variance and Bayesian RND "
        f"{row.ratios['bayesian'].value:.2g} of the posterior's"
        for row in near
    )
    return f"{departure.label} = {value}: {measured}. {departure.why} {departure.advice}"
