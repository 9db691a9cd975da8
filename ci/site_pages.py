"""Pages made of data: the claims by notebook with their stored verdicts, the report, and the reference."""

import inspect
import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import bench
import site_notebooks

from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.ledger import Ledger, Verdict, rounded

MODULES = (
    "rndlib", "rndlib.theory.kernels", "rndlib.theory.laws", "rndlib.theory.mismatch", "rndlib.theory.crowding",
    "rndlib.training.initial", "rndlib.datasets", "rndlib.jax", "rndlib.torch",
)  # fmt: skip
"""The modules whose public functions and classes are documented."""

NOT_OURS = ("Module", "Exception", "UserWarning", "tuple", "BaseEstimator", "RegressorMixin", "_MetadataRequester")
"""Base classes of other packages, whose members their own documentation describes."""

SEAM = ("train", "run", "rates", "weights", "set_fit_request", "set_predict_request", "set_score_request")
"""Methods that are for other parts of the library, or of scikit-learn's making."""


def stored(place: Path) -> list[Verdict]:
    """The verdicts stored in the `ledger.json` of a folder of notebooks.

    Raises
    ------
    ValueError: a declared claim is not in it, or it has one that is not declared.
    """
    content = json.loads((place / "ledger.json").read_text(encoding="utf-8"))
    rows = {claim: row for part in content.values() for claim, row in part.items()}
    if wrong := set(rows) ^ set(CLAIMS):
        raise ValueError(f"{place / 'ledger.json'} and the declared claims differ in {', '.join(sorted(wrong))}")
    found = Ledger()
    for claim in CLAIMS:
        found.restore(claim, rows[claim])
    return found.verdicts


def families(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """The verdicts by notebook."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.claim.notebook, []).append(verdict)
    return found


def overview(verdicts: list[Verdict], titles: dict[str, str]) -> str:
    """The claims in a table: one row per notebook, with how many hold and a link to its page."""
    lines = ["| about | hold | claims |", "| --- | --- | --- |"]
    for name, family in families(verdicts).items():
        links = " ".join(f"[{each.claim.id}](#claim-{each.claim.id.lower()})" for each in family)
        lines.append(f"| [{titles[name]}](#claims-{name[:2]}) | {_hold(family)} | {links} |")
    return "\n".join([f"{_hold(verdicts)} claims hold.", "", *lines, ""])


def toctree(pages: Iterable[str], *options: str) -> str:
    """Pages as a part of the table of contents."""
    return "\n".join(["```{toctree}", ":hidden:", *options, "", *pages, "```", ""])


def claims(name: str, family: list[Verdict], title: str) -> str:
    """The page of a notebook's claims: what each says, what was measured, and where its verdict is reached."""
    parts = [
        f"(claims-{name[:2]})=\n# {name[:2]} {title}",
        f"{_hold(family)} hold, as [notebook {name[:2]}](/notebooks/{name}.ipynb) shows. A claim holds if its value is "
        "at most a tolerance that was declared before any run, and both wrong variants are above it.",
    ]
    for verdict in family:
        claim, value = verdict.claim, rounded(verdict.value)
        interval = "" if verdict.interval is None else f", 95 % limits {' to '.join(map(rounded, verdict.interval))}"
        rows = {
            "in the paper": claim.source,
            "statistic": claim.statistic,
            "value": value + interval,
            "tolerance": rounded(claim.tolerance),
            "because": claim.why,
            "wrong": f"{claim.control}: {rounded(verdict.control)}",
            "slightly wrong": f"{claim.near}: {rounded(verdict.near)}",
            "verdict": f"[{'PASS' if verdict.holds else 'FAIL'}](#{site_notebooks.verdict(claim.id)})",
        }
        table = "\n".join(["| | |", "| --- | --- |", *(f"| {key} | {text} |" for key, text in rows.items())])
        parts += [f"(claim-{claim.id.lower()})=\n## {claim.id}", claim.statement, table]
    return "\n\n".join(parts) + "\n"


def report(place: Path) -> str:
    """What does not depend on a run: how the verdicts depend on seeds, and what things cost."""
    parts = ["# Seeds and costs", *(f"#{part}" if part[0] == "#" else part for part in studies.report(place))]
    parts += ["## Costs", "Seconds are medians with quartiles in brackets, ratios those of repeats side by side."]
    sections = [bench.text(section) for section in bench.read(place / "bench.json")]
    return "\n\n".join([*parts, *(f"#{section}" for section in sections)]) + "\n"


def names() -> dict[str, list[str]]:
    """What is documented, by module: what it exports, or else the public functions and classes that it defines."""
    found = {}
    for part in MODULES:
        module = import_module(part)
        own = [name for name, value in vars(module).items() if name[0] != "_" and inspect.getmodule(value) == module]
        public = {name: getattr(module, name) for name in getattr(module, "__all__", own)}
        found[part] = [name for name, value in public.items() if inspect.isclass(value) or inspect.isfunction(value)]
    return found


def reference(module: str, documented: list[str]) -> str:
    """The page of a module."""
    lines = [f"# {module}", "", "```{eval-rst}", f".. automodule:: {module}", ""]
    for name in documented:
        kind = "class" if inspect.isclass(getattr(import_module(module), name)) else "function"
        lines += [f".. auto{kind}:: {module}.{name}"]
        if kind == "class":
            lines += ["   :members:", f"   :inherited-members: {', '.join(NOT_OURS)}"]
            lines += [f"   :exclude-members: {', '.join(SEAM)}"]
        lines += [""]
    return "\n".join([*lines, "```", ""])


def _hold(verdicts: list[Verdict]) -> str:
    return f"{sum(verdict.holds for verdict in verdicts)} of {len(verdicts)}"
