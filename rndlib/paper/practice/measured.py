"""The table of departures that was measured, which `ci/departures.py` writes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from rndlib.paper.evidence.estimate import Estimate
from rndlib.paper.practice.departures import DEPARTURES, Verdict, verdict

TABLE = "departures.json"


@dataclass(frozen=True)
class Row:
    """One measured setting: its departure and strength, and both ratios."""

    departure: str
    strength: str
    ratios: Mapping[str, Estimate]

    def verdict(self, name: str) -> Verdict:
        """That of "rnd" or "bayesian"."""
        return verdict(self.ratios[name])


@cache
def _content() -> dict[str, Any]:
    return json.loads((files("rndlib.paper.practice") / TABLE).read_text(encoding="utf-8"))


def linearised_heads() -> dict[str, list[float]]:
    """What `crowds.linearised_heads` gives, which takes it a quarter of a minute."""
    return _content()["linearised_heads"]


@cache
def rows() -> tuple[Row, ...]:
    """The measured table, in the order of `DEPARTURES`."""
    return tuple(
        Row(row["departure"], row["strength"], {name: Estimate(*ratio) for name, ratio in row["ratios"].items()})
        for row in _content()["rows"]
    )


def movement() -> dict[str, list[float]]:
    """What `crowds.movement` measured."""
    return _content()["movement"]


def series(name: str) -> tuple[list[str], dict[str, list[Estimate]], str]:
    """One departure for `figures.departure`: its strengths, its ratios, and the label of its axis."""
    own = [row for row in rows() if row.departure == name]
    labels = {"RND / ensemble": "rnd", "Bayesian RND / posterior": "bayesian"}
    estimates = {label: [row.ratios[of] for row in own] for label, of in labels.items()}
    return [row.strength for row in own], estimates, DEPARTURES[name].label


def cells() -> dict[str, list[tuple[str, dict[str, float], dict[str, Verdict]]]]:
    """The table for `figures.departure_map`: by departure, its strengths with their ratios and verdicts."""
    names = "rnd", "bayesian"
    return {
        departure.row: [
            (row.strength, {of: row.ratios[of].value for of in names}, {of: row.verdict(of) for of in names})
            for row in rows()
            if row.departure == name
        ]
        for name, departure in DEPARTURES.items()
    }
