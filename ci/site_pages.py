"""Pages made of data: the claims with their stored verdicts, the list of notebooks, the report, the reference."""

import inspect
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import site_notebooks

from rndlib.paper.evidence import ledger, studies
from rndlib.paper.evidence.claims import CLAIMS, Finding
from rndlib.paper.evidence.ledger import Ledger, Verdict, rounded
from rndlib.paper.evidence.tables import aligned
from rndlib.running import costs, notebooks

NOT_OURS = ("Module", "Exception", "UserWarning", "tuple", "BaseEstimator", "RegressorMixin", "_MetadataRequester")
"""Base classes of other packages, whose members their own documentation describes."""
REQUESTS = ("set_fit_request", "set_predict_request", "set_score_request")
"""Methods that scikit-learn adds to every estimator."""

MODULES = ("theory.kernels", "theory.laws", "datasets", "training.initial", "theory.crowding", "theory.mismatch", "jax")
"""The modules whose public functions and classes are documented, beside `rndlib` and `rndlib.torch` themselves."""


def stored(place: Path) -> list[Verdict]:
    """The verdicts stored in the `ledger.json` of a folder of notebooks.

    Raises
    ------
    ValueError: a declared claim is not in it, or it has one that is not declared.
    """
    found = json.loads((place / "ledger.json").read_text(encoding="utf-8"))
    rows = {claim: row for part in found.values() for claim, row in part.items()}
    if set(rows) != set(CLAIMS):
        wrong = ", ".join(sorted(set(rows) ^ set(CLAIMS)))
        raise ValueError(
            f"{place / 'ledger.json'} and the declared claims differ in {wrong}: make reproduce, make store"
        )
    verdicts = Ledger()
    for claim in CLAIMS:
        row = rows[claim]
        interval = None if row["interval"] is None else (row["interval"][0], row["interval"][1])
        verdicts.record(claim, Finding(row["value"], interval), Finding(row["control"]), Finding(row["near"]))
    return verdicts.verdicts


def claims(verdicts: Sequence[Verdict]) -> str:
    """The table of the landing page: every claim with its numbers, and links to where its verdict is reached."""
    head = ["id", "statement", "in the paper", "value", "tolerance", "negative controls", "their values", "verdict"]
    return aligned(
        head,
        [
            [
                f"[{v.id}](#{site_notebooks.verdict(v.id)})",
                v.claim.statement,
                v.claim.source,
                rounded(v.value),
                rounded(v.claim.tolerance),
                v.claim.controls,
                "; ".join(map(rounded, v.control_values)),
                "PASS" if ledger.holds(v) else "FAIL",
            ]
            for v in verdicts
        ],
    )


def summary(verdicts: Sequence[Verdict]) -> str:
    """One line on how many claims hold."""
    wrong = [v.id for v in verdicts if not ledger.holds(v)]
    if wrong:
        return f"Of {len(verdicts)} claims, {len(wrong)} do not hold: {', '.join(wrong)}."
    return f"All {len(verdicts)} claims hold, and each rejects its negative controls."


def contents(names: Sequence[str]) -> str:
    """The notebooks as an entry of the table of contents."""
    titles = {name: notebooks.find(name).title.split(":")[0] for name in names}
    lines = [f"{name[:2]} {title} </notebooks/{name}>" for name, title in titles.items()]
    return "\n".join(["```{toctree}", ":caption: Notebooks", ":hidden:", "", *lines, "```"])


def report(verdicts: Sequence[Verdict], figures: Mapping[str, Mapping[str, site_notebooks.Drawn]], place: Path) -> str:
    """What `rndlib report` writes, except the costs of a run, which differ from machine to machine.

    `figures` has the figures of each notebook by name.
    """
    parts = [
        "# Report",
        "What `rndlib report` says of the stored run: the verdicts, how they depend on the seeds, what things cost, "
        "and the figures. A report of your own also has the seconds, memory and hardware of each notebook.",
        "## Claims",
        summary(verdicts),
        ledger.table(verdicts),
        *(f"#{part}" if part.startswith("#") else part for part in [*studies.report(place), *costs.report(place)]),
    ]
    for name, drawn in figures.items():
        if drawn:
            parts.append(f"## Figures of notebook {name[:2]}")
        for figure, picture in drawn.items():
            links = (
                f"`{figure}` in [its notebook](#{site_notebooks.figure_label(name, figure)}), "
                f"from [these parameters](#{site_notebooks.parameters(name)})."
            )
            parts.append(f"{site_notebooks.shown(picture)}\n{links}\n```")
    return "\n\n".join(parts) + "\n"


def names() -> dict[str, list[str]]:
    """What is documented, by module: `rndlib`, those of `MODULES`, and `rndlib.torch`."""
    package, torch = import_module("rndlib"), import_module("rndlib.torch")
    found = {"rndlib": [name for name in package.__all__ if not inspect.ismodule(getattr(package, name))]}
    for part in MODULES:
        module = import_module(f"rndlib.{part}")
        found[module.__name__] = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__module__ == module.__name__
        ]
    return found | {"rndlib.torch": torch.__all__}


def reference() -> dict[str, str]:
    """The pages of the reference, by module."""
    return {module: _module(module, documented) for module, documented in names().items()}


def _module(module: str, documented: Sequence[str]) -> str:
    lines = [f"# {module}", "", "```{eval-rst}", f".. automodule:: {module}", ""]
    for name in documented:
        found = getattr(import_module(module), name)
        lines += [f".. {'autoclass' if inspect.isclass(found) else 'autofunction'}:: {module}.{name}"]
        if inspect.isclass(found):
            lines += ["   :members:", f"   :inherited-members: {', '.join(NOT_OURS)}"]
            lines += [f"   :exclude-members: {', '.join(REQUESTS)}"]
        lines += [""]
    return "\n".join([*lines, "```", ""])
