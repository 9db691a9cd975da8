"""A notebook's verdicts without Jupyter: the cells that lead to them run in this process.

Cells tagged `figure`, and those tagged `beside` (what a notebook shows beside its claims), are left out. In one
process, programs that are compiled once serve every seed, and the notebook uses what a test has planted in the library.
"""

import ast
import contextlib
import gc
import io
import warnings
from collections.abc import Collection, Mapping, Sequence
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

    With `until`, only the cells that lead to these claims are run, and none after the first of them that failed.

    Raises
    ------
    ValueError: the notebook has no parameter of that name.
    Exception: whatever a cell raises.
    """
    cells = [cell for cell in sources.cells(notebook) if not SKIPPED & set(cell["metadata"].get("tags", []))]
    declared, *texts = ["".join(cell["source"]) for cell in cells]
    scope: dict[str, Any] = {"__name__": notebook}
    exec(declared, scope)
    if unknown := set(values) - set(scope):
        raise ValueError(f"{notebook} has no parameters {', '.join(sorted(unknown))}")
    scope |= values
    if "seeds" in scope:
        scope["seeds"] = [repeat * len(scope["seeds"]) + seed for seed in scope["seeds"]]
    else:
        scope["seed"] += repeat
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), contextlib.suppress(ClaimsFail):
        for index in leading_to(texts, until) if until else range(len(texts)):
            exec(compile(texts[index], f"{notebook}, code cell {index}", "exec"), scope)
            found = scope["ledger"].verdicts if "ledger" in scope else []
            if any(verdict.id in until and not verdict.passed for verdict in found):
                break
    reached = scope["ledger"].verdicts
    scope.clear()
    gc.collect()  # The functions of the cells refer to their scope, and with it keep all its networks.
    return reached


def leading_to(texts: Sequence[str], claims: Collection[str]) -> list[int]:
    """The cells that name these claims, and before them those that set or change a name that is read in such a cell."""
    chosen, read = [], set()
    for index in reversed(range(len(texts))):
        tree = ast.parse(texts[index])
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
