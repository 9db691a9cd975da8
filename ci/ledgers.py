"""A notebook's verdicts without Jupyter: the cells that lead to them run in this process.

Cells tagged `figure`, and those tagged `beside` (what a notebook shows beside its claims), are left out. In one
process, programs that are compiled once serve every seed, and the notebook uses what a test has planted in the library.
"""

import contextlib
import gc
import io
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import yaml

from rndlib.paper import sources
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.ledger import ClaimsFail, Verdict

NOTEBOOKS = sorted({claim.notebook for claim in CLAIMS.values()})
"""The names of those that judge claims."""
SKIPPED = {"figure", "beside"}


def small(notebook: str) -> dict[str, Any]:
    """The values of the small size of a notebook, as papermill takes them by `-f`."""
    return yaml.safe_load((sources.NOTEBOOKS / "smoke" / f"{notebook[:2]}.yaml").read_text(encoding="utf-8"))


def verdicts(notebook: str, values: Mapping[str, Any], until: Collection[str] = (), repeat: int = 0) -> list[Verdict]:
    """Run the notebook's cells with these parameters, and seeds that no other repeat has; what its ledger then holds.

    With `until`, no cell is run after the first of these claims that failed.

    Raises
    ------
    Exception: whatever a cell raises.
    """
    cells = [cell for cell in sources.cells(notebook) if not SKIPPED & set(cell["metadata"].get("tags", []))]
    declared, *texts = ["".join(cell["source"]) for cell in cells]
    scope: dict[str, Any] = {"__name__": notebook}
    exec(declared, scope)
    scope |= values
    if "seeds" in scope:
        scope["seeds"] = [repeat * len(scope["seeds"]) + seed for seed in scope["seeds"]]
    else:
        scope["seed"] += repeat
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), contextlib.suppress(ClaimsFail):
        for index, text in enumerate(texts):
            exec(compile(text, f"{notebook}, code cell {index}", "exec"), scope)
            found = scope["ledger"].verdicts if "ledger" in scope else []
            if any(verdict.id in until and not verdict.passed for verdict in found):
                break
    reached = scope["ledger"].verdicts
    scope.clear()
    gc.collect()  # The functions of the cells refer to their scope, and with it keep all its networks.
    return reached
