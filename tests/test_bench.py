"""The bench: harness, record, and that peers do what they are timed for. Never their times."""

import bench
import numpy as np
import pytest
from benchmarks import case
from benchmarks.case import Case, Way
from made import made

from rndlib import MLP, BayesianRND, datasets, kernels
from rndlib.training.weights import Role, draw

pytestmark = pytest.mark.tools


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


def test_ratios_that_have_fallen_are_named(tmp_path):
    def section(**ratios):
        """With each ratio and its largest."""
        ours = {"case": "c", "by": "rndlib", "seconds": [1.0, 0.5, 2.0]}
        peers = [{"case": "c", "by": by, case.RATIO: [ratio, 0, most]} for by, (ratio, most) in ratios.items()]
        return {"name": bench.SECTIONS[0], "title": "Title", "note": "Note.", "made by": made(), "rows": [ours, *peers]}

    before = section(peer=(6.0, 6.5), other=(8.0, 9.0))
    assert list(bench.fallen(before, [])) == ["c, peer: 6, and none is stored", "c, other: 8, and none is stored"]
    bench.store(tmp_path / "bench.json", before)
    stored = bench.read(tmp_path / "bench.json")
    assert stored == [before]
    # A repeat that is interrupted is slow for that alone.
    assert not list(bench.fallen(section(peer=(3.0, 4.1), other=(99.0, 99.0)), stored))
    assert list(bench.fallen(section(peer=(3.0, 3.9)), stored)) == ["c, peer: 3, stored 6"]
    assert "| rndlib | 1 (0.5 to 2) |  |" in bench.text(before)


# ------------------------------------------------------------------------------------------------- peers


@pytest.mark.check
@pytest.mark.torch
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_descent_needs_the_steps_that_the_linear_model_says(momentum):
    """Networks that are nearly linear are then 1 % away in the root mean square, which is of one mode, the slowest."""
    from benchmarks import descent

    net, data = MLP(3, width=1024), datasets.toy(0, n_train=3, n_test=50)
    across, prior = kernels.kernel(net, data.X_test, data.X), kernels.diagonal(net, data.X_test).nngp
    train = kernels.kernel(net, data.X)
    steps = descent.needed(train, across, prior, train.nngp + np.outer(data.y, data.y), momentum)
    y = np.tile(data.y[:, None], (512, 1, 1))
    start = [a.astype(np.float32) for layer in draw(net, 1, 0, Role.MEMBER, range(512)) for a in layer]

    def at_test(count):
        return descent.values(net, descent.trained(net, data.X, y, steps, start, count), data.X_test)

    limit = at_test(4 * steps.number)

    def away(count):
        """The median of the networks: some have a largest eigenvalue at which this rate is not stable."""
        return np.median(np.linalg.norm(at_test(count) - limit, axis=1) / np.linalg.norm(limit, axis=1))

    # The median of |z| is 0.67 for a standard normal z. The eigenvalue is off by a few per cent, as an exponent is.
    assert 0.5 * descent.ACCURACY < away(steps.number) < descent.ACCURACY
    assert away(steps.number // 2) > 3 * descent.ACCURACY


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
    peers = {"Cholesky": samples._cholesky, "Nyström": samples._nystrom}
    made = samples._case("c", datasets.toy(0, n_train=60, n_test=60), 200, model, peers)
    found = {name: made.accuracy(way.call()) for name, way in made.ways.items()}
    assert found["NTK-GP, Cholesky"]["mean"] == 0
    # 200 samples: six standard deviations of their variance at one point alone.
    assert abs(found["NTK-GP, Cholesky"]["variance"] - 1) < 6 * np.sqrt(2 / 200)
    assert all(row["mean"] < 0.5 and 0.5 < row["variance"] < 2 for row in found.values())
