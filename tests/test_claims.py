"""The table of claims, and the ledger that judges by it."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from math import inf, nan

import numpy as np
import pytest

from rndlib import laws, output
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS, TABLE, Claim, Finding, declared
from rndlib.paper.evidence.ledger import FILE, Ledger, Verdict, holds, read, table

BELOW, ABOVE = Finding(0.1, (0.04, 0.1)), Finding(0.9)


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    return tmp_path


def _record(ledger: Ledger, claim: str, finding: Finding, control: Finding) -> Verdict:
    """A verdict whose near control is rejected."""
    return ledger.record(claim, finding, control, ABOVE)


def _ledger() -> Ledger:
    ledger = Ledger()
    _record(ledger, "E1", BELOW, ABOVE)
    _record(ledger, "N1-slope", Finding(-0.7, (-0.9, -0.7)), Finding(0.0))
    return ledger


def test_claims_are_declared_in_full():
    rows = {claim.id: claim.notebook for claim in CLAIMS.values()}
    assert rows == {
        **dict.fromkeys(["P1", "P1-gauss", "P2", "P2-slope", "P3", "P4", "P5"], "00_preliminaries"),
        **dict.fromkeys(["E1", "E2", "E3", "E4", "E-limit"], "01_ensemble_equivalence"),
        **dict.fromkeys(["M1", "M2", "M2-pair", "M3", "M-limit"], "02_multihead_chi_squared"),
        **dict.fromkeys(["B1", "B2", "B3", "B3-time", "B4", "B5", "B-limit"], "03_bayesian_target"),
        **dict.fromkeys(["S1", "S1-energy", "S2", "S2-draws", "S-limit"], "04_posterior_sampling"),
        **dict.fromkeys(["N1", "N1-slope", "N2", "N2-slope", "N3"], "05_numerical_analysis"),
        **dict.fromkeys(["A1", "A1-ntk", "A1-slope", "A2", "A2-law", "A2-slope", "A3", "A3-slope"], "07_any_network"),
        **dict.fromkeys(["A4", "A4-slope", "A5"], "07_any_network"),
        **dict.fromkeys(["D-width", "D-heads", "D-rnd", "D-labels", "D-time", "D-decay"], "08_departures"),
    }
    for claim in CLAIMS.values():
        texts = [getattr(claim, field.name) for field in fields(claim) if field.name != "tolerance"]
        assert all(texts), claim.id
        assert "|" not in "".join(texts), f"{claim.id}: a vertical bar would break the Markdown tables"
        assert ";" not in claim.control + claim.near, f"{claim.id}: a semicolon separates the two controls"


def test_notebooks_without_claims_have_none():
    assert not NO_CLAIMS & {claim.notebook for claim in CLAIMS.values()}


def test_rates_demand_a_fall_and_margins_leave_room():
    for claim in CLAIMS.values():
        assert claim.kind in ("equivalence", "rate", "floor")
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
    verdict = _record(Ledger(), "E1", finding, control)
    assert (verdict.passed, verdict.control_rejected) == (passed, rejected)
    assert holds(verdict) == (passed and rejected)


def test_a_near_control_must_be_rejected_too():
    for near, holding in [(ABOVE, True), (Finding(CLAIMS["E1"].tolerance), False)]:
        verdict = Ledger().record("E1", BELOW, ABOVE, near)
        assert (verdict.near_value, verdict.near_rejected) == (near.value, holding)
        assert holds(verdict) == holding
        assert verdict.control_values == (ABOVE.value, near.value)


def test_both_controls_share_a_column():
    ledger = Ledger()
    ledger.record("E1", BELOW, ABOVE, Finding(0.06))
    cells = [cell.strip() for cell in repr(ledger).splitlines()[2].strip("|").split("|")]
    assert cells[6:] == [CLAIMS["E1"].controls, "0.9, rejected; 0.06, NOT REJECTED", "FAIL"]


def test_the_tolerance_itself_passes():
    at = Finding(CLAIMS["E2"].tolerance)
    verdict = _record(Ledger(), "E2", at, at)
    assert verdict.passed
    assert not verdict.control_rejected


def test_a_claim_takes_what_it_does_not_say_from_its_check_and_then_its_notebook():
    text = """
        checks.slope = {statistic = "of the check", kind = "rate", tolerance = -1.0}
        07_new.shared = {statistic = "of the notebook", unit = "of the notebook", source = "of the notebook"}
        07_new.Z1 = {statement = "Z1", source = "its own", check = "slope", why = "none", control = "far", near = "by"}
    """
    assert declared(text)["Z1"] == Claim(
        id="Z1", statement="Z1", source="its own", notebook="07_new", statistic="of the check", check="slope",
        unit="of the notebook", kind="rate", tolerance=-1.0, why="none", control="far", near="by",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('control = "K - 1 degrees of freedom"\n', "", "claim M2 of 02_multihead_chi_squared: .*'control'"),
        ("[04_posterior_sampling.S2]\n", "[04_posterior_sampling.S2]\nmargin = 1\n", "claim S2 of .*'margin'"),
    ],
)
def test_a_claim_declared_in_other_fields_is_named(old, new, message):
    text = TABLE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    with pytest.raises(ValueError, match=message):
        declared(text.replace(old, new))


def test_a_verdict_carries_its_declaration():
    verdict = _record(Ledger(), "E3", BELOW, ABOVE)
    assert verdict.claim is CLAIMS["E3"]
    assert (verdict.value, verdict.interval, verdict.control_value) == (0.1, (0.04, 0.1), 0.9)


@pytest.mark.parametrize("number", [nan, inf])
def test_numbers_are_finite(number):
    for finding, control in [(Finding(number), ABOVE), (Finding(0.1, (0.0, number)), ABOVE), (BELOW, Finding(number))]:
        with pytest.raises(ValueError, match="is not a finite number"):
            _record(Ledger(), "E1", finding, control)


def test_unknown_and_repeated_claims():
    ledger = _ledger()
    with pytest.raises(ValueError, match="claim_id = 'E9': declare it"):
        ledger.record("E9", BELOW, ABOVE, ABOVE)
    with pytest.raises(ValueError, match="E1 is on record already"):
        ledger.record("E1", BELOW, ABOVE, ABOVE)
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
    return {**_ledger().verdicts[0].row(), **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Expecting value"),
        ("[]", "list indices"),
        ('{"verdicts": []}', "'claims'"),
        (json.dumps({"claims": [_row(extra=1)]}), "'extra': 1"),
        (json.dumps({"claims": [{"id": "E1"}]}), "'statement'"),
        (json.dumps({"claims": [_row(passed=False)]}), "contradicts its numbers"),
        (json.dumps({"claims": [_row(control_rejected=False)]}), "contradicts its numbers"),
        (json.dumps({"claims": [_row(value="0.1")]}), ""),
        (json.dumps({"claims": [_row(value=nan)]}), "nan is not a finite number"),
        (json.dumps({"claims": [_row(interval=[0.0])]}), "not enough values"),
        (json.dumps({"claims": ["E1"]}), "not a mapping"),
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
    _record(ledger, "E1", Finding(0.0623456, (0.0456789, 0.0623456)), Finding(12.3456))
    _record(ledger, "E2", Finding(0.3), Finding(0.0056))
    lines = repr(ledger).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[0] for row in cells] == ["id", "--", "E1", "E2"]
    assert cells[2][3:6] == ["0.062", "[0.046, 0.062]", "0.1"]
    controls = ["12, rejected; 0.9, rejected", "0.006, NOT REJECTED; 0.9, rejected"]
    assert [row[-2:] for row in cells[2:]] == [[controls[0], "PASS"], [controls[1], "FAIL"]]
    assert ledger._repr_markdown_() == table(ledger.verdicts)


def test_the_ledger_is_light():
    """The command line reads ledgers, and should not wait for SciPy to do so."""
    code = (
        "import sys, rndlib.paper.evidence.ledger\n"
        "sys.exit(bool({'scipy', 'jax', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_file_of_an_older_version_is_read_too(tmp_path):
    verdict = _ledger().verdicts[0]
    row = {key: value for key, value in verdict.row().items() if key not in ("check", "why")}
    (tmp_path / FILE).write_text(json.dumps({"claims": [row]}))
    assert read(tmp_path / FILE) == [replace(verdict, claim=replace(verdict.claim, check="", why=""))]


def test_a_claim_names_the_function_that_checks_it():
    from rndlib.paper.evidence import statistics

    for claim in CLAIMS.values():
        assert callable(getattr(statistics, claim.check)), claim.id


@pytest.mark.parametrize("which", ["finding", "control", "near"])
def test_a_number_of_another_check_is_refused(which):
    numbers = {name: Finding(0.5, check="joint_law") for name in ("finding", "control", "near")}
    Ledger().record("E1", **numbers)
    numbers[which] = replace(numbers[which], check="energy")
    with pytest.raises(ValueError, match="E1: judged by energy, but joint_law is declared"):
        Ledger().record("E1", **numbers)


def test_statistics_say_who_they_are():
    """Of simple samples, every check that a claim names stamps its own name on what it finds."""
    from rndlib.paper.evidence import statistics as s

    draws = np.random.default_rng(0)
    x, eye, widths = draws.standard_normal((40, 2)), np.eye(2), [16, 64, 256]
    errors = draws.standard_normal((2, 40, 2))
    found = {
        "joint_law": s.joint_law(x, np.zeros(2), eye),
        "excess_kurtosis": s.excess_kurtosis(x, eye),
        "typical": s.typical(np.abs(x[:, 0])),
        "slope": s.slope(widths, np.abs(draws.standard_normal((5, 3)))),
        "rate": s.rate(widths, np.abs(draws.standard_normal((5, 3))), -0.5),
        "limit": s.limit(widths, [[row] for row in draws.standard_normal((3, 9))]).finding,
        "over_points": s.over_points(x, x[::-1]).finding,
        "to_law": s.to_law(x**2, np.ones(2)).finding,
        "over_times": s.over_times(errors, errors[:, ::-1], np.ones((2, 2))).finding,
        "dependence": s.dependence(draws.standard_normal((20, 2, 2)), eye),
        "distance_to_law": s.distance_to_law(x**2, laws.mean_square(np.ones(2), 1)),
        "distance_between": s.distance_between(x**2, x[::-1] ** 2, laws.mean_square(np.ones(2), 1)),
        "field_covariance": s.field_covariance(x**2, eye + 0.5, 1),
        "energy": s.energy(x, np.zeros(2), eye, 2 * eye),
        "dependence_of_samples": s.dependence_of_samples(draws.standard_normal((20, 2, 2)), eye, 2),
        "repeats": s.repeats(draws.standard_normal((3, 4, 2))[0]),
        "agreement": s.agreement(draws.chisquare(9, (4, 30)), draws.chisquare(9, (4, 30))),
    }
    assert set(found) == {claim.check for claim in CLAIMS.values()}
    assert {name: finding.check for name, finding in found.items()} == {name: name for name in found}
