"""Make the verdicts of `rndlib batch ci/other_settings.yaml` the stored ones, in `notebooks/other_settings.json`.

    python ci/other_settings.py

`make settings` does both. The report shows the table.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from rndlib import output
from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS

ROOT = Path(__file__).resolve().parent.parent
VARIED = ("data_seed", "activation", "depth", "sigma_w")
SETTING = re.compile(rf"({'|'.join(VARIED)})=\S+")
RECORD = ROOT / "batches" / "other_settings" / "batch.json"


def table(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per claim, with its numbers at each setting; none where a notebook gave no verdict."""
    keys = {"value": "value", "control": "control_value", "near": "near_value"}
    rows: dict[str, dict[str, Any]] = {}
    for cell in cells:
        (setting,) = (word.group() for word in SETTING.finditer(cell["cell"]))  # Sizes may stand beside it.
        reached = {verdict["id"]: {name: verdict[key] for name, key in keys.items()} for verdict in cell["verdicts"]}
        for claim in CLAIMS.values():
            if claim.notebook == cell["notebook"]:
                row = rows.setdefault(claim.id, {"id": claim.id, "notebook": claim.notebook, "settings": {}})
                row["settings"][setting] = reached.get(claim.id)
    return list(rows.values())


if __name__ == "__main__":
    if not RECORD.exists():
        sys.exit(f"{RECORD} is missing: make settings")
    rows = table(json.loads(RECORD.read_text(encoding="utf-8"))["cells"])
    content = json.dumps({"profile": "smoke", "rows": rows}, indent=1) + "\n"
    output.write(ROOT / "notebooks" / studies.OTHER_SETTINGS, content.encode())
