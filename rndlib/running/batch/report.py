"""What a batch found: a table, `batch.json` with what ran where, and `report.html` with heat maps and links.

The same outcomes give the same files.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2

from rndlib import output
from rndlib.evidence import ledger
from rndlib.evidence.tables import aligned
from rndlib.running.batch.cell import Outcome
from rndlib.running.runs import Result

PAGE = "report.html"
RECORD = "batch.json"


def rows(outcomes: Iterable[Outcome], folder: Path) -> list[dict[str, Any]]:
    """All that is known of each cell, paths relative to `folder`."""
    return [_row(outcome, folder) for outcome in outcomes]


def table(rows: Iterable[dict[str, Any]]) -> str:
    """One row per cell, an aligned Markdown table."""
    head = ["cell", "profile", "verdict", "seconds", "peak memory", "what is wrong"]
    return aligned(
        head,
        (
            [
                *(row[name] for name in ("cell", "profile", "status")),
                f"{row['seconds']:.0f}",
                _mebibytes(row["peak_memory"]),
                _clipped("; ".join(row["wrong"]), 1000 if row["message"] is None else 100),
            ]
            for row in rows
        ),
    )


def write(title: str, outcomes: Sequence[Outcome], rows: list[dict[str, Any]], folder: Path) -> Path:
    """Write both files into `folder`, and return the page. All links are relative: the folder can be moved.

    Raises
    ------
    OSError: the folder cannot be written.
    """
    output.write(folder / RECORD, json.dumps({"cells": rows}, indent=1).encode() + b"\n")
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.cell.notebook.name, []).append(outcome)
    page = _template().render(
        title=title,
        rows=rows,
        groups=[_group(name, found, rows) for name, found in groups.items()],
        machines=_machines(rows),
        passed=sum(row["status"] == "PASS" for row in rows),
    )
    output.write(folder / PAGE, page.encode())
    return folder / PAGE


def _row(outcome: Outcome, folder: Path) -> dict[str, Any]:
    cell, found = outcome.cell, outcome.found
    whole = isinstance(found, Result)
    made = asdict(found.run if whole else found)
    return {
        "cell": cell.label,
        "notebook": cell.notebook.name,
        "profile": cell.profile,
        "parameters": cell.values,
        "seeds": cell.repeat,
        "key": cell.key,
        "status": outcome.status,
        "wrong": outcome.wrong,
        **{name: made[name] for name in ("started", "seconds", "hardware", "versions", "checkout")},
        "peak_memory": made.get("peak_memory"),
        "message": made.get("message"),
        "executed": (found.folder / cell.notebook.path.name).relative_to(folder).as_posix() if whole else None,
        "verdicts": [verdict.row() for verdict in found.verdicts] if whole else [],
    }


def _group(name: str, outcomes: list[Outcome], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One notebook's part of the page: its cells and heat maps."""
    from rndlib.running.batch import heatmaps  # Here, because matplotlib takes longer to import than all else.

    mine = [row for row in rows if row["notebook"] == name]
    for row in mine:
        row["chosen"] = row["cell"].removeprefix(name).strip() or "as declared"
        row["by_claim"] = {verdict["id"]: verdict for verdict in row["verdicts"]}
    return {
        "name": name,
        "rows": mine,
        "claims": list({claim: None for row in mine for claim in row["by_claim"]}),
        "maps": [(title, base64.b64encode(fig._repr_png_()).decode()) for title, fig in heatmaps.figures(outcomes)],
    }


def _machines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each machine, commit and set of versions, with the total of its cells; rows get its number as `made`."""
    machines: dict[str, dict[str, Any]] = {}
    for row in rows:
        made = {name: row[name] for name in ("hardware", "versions", "checkout")}
        new = {"number": len(machines) + 1, "cells": 0, "seconds": 0.0, "peak_memory": None}
        # Nobody knows where a cell ran that was killed.
        machine = machines.setdefault(json.dumps(made), made | new) if row["hardware"] else {}
        row["made"] = machine.get("number")
        if machine:
            machine["cells"] += 1
            machine["seconds"] += row["seconds"]
            machine["peak_memory"] = max(filter(None, (machine["peak_memory"], row["peak_memory"])), default=None)
    return list(machines.values())


def _mebibytes(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:.0f} MiB"


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rndlib.running.batch", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["rounded"] = ledger.rounded
    environment.filters["mebibytes"] = _mebibytes
    return environment.get_template("report.html.j2")


def _clipped(text: str, length: int) -> str:
    text = text.replace("|", "/")
    return text if len(text) <= length else text[: length - 1] + "…"
