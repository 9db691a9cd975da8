"""The notebooks as stored: paired with their source, executed from top to bottom, and ready to be run."""

import base64
import json
import re

import ledgers
import pytest

from rndlib.paper import parameters, sources
from rndlib.paper.evidence.ledger import rounded

pytestmark = pytest.mark.tools

PLACE = sources.NOTEBOOKS
STORED = sorted(PLACE.glob("*.ipynb"))
each = pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)


def test_every_notebook_is_a_pair_and_every_pair_a_notebook():
    assert STORED
    assert [path.stem for path in STORED] == sorted({path.stem for path in PLACE.glob("*.py")} - {"conftest"})


@each
def test_pair_says_the_same(path):
    import jupytext
    from jupytext.compare import compare_notebooks

    # Read-only: `jupytext --sync` would trust file times and overwrite one of the two.
    compare_notebooks(jupytext.read(path.with_suffix(".py")), jupytext.read(path), fmt="py:percent")


@each
def test_outputs_are_stored_and_clean(path):
    cells = sources.cells(path.stem)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any(output["output_type"] in ("display_data", "execute_result") for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert not [cell for cell in cells if {"execution", "papermill"} & set(cell["metadata"])]


@pytest.mark.parametrize(
    ("figure", "notebook", "place"), [("fig1", "05_numerical_analysis", 0), ("fig_map", "08_departures", 0)]
)
def test_the_readme_shows_the_figures_that_are_stored(figure, notebook, place):
    shown = (PLACE.parent / "docs" / f"{figure}.png").read_bytes()
    outputs = [o for cell in sources.cells(notebook) for o in cell["outputs"]]
    stored = [base64.b64decode(o["data"]["image/png"]) for o in outputs if "image/png" in o.get("data", {})]
    assert shown == stored[place]


def test_every_notebook_has_small_sizes_of_its_own_parameters():
    assert sorted(path.stem for path in (PLACE / "smoke").iterdir()) == [path.stem[:2] for path in STORED]
    for path in STORED:
        declared: dict[str, object] = {}
        exec("".join(sources.cells(path.stem)[0]["source"]), declared)
        values = ledgers.small(path.stem)
        assert set(values) <= set(declared)
        assert values != {name: declared[name] for name in values}
        parameters.check(declared | values)


@each
def test_it_begins_with_claim_picture_and_verdict_and_the_verdict_is_what_was_found(path):
    first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    title, box, *_ = first.split("\n\n")
    assert title.startswith("# ")
    assert all(line.startswith("> ") for line in box.splitlines())
    lines = box.replace("\n> ", " ").removeprefix("> ").split("\\ ")
    assert [line.split(".**")[0] for line in lines] == ["**Claim", "**Picture", "**Verdict"]
    ledger = json.loads((PLACE / "ledger.json").read_text(encoding="utf-8")).get(path.stem, {})
    told = re.findall(r"\b([A-Z][\d-][a-z-]*) (-?\d[\d.]*\d)", lines[2])
    assert dict(told) == {claim: rounded(ledger[claim]["value"]) for claim, _ in told}
    assert bool(told) == bool(ledger)
