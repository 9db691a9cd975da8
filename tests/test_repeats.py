"""The ledger over many seeds: the scripts that repeat it, hold a run against the stored one, and report both."""

import json

import ledgers
import moved
import pytest
import repeats

from rndlib.paper.evidence import ledger, studies
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS, Finding
from rndlib.paper.evidence.ledger import Ledger
from rndlib.running import notebooks, runs

pytestmark = pytest.mark.tools

PLACE = repeats.ROOT / "notebooks"
NAMES = sorted({path.stem for path in PLACE.glob("*.ipynb")} - NO_CLAIMS)


def test_a_notebook_and_its_repeat_say_the_same_to_the_last_bit(tmp_path):
    name = "01_ensemble_equivalence"
    notebook = notebooks.find(name)
    values = {**notebook.settings("smoke", []), "networks": 60, "time_networks": 40, "narrow_networks": 20}
    result = runs.run(notebook, values, "smoke", tmp_path)
    assert result.verdicts == ledgers.verdicts(notebook, values)


def test_repeats_share_no_seed():
    for name in NAMES:
        notebook = notebooks.find(name)
        own = notebook.settings("smoke", [])
        first, second = (notebook.repeated(own, repeat) for repeat in (0, 1))
        assert first == own
        changed = {key for key in first if first[key] != second[key]}
        assert changed in ({"seed"}, {"seeds"})
        if changed == {"seeds"}:
            assert not set(first["seeds"]) & set(second["seeds"])


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of two notebooks and three repeats that writes into a temporary folder."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr(repeats, "ROOT", tmp_path)
    return repeats.Study("trial", "smoke", range(3))


def verdict(id_, value, control, near=2):
    return {
        "id": id_, "passed": value <= 1, "value": value, "rejected": control > 1, "control": control,
        "near_rejected": near > 1, "near": near,
    }  # fmt: skip


def test_the_table_counts_the_ways_to_be_wrong(study):
    outcomes = [(0.5, 2, 1.2), (1.5, 2, 0.8), (0.5, 0.9, 0.7)]
    found = {("n", number): [verdict("Z1", *values)] for number, values in enumerate(outcomes)}
    (row,) = repeats.table(study, found)["rows"]
    assert (row["repeats"], row["failed"], row["missed"], row["near_missed"]) == (3, 1, 1, 2)
    assert row["wrong"] == [1, 2]
    assert [tuple(numbers.values()) for numbers in row["first"]] == [(k, *of) for k, of in enumerate(outcomes)]


def test_a_study_of_some_notebooks_keeps_the_rows_of_all_others(study, tmp_path):
    stored = tmp_path / "trial.json"
    both = {("m", 0): [verdict("Y1", 0.5, 2)], ("n", 0): [verdict("Z1", 0.5, 2), verdict("Z2", 0.5, 2)]}
    whole = repeats.beside(stored, repeats.table(study, both), ["m", "n"])
    assert [row["id"] for row in whole["rows"]] == ["Y1", "Z1", "Z2"]
    stored.write_text(json.dumps(whole))
    again = repeats.table(study, {("m", 0): [verdict("Y1", 0.7, 2)]})
    rows = repeats.beside(stored, again, ["m"])["rows"]
    assert [(row["id"], row["first"][0]["value"]) for row in rows] == [("Y1", 0.7), ("Z1", 0.5), ("Z2", 0.5)]


def test_the_source_changes_with_library_notebook_and_profile():
    name, other = NAMES[:2]
    assert repeats.source(name, "smoke") == repeats.source(name, "smoke")
    assert len({repeats.source(n, profile) for n in (name, other) for profile in ("smoke", "paper")}) == 4


