"""The table of claims, and the ledger that judges by it."""

import ast
import json
from dataclasses import fields, replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from rndlib.paper import output
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS, TABLE, Claim, Finding, declared
from rndlib.paper.evidence.ledger import FILE, ClaimsFail, Ledger, Verdict, table

BELOW, ABOVE = Finding(0.1, (0.04, 0.1), 0.07), Finding(0.9)


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    return tmp_path


def _record(ledger: Ledger, claim: str, finding: Finding, control: Finding) -> Verdict:
    """A verdict whose sensitivity check is rejected."""
    return ledger.record(claim, finding, control, ABOVE)


def _ledger() -> Ledger:
    ledger = Ledger()
    _record(ledger, "E1", BELOW, ABOVE)
    _record(ledger, "N1-slope", Finding(-0.7, (-0.9, -0.7)), Finding(0.0))
    return ledger


def test_claims_are_declared_in_full_and_their_tolerances_leave_room():
    """A rate demands a fall, and all else a margin above 0."""
    assert not NO_CLAIMS & {claim.notebook for claim in CLAIMS.values()}
    for claim in CLAIMS.values():
        texts = [getattr(claim, field.name) for field in fields(claim) if field.name != "tolerance"]
        assert all(texts), claim.id
        assert "|" not in "".join(texts), f"{claim.id}: a vertical bar would break the Markdown tables"
        assert ";" not in claim.control + claim.near, f"{claim.id}: a semicolon separates the two controls"
        assert claim.kind in ("equivalence", "rate", "floor")
        assert claim.tolerance < 0 if claim.kind == "rate" else claim.tolerance > 0, claim.id


@pytest.mark.parametrize(
    ("value", "control", "near", "wrong"),
    [
        (0.05, 0.9, 0.2, []),
        (0.1, 0.9, 0.2, []),  # E1's tolerance itself
        (0.11, 0.9, 0.2, ["E1 fails: 0.11 is above"]),
        (0.05, 0.1, 0.2, ["E1 shows nothing: its wro"]),
        (0.05, 0.9, 0.1, ["E1 is too coarse: its sen"]),
        (0.2, 0.05, 0.05, ["E1 fails: 0.2 is above t", "E1 shows nothing: its wro", "E1 is too coarse: its sen"]),
    ],
)
def test_a_claim_holds_where_it_passes_and_its_controls_do_not(value, control, near, wrong):
    verdict = Ledger().record("E1", *map(Finding, (value, control, near)))
    assert verdict.claim is CLAIMS["E1"]
    assert verdict.passed == (value <= 0.1)
    assert verdict.holds == (not wrong)
    assert [fault[: len(words)] for fault, words in zip(verdict.faults, wrong, strict=True)] == wrong


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


def test_written_and_read_back_where_a_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv(output.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    ledger = _ledger()
    ledger.write()
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(output.VARIABLE, str(tmp_path))
    ledger.write()
    assert Ledger.read(tmp_path / FILE).verdicts == ledger.verdicts
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    monkeypatch.setenv(output.VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(ValueError, match=r"RNDLIB_OUTPUT = .*gone' is not a folder"):
        ledger.write()


def test_closing_shows_a_ledger_that_holds_and_raises_after_writing_one_that_does_not(run_folder, capsys):
    ledger = _ledger()
    assert ledger.close() is ledger
    assert capsys.readouterr().out == ""
    _record(ledger, "E2", ABOVE, BELOW)
    with pytest.raises(ClaimsFail, match=r"E2 fails: 0.9 is above the tolerance 0.1; E2 .*wrong variant passes"):
        ledger.close()
    assert Ledger.read(run_folder / FILE).verdicts == ledger.verdicts
    assert capsys.readouterr().out == f"{ledger}\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda content: [],
        lambda content: content.pop("sources"),
        lambda content: content["claims"][0].pop("value"),
        lambda content: content["claims"][0].update(id="E9"),
        lambda content: content["claims"][0].update(value="0.1"),
        lambda content: content["claims"][0].update(value=nan),
        lambda content: content["claims"][0].update(interval=[0.0]),
        lambda content: content["claims"].append(content["claims"][0]),
    ],
)
def test_a_file_that_is_no_ledger_of_todays_claims_is_named(run_folder, change):
    _ledger().write()
    content = json.loads((run_folder / FILE).read_text())
    if change(content) == []:
        content = []
    (run_folder / FILE).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"{FILE} is not a ledger of today's claims"):
        Ledger.read(run_folder / FILE)


def test_the_tables_line_up_and_are_rounded():
    ledger = Ledger()
    _record(ledger, "E1", Finding(0.0623456, (0.0456789, 0.0623456), 0.05123), Finding(12.3456))
    shown = _record(ledger, "E3", Finding(0.3), Finding(0.0056))
    claims, wrong = ([line.strip("|").split("|") for line in part.splitlines()] for part in repr(ledger).split("\n\n"))
    for rows in (claims, wrong):
        assert len({len("|".join(row)) for row in rows}) == 1
    cells = [[cell.strip() for cell in row] for row in (*claims[2:], *wrong[2:])]
    assert cells[:2] == [
        ["E1", "0.051", "[0.046, 0.062]", "upper limit at most 0.1", "PASS"],
        ["E3", "", "", "within 0.15 of 0", "FAIL"],
    ]
    assert [[row[0], *row[3:]] for row in cells[2:]] == [
        ["E1", "12", "rejected"],
        ["E1", "0.9", "rejected"],
        ["E3", "0.006", "NOT REJECTED"],
        ["E3", "0.9", "rejected"],
    ]
    assert [row[2] for row in cells[2:4]] == [CLAIMS["E1"].control, CLAIMS["E1"].near]
    assert ledger._repr_markdown_() == table(ledger.verdicts)
    assert repr(ledger.last(1)) == repr(shown)


def test_every_claim_names_a_check_and_every_check_a_claim():
    """A check stamps its name on what it finds, as `claims.check` makes it."""
    from rndlib.paper.evidence import statistics

    modules = Path(statistics.__file__).parent.glob("*.py")
    defined = [node for path in modules for node in ast.parse(path.read_text()).body]
    functions = [node for node in defined if isinstance(node, ast.FunctionDef)]
    stamped = {of.name for of in functions if "check" in map(ast.unparse, of.decorator_list)}
    assert stamped == {claim.check for claim in CLAIMS.values()}
    assert stamped <= set(vars(statistics))
    found = statistics.typical(np.array([0.1, 0.2]))
    assert found.check == "typical"
    assert found.interval is not None
    assert found.interval[0] < (found.estimate or 0.0) < found.interval[1]


@pytest.mark.parametrize("which", ["finding", "control", "near"])
def test_a_number_of_another_check_is_refused(which):
    numbers = {name: Finding(0.5, check="joint_law") for name in ("finding", "control", "near")}
    Ledger().record("E1", **numbers)
    numbers[which] = replace(numbers[which], check="energy")
    with pytest.raises(ValueError, match="E1: judged by energy, but joint_law is declared"):
        Ledger().record("E1", **numbers)
