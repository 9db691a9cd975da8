"""The bench: its harness, its record, and every section at tiny sizes. Never its times."""

import json
import time
from dataclasses import replace

import bench
import numpy as np
import pytest
from benchmarks import timing
from benchmarks.section import Asked, Case, Section

from rndlib import costs

pytestmark = pytest.mark.tools


def test_calls_are_interleaved_and_each_repeat_starts_at_another():
    order = []
    times = timing.side_by_side({name: lambda name=name: order.append(name) for name in "ab"}, repeats=4)
    assert "".join(order) == "ab" + "abbaabba"
    assert all(len(time.seconds) == 4 for time in times.values())
    with pytest.raises(ValueError, match="repeats = 0: give 1 or more"):
        timing.side_by_side({"a": print}, repeats=0)


def test_a_call_that_sleeps_takes_its_time_and_no_core():
    (found,) = timing.side_by_side({"sleep": lambda: time.sleep(0.05)}, repeats=3).values()
    assert found.spread.low >= 0.05
    assert found.cores < 0.5


def test_ratios_are_those_within_a_repeat():
    slow = timing.Timing((2.0, 6.0, 40.0), first=9.0, cores=1.0)
    fast = timing.Timing((1.0, 2.0, 10.0), first=1.0, cores=1.0)
    assert timing.ratio(slow, fast) == (3.0, 2.0, 4.0)  # the ratio of the medians is the same; of the ends, it is not
    assert timing.ratio(slow.scaled(10), fast) == (30.0, 20.0, 40.0)
    assert slow.scaled(3).first == 9.0 + 2 * 6.0  # what compiling took is not repeated


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A section of two cases in a temporary folder, the calls made for each, and what to run it with."""
    calls = []

    def case(name):
        return Case(name, lambda: calls.append(name) or [{"case": name, "seconds": costs.Spread(1.0, 0.5, 2.0)}])

    (tmp_path / "results").mkdir()
    (tmp_path / "notebooks").mkdir()
    section = Section("kernels", "Title", "Note.", lambda asked: iter([case("one"), case("two")]))
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "load", lambda name: replace(section, name=name))
    return calls, tmp_path


def test_an_interrupted_section_goes_on_where_it_stopped(measured):
    calls, place = measured
    section, record = bench.load("kernels"), place / "results" / "bench.jsonl"
    first = bench.measure(section, Asked(), record)
    assert calls == ["one", "two"]
    assert bench.measure(section, Asked(), record)["rows"] == first["rows"]
    assert calls == ["one", "two"]
    record.write_text(record.read_text()[:-9])  # the second case was cut short
    assert bench.measure(section, Asked(), record)["rows"] == first["rows"]
    assert calls == ["one", "two", "two"]
    bench.measure(section, Asked(quick=True), record)  # another size is another measurement
    assert calls == ["one", "two", "two", "one", "two"]


def test_a_change_of_the_source_starts_over(measured, monkeypatch):
    calls, place = measured
    section, record = bench.load("kernels"), place / "results" / "bench.jsonl"
    bench.measure(section, Asked(), record)
    monkeypatch.setattr(bench, "source", lambda: "another")
    bench.measure(section, Asked(), record)
    assert calls == ["one", "two", "one", "two"]


def test_a_section_takes_the_place_of_its_stored_table_and_is_measured_anew_when_asked_again(measured, capsys):
    calls, place = measured
    bench.main([bench.SECTIONS[-1]])
    bench.main([bench.SECTIONS[0]])
    bench.main(["--quick", bench.SECTIONS[0]])
    assert calls == ["one", "two"] * 3
    stored = json.loads((place / "notebooks" / costs.FILE).read_text())["sections"]
    assert [section["name"] for section in stored] == list(dict.fromkeys([bench.SECTIONS[0], bench.SECTIONS[-1]]))
    assert all("host" not in section["hardware"] for section in stored)
    quick = costs.read(place / "results" / "bench-quick.json")
    assert [section["quick"] for section in quick] == [True]
    assert "| one  | 1 (0.5 to 2) |" in capsys.readouterr().out
    bench.main([bench.SECTIONS[0]])
    assert calls == ["one", "two"] * 4


def test_the_report_has_the_table_with_its_hardware(measured):
    _, place = measured
    assert costs.report(place / "notebooks") == []
    bench.main([bench.SECTIONS[0]])
    text = "\n\n".join(costs.report(place / "notebooks"))
    assert "## Title" in text
    assert "| one  | 1 (0.5 to 2) |" in text
    assert "cores" in text


def test_rows_with_other_columns_share_a_table():
    rows: list[costs.Row] = [{"a": 1, "b": None}, {"a": 0.5, "c": "x"}]
    assert costs.table(rows).splitlines()[2:] == ["| 1   |   |   |", "| 0.5 |   | x |"]


def test_numbers_are_shown_to_three_digits():
    cells = [costs.Spread(0.01234, 0.012, 0.0131), [1.0, 0.5, 2.0], 1234.5, 0.0, 1e-9, 12, "x", None]
    assert [costs.shown(cell) for cell in cells] == [
        "0.0123 (0.012 to 0.0131)", "1 (0.5 to 2)", "1230", "0", "1e-09", "12", "x", ""
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["nothing"], ["--widths", "a"], ["--widths", "0"]])
def test_what_the_command_line_does_not_understand_is_named(words, capsys):
    with pytest.raises(SystemExit):
        bench.arguments(words)
    assert words[-1] in capsys.readouterr().err


def test_widths_are_read():
    assert bench.arguments(["--widths", "64,128"]) == (list(bench.SECTIONS), Asked(False, (64, 128)))


# ------------------------------------------------------------------------------------------------- sections


@pytest.mark.neural_tangents
def test_kernels_compares_with_quadrature_and_closed_forms(monkeypatch):
    from benchmarks import kernels

    monkeypatch.setattr(kernels, "QUICK", ((12, 8),))
    monkeypatch.setattr(kernels, "QUICK_WORK", 12 * 100**2)  # one column of degree 100
    rows = [row for case in kernels.SECTION.cases(Asked(quick=True)) for row in case.rows()]
    silu = {row["by"]: row for row in rows if row["kernel"] == "silu"}
    assert list(silu) == ["rndlib", "degree 25", "degree 100"]
    assert silu["degree 100"]["part"] == 1 / 8
    errors = [silu[by]["error, NTK"] for by in silu]
    assert np.all(np.diff(np.log(errors)[[0, 2, 1]]) > 0)
    assert {row["kernel"] for row in rows if row["by"] == "closed form"} == {"relu", "erf", "gelu"}
    assert all(max(row["error, NNGP"], row["error, NTK"]) < 3e-8 for row in rows if not row["by"].startswith("degree"))
