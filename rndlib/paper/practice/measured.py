"""The measured ratios of `rndlib.advice` for the figures and tables of notebook 08."""

import json
from fractions import Fraction
from importlib.resources import files
from math import inf

from rndlib import advice
from rndlib.advice import Ratio

NAMES = {"RND / ensemble": "rnd", "Bayesian RND / posterior": "bayesian"}
"""Both ratios, as figures and tables call them, and as the table does."""


def ratios() -> dict[str, dict[str, dict[str, Ratio]]]:
    """Both ratios, by the words for them, of each assumption and strength."""
    return {
        assumption: {strength: {words: by[name] for words, name in NAMES.items()} for strength, by in rows.items()}
        for assumption, rows in advice.table().items()
    }


def rows() -> dict[str, list[tuple[str, dict[str, Ratio]]]]:
    """The whole table for `figures.departure_map`: by assumption, its strengths with both ratios."""
    found = ratios()
    return {about["row"]: list(found[name].items()) for name, about in advice.words().items()}


def panels(assumption: str) -> dict[str, dict[str, Ratio]]:
    """One assumption whose strengths are names, for `figures.intervals`: each ratio by strength."""
    own = ratios()[assumption]
    return {words: {strength: both[words] for strength, both in own.items()} for words in NAMES}


def series(assumption: str) -> tuple[list[str], dict[str, list[Ratio]], str]:
    """One assumption for `figures.ordered`: its rising strengths, its ratios, and the label of its axis."""
    own = ratios()[assumption]
    strengths = sorted(own, key=lambda strength: inf if strength == "inf" else Fraction(strength))
    by_words = {words: [own[strength][words] for strength in strengths] for words in NAMES}
    return strengths, by_words, advice.words()[assumption]["label"]


def remedies(pairs: dict[str, tuple[tuple[str, str], tuple[str, str]]]) -> list[list[str]]:
    """Rows of a table: each remedy with both ratios before and after it, at two settings."""
    found = ratios()
    body = []
    for name, settings in pairs.items():
        before, after = (found[assumption][strength] for assumption, strength in settings)
        body.append([name, *(f"{before[words].value:.2g} -> {after[words].value:.2g}" for words in NAMES)])
    return body


def linearised_heads() -> dict[str, list[float]]:
    """The result of `assumptions.linearised_heads`, which takes a quarter of a minute."""
    return json.loads((files("rndlib") / "advice.json").read_text(encoding="utf-8"))["linearised_heads"]
