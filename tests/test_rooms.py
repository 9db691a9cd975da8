"""The package is a house of few rooms, and arrows between them run one way (`tool.importlinter`, pyproject.toml)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rndlib"


def lint(place: Path) -> subprocess.CompletedProcess[str]:
    """`lint-imports` on the package in a folder."""
    command = [
        str(Path(sys.executable).parent / "lint-imports"),
        "--no-cache",
        "--no-logo",
        str(ROOT / "pyproject.toml"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


def test_arrows_run_one_way_and_in_no_circle():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("theory/laws.py", "from rndlib.training import solvers", "rooms BROKEN"),
        ("training/problem.py", "from rndlib.estimators import RND", "rooms BROKEN"),
        ("estimators/base.py", "from rndlib.paper.evidence import ledger", "rooms BROKEN"),
        ("__init__.py", "from rndlib.paper import sources", "nothing but the paper's edition needs it BROKEN"),
        ("theory/dynamics.py", "from rndlib.theory import laws", "no circles BROKEN"),
    ],
)
def test_an_arrow_the_other_way_is_found(tmp_path, file, line, broken):
    shutil.copytree(PACKAGE, tmp_path / "rndlib", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "rndlib" / file
    path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    done = lint(tmp_path)
    assert done.returncode == 1
    assert broken in done.stdout


def test_there_are_few_rooms_and_little_beside_them():
    rooms = [path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert len(rooms) <= 8
    assert len(list(PACKAGE.glob("*.py"))) <= 12
    assert all((room / "__init__.py").read_text(encoding="utf-8").startswith('"""') for room in rooms)
