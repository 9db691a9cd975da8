"""Make the outputs of the last `make reproduce` the stored ones: copy executed notebooks from results/ to notebooks/.

Only a run of today's code at the stored size may be stored. What a run adds about itself (times, paths) is left out, so
that the same outputs are the same file. `jupytext --update --execute` is no substitute: it keeps the old outputs of
every cell whose source has not changed.

A notebook shows its numbers rounded. In full they are stored beside it in `notebooks/ledger.json`, which
`ci/moved.py` holds those of a later run against. The figures on the first page are copied, too.
"""

import json
import sys
from pathlib import Path

import nbformat
from made import ROOT
from moved import STORED

from rndlib.paper import output
from rndlib.paper.evidence import ledger
from rndlib.paper.evidence.ledger import Ledger

SHOWN = ("05_numerical_analysis/fig1.png", "08_departures/fig_map.png")  # on the first page of README and site


def store(name: str) -> None:
    """Store the executed notebook of results/`name`."""
    notebook = nbformat.read(ROOT / "results" / name / "executed.ipynb", as_version=4)
    stored = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    # The text between them may have changed since, such as the numbers that it quotes from this run.
    ran, code = ([cell for cell in of.cells if cell.cell_type == "code"] for of in (notebook, stored))
    found = Ledger.read(ROOT / "results" / name / ledger.FILE)
    if found.stale or [cell.source for cell in ran] != [cell.source for cell in code]:
        sys.exit(f"results/{name} is of other code or other parameters than notebooks/{name}.ipynb: run it again")
    for cell, executed in zip(code, ran, strict=True):
        cell.outputs, cell.execution_count = executed.outputs, executed.execution_count
    nbformat.write(stored, ROOT / "notebooks" / f"{name}.ipynb")
    for figure in map(Path, SHOWN):
        if figure.parent.name == name:
            output.write(ROOT / "docs" / figure.name, (ROOT / "results" / figure).read_bytes())
    if found.verdicts:
        table = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
        table[name] = {verdict.id: verdict.numbers for verdict in found.verdicts}
        output.write(STORED, json.dumps(dict(sorted(table.items())), indent=1).encode() + b"\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        store(name)
