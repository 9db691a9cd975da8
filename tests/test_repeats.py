"""The ledger over many seeds and settings: scripts that repeat it, and that hold a run against the stored one."""

import ledgers
import moved
import pytest
import repeats

from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS, Finding
from rndlib.paper.evidence.ledger import Ledger

pytestmark = pytest.mark.tools

NAME = "01_ensemble_equivalence"


def test_every_repeat_has_seeds_of_its_own(monkeypatch):
    found = []
    cells = [
        {"source": ["seed = 3; seeds = [0, 2]"], "metadata": {}},
        {"source": ["note(seed, seeds)"], "metadata": {}},
    ]
    skipped = {"source": ["a mistake"], "metadata": {"tags": ["figure"]}}
    monkeypatch.setattr(ledgers.sources, "cells", lambda name: [*cells, skipped])
    for repeat in (0, 2):
        values = {"note": lambda *seeds: found.append(seeds), "ledger": Ledger(), "seeds": [0, 1, 5]}
        ledgers.verdicts(NAME, values, repeat=repeat)
    assert found == [(3, [0, 1, 5]), (3, [6, 7, 11])]


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


def test_the_table_counts_the_ways_to_be_wrong():
    outcomes = [(0.05, 0.2, 0.12), (0.15, 0.2, 0.08), (0.05, 0.09, 0.07)]  # E1's tolerance is 0.1
    keys = ("value", "control", "near")
    found = {(NAME, k): [{"id": "E1", **dict(zip(keys, of, strict=True))}] for k, of in enumerate(outcomes)}
    (row,) = repeats.counts(found)
    assert (row["repeats"], row["failed"], row["missed"], row["near_missed"]) == (3, 1, 1, 2)
    assert row["wrong"] == [1, 2]
    assert [tuple(numbers.values()) for numbers in row["first"]] == [(k, *of) for k, of in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((0.05, 9.0, 0.3), "0.05"),
        ((0.2, 9.0, 0.3), "0.2 (FAIL)"),
        ((0.05, 0.1, 0.1), "0.05 (far passes, near passes)"),
        ((float("nan"), 9.0, 9.0), "nan (FAIL)"),
        (None, "no verdict"),
    ],
)
def test_a_claim_has_a_row_and_a_setting_a_column(numbers, shown):
    keys = ("value", "control", "near")
    reached = [{"id": "E1", **dict(zip(keys, numbers, strict=True))}] if numbers else None
    rows = repeats.by_setting({(NAME, "depth=3"): reached})
    assert [row["id"] for row in rows] == [claim.id for claim in CLAIMS.values() if claim.notebook == NAME]
    assert (("E1", "depth=3") in studies.misses(rows)) == (shown != "0.05")
    (line,) = (line for line in studies.other_settings(rows).splitlines() if "E1" in line)
    assert [text.strip() for text in line.split("|")][1:-1] == ["E1", "0.1", shown]


def test_the_page_explains_each_verdict_that_fails_at_a_setting_and_no_other():
    rows = studies.read(repeats.ROOT / "notebooks", studies.OTHER_SETTINGS)
    assert {row["id"] for row in rows} == {claim.id for claim in CLAIMS.values() if claim.notebook[:2] <= "05"}
    assert all(set(row["settings"]) == set(repeats.SETTINGS) for row in rows)
    page = (repeats.ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    lines = [line.split("|") for line in page.splitlines() if line.startswith("| ") and "`" in line]
    explained = {
        (claim, setting.strip(" `"))
        for _, claims, settings, *_ in lines
        for claim in claims.replace(",", " ").split()
        for setting in settings.split(",")
    }
    assert explained == studies.misses(rows)


def test_sizes_of_a_setting():
    assert (
        repeats.values("02_multihead_chi_squared", "depth=3").items() >= {"depth": 3, "width": 256, "wider": 64}.items()
    )
    assert repeats.values("05_numerical_analysis", "sigma_w=2.0")["widths"] == [32, 2048]


def test_a_study_writes_the_table_of_what_is_there(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    numbers = [{"id": "E1", "value": 0.05, "control": 0.2, "near": 0.12}]
    kept = [
        ["other_seeds", NAME, [[2, numbers]]],
        ["other_seeds", NAME, [[1, numbers]]],
        ["settings", NAME, [["a", None]]],
    ]
    monkeypatch.setattr(repeats, "ROOT", tmp_path)
    monkeypatch.setattr(repeats.kept, "results", lambda *_: [{"result": result} for result in kept])
    repeats.main(["other_seeds"])
    (path,) = (tmp_path / "notebooks").iterdir()
    (row,) = studies.read(tmp_path / "notebooks", path.name)
    assert path.name == studies.OTHER_SEEDS
    assert (row["id"], row["repeats"], [of["repeat"] for of in row["first"]]) == ("E1", 2, [1, 2])


@pytest.mark.parametrize("study", repeats.TABLES)
def test_a_task_gives_the_numbers_of_its_repeats_or_of_its_setting(study, monkeypatch):
    def verdicts(name, values, repeat):
        if values.get("depth") == 3:
            raise ValueError("cannot be trained")
        return []

    monkeypatch.setattr(ledgers, "verdicts", verdicts)
    tasks = [task for task in repeats.tasks() if task[:2] == (study, NAME)]
    found = [pair for task in tasks for pair in repeats.run(*task)[2]]
    if study == "settings":
        assert dict(found) == {setting: None if setting == "depth=3" else [] for setting in repeats.SETTINGS}
    else:
        assert [case for case, _ in found] == list(range(200) if study == "calibration" else range(1, 6))


def test_numbers_that_moved_are_named():
    book = Ledger()
    book.record("E1", Finding(0.05, (0.0, 0.05)), Finding(0.6), Finding(0.2))
    stored = {"E1": {"value": 0.05, "interval": [0.0, 0.05], "control": 0.6, "near": 0.2}}
    room = moved.ALLOWED * CLAIMS["E1"].tolerance

    def faults(**changes):
        return [line[:14] for line in moved.moved({"E1": stored["E1"] | changes}, book.verdicts)]

    assert faults() == faults(value=0.05 + 0.9 * room) == faults(control=0.61) == []
    assert faults(value=0.05 + 1.1 * room) == ["E1: value 0.05"]
    assert faults(near=0.3) == ["E1: near 0.2, "]
    assert faults(interval=[0.0, 0.06]) == faults(interval=None) == ["E1: interval ["]
    assert len(list(moved.moved({"E2": stored["E1"]}, book.verdicts))) == 1
    failing = Ledger()
    failing.record("E1", Finding(0.6, (0.0, 0.10)), Finding(0.6), Finding(0.2))
    assert any("E1 fails" in line for line in moved.moved(stored, failing.verdicts))
