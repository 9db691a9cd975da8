"""The code of the how-to pages runs, and gives what they show."""

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import image

from rndlib.paper.evidence import claims, ledger, statistics
from rndlib.running import arguments, cli, notebooks

# The pages have examples of the size of an example: more heads than such widths should carry.
pytestmark = [
    pytest.mark.tools,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning"),
]

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "how_to"


def blocks(page: str, language: str) -> list[str]:
    """The code of one language on a page."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def run(texts: list[str], scope: dict[str, Any]) -> None:
    """Run examples one after the other in one scope."""
    test = doctest.DocTestParser().get_doctest("\n".join(texts), {}, "how to", None, None)
    assert test.examples
    test.globs = scope
    shown: list[str] = []
    failed = doctest.DocTestRunner().run(test, out=shown.append, clear_globs=False).failed
    assert not failed, "".join(shown)


@pytest.mark.parametrize("page", ["architecture", "activation", "network", "variance"])
def test_pages_that_stand_alone(page):
    run(blocks(page, "pycon"), {})


def test_claim(monkeypatch):
    (entry,) = blocks("claim", "toml")
    declared = claims.declared(claims.TABLE.read_text(encoding="utf-8") + entry)
    (new,) = set(declared) - set(claims.CLAIMS)
    assert declared[new].notebook in notebooks.names()
    assert callable(getattr(statistics, declared[new].check))
    monkeypatch.setattr(ledger, "CLAIMS", declared)
    run(blocks("claim", "pycon"), {})


def test_torch():
    scope: dict[str, Any] = {"rewards": torch.zeros(256)}
    run(blocks("torch", "pycon"), scope)
    (loop,) = blocks("torch", "python")
    exec(loop, scope)
    assert (scope["rewards"] > 0).all()


def test_novelty(tmp_path, monkeypatch):
    """The page's picture is what its code draws, but for the rounding of another processor."""
    pytest.importorskip("ale_py")
    pytest.importorskip("minigrid")
    monkeypatch.chdir(tmp_path)
    run(blocks("novelty", "pycon"), {})
    drawn, stored = (image.imread(folder / "novelty.png") for folder in (tmp_path, PAGES))
    assert drawn.shape == stored.shape
    assert np.abs(drawn - stored).mean() < 0.01 < np.abs(drawn[::-1] - stored).mean()


def test_grid(tmp_path, monkeypatch, capsys):
    (grid,) = blocks("grid", "yaml")
    (tmp_path / "scales.yaml").write_text(grid, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (command,) = blocks("grid", "sh")
    assert cli.main(shlex.split(command)[1:]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9, "the page says nine cells"
    assert all("rndlib run" in line and "--once" in line for line in lines)


def test_commands_can_be_given():
    lines = [line for page in PAGES.glob("*.md") for block in blocks(page.stem, "sh") for line in block.splitlines()]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command, *given in map(shlex.split, lines):
        if command == "make":
            assert all(f"\n{target}:" in makefile for target in given)
        elif command == "rndlib" and given[0] == "run":
            asked = arguments.parser().parse_args(given)
            notebooks.find(asked.name).settings(asked.profile, [(key, value) for key, value in asked.overrides])
        elif command == "rndlib":
            arguments.parser().parse_args(given)
        else:
            assert (ROOT / given[-1]).is_file()


def test_a_wrong_example_fails():
    with pytest.raises(AssertionError, match="Expected"):
        run([">>> 1 + 1\n3\n"], {})
