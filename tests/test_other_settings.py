"""The stored verdicts at other settings, the script that stores them, and the page that explains those that fail."""

import other_settings
import pytest
import yaml

from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.running import notebooks

pytestmark = pytest.mark.tools

ROOT = other_settings.ROOT
ROWS = studies.read(ROOT / "notebooks", studies.OTHER_SETTINGS)
NOTEBOOK = "01_ensemble_equivalence"


def cell(setting, *numbers):
    keys = ("value", "control_value", "near_value")
    verdicts = [{"id": "E1", **dict(zip(keys, numbers, strict=True))}] if numbers else []
    return {"cell": f"{NOTEBOOK} {setting}", "notebook": NOTEBOOK, "verdicts": verdicts}


def test_a_claim_has_a_row_and_a_setting_a_column():
    rows = other_settings.table([cell("width=64 depth=3", 0.05, 9.0, 0.3), cell("width=64 sigma_w=2.0", 0.2, 9.0, 0.3)])
    assert [row["id"] for row in rows] == [claim.id for claim in CLAIMS.values() if claim.notebook == NOTEBOOK]
    assert ("E1", "sigma_w=2.0") in studies.misses(rows)
    assert ("E1", "depth=3") not in studies.misses(rows)
    (line,) = (line for line in studies.other_settings(rows).splitlines() if "E1" in line)
    assert [text.strip() for text in line.split("|")][1:-1] == ["E1", "0.1", "0.05", "0.2 (FAIL)"]


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((0.05, 0.1, 0.3), "0.05 (far passes)"),
        ((0.05, 0.1, 0.1), "0.05 (far passes, near passes)"),
        ((float("nan"), 9.0, 9.0), "nan (FAIL)"),
        ((), "no verdict"),
    ],
)
def test_what_does_not_hold_is_a_miss(numbers, shown):
    rows = other_settings.table([cell("depth=3", *numbers)])
    assert ("E1", "depth=3") in studies.misses(rows)
    assert shown in studies.other_settings(rows)


def test_every_claim_of_the_grid_was_tried_at_every_setting():
    grid = yaml.load((ROOT / "ci" / "other_settings.yaml").read_text(encoding="utf-8"), yaml.BaseLoader)
    names = [notebooks.find(run["notebook"]).name for run in grid["runs"]]
    settings = [setting for run in grid["runs"] for setting in run.get("list", [run.get("set", {})])]
    asked = {f"{name}={value}" for each in settings for name, value in each.items() if name in other_settings.VARIED}
    assert {row["id"] for row in ROWS} == {claim.id for claim in CLAIMS.values() if claim.notebook in names}
    for row in ROWS:
        assert set(row["settings"]) == asked


def test_the_page_explains_each_verdict_that_fails_and_no_other():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ") and "`" in line]
    explained = {
        (claim, setting.strip(" `"))
        for _, claims, settings, *_ in rows
        for claim in claims.replace(",", " ").split()
        for setting in settings.split(",")
    }
    assert explained == studies.misses(ROWS)
