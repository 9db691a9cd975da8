"""What a batch found: a table, `batch.json` with what ran where, and `report.html` with heat maps and links.

The same outcomes give the same files, so batches that share a folder write the same.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2

from rndlib import ledger, output
from rndlib.batch.cell import Failure, Outcome
from rndlib.tables import aligned

PAGE = "report.html"
RECORD = "batch.json"


def table(outcomes: Iterable[Outcome]) -> str:
    """A row a cell, an aligned Markdown table."""
    head = ["cell", "profile", "verdict", "seconds", "peak memory", "what is wrong"]
    return aligned(head, map(_row, outcomes))


def holds(outcomes: Iterable[Outcome]) -> bool:
    """Whether every cell ran and every verdict holds."""
    return all(outcome.status == "PASS" for outcome in outcomes)


def write(title: str, outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write both files into `folder`, and return the page. All links are relative: the folder can be moved.

    Raises
    ------
    OSError: the folder cannot be written.
    """
    rows = [_record(outcome, folder) for outcome in outcomes]
    output.write(folder / RECORD, json.dumps({"cells": rows}, indent=1).encode() + b"\n")
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.cell.notebook.name, []).append(outcome)
    machines: dict[str, int] = {}
    for row in rows:
        made = json.dumps([row["versions"], row["hardware"], row["checkout"]])
        row["made"] = machines.setdefault(made, len(machines) + 1)
    page = _template().render(
        title=title,
        rows=rows,
        groups=[_group(name, found, rows) for name, found in groups.items()],
        machines=[json.loads(made) for made in machines],
        passed=sum(outcome.status == "PASS" for outcome in outcomes),
    )
    output.write(folder / PAGE, page.encode())
    return folder / PAGE


def _row(outcome: Outcome) -> list[str]:
    failed = isinstance(outcome.found, Failure)
    return [
        outcome.cell.label,
        outcome.cell.profile,
        outcome.status,
        f"{outcome.seconds:.0f}",
        "" if isinstance(outcome.found, Failure) else f"{outcome.found.run.peak_memory / 2**20:.0f} MiB",
        _clipped("; ".join(outcome.wrong), 100 if failed else 1000),
    ]


def _record(outcome: Outcome, folder: Path) -> dict[str, Any]:
    """All that is known of a cell, paths relative to `folder`."""
    cell, found = outcome.cell, outcome.found
    row: dict[str, Any] = {
        "cell": cell.label,
        "notebook": cell.notebook.name,
        "profile": cell.profile,
        "parameters": cell.values,
        "seeds": cell.repeat,
        "key": cell.key,
        "status": outcome.status,
        "wrong": outcome.wrong,
        "started": None, "seconds": outcome.seconds, "peak_memory": None, "hardware": None, "versions": None,
        "checkout": None, "executed": None, "message": None, "verdicts": [],
    }  # fmt: skip
    if isinstance(found, Failure):
        return row | {"started": found.started, "hardware": found.hardware, "message": found.message}
    kept = ("started", "seconds", "peak_memory", "hardware", "versions", "checkout")
    return row | {
        **{name: value for name, value in asdict(found.run).items() if name in kept},
        "executed": (found.folder / cell.notebook.path.name).relative_to(folder).as_posix(),
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
    }


def _group(name: str, outcomes: list[Outcome], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One notebook's part of the page: its cells and heat maps."""
    from rndlib.batch import heatmaps  # Here, because matplotlib takes longer to import than all else.

    mine = [row for row in rows if row["notebook"] == name]
    for row in mine:
        row["by_claim"] = {verdict["id"]: verdict for verdict in row["verdicts"]}
    return {
        "name": name,
        "rows": mine,
        "claims": list({claim: None for row in mine for claim in row["by_claim"]}),
        "maps": [(title, base64.b64encode(fig._repr_png_()).decode()) for title, fig in heatmaps.figures(outcomes)],
    }


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rndlib.batch", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["rounded"] = ledger.rounded
    return environment.get_template("report.html.j2")


def _clipped(text: str, length: int) -> str:
    text = text.replace("|", "/")
    return text if len(text) <= length else text[: length - 1] + "…"