def test_the_report_has_both_studies(tmp_path):
    seen = [(0.08, 0.5, 0.3), (0.44, 0.5, 0.3), (0.06, 0.5, 0.09)]
    first = [{"repeat": k, "value": v, "control": c, "near": near} for k, (v, c, near) in enumerate(seen)]
    counts = {"repeats": 200, "failed": 2, "missed": 0, "near_missed": 3, "wrong": [3, 9]}
    row = {"id": "E1", "notebook": NAMES[0], **counts, "first": first}
    assert studies.report(tmp_path) == []
    for name in (studies.CALIBRATION, studies.OTHER_SEEDS):
        (tmp_path / name).write_text(json.dumps({"profile": "smoke", "rows": [row]}))
    text = "\n".join(studies.report(tmp_path))
    assert "| 0.08 0.44 0.06 | 0.5 0.5 0.5 " in text
    assert "| 0.3 0.3 0.09 " in text
    assert "| PASS FAIL FAIL |" in text
    assert "1.5 % (at most 3.8 %)" in text
    assert "anywhere in the ledger: 1.0 % (at most 3.1 %) of the repeats" in text
    # Clopper and Pearson: the share p at which two or fewer of 200 are seen in one study of twenty.
    assert "1.0 % (at most 3.1 %)" in text
    assert "0.0 % (at most 1.5 %)" in text


def test_numbers_that_moved_are_named():
    book = Ledger()
    book.record("E1", Finding(0.05, (0.0, 0.05)), Finding(0.6), Finding(0.2))
    stored = {"E1": {"value": 0.05, "interval": [0.0, 0.05], "control": 0.6, "near": 0.2}}
    assert list(moved.moved(stored, book.verdicts)) == []
    room = moved.ALLOWED * CLAIMS["E1"].tolerance
    little, much = 0.05 + 0.9 * room, 0.05 + 1.1 * room
    assert list(moved.moved({"E1": {**stored["E1"], "value": little}}, book.verdicts)) == []
    (line,) = moved.moved({"E1": {**stored["E1"], "value": much}}, book.verdicts)
    assert line.startswith("E1: value 0.05")
    assert len(list(moved.moved({"E2": stored["E1"]}, book.verdicts))) == 1
    (line,) = moved.moved({"E1": {**stored["E1"], "near": 0.3}}, book.verdicts)
    assert line.startswith("E1: near control 0.2, stored 0.3")
    failing = Ledger()
    failing.record("E1", Finding(0.6, (0.0, 0.10)), Finding(0.6), Finding(0.2))
    assert any("does not hold" in line for line in moved.moved(stored, failing.verdicts))


def test_the_stored_ledger_is_what_the_notebooks_show():
    stored = json.loads((PLACE / "ledger.json").read_text(encoding="utf-8"))
    assert list(stored) == NAMES
    assert {id_ for rows in stored.values() for id_ in rows} == set(CLAIMS)
    for name, rows in stored.items():
        cells = json.loads((PLACE / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        shown = "".join(cells[-1]["outputs"][0]["data"]["text/plain"]).splitlines()[2:]
        for (id_, row), line in zip(rows.items(), shown, strict=True):
            cells_of_line = [cell.strip() for cell in line.strip("|").split("|")]
            assert cells_of_line[0] == id_
            assert cells_of_line[3] == ledger.rounded(row["value"])
            assert cells_of_line[-1] == "PASS"


def test_only_cells_that_lead_to_a_claim_are_run():
    cells = [
        "import numpy as np\nfrom x import y as made",
        "ledger, seen = made(), {}",
        "slow = [first for first in np.ones(3)]\nledger.record('A', slow)",
        "def run(key):\n    seen[key] = [one for one in key]\n    return key",
        "n = 3",
        "seen['more'], (first, *rest) = 1, run(n)",
        "ledger.record('B', [first for n in seen])",
        "ledger.record('C', n)",
    ]
    assert ledgers.leading_to(cells, ["A"]) == [0, 1, 2]
    # What a cell changes counts as set there, and the `first` of a comprehension is one of its own.
    assert ledgers.leading_to(cells, ["B"]) == [0, 1, 3, 4, 5, 6]
    assert ledgers.leading_to(cells, ["C"]) == [0, 1, 4, 7]
