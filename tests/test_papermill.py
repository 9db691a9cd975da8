"""Notebooks through plain papermill with other parameters, and through `make` after an interruption."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from rndlib.paper import output, sources, verify
from rndlib.paper.evidence import ledger
from rndlib.paper.evidence.ledger import Ledger

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parent.parent
TOOLS = Path(sys.executable).parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != output.VARIABLE}


def papermill(name: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Call papermill in a folder that is not the checkout's, with the output there."""
    command = [TOOLS / "papermill", sources.NOTEBOOKS / f"{name}.ipynb", "out.ipynb", "--no-progress-bar", *options]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def write(text: str, path: Path) -> None:
    """A notebook of one cell."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(text)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def small(name: str) -> tuple[str, str]:
    return "-f", str(sources.NOTEBOOKS / "smoke" / f"{name[:2]}.yaml")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("10_priors", ["-p", "activation", "gelu", "-p", "data_seed", "1"]),
        ("06_in_practice", ["-p", "seed", "1"]),
    ],
)
def test_claims_hold_with_other_parameters(name, options, tmp_path, capsys):
    done = papermill(name, tmp_path, *small(name), *options)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"out.ipynb", ledger.FILE}
    assert verify.main([str(tmp_path)]) == 0
    assert name in capsys.readouterr().out


def test_a_claim_that_fails_is_papermills_failure_and_leaves_its_numbers(tmp_path, capsys):
    """Networks of a few units, and few of them: their outputs are not those of infinitely wide ones."""
    name = "01_ensemble_equivalence"
    few = ["-y", "{width: 8, networks: 64, untrained: 64, time_networks: 48, narrow: [4], narrow_networks: 48}"]
    done = papermill(name, tmp_path, *small(name), *few, "-p", "widht", "9")
    assert done.returncode == 1
    assert "Passed unknown parameter: widht" in done.stderr
    assert "E1 fails: " in done.stderr.splitlines()[-2] + done.stderr.splitlines()[-1]
    found = Ledger.read(tmp_path / ledger.FILE)
    assert len(found.verdicts) == 5
    shown = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells[-1].outputs
    assert [out.output_type for out in shown] == ["stream", "error"]
    assert "| FAIL    |" in shown[0].text
    assert verify.main([str(tmp_path)]) == 1
    assert "E1 fails: " in capsys.readouterr().out


def test_a_value_that_does_not_fit_stops_the_first_cell(tmp_path):
    done = papermill("06_in_practice", tmp_path, "-p", "heads", "many")
    assert done.returncode == 1
    assert "ValueError: heads = 'many' is not of type int: give a whole number, such as 64" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.ipynb"]


def test_other_notebooks_run_as_ever(tmp_path):
    code = f"import os; assert {output.VARIABLE!r} not in os.environ, os.environ"
    for text, failures in [(code.replace("RNDLIB", "RND' 'LIB"), 0), (f"import rndlib; {code}", 1)]:
        write(text, tmp_path / "in.ipynb")
        command = [TOOLS / "papermill", "--no-progress-bar", "in.ipynb", "out.ipynb"]
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == failures, done.stderr


@pytest.fixture
def project(tmp_path):
    """A checkout with two notebooks of one cell each, of which the second stops until there is a file `mended`."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "notebooks").mkdir()
    shutil.copy(sources.NOTEBOOKS / "practice.json", tmp_path / "notebooks")
    (tmp_path / "rndlib").symlink_to(ROOT / "rndlib")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name, text in [("01_good", "1"), ("02_bad", f"open({str(tmp_path / 'mended')!r})")]:
        write(f"import rndlib; {text}", tmp_path / "notebooks" / f"{name}.ipynb")
    return tmp_path


def test_reproduce_goes_on_with_what_is_missing_or_older_than_its_sources(project):
    def reproduce():
        command = ["make", "-o", ".venv/stamp", "reproduce"]
        done = subprocess.run(command, cwd=project, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 2  # The paper's notebooks are missing here.
        return [line[:7] for line in done.stdout.splitlines() if line.endswith(" s")]

    first, second = "01_good", "02_bad:"
    assert sorted(reproduce()) == [first, second]
    assert {path.name for path in project.glob("results/*/*")} == {"executed.ipynb", "failed.ipynb"}
    (project / "mended").touch()
    assert reproduce() == [second]
    assert reproduce() == []
    (project / "notebooks" / "01_good.ipynb").touch()
    assert reproduce() == [first]
    assert {path.name for path in project.glob("results/*/*")} == {"executed.ipynb"}
