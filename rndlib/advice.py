"""Whether the two equalities of the paper hold in a setting, from a table of trained networks.

`advice.json` has the measured ratios, written by `ci/departures.py`, and `advice.toml` the texts.
"""

import json
import tomllib
from contextlib import suppress
from functools import cache
from importlib.resources import files
from math import isnan, log
from typing import Any, Literal, NamedTuple, get_args

Verdict = Literal["safe", "biased", "meaningless"]


class Ratio(NamedTuple):
    """A ratio that should be 1, with the ends of its 95 % interval.

    >>> from rndlib import advice
    >>> advice.Ratio(0.9, 0.85, 0.95).verdict
    'safe'
    """

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """How the number can be read: "safe" within a quarter of 1, "biased" within a factor of 2, or "meaningless"."""
        away = max(abs(log(self.low)), abs(log(self.high)))
        return "safe" if away <= log(1.25) else "biased" if abs(log(self.value)) <= log(2) else "meaningless"


@cache
def table() -> dict[str, dict[str, dict[str, Ratio]]]:
    """The ratios of every measured setting, by violated assumption, strength and name of the ratio.

    "rnd" is half the RND error over the ensemble variance, "bayesian" the Bayesian RND error over the posterior's.

    >>> from rndlib import advice
    >>> advice.table()["width"]["1024"]["rnd"].verdict
    'safe'
    """
    found: dict[str, dict[str, dict[str, Ratio]]] = {name: {} for name in words()}
    for row in json.loads((files("rndlib") / "advice.json").read_text(encoding="utf-8"))["rows"]:
        ratios = {name: Ratio(*ratio) for name, ratio in row["ratios"].items()}
        found[row["assumption"]][row["strength"]] = ratios
    return found


@cache
def words() -> dict[str, dict[str, str]]:
    """For each assumption its name (`row`, `label`), why violating it matters (`why`), and what to do (`advice`)."""
    return tomllib.loads((files("rndlib") / "advice.toml").read_text(encoding="utf-8"))


class Advice(NamedTuple):
    """The measured verdicts nearest to a setting.

    rnd, bayesian: Whether half the RND error is an ensemble's variance, and the Bayesian RND error a posterior's:
        "safe" within a quarter, "biased" within a factor of 2, or "meaningless". The worst over all arguments.
    reasons: A sentence or three per violated assumption.

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
    """Whether the RND error is a variance in a setting, judged by networks trained in similar settings.

    Give what differs from the paper's problem of ten points and 256 units. Numbers: `width` (units), `depth` (layers),
    `heads` (per unit, K/n), `labels` (their scale, relative to the outputs at initialisation), `time` (of training),
    `points` (N), `narrow` (N, at 16 units), `distance` (of the test points, times that of the training points),
    `duplicates` (distance of the two closest points), `noise` (the `noise_std` given, over the true one), `rate`
    (learning rate of gradient descent over the stability threshold), `batches_of_2` and `batches_of_5` (the learning
    rate, with momentum 0.9), `parametrisation` (width in PyTorch's own). Names: `activation`, `optimizer`,
    `architecture`; for an unknown name, the error lists the measured ones.

    A number between two measured ones gets the worse verdict of both, and a number beyond them that of the last.
    Assumptions are violated one at a time; two at once may be worse than either. Raises ValueError for names that were
    not measured, numbers that are not above 0, and a `rate` of 1 or more, at which training diverges.

    >>> from rndlib import explain_setting
    >>> explain_setting(labels=8).rnd
    'meaningless'
    """
    unknown = set(setting) - set(words())
    if unknown or not setting:
        raise ValueError(f"{', '.join(sorted(unknown)) or 'no argument'}: give some of {', '.join(words())}")
    found = {name: _nearest(name, value) for name, value in setting.items()}

    def worst(name: str) -> Verdict:
        verdicts: list[Verdict] = [ratios[name].verdict for near in found.values() for ratios in near.values()]
        return max(verdicts, key=get_args(Verdict).index)

    reasons = []
    for name, near in found.items():
        about = words()[name]
        beyond = ", beyond what was measured" * (len(near) == 1 and setting[name] not in map(_number, near))
        measured = "; ".join(
            f"with {strength}, RND is {ratios['rnd'].value:.2g} of the ensemble's variance and Bayesian RND "
            f"{ratios['bayesian'].value:.2g} of the posterior's"
            for strength, ratios in near.items()
        )
        reasons.append(f"{about['label']}, {setting[name]} asked{beyond}: {measured}. {about['why']} {about['advice']}")
    return Advice(worst("rnd"), worst("bayesian"), tuple(reasons))


def _nearest(name: str, value: Any) -> dict[str, dict[str, Ratio]]:
    """The measured ratios at this strength, or at the two numbers around it."""
    own = table()[name]
    known = {_number(strength): strength for strength in own}
    numbers = sorted(strength for strength in known if isinstance(strength, float))
    if value in known and not isinstance(value, bool):
        return {known[value]: own[known[value]]}
    if isinstance(value, str | bool) or not numbers or isnan(value):
        raise ValueError(f"{name} = {value!r}: give one of {', '.join(own)}, or a number where these are numbers")
    if value <= 0:
        raise ValueError(f"{name} = {value!r}: give a number above 0")
    if name == "rate" and value >= 1:
        raise ValueError(f"rate = {value!r}: from the stability threshold on, training diverges: give less than 1")
    below, above = [n for n in numbers if n < value], [n for n in numbers if n > value]
    return {known[number]: own[known[number]] for number in [*below[-1:], *above[:1]]}


def _number(text: str) -> float | str:
    """The number of a strength, or its name."""
    top, _, bottom = text.partition("/")
    with suppress(ValueError):
        return float(top) / float(bottom or 1)
    return text
