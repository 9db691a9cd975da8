"""The outcomes of a batch: a table, `batch.json` with what ran where, and `report.html` with heat maps and links.

The same outcomes give the same files.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2

from rndlib import output
from rndlib.paper.evidence import ledger
from rndlib.paper.evidence.tables import aligned
from rndlib.running import provenance
from rndlib.running.batch.cell import Outcome

PAGE = "report.html"
RECORD = "batch.json"


def table(outcomes: Sequence[Outcome]) -> str:
    """One row per cell, an aligned Markdown table."""
    body = []
    for outcome in outcomes:
        run = outcome.result.run if outcome.result else None
        wrong = "; ".join(outcome.wrong).replace("|", "/")
        if run is None and len(wrong) > 100:
            wrong = f"{wrong[:99]}…"
        seconds, peak = (f"{run.seconds:.0f}", _mebibytes(run.peak_memory)) if run else ("", "")
        body.append([outcome.cell.label, outcome.cell.profile, outcome.status, seconds, peak, wrong])
    return aligned(["cell", "profile", "verdict", "seconds", "peak memory", "what is wrong"], body)


def write(title: str, outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write both files into `folder`, and return the page. All links are relative: the folder can be moved."""
    from rndlib.running.batch import heatmaps  # Here, because matplotlib takes longer to import than all else.

    rows = [_row(outcome, folder) for outcome in outcomes]
    output.write(folder / RECORD, json.dumps({"cells": rows}, indent=1).encode() + b"\n")
    maps = {
        name: [
            (heading, base64.b64encode(figure._repr_png_()).decode())
            for heading, figure in heatmaps.figures([each for each in outcomes if each.cell.notebook.name == name])
        ]
        for name in {row["notebook"] for row in rows}
    }
    output.write(folder / PAGE, _template().render(title=title, rows=rows, maps=maps).encode())
    return folder / PAGE


def _row(outcome: Outcome, folder: Path) -> dict[str, Any]:
    """All that is known of a cell, paths relative to `folder`."""
    cell, result = outcome.cell, outcome.result
    row: dict[str, Any] = {
        "cell": cell.label,
        "notebook": cell.notebook.name,
        "profile": cell.profile,
        "parameters": cell.values,
        "seeds": cell.repeat,
        "key": cell.key,
        "status": outcome.status,
        "wrong": outcome.wrong,
        "log": outcome.log,
        "executed": None,
        "verdicts": [],
    }
    if result:
        row["executed"] = (result.folder / cell.notebook.path.name).relative_to(folder).as_posix()
        row["verdicts"] = [verdict.row() for verdict in result.verdicts]
        row |= asdict(result.run)
    return row


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"


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
    environment.filters["machine"] = provenance.machine
    environment.filters["commit"] = provenance.commit
    return environment.get_template("report.html.j2")
