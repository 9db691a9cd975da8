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
        {"source": ["seed = 3; seeds = [0, 2]; note = ledger = None"], "metadata": {}},
        {"source": ["note(seed, seeds)"], "metadata": {}},
    ]
    skipped = {"source": ["a mistake"], "metadata": {"tags": ["figure"]}}
    monkeypatch.setattr(ledgers.sources, "cells", lambda name: [*cells, skipped])
    for repeat in (0, 2):
        values = {"note": lambda *seeds: found.append(seeds), "ledger": Ledger(), "seeds": [0, 1, 5]}
        ledgers.verdicts(NAME, values, repeat=repeat)
    assert found == [(3, [0, 1, 5]), (3, [6, 7, 11])]
    with pytest.raises(ValueError, match=f"{NAME} has no parameters widht"):
        ledgers.verdicts(NAME, {"widht": 4})


def test_other_settings_name_parameters():
    """A name that a notebook has dropped would be a setting that changes nothing."""
    for name in repeats.ledgers.NOTEBOOKS[:6]:
        declared: dict[str, object] = {}
        exec("".join(ledgers.sources.cells(name)[0]["source"]), declared)
        for setting in repeats.SETTINGS:
            assert set(repeats.values(name, setting)) <= set(declared), (name, setting)


def test_the_table_counts_the_ways_to_be_wrong():
    outcomes = [(0.05, 0.2, 0.12), (0.15, 0.2, 0.08), (0.05, 0.09, 0.07)]  # E1's tolerance is 0.1
    keys = ("value", "control", "near")
    found = {(NAME, k): [{"id": "E1", **dict(zip(keys, of, strict=True))}] for k, of in enumerate(outcomes)}
    (row,) = repeats.counts(found)
    assert (row["repeats"], row["failed"], row["missed"], row["near_missed"]) == (3, 1, 1, 2)
    assert row["wrong"] == [1, 2]
    assert [tuple(numbers.values()) for numbers in row["first"]] == [(k, *of) for k, of in enumerate(outcomes)]


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
