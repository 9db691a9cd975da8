"""The code of the how-to pages runs, and gives what they show."""

import doctest
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import image

from rndlib.paper.evidence import claims, ledger, statistics

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
    assert declared[new].notebook in {claim.notebook for claim in claims.CLAIMS.values()}
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


def test_a_wrong_example_fails():
    with pytest.raises(AssertionError, match="Expected"):
        run([">>> 1 + 1\n3\n"], {})
