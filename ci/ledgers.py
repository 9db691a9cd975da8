"""A notebook's verdicts without Jupyter: the cells that lead to them run in this process.

Cells tagged `figure`, and those tagged `beside` (what a notebook shows beside its claims), are left out. In one
process, programs that are compiled once serve every seed, and the notebook uses what a test has planted in the library.
"""

import ast
import contextlib
import gc
import io
import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rndlib.paper.evidence.ledger import Verdict
from rndlib.running import notebooks
from rndlib.running.notebooks import Notebook

SKIPPED = {"parameters", "figure", "beside"}


def verdicts(notebook: Notebook, values: Mapping[str, Any], until: Collection[str] = ()) -> list[Verdict]:
    """Run the notebook's cells with these parameters and return what its ledger holds.

    With `until`, only the cells that lead to these claims are run, and none after the first of them that failed.

    Raises
    ------
    Exception: whatever a cell raises.
    """
    cells = json.loads(notebook.path.read_text(encoding="utf-8"))["cells"]
    sources = [
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "code" and not SKIPPED & set(cell["metadata"].get("tags", []))
    ]
    scope: dict[str, Any] = {"__name__": notebook.name, **values}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        for index in leading_to(sources, until) if until else range(len(sources)):
            exec(compile(sources[index], f"{notebook.name}, code cell {index}", "exec"), scope)
            found = scope["ledger"].verdicts if "ledger" in scope else []
            if any(verdict.id in until and not verdict.passed for verdict in found):
                break
    return scope["ledger"].verdicts


def leading_to(sources: Sequence[str], claims: Collection[str]) -> list[int]:
    """The cells that name these claims, and before them those that set or change a name that is read in such a cell."""
    chosen, read = [], set()
    for index in reversed(range(len(sources))):
        tree = ast.parse(sources[index])
        nodes = list(ast.walk(tree))
        strings = {node.value for node in nodes if isinstance(node, ast.Constant)}
        if strings.intersection(claims) or read.intersection(_changed(tree)):
            chosen.append(index)
            read |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return chosen[::-1]


def _changed(tree: ast.AST) -> set[str]:
    """Names that are bound here, or whose parts are, outside of functions and comprehensions."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            if isinstance(node, ast.Name | ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            found |= _changed(node)
    return found


def repeat(name: str, profile: str, number: int, until: Collection[str] = ()) -> list[Verdict]:
    """The verdicts of one repeat of a notebook, up to the first claim of `until` that fails."""
    notebook = notebooks.find(name)
    found = verdicts(notebook, notebook.repeated(notebook.settings(profile, []), number), until)
    gc.collect()  # The functions of the cells refer to their scope, and with it keep all its networks.
    return found
