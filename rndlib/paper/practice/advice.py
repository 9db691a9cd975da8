"""What a set-up makes of the two equalities, from the table of departures that was measured."""

from contextlib import suppress
from dataclasses import dataclass
from math import isnan
from typing import Any

from rndlib.paper.practice.departures import DEPARTURES, Verdict
from rndlib.paper.practice.measured import Row, rows

_WORST: tuple[Verdict, ...] = ("safe", "biased", "meaningless")


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


def explain_setting(**setting: Any) -> Advice:
    """How RND fares in a set-up, judged from networks that were trained in settings like it.

    Give what differs from the paper's problem of ten points and 256 units. Numbers: `width` (units), `depth` (layers),
    `heads` (per unit, K/n), `labels` (their scale, relative to the outputs at the start), `time` (of training),
    `points` (N), `narrow` (N for 16 units), `distance` (of the test points, times that of the training points),
    `duplicates` (distance of the two closest points), `noise` (standard deviation that training is told of, over the
    true one), `rate` (of gradient descent, over the one at which it diverges), `batches_of_2` and `batches_of_5` (the
    rate, with momentum 0.9), `parametrisation` (width in PyTorch's own). Names: `activation`, `optimizer`,
    `architecture`; a wrong one lists those that were measured.

    A number between two measured ones is judged by the worse of both, and beyond them by the last. Departures are
    measured one at a time; two at once may be worse than either. Raises ValueError for what was not measured.

    >>> from rndlib import explain_setting
    >>> explain_setting(labels=8).rnd
    'meaningless'
    """
    unknown = set(setting) - set(DEPARTURES)
    if unknown or not setting:
        raise ValueError(f"{', '.join(sorted(unknown)) or 'no argument'}: give some of {', '.join(DEPARTURES)}")
    found = [(name, value, _nearest(name, value)) for name, value in setting.items()]
    near = [row for _, _, of in found for row in of]
    return Advice(_worst("rnd", near), _worst("bayesian", near), tuple(_reason(*each) for each in found))


def _worst(name: str, near: list[Row]) -> Verdict:
    return _WORST[max(_WORST.index(row.verdict(name)) for row in near)]


def _nearest(name: str, value: Any) -> list[Row]:
    """The row of this strength, or those of the two numbers around it."""
    own = {_number(row.strength): row for row in rows() if row.departure == name}
    numbers = sorted(strength for strength in own if isinstance(strength, float))
    if value in own:
        return [own[value]]
    if isinstance(value, str) or not numbers or isnan(value):
        measured = ", ".join(row.strength for row in own.values())
        raise ValueError(f"{name} = {value!r}: give one of {measured}, or a number where these are numbers")
    below, above = ([n for n in numbers if n < value], [n for n in numbers if n > value])
    return [own[number] for number in [*below[-1:], *above[:1]]]


def _number(text: str) -> float | str:
    """The number that a strength stands for, or its name."""
    top, _, bottom = text.partition("/")
    with suppress(ValueError):
        return float(top) / float(bottom or 1)
    return text


def _reason(name: str, value: Any, near: list[Row]) -> str:
    departure = DEPARTURES[name]
    measured = "; ".join(
        f"with {row.strength}, RND is {row.ratios['rnd'].value:.2g} of the ensemble's variance and Bayesian RND "
        f"{row.ratios['bayesian'].value:.2g} of the posterior's"
        for row in near
    )
    return f"{departure.label}, {value} asked: {measured}. {departure.why} {departure.advice}"
