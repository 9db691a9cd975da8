"""The bench: its harness, its record, and every section at tiny sizes. Never its times."""

import json
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import bench
import numpy as np
import pytest
from benchmarks import timing
from benchmarks.section import Asked, Section

from rndlib import MLP, DeepEnsemble, GradientDescent, GradientFlow, datasets
from rndlib.paper.evidence.estimate import Estimate
from rndlib.running import costs, runs
from rndlib.training import backends
from rndlib.training.weights import Role, draw

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


@pytest.mark.parametrize(("busy", "waits"), [(0, 1), (3, 4), (10**6, 100)])
def test_a_call_begins_when_the_process_is_idle(busy, waits, monkeypatch):
    """During the first waits all of a core is used; what never rests is waited for no longer than a second."""
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        if len(naps) <= busy:
            clock.now += seconds

    clock = SimpleNamespace(now=0.0, sleep=sleep, process_time=lambda: clock.now, perf_counter=time.perf_counter)
    monkeypatch.setattr(timing, "time", clock)
    timing.once(lambda: None)
    assert len(naps) == waits
    assert sum(naps) <= 1.001


def test_ratios_are_those_within_a_repeat():
    slow = timing.Timing((2.0, 6.0, 40.0), first=9.0, cores=1.0)
    fast = timing.Timing((1.0, 2.0, 10.0), first=1.0, cores=1.0)
    assert timing.ratio(slow, fast) == (3.0, 2.0, 4.0)  # the ratio of the medians is the same; of the ends, it is not
    assert timing.ratio(slow.scaled(10), fast) == (30.0, 20.0, 40.0)
    assert slow.scaled(3).first == 9.0 + 2 * 6.0  # what compiling took is not repeated


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A temporary folder, into which the bench writes sections of two cases."""

    def case(name):
        return lambda: [{"case": name, "seconds": Estimate(1.0, 0.5, 2.0)}]

    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(
        bench, "load", lambda name: Section(name, "Title", "Note.", lambda asked: iter([case("one"), case("two")]))
    )
    return tmp_path


def test_a_section_takes_the_place_of_its_stored_table(place, capsys):
    quickly = ["--quick", "--keep", bench.SECTIONS[0]]
    for words in ([bench.SECTIONS[-1]], [bench.SECTIONS[0]], [bench.SECTIONS[0]], quickly):
        bench.main(words)
    stored = json.loads((place / "notebooks" / costs.FILE).read_text())["sections"]
    assert [section["name"] for section in stored] == [bench.SECTIONS[0], bench.SECTIONS[-1]]
    assert all("host" not in section["hardware"] for section in stored)
    quick = costs.read(place / "notebooks" / "bench_quick.json")
    assert [section["quick"] for section in quick] == [True]
    assert "| one  | 1 (0.5 to 2) |" in capsys.readouterr().out


def test_an_interrupted_bench_keeps_the_sections_it_has(place, monkeypatch):
    names, load = bench.SECTIONS[:2], bench.load

    def interrupted(name):
        if name == names[1]:
            raise KeyboardInterrupt
        return load(name)

    monkeypatch.setattr(bench, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.main(names)
    assert [section["name"] for section in costs.read(place / "notebooks" / costs.FILE)] == [names[0]]


def test_a_quick_bench_names_the_ratios_that_have_fallen(place, monkeypatch):
    name, found = bench.SECTIONS[0], {"peer": 6.0, "other": 8.0, "theirs": 2.0}

    def rows():
        ratio = "times rndlib's"
        return [
            {"task": "t", "by": "rndlib", ratio: 0.001},
            *({"task": "t", "by": by, ratio: Estimate(found[by], 0.0, 99.0)} for by in ("peer", "other")),
            {"task": "t", "by": "theirs", "times the NTK-GP's": found["theirs"]},
            {"task": "s", "share": 0.5, "seconds": 1.0},
        ]

    monkeypatch.setattr(bench, "load", lambda name: Section(name, "Title", "Note.", lambda _: iter([rows])))
    with pytest.raises(SystemExit, match=r"task t, by peer: times rndlib's 6, and none is stored"):
        bench.main(["--quick", name])
    bench.main(["--quick", "--keep", name])
    found |= {"peer": 4.1, "other": 99.0, "theirs": 2.9}
    bench.main(["--quick", name])
    found |= {"peer": 3.9, "theirs": 3.1}
    with pytest.raises(SystemExit) as fell:
        bench.main(["--quick", name])
    assert str(fell.value).splitlines()[1:] == [
        "task t, by peer: times rndlib's 3.9, stored 6",
        "task t, by theirs: times the NTK-GP's 3.1, stored 2",
    ]


def test_texts_are_renewed_without_a_measurement(place, monkeypatch):
    name = bench.SECTIONS[0]
    bench.main([name])
    (before,) = costs.read(place / "notebooks" / costs.FILE)
    monkeypatch.setattr(bench, "load", lambda name: Section(name, "Title", "New.", lambda _: iter(()), ("Too slow.",)))
    bench.main(["--texts"])
    (after,) = costs.read(place / "notebooks" / costs.FILE)
    assert after == before | {"note": "New.", "missed": ["Too slow."]}
    assert "*Missed.* Too slow." in costs.section(after)


def test_the_report_has_the_table_with_its_hardware(place):
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
    cells = [Estimate(0.01234, 0.012, 0.0131), [1.0, 0.5, 2.0], 1234.5, 0.0, 1e-9, 12, "x", None]
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


def measured(module, asked):
    """The rows of a section."""
    return [row for case in module.SECTION.cases(asked) for row in case()]


@pytest.mark.neural_tangents
def test_kernels_compares_with_quadrature_and_closed_forms(monkeypatch):
    from benchmarks import kernels

    one_column = 12 * 100**2  # of degree 100
    for name, value in {"QUICK": ((12, 8),), "QUICK_WORK": one_column, "SAMPLED": 8}.items():
        monkeypatch.setattr(kernels, name, value)
    rows = measured(kernels, Asked(quick=True))
    silu = {row["by"]: row for row in rows if row["kernel"] == "silu"}
    assert list(silu) == ["rndlib", "degree 25", "degree 100"]
    assert silu["degree 100"]["part"] == 1 / 8
    errors = [silu[by]["error, NTK"] for by in silu]
    assert np.all(np.diff(np.log(errors)[[0, 2, 1]]) > 0)
    assert {row["kernel"] for row in rows if row["by"] == "closed form"} == {"relu", "erf", "gelu"}
    assert all(max(row["error, NNGP"], row["error, NTK"]) < 3e-8 for row in rows if not row["by"].startswith("degree"))


@pytest.fixture
def problem():
    """Three networks on the toy data, and their converged functions."""
    from benchmarks.descent import Problem

    data, net = datasets.toy(0, n_test=50), MLP(3, width=1024)
    limit = DeepEnsemble(net, 3, solver=GradientFlow(rtol=1e-5)).fit(data.X, data.y).functions(data.X_test)[:, None]
    return Problem(net, data.X, data.X_test, draw(net, 1, 0, Role.MEMBER, range(3)), np.tile(data.y, (3, 1, 1)), limit)


@pytest.mark.torch
@pytest.mark.parametrize("optimiser", ["GD", "Adam"])
def test_peers_take_the_same_steps(problem, optimiser):
    from benchmarks import peers

    rate = problem.rate() if optimiser == "GD" else 1e-2
    found = {}
    for name, make in {**peers.TOGETHER, **peers.ONE_BY_ONE}.items():
        peer = make(problem.net, problem.start, problem.X, problem.targets, optimiser, rate)
        for steps in (3, 7):  # they go on from where they are
            peer.run(steps)
        found[name] = backends.load("jax").functions(problem.net, peer.params(), problem.X_test, "float64")
    if optimiser == "GD":
        descent = GradientDescent(rate, 10)
        ensemble = DeepEnsemble(problem.net, 3, solver=descent).fit(problem.X, problem.targets[0, 0])
        found["rndlib"] = ensemble.functions(problem.X_test)[:, None]
    reference = found.pop("JAX vmap")
    for name, functions in found.items():
        # float32, ten steps, and Adam's divide small numbers by their size
        np.testing.assert_allclose(functions, reference, rtol=0, atol=1e-3 * np.abs(reference).max(), err_msg=name)


@pytest.mark.torch
def test_the_linear_model_says_how_many_steps_networks_take(problem):
    from benchmarks import descent, peers

    steps = problem.linear_steps()
    peer = peers.ONE_BY_ONE["JAX one by one"](
        problem.net, problem.start, problem.X, problem.targets, "GD", problem.rate()
    )
    found = descent.trained(problem, peer, steps // 20, 3 * steps)
    # The kernel of 1024 units differs from its limit, in its smallest eigenvalue by some ten per cent.
    assert found.steps is not None
    assert 0.5 < found.steps / steps < 2
    assert problem.distance(problem.start) > 0.1
    assert descent.trained(problem, peer, 1, 0) == descent.Found(None, np.inf)


@pytest.mark.torch
def test_ensembles_compares_every_peer(monkeypatch):
    from benchmarks import comparison, ensembles

    data = ensembles.toy()
    monkeypatch.setattr(comparison, "TRIED", (1e-2,))
    monkeypatch.setattr(ensembles, "MEMBERS", 9)
    monkeypatch.setattr(ensembles, "WORK", 10_000)
    monkeypatch.setattr(ensembles, "toy", lambda: replace(data, checked=2, repeats=1))
    case, *_ = ensembles.SECTION.cases(Asked(widths=(512,)))  # the others are far larger
    rows = case()
    assert rows[0]["by"] == "rndlib"
    assert {row["by"].split(", ")[1] for row in rows[1:]} == {"GD", "Adam"}
    assert len(rows) == 1 + 2 * 4
    assert rows[0]["distance"] < 1e-3  # what GradientFlow promises by default
    assert all(row["distance"] <= 1e-2 for row in rows if "GD" in row["by"])


def test_a_step_has_no_more_operations_than_the_compiler_counts(monkeypatch):
    import jax
    from benchmarks import step

    from rndlib.training.backends.jax import linearise as at

    monkeypatch.setattr(at, "_FEW", 0)  # of a loop the compiler counts one round
    net, n = MLP(3, width=256), 10
    X = jax.numpy.ones((n, 3))
    params = at.to_jax(net, [(w[0], b[0]) for w, b in draw(net, 1, 0, Role.MEMBER, [0])], "float32")

    def products(params, moved, X):
        f, here = at.linearised(net, params, X)
        r = f + here.push_forward(moved)
        return here.kernel_matrix(), here.pull_back_each(jax.numpy.stack([r, 2 + r]))

    cost: Any = jax.jit(products).lower(params, params, X).compile().cost_analysis()
    counted = (cost[0] if isinstance(cost, list) else cost)["flops"]
    # The compiler counts sums, slopes and nonlinearities, too, at most 40 operations for each of the width * n units.
    assert counted - 40 * 256 * n < step.operations(256, n, 3) < counted


def test_the_floor_has_a_rate_for_each_precision_and_a_bound_for_each_task(monkeypatch):
    from benchmarks import floor, rates

    for name, value in {"QUICK_MEMBERS": 3, "QUICK_POINTS": 20, "QUICK_STEPS": 4}.items():
        monkeypatch.setattr(floor, name, value)
    for name, value in {"QUICK_SIDE": 64, "ROUNDS": 2}.items():
        monkeypatch.setattr(rates, name, value)
    rows = measured(floor, Asked(quick=True, widths=(16,)))
    assert [row.get("unit") for row in rows[:4]] == ["Gflop/s", "10^9 values/s"] * 2
    assert len(rows) == 4 + 2 + 5
    times = {row["task"]: getattr(row["seconds"], "value", row["seconds"]) for row in rows[6:]}
    for row in rows[4:]:
        assert "bound" not in row or row["share"] == row["bound"] / getattr(row["seconds"], "value", row["seconds"])
    whole, *parts = rows[6:]
    assert sum(times[part["task"]] for part in parts) == pytest.approx(times[whole["task"]])
    assert sum(part.get("bound", 0) for part in parts) == pytest.approx(whole["bound"])


def test_the_exponent_of_a_power_and_its_interval():
    from benchmarks import growth

    sizes = [1.0, 10.0, 100.0, 1000.0]
    assert growth.exponent(sizes, [3 * size**1.5 for size in sizes]) == pytest.approx((1.5, 1.5, 1.5))
    found = growth.exponent(sizes, [1.0, 20.0, 50.0, 1000.0])
    assert isinstance(found, Estimate)
    assert found.low < 1 < found.high
    assert growth.exponent([2.0, 4.0], [1.0, 8.0]) == pytest.approx(3.0)


def test_growth_runs_each_size_in_a_process_of_its_own(monkeypatch):
    from benchmarks import growth

    held = bytearray(2**28)  # by this process, whose memory is not the other's
    measured = growth.in_a_process("kernel", 1000)
    assert len(held) > measured.memory > 3 * 8 * 1000**2  # three matrices
    assert len(measured.seconds) == growth.CALLS
    monkeypatch.setattr(growth, "in_a_process", lambda name, size: growth.Measured([2.0 * size], 2**20 * size))
    (row,) = growth._rows("kernel", (100, 300))
    assert (row["seconds"], row["MiB"]) == ("2e+02, 6e+02", "100, 300")
    assert (row["exponent"], row["MiB at the end"]) == pytest.approx((1, 1))


def test_every_task_of_growth_runs_and_grows_thirtyfold(monkeypatch):
    from benchmarks import growth

    monkeypatch.setattr(growth, "CALLS", 1)
    for task in growth.TASKS.values():
        assert task.sizes[-1] >= 30 * task.sizes[0]
        measured = growth.measure(task.prepare, task.quick[0])
        assert measured.memory >= 0
        assert len(measured.seconds) == 1


@pytest.mark.torch
def test_heads_trains_peers_on_the_same_targets(monkeypatch):
    from benchmarks import heads

    for name, value in {"QUICK_HEADS": 4, "QUICK_WORK": 10_000, "BODIES": (1, 2)}.items():
        monkeypatch.setattr(heads, name, value)
    rows = measured(heads, Asked(quick=True, widths=(1024,)))
    assert len(rows) == 2 * (1 + 2) + 2 * (1 + 4)  # one body leaves no networks to stack
    ours = [row for row in rows if row["by"] == "rndlib"]
    assert all(row["distance"] < 1e-3 for row in ours)
    # Trained themselves, peers come to where rndlib is: the accuracy is what they are stopped at.
    assert all(row["distance"] <= 1e-2 for row in rows)


def test_the_whole_sums_up_what_is_on_record(tmp_path, monkeypatch):
    from benchmarks import whole

    machine = {"cpu": "Z80", "cores": 1}
    run = runs.Run("k", "01_judge", "smoke", {}, {}, None, machine, "1976-07-01T00:00:00", 2.5, 3 * 2**20)
    results = [
        runs.Result(tmp_path, replace(run, seconds=s, peak_memory=int(s * 2**20), started=f"1976-07-01T{at}"), [])
        for s, at in ((2.5, "00:00:00"), (4.0, "00:00:01"))
    ]
    monkeypatch.setattr(whole.runs, "read_all", lambda place: results)
    (case,) = whole.SECTION.cases(Asked(quick=True))
    *each, together = case()
    assert [row["peak memory, MiB"] for row in each] == [2.5, 4.0]
    assert (together["seconds"], together["peak memory, MiB"]) == (5.0, 4.0)
    later = replace(results[0], run=replace(results[0].run, started="1976-07-02T00:00:00"))
    assert whole.rows([later, results[1]])[-1]["seconds"] == 6.5
    assert list(whole.SECTION.cases(Asked())) == []  # none at the paper's size


def test_sampling_measures_small_sizes_and_bounds_large_ones(monkeypatch):
    from benchmarks import rates, sampling

    monkeypatch.setattr(rates, "SIDE", 64)
    for name, value in {"QUICK_SIZES": ((4, 5), (200, 5)), "QUICK_TRAINED": 4, "WHOLE": 0, "FEW": 1}.items():
        monkeypatch.setattr(sampling, name, value)
    small, large = (case() for case in sampling.SECTION.cases(Asked(quick=True, widths=(256,))))
    assert [row["by"] for row in small] == ["NTK-GP", "Bayesian RND", "Bayesian ensemble"]
    # 512 exact samples: their variance is within six standard deviations of what it should be, at each point alone.
    assert abs(small[0]["variance"] - 1) < 6 * np.sqrt(2 / sampling.SAMPLES)
    assert [row["by"] for row in large] == ["NTK-GP", "Bayesian RND, at least", "Bayesian ensemble, at least"]
    assert sampling._bound(MLP(3, width=64), 200, 16, 1) > sampling._bound(MLP(3, width=64), 100, 16, 1)


def test_many_points_are_sampled_with_and_without_matrices(monkeypatch):
    from benchmarks import growth, many_points

    monkeypatch.setattr(many_points, "alone", growth.measure)  # in this process
    monkeypatch.setattr(many_points, "REPEATS", 1)
    rows = {row["by"]: row for row in many_points._rows(60, 512)}
    ours, matrix, exact, nystrom = (rows[way] for way in many_points.WAYS)
    assert abs(ours["mean"] - matrix["mean"]) < 1e-4
    assert abs(ours["variance"] - matrix["variance"]) < 1e-3
    assert exact["mean"] == 0.0
    assert all(0.5 < row["variance"] < 2 for row in rows.values())
    assert nystrom["mean"] < 0.5
    assert ours["mean"] < 0.5


def test_what_is_left_after_steps_with_momentum():
    from benchmarks.momentum import choices, fewest

    values = np.array([0.01, 0.3, 5.0])
    for rule in choices(values).values():
        x, velocity = np.ones(3), np.zeros(3)
        for steps in range(1, 8):
            velocity = rule.momentum * velocity + values * x
            x = x - rule.rate * velocity
            np.testing.assert_allclose(rule.left(values, steps), x, rtol=0, atol=1e-12)
        assert np.abs(rule.left(values, 10_000)).max() < 1e-6  # stable
    needed = [
        fewest(lambda k, rule=rule: np.abs(rule.left(values, k)).max() < 1e-3) for rule in choices(values).values()
    ]
    assert needed[0] > needed[1] > needed[2]
    with pytest.raises(ValueError, match="more than 1000000000 steps"):
        fewest(lambda steps: False)


@pytest.mark.torch
def test_the_two_forms_of_a_network_are_one():
    from benchmarks import images

    X, _, _ = images.digits(3)
    ours, theirs = images.module(2), images.function(2)
    weights = ours.initial(2, 0)
    renamed = dict(zip((f"[{i}]" for i in range(6)), weights.values(), strict=True))
    np.testing.assert_allclose(ours.functions(weights, X), theirs.functions(renamed, X), rtol=1e-10, atol=1e-12)


@pytest.mark.torch
def test_members_in_training_come_to_where_rndlib_s_do(monkeypatch):
    from benchmarks import own_training

    for name, value in {"REPEATS": 1, "TRAINED": 2.0}.items():
        monkeypatch.setattr(own_training, name, value)
    rows = own_training.rows(4, 10, 8, 0.05, 20)
    assert [row["by"] for row in rows] == [
        "rndlib, Module", "rndlib, Function", "PyTorch, GD", "PyTorch, momentum 0.9", "PyTorch, momentum, tuned"
    ]  # fmt: skip
    assert all(row["error"] < own_training.ACCURACY for row in rows[:2])
    # The limits of the linear model and of networks this narrow differ by more than the accuracy.
    assert rows[-1]["error"] is not None
    assert rows[-1]["error"] < 0.3
    assert rows[4]["steps"] <= min(rows[2]["steps"], rows[3]["steps"])


@pytest.mark.torch
@pytest.mark.neural_tangents
def test_every_way_to_a_network_s_kernel_gives_the_same(monkeypatch):
    from benchmarks import own_kernels

    monkeypatch.setattr(own_kernels, "alone", lambda *given: SimpleNamespace(memory=2**20))
    monkeypatch.setattr(own_kernels, "REPEATS", 1)
    rows = own_kernels.rows(4, 3, 3, 10)
    assert [row["by"] for row in rows] == list(own_kernels.WAYS)
    assert all(row["error"] < 1e-10 for row in rows if "error" in row)
    assert [row["by"] for row in rows if "error" not in row] == ["rndlib, Module", own_kernels.WHOLE]


@pytest.mark.torch
def test_samples_stand_beside_the_exact_posterior(monkeypatch):
    from benchmarks import own_samples

    monkeypatch.setattr(own_samples, "alone", lambda *given: SimpleNamespace(memory=2**20))
    monkeypatch.setattr(own_samples, "REPEATS", 1)
    samples = 200
    noisy = {row["by"]: row for row in own_samples.rows(6, 8, 4, samples, 0.1)}
    assert noisy[own_samples.LAPLACE]["variance"] == pytest.approx(1, rel=1e-6)
    plain = {row["by"]: row for row in own_samples.rows(6, 8, 4, samples, 0.0)}
    for row in (noisy[own_samples.LIBRARY], plain[own_samples.LIBRARY]):
        assert abs(row["variance"] - 1) < 4 * np.sqrt(2 / samples)
    ends = [row for by, row in plain.items() if ", to" in by]
    assert [row["variance"] for row in ends] == pytest.approx([1.01, 1.01], abs=0.01)
    assert len(plain) == 5


@pytest.mark.torch
def test_the_variance_of_nuqls_after_some_steps_is_that_of_its_law(monkeypatch):
    """As many samples as leave it a standard error of 1 %, after too few steps for the posterior."""
    from benchmarks import images, own_samples
    from benchmarks.own_training import kernel

    n, steps, samples = 6, 30, 20_000
    monkeypatch.setattr(own_samples, "EPOCHS", steps)
    found = own_samples.prepare(own_samples.SLOW, n, 5, 4, samples, 0.0)()
    net, (X, _, X_test) = images.module(4), images.digits(n, 5)
    theta = kernel(net, net.initial(1, 0), np.concatenate([X, X_test]))
    expected = own_samples.excess(own_samples.SLOW, theta, n, steps) + own_samples.exact(theta, n, 0.0)
    np.testing.assert_allclose(found, expected, rtol=0.05)
    assert np.abs(found / own_samples.exact(theta, n, 0.0) - 1).max() > 0.1


@pytest.mark.torch
def test_the_networks_section_has_the_largest_case_in_the_full_run_alone(monkeypatch):
    from benchmarks import networks

    quick, full = (list(networks.SECTION.cases(Asked(quick=quick))) for quick in (True, False))
    assert len(quick) == 4
    assert cast(partial, full[-1]).func is networks._largest
    monkeypatch.setattr(
        networks,
        "alone",
        lambda prepare, *given, cold: (prepare(*given)(), SimpleNamespace(memory=2**31, seconds=[1.0]))[1],
    )
    rows = networks._largest(5, 3)
    assert [row["MiB"] for row in rows] == [2048, 2048]
