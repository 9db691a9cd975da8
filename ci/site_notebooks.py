"""An executed notebook as a page: its parameters, figures and verdicts get names that other pages link to."""

import base64
import inspect
import json
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from rndlib.paper import figures as library
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS

_SHOWN = re.compile(r"(\w+)\.png")  # what a saved figure is as text (`rndlib.paper.figures.style.Picture`)
_DRAWS = re.compile(r"\bfigures\.(\w+)\(")
_HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)
_MARKS = re.compile(r"[`$*\\]")
_ROW = re.compile(r"^\| (\S+)( *)\|", flags=re.MULTILINE)


class Drawn(NamedTuple):
    """A figure's file, relative to the site's source, and what it shows in words."""

    file: str
    alt: str


def page(path: Path, figures: Path) -> tuple[NotebookNode, dict[str, Drawn]]:
    """The notebook at `path` to be rendered, and what it shows.

    Figures are written to `figures`/NOTEBOOK, and each gets a caption that says where it comes from. Returned are the
    notebook, and the figures by name, their files relative to the parent of `figures`.

    Raises
    ------
    ValueError: a figure has no name or is not of `rndlib.paper.figures`, or the notebook shows no verdict and is not in
        `NO_CLAIMS`.
    """
    notebook = nbformat.read(path, as_version=4)
    name, cells, drawn, claims, heading = path.stem, [], {}, [], ""
    for cell in notebook.cells:
        if not cell.source:
            continue
        tags = cell.metadata.get("tags", [])
        if "parameters" in tags:
            cells.append(new_markdown_cell(f"({parameters(name)})="))
        cells.append(cell)
        if cell.cell_type != "code":
            heading = (_HEADING.findall(cell.source) or [heading])[-1]
            continue
        if "figure" in tags:
            cell.metadata["mystnb"] = {"code_prompt_show": "Show how it is drawn", "code_prompt_hide": "Hide the code"}
            cell.metadata["tags"] = [*tags, "hide-input"]
        for output in cell.outputs:
            data = output.get("data", {})
            if "text/markdown" in data:
                data["text/markdown"] = _ROW.sub(lambda row: _anchored(row, claims), data["text/markdown"])
            if "image/png" in data:
                figure = _name(path, data.get("text/plain", ""))
                drawn[figure] = Drawn(f"{figures.name}/{name}/{figure}.png", _alt(path, cell.source, heading))
                _write(figures / name / f"{figure}.png", base64.b64decode(data["image/png"]))
                cells.append(new_markdown_cell(_caption(name, figure, drawn[figure])))
        cell.outputs = [output for output in cell.outputs if "image/png" not in output.get("data", {})]
    if not claims and name not in NO_CLAIMS:
        raise ValueError(f"{path} shows no verdict: end it with the ledger, and run it before it is stored")
    title, _, rest = cells[0].source.partition("\n\n")
    cells[0].source = f"{title}\n\n{_about(name)}\n\n{rest}"
    notebook.cells = cells
    # nbformat wants an id a cell; the same build gives the same ids.
    for index, cell in enumerate(cells):
        cell["id"] = f"cell-{index}"
    return notebook, drawn


def parameters(notebook: str) -> str:
    """The label of a notebook's parameters."""
    return f"parameters-{notebook[:2]}"


def verdict(claim: str) -> str:
    """The label of the first row of a ledger that has the verdict on a claim."""
    return f"verdict-{claim.lower()}"


def figure_label(notebook: str, figure: str) -> str:
    """The label of a figure."""
    return f"figure-{notebook[:2]}-{figure.replace('_', '-')}"


def _anchored(row: re.Match[str], claims: list[str]) -> str:
    claim = row[1]
    if claim not in CLAIMS or claim in claims:
        return row[0]
    claims.append(claim)
    return f"| [{claim}]{{#{verdict(claim)}}}{row[2]}|"


def _name(path: Path, shown: str) -> str:
    saved = _SHOWN.fullmatch(shown)
    if saved is None:
        raise ValueError(f'{path.name} shows a figure without a name: call figures.save(figure, "fig_name") on it')
    return saved[1]


def shown(drawn: Drawn, up: str = "") -> str:
    """The first lines of the directive that shows a figure; `up` leads from the page to the site's source."""
    # Quoted, as a colon or a # has a meaning of its own in an option.
    return f"```{{figure}} {up}{drawn.file}\n:alt: {json.dumps(drawn.alt, ensure_ascii=False)}\n"


def _alt(path: Path, source: str, heading: str) -> str:
    """A figure in words: the summary of the function that draws it, and the heading under which it stands."""
    names = [name for name in _DRAWS.findall(source) if inspect.isfunction(getattr(library, name, None))]
    style = "rndlib.paper.figures.style"
    names = [name for name in dict.fromkeys(names) if getattr(library, name).__module__ != style]
    if not names:
        raise ValueError(f"{path.name} shows a figure under {heading!r} that none of rndlib.paper.figures draws")
    said = " ".join((inspect.getdoc(getattr(library, names[-1])) or "").split("\n\n")[0].split())
    return f"{said} In notebook {path.stem[:2]}, under: {_MARKS.sub('', heading)}"


def _caption(notebook: str, figure: str, drawn: Drawn) -> str:
    return (
        f"{shown(drawn, '../')}:name: {figure_label(notebook, figure)}\n\n"
        f"`{figure}`, drawn by the cell above from [these parameters](#{parameters(notebook)}).\n```"
    )


def _about(notebook: str) -> str:
    return (
        f"Notebook {notebook[:2]}, as stored after `make reproduce` · [parameters](#{parameters(notebook)}) · "
        f"download {{download}}`{notebook}.ipynb </downloads/{notebook}.ipynb>` or "
        f"{{download}}`{notebook}.py </downloads/{notebook}.py>`"
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
