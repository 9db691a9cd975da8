"""The stored study of the ledger over many seeds, and a part of it run again."""

import ledgers
import moved
import pytest
import repeats

from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS

pytestmark = pytest.mark.check

PLACE = repeats.ROOT / "notebooks"
CALIBRATION = {row["id"]: row for row in studies.read(PLACE, studies.CALIBRATION)}


def test_every_claim_was_calibrated_over_200_seeds_and_is_wrong_once_in_a_hundred_at_most():
    assert set(CALIBRATION) == set(CLAIMS)
    for row in CALIBRATION.values():
        assert row["repeats"] >= 200
        assert max(row["failed"], row["missed"], row["near_missed"]) <= row["repeats"] / 100, row["id"]


def test_five_other_seeds_give_the_same_verdicts():
    rows = studies.read(PLACE, studies.OTHER_SEEDS)
    assert {row["id"] for row in rows} == set(CLAIMS)
    for row in rows:
        assert [numbers["repeat"] for numbers in row["first"]] == [1, 2, 3, 4, 5]
        # Judged here by today's tolerances, not by the verdicts of the day.
        for numbers in row["first"]:
            wrong = min(numbers["control"], numbers["near"])
            assert numbers["value"] <= CLAIMS[row["id"]].tolerance < wrong, (row["id"], numbers)


@pytest.mark.parametrize("name", ledgers.NOTEBOOKS)
def test_a_repeat_again_has_the_numbers_on_record(name):
    for verdict in ledgers.verdicts(name, ledgers.small(name)):
        numbers = CALIBRATION[verdict.id]["first"][0]
        assert numbers["repeat"] == 0
        room = moved.ALLOWED * abs(verdict.claim.tolerance)
        assert verdict.value == pytest.approx(numbers["value"], abs=room)
        on_record = numbers["control"], numbers["near"]
        assert verdict.controls == pytest.approx(on_record, abs=room, rel=moved.ALLOWED)
