"""The code of the README and of the pages runs, and gives what they show."""

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import papermill
import pytest
import torch
import yaml
from matplotlib import image

from rndlib.paper.evidence import claims, ledger, statistics

# The pages have examples of the size of an example: more heads than such widths should carry.
pytestmark = [
    pytest.mark.tools,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning"),
]

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"


def blocks(page: Path, language: str) -> list[str]:
    """The code of one language on a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def run(texts: list[str], scope: dict[str, Any]) -> None:
    """Run examples one after the other in one scope."""
    test = doctest.DocTestParser().get_doctest("\n".join(texts), {}, "how to", None, None)
    assert test.examples
    test.globs = scope
    shown: list[str] = []
    failed = doctest.DocTestRunner().run(test, out=shown.append, clear_globs=False).failed
    assert not failed, "".join(shown)


def test_the_readme_shows_what_its_code_prints():
    (code,), (shown,) = blocks(README, "python"), blocks(README, "text")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == shown


def test_the_readme_is_short_and_its_links_lead_to_files():
    assert README.stat().st_size <= 10_000
    links = re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not link.startswith("https://") and not (ROOT / link).is_file()] == []


@pytest.mark.parametrize(
    "page",
    [
        "getting_started",
        *(f"how_to/{name}" for name in ("architecture", "activation", "network", "variance", "explore", "many_points")),
        "how_to/libraries",
    ],
)
def test_pages_that_stand_alone(page):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        run(blocks(DOCS / f"{page}.md", "pycon"), {})


def test_claim(monkeypatch):
    page = DOCS / "how_to" / "claim.md"
    (entry,) = blocks(page, "toml")
    declared = claims.declared(claims.TABLE.read_text(encoding="utf-8") + entry)
    (new,) = set(declared) - set(claims.CLAIMS)
    assert (ROOT / "notebooks" / f"{declared[new].notebook}.ipynb").is_file()
    assert callable(getattr(statistics, declared[new].check))
    monkeypatch.setattr(ledger, "CLAIMS", declared)
    run(blocks(page, "pycon"), {})


def test_torch(tmp_path):
    page, scope = DOCS / "how_to" / "torch.md", {}
    run(blocks(page, "pycon"), scope)
    (in_several_processes,) = blocks(page, "python")
    before = scope["bonus"](scope["obs"])
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    exec("import torch\n" + in_several_processes, scope)
    torch.distributed.destroy_process_group()
    assert scope["bonus"](scope["obs"]).mean() < before.mean()


def test_novelty(tmp_path, monkeypatch):
    """The page's picture is what its code draws, but for the rounding of another processor."""
    pytest.importorskip("ale_py")
    pytest.importorskip("minigrid")
    monkeypatch.chdir(tmp_path)
    run(blocks(DOCS / "how_to" / "novelty.md", "pycon"), {})
    drawn, stored = (image.imread(folder / "novelty.png") for folder in (tmp_path, DOCS / "how_to"))
    assert drawn.shape == stored.shape
    assert np.abs(drawn - stored).mean() < 0.01 < np.abs(drawn[::-1] - stored).mean()


def test_grid():
    grid, _ = (yaml.safe_load(block) for block in blocks(DOCS / "how_to" / "grid.md", "yaml"))
    declared = papermill.inspect_notebook(ROOT / "notebooks" / f"{grid['notebook']}.ipynb")
    assert {*grid["values"], *grid["also"]} <= set(declared)


def faults(words: Sequence[str]) -> list[str]:
    """The words of a command that name nothing in this checkout."""
    command, *given = words
    if command == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        return [word for word in given if "=" not in word and f"\n{word}:" not in makefile]
    paths = [word for word in given if word.startswith("notebooks/")]
    wrong = [path for path in paths if not (ROOT / path).is_file()]
    if Path(command).name == "papermill" and not wrong:
        declared = papermill.inspect_notebook(ROOT / paths[0])
        wrong += [given[i + 1] for i, word in enumerate(given) if word == "-p" and given[i + 1] not in declared]
    return wrong


PAGES = [README, *DOCS.rglob("*.md")]
COMMANDS = [
    line.split("#")[0]
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.splitlines()
    if re.match(r"make |.*\b(papermill|jupytext) ", line)
]


def test_commands_can_be_given():
    assert {Path(shlex.split(command)[0]).name for command in COMMANDS} == {"make", "papermill", "jupytext"}
    assert [command for command in COMMANDS if faults(shlex.split(command))] == []
