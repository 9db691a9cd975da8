"""The table of claims, and the ledger that judges by it."""

import json
import subprocess
import sys
from dataclasses import asdict, fields
from math import inf, nan
from pathlib import Path

import pytest

from rndlib import output
from rndlib.evidence.claims import CLAIMS, NO_CLAIMS, Finding
from rndlib.evidence.ledger import FILE, Ledger, Verdict, holds, read, table

BELOW, ABOVE = Finding(0.1, (0.04, 0.1)), Finding(0.9)


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    return tmp_path


def _ledger() -> Ledger:
    ledger = Ledger()
    ledger.record("E1", BELOW, ABOVE)
    ledger.record("N1-slope", Finding(-0.7, (-0.9, -0.7)), Finding(0.0))
    return ledger


def test_claims_are_declared_in_full():
    rows = {claim.id: claim.notebook for claim in CLAIMS.values()}
    assert rows == {
        **dict.fromkeys(["P1", "P1-gauss", "P2", "P2-slope", "P3", "P4", "P5"], "00_preliminaries"),
        **dict.fromkeys(["E1", "E2", "E3", "E4"], "01_ensemble_equivalence"),
        **dict.fromkeys(["B1", "B2", "B3", "B3-time", "B4", "B5"], "03_bayesian_target"),
        **dict.fromkeys(["S1", "S1-energy", "S2", "S2-draws"], "04_posterior_sampling"),
        **dict.fromkeys(["M1", "M2", "M2-pair", "M3"], "02_multihead_chi_squared"),
        **dict.fromkeys(["N1", "N1-slope", "N2", "N2-slope", "N3"], "05_numerical_analysis"),
    }
    for claim in CLAIMS.values():
        texts = [getattr(claim, field.name) for field in fields(claim) if field.name != "tolerance"]
        assert all(texts), claim.id
        assert "|" not in "".join(texts), f"{claim.id}: a vertical bar would break the Markdown tables"


def test_notebooks_without_claims_have_none():
    assert not NO_CLAIMS & {claim.notebook for claim in CLAIMS.values()}


def test_rates_demand_a_fall_and_margins_leave_room():
    for claim in CLAIMS.values():
        assert claim.tolerance < 0 if claim.kind == "rate" else claim.tolerance > 0, claim.id


@pytest.mark.parametrize(
    ("finding", "control", "passed", "rejected"),
    [
        (BELOW, ABOVE, True, True),
        (BELOW, BELOW, True, False),
        (ABOVE, ABOVE, False, True),
        (ABOVE, BELOW, False, False),
    ],
)
def test_a_claim_holds_where_it_passes_and_its_control_does_not(finding, control, passed, rejected):
    verdict = Ledger().record("E1", finding, control)
    assert (verdict.passed, verdict.control_rejected) == (passed, rejected)
    assert holds(verdict) == (passed and rejected)


def test_the_tolerance_itself_passes():
    at = Finding(CLAIMS["E2"].tolerance)
    verdict = Ledger().record("E2", at, at)
    assert verdict.passed
    assert not verdict.control_rejected


def test_a_verdict_carries_its_declaration():
    verdict, claim = Ledger().record("E3", BELOW, ABOVE), CLAIMS["E3"]
    for field in fields(claim):
        if field.name != "why":
            assert getattr(verdict, field.name) == getattr(claim, field.name)
    assert (verdict.value, verdict.interval, verdict.control_value) == (0.1, (0.04, 0.1), 0.9)


@pytest.mark.parametrize("number", [nan, inf])
def test_numbers_are_finite(number):
    for finding, control in [(Finding(number), ABOVE), (Finding(0.1, (0.0, number)), ABOVE), (BELOW, Finding(number))]:
        with pytest.raises(ValueError, match="is not a finite number"):
            Ledger().record("E1", finding, control)


def test_unknown_and_repeated_claims():
    ledger = _ledger()
    with pytest.raises(ValueError, match="claim_id = 'E9': declare it"):
        ledger.record("E9", BELOW, ABOVE)
    with pytest.raises(ValueError, match="E1 is on record twice"):
        ledger.record("E1", BELOW, ABOVE)
    assert [verdict.id for verdict in ledger.verdicts] == ["E1", "N1-slope"]


def test_written_and_read_back(run_folder):
    ledger = _ledger()
    ledger.write()
    assert read(run_folder / FILE) == ledger.verdicts
    assert [path.name for path in run_folder.iterdir()] == [FILE]


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(output.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    _ledger().write()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(ValueError, match=r"RNDLIB_OUTPUT = .*gone' is not a folder"):
        _ledger().write()


def test_a_write_that_fails_leaves_the_old_file(run_folder, monkeypatch):
    (run_folder / FILE).write_text("old")
    monkeypatch.setattr(type(run_folder), "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        _ledger().write()
    assert [path.read_text() for path in run_folder.iterdir()] == ["old"]


def _row(**changes: object) -> dict[str, object]:
    return {**asdict(_ledger().verdicts[0]), **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Expecting value"),
        ("[]", "list indices"),
        ('{"verdicts": []}', "'claims'"),
        (json.dumps({"claims": [_row(), _row()]}), "on record twice"),
        (json.dumps({"claims": [_row(extra=1)]}), "'extra': 1"),
        (json.dumps({"claims": [{"id": "E1"}]}), "a verdict has the fields"),
        (json.dumps({"claims": [_row(passed=False)]}), "passed = False contradicts"),
        (json.dumps({"claims": [_row(control_rejected=False)]}), "control_rejected = False contradicts"),
        (json.dumps({"claims": [_row(value="0.1")]}), "value = '0.1' is not a finite number"),
        (json.dumps({"claims": [_row(value=nan)]}), "value = nan is not a finite number"),
        (json.dumps({"claims": [_row(interval=[0.0])]}), "not enough values"),
        (json.dumps({"claims": [_row(statement=3)]}), "statement = 3 is not a str"),
        (json.dumps({"claims": [_row(passed=1)]}), "passed = 1 is not a bool"),
        (json.dumps({"claims": ["E1"]}), "a verdict has the fields"),
    ],
)
def test_a_corrupt_file_is_named(tmp_path, content, message):
    path = tmp_path / FILE
    path.write_text(content)
    with pytest.raises(ValueError, match=f"{FILE} is not a ledger .*{message}"):
        read(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / FILE)


def test_the_table_lines_up_and_is_rounded():
    ledger = Ledger()
    ledger.record("E1", Finding(0.123456, (0.0456789, 0.123456)), Finding(12.3456))
    ledger.record("E2", Finding(0.3), Finding(0.0056))
    lines = repr(ledger).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[0] for row in cells] == ["id", "--", "E1", "E2"]
    assert cells[2][3:6] == ["0.12", "[0.046, 0.12]", "0.25"]
    assert [row[-2:] for row in cells[2:]] == [["12, rejected", "PASS"], ["0.006, NOT REJECTED", "FAIL"]]
    assert ledger._repr_markdown_() == table(ledger.verdicts)


def test_the_ledger_is_light():
    """The command line reads ledgers, and should not wait for SciPy to do so."""
    code = (
        "import sys, rndlib.evidence.ledger; sys.exit(bool({'scipy', 'jax', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_verdict_fields_are_those_of_the_file():
    assert set(asdict(_ledger().verdicts[0])) == {field.name for field in fields(Verdict)}


def test_the_readme_shows_the_claims_as_declared():
    from rndlib.running.reports import declared

    assert declared() in (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
