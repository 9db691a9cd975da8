"""Heat maps of a batch: one for every pair of parameters that vary, with one panel per claim."""

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np

from rndlib.paper.evidence import ledger
from rndlib.paper.figures.grids import Shares, verdicts_over
from rndlib.paper.figures.style import Figure
from rndlib.running.batch.cell import Outcome

SEEDS = {"seed", "seeds"}


def figures(outcomes: Sequence[Outcome]) -> Iterable[tuple[str, Figure]]:
    """A title and a figure for each pair of varied parameters of the cells of one notebook, or for a single one."""
    varied = [name for name in outcomes[0].cell.values if name not in SEEDS and len(_levels(outcomes, name)) > 1]
    pairs = list(combinations(varied, 2)) or [(name, None) for name in varied]
    claims = {v.id: v.claim.tolerance for outcome in outcomes for v in _verdicts(outcome)}
    for columns, rows in pairs if claims else []:
        panels = {
            f"{claim}, at most {ledger.rounded(tolerance)}": _shares(outcomes, columns, rows, claim)
            for claim, tolerance in claims.items()
        }
        labels = [_text(level) for level in _levels(outcomes, columns)]
        ordinate = None if rows is None else (rows, [_text(level) for level in _levels(outcomes, rows)])
        title = columns if rows is None else f"{rows} against {columns}"
        yield title, verdicts_over((columns, labels), ordinate, panels)


def _shares(outcomes: Sequence[Outcome], columns: str, rows: str | None, claim: str) -> Shares:
    across = _levels(outcomes, columns)
    down = _levels(outcomes, rows) if rows else [""]
    verdicts_at: dict[tuple[int, int], list[ledger.Verdict]] = {}
    for outcome in outcomes:
        place = down.index(_level(outcome, rows)) if rows else 0, across.index(_level(outcome, columns))
        verdicts_at.setdefault(place, []).extend(v for v in _verdicts(outcome) if v.id == claim)
    share, value = (np.full((len(down), len(across)), np.nan) for _ in range(2))
    for place, verdicts in verdicts_at.items():
        if verdicts:
            share[place] = sum(map(ledger.holds, verdicts)) / len(verdicts)
            value[place] = median(verdict.value for verdict in verdicts)
    return Shares(share, value)


def _verdicts(outcome: Outcome) -> list[ledger.Verdict]:
    return outcome.result.verdicts if outcome.result else []


def _levels(outcomes: Iterable[Outcome], name: str) -> list[str]:
    """The values of a parameter, as JSON; numbers in order, other values as they come."""
    values: dict[str, Any] = {_level(outcome, name): outcome.cell.values[name] for outcome in outcomes}
    if all(isinstance(value, int | float) for value in values.values()):
        return sorted(values, key=lambda level: values[level])
    return list(values)


def _text(level: str) -> str:
    return str(json.loads(level)) or "''"


def _level(outcome: Outcome, name: str) -> str:
    return json.dumps(outcome.cell.values[name])
