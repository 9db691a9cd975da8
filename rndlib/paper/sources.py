"""What decides the numbers of a notebook: its code, the library, and the tables that it reads."""

import hashlib
import json
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
NOTEBOOKS = PACKAGE.parent / "notebooks"
DATA = ("practice.json",)  # in the folder of the notebooks; all other tables are in the package


def cells(notebook: str) -> list[dict[str, Any]]:
    """The code cells of a notebook, by its name without the suffix; a FileNotFoundError if there is none."""
    content = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def digest(notebook: str | None) -> str:
    """A digest of the notebook's code cells, without their outputs, and of all code and tables of the package.

    None stands for calculations outside of notebooks, which make tables and read none.
    """
    code, kinds, tables = [], (".py", ".toml"), []
    if notebook:
        code = ["".join(cell["source"]) for cell in cells(notebook)]
        kinds = (*kinds, ".json")
        tables = [NOTEBOOKS / name for name in DATA if (NOTEBOOKS / name).exists()]
    found = hashlib.sha256(json.dumps(code).encode())
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in kinds) + tables:
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()
