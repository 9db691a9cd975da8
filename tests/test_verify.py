"""`python -m rndlib.paper.verify`: today's declarations, what is stale or missing, and lines of 80 columns."""

import json
import shutil
from dataclasses import replace

import pytest

from rndlib.paper import output, sources, verify
from rndlib.paper.evidence import claims, ledger
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS, Finding
from rndlib.paper.evidence.ledger import Ledger

pytestmark = pytest.mark.tools

NAME = "05_numerical_analysis"


@pytest.fixture
def result(tmp_path, monkeypatch):
    """A function that leaves the result of a notebook in a folder, and returns the folder."""

    def made(name=NAME, wrong="", left_out="", by=1.0):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv(output.VARIABLE, str(folder))
        book = Ledger(name)
        for claim in CLAIMS.values():
            if claim.notebook == name and claim.id != left_out:
                value = claim.tolerance + (by if claim.id == wrong else -0.1 * abs(claim.tolerance))
                above = Finding(claim.tolerance + 1)
                book.record(claim.id, Finding(value, (value - 1, value)), above, above)
        book.write()
        return folder

    monkeypatch.chdir(tmp_path)
    return made


def test_all_results_of_the_paper_and_those_that_are_missing(result, capsys):
    names = sorted({claim.notebook for claim in CLAIMS.values()} | NO_CLAIMS)
    for name in names:
        result(name)
    assert verify.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{len(CLAIMS)} of {len(CLAIMS)} claims hold"
    assert max(map(len, lines)) <= 80
    assert [line.split(":")[0] for line in lines[: len(names)]] == names
    assert {line.split()[1] for line in lines if line.startswith("| ")} >= set(CLAIMS)
    for name in {*names} - {NAME}:
        shutil.rmtree(f"results/{name}")
    assert verify.main([]) == 1
    out = capsys.readouterr().out
    assert f"5 of {len(CLAIMS)} claims hold\n" in out
    assert "results/06_in_practice has no result: run its notebook" in out


def test_a_claim_that_fails_and_one_without_a_verdict(result, capsys):
    assert verify.main([str(result(wrong="N1", left_out="N3"))]) == 1
    out = capsys.readouterr().out
    assert "3 of 5 claims hold" in out
    assert "N1 fails: 3 is above the tolerance 2" in out
    assert "N3 has no verdict in" in out


def test_todays_tolerance_decides(result, capsys, monkeypatch):
    folder = result(wrong="N1", by=0.5)
    content = json.loads((folder / ledger.FILE).read_text())
    content["claims"][0] |= {"tolerance": 99, "holds": True}
    (folder / ledger.FILE).write_text(json.dumps(content))
    assert verify.main(["--brief", str(folder)]) == 1
    assert capsys.readouterr().out == f"{NAME}: 4 of 5 claims hold\n"
    looser = dict(CLAIMS) | {"N1": replace(CLAIMS["N1"], tolerance=CLAIMS["N1"].tolerance + 0.9)}
    for module in (claims, ledger, verify):
        monkeypatch.setattr(module, "CLAIMS", looser)
    assert verify.main(["--brief", str(folder)]) == 0


@pytest.mark.parametrize("changed", ["notebook", "library", "table", "data"])
def test_a_result_is_stale_where_its_sources_have_changed(result, capsys, tmp_path, monkeypatch, changed):
    package, books = tmp_path / "package", tmp_path / "notebooks"
    package.mkdir()
    books.mkdir()
    cells = [{"cell_type": "markdown", "source": ["a"]}, {"cell_type": "code", "source": ["1 + 1"], "outputs": []}]
    files = {
        "library": package / "laws.py",
        "table": package / "advice.json",
        "data": books / sources.DATA[0],
        "notebook": books / f"{NAME}.ipynb",
    }
    for path in files.values():
        path.write_text("1")
    files["notebook"].write_text(json.dumps({"cells": cells}))
    monkeypatch.setattr(sources, "PACKAGE", package)
    monkeypatch.setattr(sources, "NOTEBOOKS", books)
    folder = result()
    cells[0]["source"], cells[1]["outputs"] = ["other words"], ["2"]
    files["notebook"].write_text(json.dumps({"cells": cells}))
    assert verify.main([str(folder)]) == 0
    cells[1]["source"] = ["1 + 2"]
    files[changed].write_text(json.dumps({"cells": cells}))
    assert verify.main([str(folder)]) == 1
    # The folder's name decides where the line is broken.
    assert "is stale, as the notebook, the library or the data have" in " ".join(capsys.readouterr().out.split())


def test_other_parameters_are_said(result, capsys):
    folder = result()
    cell = {"source": ["# Parameters\n", "heads = 64\n", 'activation = "gelu"\n']}
    injected = cell | {"metadata": {"tags": ["injected-parameters"]}}
    (folder / "executed.ipynb").write_text(json.dumps({"cells": [injected]}))
    assert verify.main([str(folder)]) == 0
    assert f'{NAME}: 5 of 5 claims hold, with heads = 64, activation = "gelu"\n' in capsys.readouterr().out


def test_a_notebook_that_is_not_here(result, capsys, tmp_path, monkeypatch):
    folder = result()
    monkeypatch.setattr(sources, "NOTEBOOKS", tmp_path)
    assert verify.main([str(folder)]) == 1
    assert "call this in its checkout" in capsys.readouterr().out.replace("\n  ", " ")
