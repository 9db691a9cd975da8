"""The measured ratios of `rndlib.advice` for the figures and tables of notebook 08."""

import json
from fractions import Fraction
from importlib.resources import files

from rndlib import advice
from rndlib.advice import Ratio

NAMES = {"RND / ensemble": "rnd", "Bayesian RND / posterior": "bayesian"}
"""Both ratios, as figures and tables call them, and as the table does."""


def ratios(assumption: str, strength: str) -> dict[str, Ratio]:
    """Both ratios at one setting, by the words for them."""
    found = advice.table()[assumption][strength]
    return {words: found[name] for words, name in NAMES.items()}


def panels(assumption: str) -> dict[str, dict[str, Ratio]]:
    """One assumption whose strengths are names, for `figures.intervals`: each ratio by strength."""
    own = advice.table()[assumption]
    return {words: {strength: found[name] for strength, found in own.items()} for words, name in NAMES.items()}


def series(assumption: str) -> tuple[list[str], dict[str, list[Ratio]], str]:
    """One assumption for `figures.ordered`: its rising strengths, its ratios, and the label of its axis."""
    found = panels(assumption)
    strengths = sorted(found["RND / ensemble"], key=_number)
    ratios = {words: [by[strength] for strength in strengths] for words, by in found.items()}
    return strengths, ratios, advice.words()[assumption]["label"]


def _number(strength: str) -> float:
    return float(Fraction(strength)) if "/" in strength else float(strength)


def rows() -> dict[str, list[tuple[str, dict[str, Ratio]]]]:
    """The whole table for `figures.departure_map`: by assumption, its strengths with both ratios."""
    return {
        advice.words()[assumption]["row"]: [(strength, ratios(assumption, strength)) for strength in own]
        for assumption, own in advice.table().items()
    }


def remedies(pairs: dict[str, tuple[tuple[str, str], tuple[str, str]]]) -> list[list[str]]:
    """Rows of a table: each remedy with both ratios before and after it, at two settings."""

    def change(before: dict[str, Ratio], after: dict[str, Ratio]) -> list[str]:
        return [f"{before[words].value:.2g} -> {after[words].value:.2g}" for words in NAMES]

    return [[name, *change(ratios(*before), ratios(*after))] for name, (before, after) in pairs.items()]


def linearised_heads() -> dict[str, list[float]]:
    """What `crowds.linearised_heads` gives, which takes it a quarter of a minute."""
    return json.loads((files("rndlib") / "advice.json").read_text(encoding="utf-8"))["linearised_heads"]
