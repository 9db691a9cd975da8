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

from rndlib import output
from rndlib.evidence import ledger
from rndlib.evidence.tables import aligned
from rndlib.running.batch.cell import Outcome
from rndlib.running.failures import Failure

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
    machines = _machines(rows)
    page = _template().render(
        title=title,
        rows=rows,
        groups=[_group(name, found, rows) for name, found in groups.items()],
        machines=machines,
        versions=_versions(machines),
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
        _mebibytes(None if isinstance(outcome.found, Failure) else outcome.found.run.peak_memory),
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
    """Each machine and state of the code with what its cells took together; rows get its number as `made`."""
    found: list[dict[str, Any]] = []
    # Failures last, as they do not tell the state of the code: they count with what ran on the same machine.
    for row in sorted(rows, key=lambda row: row["versions"] is None):
        made = {
            name: row[name] for name in ("hardware", "checkout", "versions") if row["versions"] or name == "hardware"
        }
        machine = next((known for known in found if made.items() <= known.items()), None)
        if machine is None:
            machine = {"checkout": None, "versions": None, "cells": 0, "seconds": 0.0, "peak_memory": None, **made}
            found.append(machine)
        row["made"] = found.index(machine) + 1
        machine["cells"] += 1
        machine["seconds"] += row["seconds"]
        machine["peak_memory"] = max(filter(None, (machine["peak_memory"], row["peak_memory"])), default=None)
    return found


def _versions(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each set of versions, with the numbers of the machines that had it; a failure does not tell its own."""
    found: dict[str, list[int]] = {}
    for number, machine in enumerate(machines, 1):
        if machine["versions"]:
            found.setdefault(json.dumps(machine["versions"]), []).append(number)
    return [{"versions": json.loads(made), "machines": numbers} for made, numbers in found.items()]


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
