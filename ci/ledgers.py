"""A notebook's verdicts without Jupyter: the cells that lead to them run in this process.

Cells tagged `figure`, and those tagged `beside` (what a notebook shows beside its claims), are left out. In one
process, programs that are compiled once serve every seed, and the notebook uses what a test has planted in the library.
"""

import contextlib
import gc
import io
import json
import warnings
from collections.abc import Collection, Mapping
from typing import Any

from rndlib.evidence.ledger import Verdict
from rndlib.running import notebooks
from rndlib.running.notebooks import Notebook

SKIPPED = {"parameters", "figure", "beside"}


def verdicts(notebook: Notebook, values: Mapping[str, Any], until: Collection[str] = ()) -> list[Verdict]:
    """Run the notebook's cells with these parameters and return what its ledger holds.

    No cell is run after one in which a claim of `until` failed.

    Raises
    ------
    Exception: whatever a cell raises.
    """
    cells = json.loads(notebook.path.read_text(encoding="utf-8"))["cells"]
    scope: dict[str, Any] = {"__name__": notebook.name, **values}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        for index, cell in enumerate(cells):
            if cell["cell_type"] == "code" and not SKIPPED & set(cell["metadata"].get("tags", [])):
                exec(compile("".join(cell["source"]), f"{notebook.name}, cell {index}", "exec"), scope)
                found = scope["ledger"].verdicts if "ledger" in scope else []
                if any(verdict.id in until and not verdict.passed for verdict in found):
                    break
    return scope["ledger"].verdicts


def repeat(name: str, profile: str, number: int, until: Collection[str] = ()) -> list[Verdict]:
    """The verdicts of one repeat of a notebook, up to the first claim of `until` that fails."""
    notebook = notebooks.find(name)
    found = verdicts(notebook, notebook.repeated(notebook.settings(profile, []), number), until)
    gc.collect()  # The functions of the cells refer to their scope, and with it keep all its networks.
    return found
