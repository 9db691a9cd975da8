"""The bench and the studies: harness, record, and that peers do what they are timed for. Never their times."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import bench
import kept
import numpy as np
import pytest
from benchmarks import case
from benchmarks.case import Case, Way

from rndlib import MLP, BayesianRND, datasets, kernels

pytestmark = pytest.mark.tools


def test_calls_are_interleaved_and_each_repeat_starts_at_another():
    order = []
    seconds = case.side_by_side({name: lambda name=name: order.append(name) for name in "ab"}, repeats=4)
    assert "".join(order) == "abbaabba"
    assert all(len(each) == 4 for each in seconds.values())


@pytest.mark.parametrize(("busy", "waits"), [(0, 1), (3, 4), (10**6, 100)])
def test_a_call_begins_when_the_process_is_idle(busy, waits, monkeypatch):
    """During the first waits all of a core is used; what never rests is waited for no longer than a second."""
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        clock.now += seconds * (len(naps) <= busy)

    clock = SimpleNamespace(now=0.0, sleep=sleep, process_time=lambda: clock.now, perf_counter=lambda: 7.0)
    monkeypatch.setattr(case, "time", clock)
    assert case.timed(lambda: "done") == (0.0, "done")
    assert len(naps) == waits
    assert sum(naps) <= 1.001


def test_a_row_scales_what_was_timed_and_takes_ratios_within_each_repeat(monkeypatch):
    monkeypatch.setattr(case, "timed", lambda call: call())
    monkeypatch.setattr(
        case, "side_by_side", lambda calls, repeats: {"rndlib": np.array([1, 2, 10.0]), "peer": np.array([1, 3, 20.0])}
    )
    ours, peer = Way(lambda: (4.0, "a")), Way(lambda: (9.0, "b"), 2.0, {"steps": 5})
    rows = Case("c", ours, {"peer": peer}, lambda found: {"error": found}).rows()
    assert rows[0] == {"case": "c", "by": "rndlib", "seconds": [2, 1.5, 6], "first call": 4, "error": "a"}
    assert rows[1] == {
        "case": "c", "by": "peer", "seconds": [6, 4, 23], "first call": 9 + 3,  # compiling is not repeated
        "times rndlib's": [3, 2, 4], "steps": 5, "error": "b",
    }  # fmt: skip


@pytest.fixture
def ratios(tmp_path, monkeypatch):
    """The ratios that every section finds, which writes to a temporary folder."""
    found = {"peer": 6.0, "other": 8.0}

    class Known(Case):
        def rows(self, repeats=1):
            ours = {"case": self.name, "by": "rndlib", "seconds": [1.0, 0.5, 2.0]}
            return [ours, *({"case": self.name, "by": by, case.RATIO: [ratio, 0, 99]} for by, ratio in found.items())]

    def load(name):
        cases = [Known(name, Way(print), {}, dict)]
        return SimpleNamespace(TITLE="Title", NOTE="Note.", cases=lambda quick: cases)

    monkeypatch.setattr(bench, "load", load)
    for name in ("FULL", "QUICK"):
        monkeypatch.setattr(bench, name, tmp_path / name)
    return found


def test_a_section_takes_the_place_of_its_stored_table(ratios, capsys):
    first, last = bench.SECTIONS[0], bench.SECTIONS[-1]
    for words in ([last], [first], [first], ["--quick", "--keep", first]):
        bench.main(words)
    stored = json.loads(bench.FULL.read_text())["sections"]
    assert [section["name"] for section in stored] == [first, last]
    assert set(stored[0]["made by"]) == {"date", "commit", "machine", "versions"}
    assert [section["name"] for section in bench.read(bench.QUICK)] == [first]
    assert "| rndlib | 1 (0.5 to 2) |  |" in capsys.readouterr().out


def test_a_quick_bench_names_the_ratios_that_have_fallen(ratios):
    name = bench.SECTIONS[0]
    with pytest.raises(SystemExit, match=rf"{name}, peer: 6, and none is stored"):
        bench.main(["--quick", name])
    bench.main(["--quick", "--keep", name])
    ratios |= {"peer": 4.1, "other": 99.0}
    bench.main(["--quick", name])
    ratios |= {"peer": 3.9}
    with pytest.raises(SystemExit) as fell:
        bench.main(["--quick", name])
    assert str(fell.value).splitlines()[1:] == [f"{name}, peer: 3.9, stored 6"]


@pytest.mark.parametrize("words", [["nothing"], ["--keep"]])
def test_what_the_command_line_does_not_understand_is_named(words, capsys):
    with pytest.raises(SystemExit):
        bench.main(words)
    assert words[0] in capsys.readouterr().err


def test_numbers_are_shown_to_three_digits():
    cells = [[0.01234, 0.012, 0.0131], 1234.5, 0.0, 1e-9, 12, "x", None]
    assert [bench.shown(cell) for cell in cells] == ["0.0123 (0.012 to 0.0131)", "1234", "0", "1e-09", "12", "x", ""]


# ------------------------------------------------------------------------------------------------- peers


@pytest.mark.torch
def test_peers_take_the_same_steps():
    from benchmarks import descent

    net, data = MLP(3, width=32), datasets.toy(0, n_test=1)
    start, y = descent.drawn(net, 2, 3), np.random.default_rng(0).standard_normal((3, 10, 2))
    found = {name: train(net, data.X, y, 0.01, start, 7) for name, train in descent.PEERS.items()}
    reference = found.pop("JAX vmap")
    assert np.abs(reference[0] - start[0]).max() > 0.01
    for name, trained in found.items():
        for ours, theirs in zip(trained, reference, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5, err_msg=name)  # float32


@pytest.mark.torch
def test_descent_needs_the_steps_that_the_linear_model_says():
    """Networks that are nearly linear are 1 % away after these steps, in the root mean square over 32 of them."""
    from benchmarks import descent

    net, data = MLP(3, width=1024), datasets.toy(0, n_train=3, n_test=50)
    across, prior = kernels.kernel(net, data.X_test, data.X), kernels.diagonal(net, data.X_test).nngp
    train = kernels.kernel(net, data.X)
    steps, rate = descent.needed(train, across, prior, train.nngp + np.outer(data.y, data.y))
    start, y = descent.drawn(net, 1, 32), np.tile(data.y[:, None], (32, 1, 1))

    def at_test(steps):
        w1, b1, w2, b2 = (np.asarray(a, float) for a in descent.PEERS["JAX vmap"](net, data.X, y, rate, start, steps))
        z = net.sigma_w / 3**0.5 * data.X_test @ np.swapaxes(w1, 1, 2) + net.sigma_b * b1[:, None]
        hidden = z / (1 + np.exp(-z))
        return net.sigma_w / net.width**0.5 * hidden @ np.swapaxes(w2, 1, 2) + net.sigma_b * b2[:, None]

    limit = at_test(4 * steps)  # 1e-8 away
    away = np.linalg.norm(at_test(steps) - limit) / np.linalg.norm(limit)
    # The slowest mode decides; its eigenvalue scatters by some ten per cent, which is in an exponent of log(100).
    assert 0.5 * descent.ACCURACY < away < 2 * descent.ACCURACY
    assert np.linalg.norm(at_test(steps // 2) - limit) / np.linalg.norm(limit) > 3 * descent.ACCURACY


@pytest.mark.neural_tangents
def test_an_error_in_a_kernel_shows():
    from benchmarks import kernels as section

    net, X = MLP(3), datasets.toy(0, n_test=5).X_test
    exact = section.both(kernels.kernel(net, X))
    assert section.error(net, X, X, exact)["error"] < 1e-9
    assert section.error(net, X, X, exact + 1e-6 * exact.max())["error"] > 1e-7


def test_every_way_to_samples_comes_near_the_posterior():
    from benchmarks import samples

    model = BayesianRND(MLP(3, width=1024), 200, noise_std=0.1, linearised=True)
    made = samples._case("c", 60, 60, 200, model, {"Nyström": samples._nystrom})
    found = {name: made.accuracy(way.call()) for name, way in made.ways.items()}
    assert found["NTK-GP, Cholesky"]["mean"] == 0
    # 200 samples: six standard deviations of their variance at one point alone.
    assert abs(found["NTK-GP, Cholesky"]["variance"] - 1) < 6 * np.sqrt(2 / 200)
    assert all(row["mean"] < 0.5 and 0.5 < row["variance"] < 2 for row in found.values())


# ------------------------------------------------------------------------------------------------- studies

STUDY = """import sys; sys.path.insert(0, {ci!r})
import kept

found = kept.results(__file__, [("a",), ("nan",), ("long one",)], lambda word: 1 / (word != "nan"), sys.argv[1:])
kept.store(kept.Path({table!r}), [{{"n": one["result"], "made by": one["made by"]}} for one in found])
"""


def test_a_study_runs_what_is_missing_and_keeps_what_made_each_row(tmp_path):
    script, table, ci = tmp_path / "study_of_a_test.py", tmp_path / "table.json", Path(kept.__file__).parent
    script.write_text(STUDY.format(ci=str(ci), table=str(table)))

    def run(*words):
        return subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=True).stdout

    try:
        assert run("a").splitlines() == ["a"]
        assert run().splitlines() == ["nan", "nan failed", "long one"]
    finally:
        shutil.rmtree(ci.parent / "results" / "study_of_a_test")
    stored = json.loads(table.read_text())
    assert stored["rows"] == [{"n": 1, "made by": 0}] * 2
    assert set(stored["made by"][0]) == {"date", "commit", "machine", "versions"}
