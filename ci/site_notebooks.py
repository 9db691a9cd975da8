"""An executed notebook as a page: its parameters, figures and verdicts get names that other pages link to."""

import re
from collections.abc import Collection
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

_SHOWN = re.compile(r"(\w+)\.png")  # what a saved figure is as text (`rndlib.paper.figures.style.Picture`)
_HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)
_MARKS = re.compile(r"[`$*\\]")
_ROW = re.compile(r"^\| (\S+)( *)\|", flags=re.MULTILINE)


def page(path: Path, claims: Collection[str]) -> NotebookNode:
    """The notebook at `path` to be rendered, with the claims of which it must show a verdict.

    Raises
    ------
    ValueError: a claim has no verdict, or a figure no name.
    """
    notebook = nbformat.read(path, as_version=4)
    cells, heading, left = [], "", list(claims)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = (_HEADING.findall(cell.source) or [heading])[-1]
            cell.source = kept(cell.source)
        if "parameters" in cell.metadata.get("tags", []):
            cells.append(new_markdown_cell(f"({parameters(path.stem)})="))
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/markdown" in data:
                data["text/markdown"] = _ROW.sub(lambda row: _anchored(row, left), data["text/markdown"])
            if "image/png" in data:
                cell.metadata["mystnb"] = _figure(path.stem, data.get("text/plain", ""), _MARKS.sub("", heading))
        cells.append(cell)
    if left:
        raise ValueError(f"{path} shows no verdict on {', '.join(left)}: run it before it is stored")
    title, _, rest = cells[0].source.partition("\n\n")
    cells[0].source = f"{title}\n\n{_about(path.stem)}\n\n{rest}"
    notebook.cells = cells
    for index, cell in enumerate(cells):  # nbformat wants ids; the same build gives the same ones
        cell["id"] = f"cell-{index}"
    return notebook


def kept(text: str) -> str:
    """Markdown of which MyST takes no line for a comment."""
    return re.sub(r"^%", r"\\%", text, flags=re.MULTILINE)


def parameters(notebook: str) -> str:
    """The label of a notebook's parameters."""
    return f"parameters-{notebook[:2]}"


def verdict(claim: str) -> str:
    """The label of the first row of a table that has the verdict on a claim."""
    return f"verdict-{claim.lower()}"


def _anchored(row: re.Match[str], left: list[str]) -> str:
    if row[1] not in left:
        return row[0]
    left.remove(row[1])
    return f"| [{row[1]}]{{#{verdict(row[1])}}}{row[2]}|"


def _figure(notebook: str, shown: str, heading: str) -> dict[str, dict[str, str]]:
    saved = _SHOWN.fullmatch(shown)
    if saved is None:
        raise ValueError(f'{notebook} shows a figure without a name: call figures.save(figure, "fig_name") on it')
    name = f"figure-{notebook[:2]}-{saved[1].replace('_', '-')}"
    caption = f"`{saved[1]}`, drawn by the cell above from [these parameters](#{parameters(notebook)})."
    return {"image": {"alt": f"Notebook {notebook[:2]}, {heading}"}, "figure": {"name": name, "caption": caption}}


def _about(notebook: str) -> str:
    return (
        f"Notebook {notebook[:2]}, as stored after `make reproduce` · [parameters](#{parameters(notebook)}) · "
        f"download {{download}}`{notebook}.ipynb </downloads/{notebook}.ipynb>` or "
        f"{{download}}`{notebook}.py </downloads/{notebook}.py>`"
    )
