"""The contenders of notebook 06: what they are given, and that each is what its name says, on problems small enough."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from rndlib import MLP, RND, laws
from rndlib.practice import data, detectors, regressors, scores, task

pytestmark = pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
SIZES = task.Sizes(heads=4, members=3, rtol=0.3, epochs=300)
TORCH = {"laplace-torch", "RND as agents have it"}


def contenders(all_of):
    """Each contender, marked by what it needs."""
    found = []
    for name, contender in all_of.items():
        marks = [pytest.mark.torch] * (name in TORCH)
        if name == "laplace-torch":
            marks.append(pytest.mark.skipif(find_spec("laplace") is None, reason="laplace-torch is not installed"))
        found.append(pytest.param(contender, id=name, marks=marks))
    return found


@pytest.fixture(scope="module")
def line():
    """A noisy line in two inputs, of which the second says nothing, and test points on a grid."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, (60, 2))
    y = X[:, 0] + 0.3 * rng.standard_normal(60)
    X_test = np.stack([np.linspace(-1.2, 1.2, 9), np.zeros(9)], axis=1)
    return task.Task(X, y, X_test, MLP(2, width=64), noise_std=0.3, sizes=SIZES, seed=1)


@pytest.mark.parametrize("contender", contenders(regressors.REGRESSORS))
def test_a_regressor_finds_the_line_and_the_noise(contender, line):
    found = contender(line)
    assert found.mean.shape == found.std.shape == (9,)
    assert found.parameters > 0
    # The noise has a standard deviation of 0.3, and half of a range of 2.4 is what knowing nothing would cost.
    assert np.abs(found.mean - line.X_test[:, 0]).max() < 0.6
    assert np.all((found.std > 0.15) & (found.std < 0.9))
    again = contender(line)
    np.testing.assert_array_equal(found.mean, again.mean)
    np.testing.assert_array_equal(found.std, again.std)


def test_the_exact_process_is_the_law_plus_noise(line):
    law = laws.posterior(line.net, line.X, line.y, line.X_test, noise_std=0.3)
    found = regressors.exact_gp(line)
    np.testing.assert_array_equal(found.mean, law.mean)
    np.testing.assert_allclose(found.std**2, law.var + 0.3**2, rtol=1e-12)


def test_bayesian_rnd_counts_what_it_trained(line):
    found = regressors.bayesian_rnd(line)
    hidden = 64 * 3
    assert found.parameters == (hidden + 4 * 65) + (hidden + 65)  # four heads, and the mean network


@pytest.fixture(scope="module")
def shift():
    """Digits of three classes, and points to score: inside, then each group outside."""
    found = data.digits(seed=0, n_train=80, n_test=25, held_out=7)
    points = np.concatenate([found.inside, *found.outside.values()])
    net = MLP(64, width=64, sigma_w=1.0)
    return found, task.Task(found.X, found.digits.astype(float), points, net, noise_std=0.2, sizes=SIZES, seed=1)


@pytest.mark.parametrize("contender", contenders(detectors.DETECTORS))
def test_a_detector_tells_photographs_from_digits(contender, shift):
    found, asked = shift
    score = contender(asked)
    assert score.values.shape == (75,)
    areas = scores.aurocs(score.values, 25, {name: len(group) for name, group in found.outside.items()})
    # Guessing has 0.5, with a standard error of 0.08 for 25 against 25.
    assert areas["photographs"] > 0.5 + 2 * 0.08
    np.testing.assert_array_equal(contender(asked).values, score.values)


def test_scores_that_know_no_labels_are_the_variances_of_the_library(shift):
    _, asked = shift
    other = replace(asked, y=asked.y[::-1].copy())
    for contender in (detectors.DETECTORS["exact NTK-GP"], detectors.bayesian_rnd, detectors.rnd, detectors.nearest):
        np.testing.assert_array_equal(contender(asked).values, contender(other).values)
    model = RND(asked.net, 4, seed=1, solver=detectors.GradientFlow(rtol=0.3)).fit(asked.X)
    np.testing.assert_array_equal(detectors.rnd(asked).values, model.variance(asked.X_test))
    np.testing.assert_allclose(
        detectors.nearest(asked).values,
        np.sqrt(((asked.X_test[:, None] - asked.X[None]) ** 2).sum(axis=2).min(axis=1)),
        rtol=1e-6,
    )


def test_contenders_meet_the_same_tasks_in_order(line):
    seen = []

    def contender(asked):
        seen.append(asked)
        return len(seen)

    results, seconds = task.run({"one": contender, "other": contender}, [line, replace(line, seed=2)])
    assert [asked.seed for asked in seen] == [line.seed, 2] * 2
    assert results == {"one": [1, 2], "other": [3, 4]}
    assert min(seconds.values()) >= 0


def test_splits_share_no_points_and_are_scaled_by_the_training_points():
    split = data.diabetes(seed=3)
    rows = {tuple(row) for row in split.X} | {tuple(row) for row in split.X_test}
    assert len(rows) == 442
    np.testing.assert_allclose(split.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose([split.X.std(axis=0).min(), split.X.std(axis=0).max(), split.y.std()], 1)
    assert not np.array_equal(data.diabetes(seed=4).y_test, split.y_test)


def test_held_out_digits_are_of_other_classes_and_no_test_point_was_trained_on(monkeypatch):
    number = np.arange(600)
    images = np.zeros((600, 64))
    images[:, 0], images[:, 1] = number % 10, number  # an image says which class and which image it is
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda return_X_y: (images, number % 10))
    found = data.digits(seed=5, n_train=200, n_test=50)
    assert found.outside["photographs"].shape == (50, 64)
    np.testing.assert_allclose(found.X.mean(axis=0), 0, atol=1e-9)
    assert np.mean(found.X**2) == pytest.approx(1)
    # In the units of images, by a pair whose numbers are known: all share one centre and one scale.
    known = [found.X, found.inside, found.outside["held-out digits"]]
    columns = np.concatenate(known)[:, :2]
    step = np.diff(np.unique(columns[:, 1].round(9))).min()  # 300 of 600 numbers, hence some two neighbours
    classes = np.round((columns[:, 0] - columns[:, 0].min()) / step).astype(int)
    assert len(np.unique(columns[:, 1].round(9))) == 300
    assert set(classes[200:250]) <= set(classes[:200])
    assert not set(classes[250:]) & set(classes[:200])
    assert len(set(classes[:200])) == 7
    offset = set(classes[:200] - found.digits)
    assert len(offset) == 1  # the digits are those of the images


def test_every_screen_is_of_another_game_and_all_share_the_scale_of_the_training_screens():
    pytest.importorskip("ale_py")
    train, test = data.games(seed=3, n_train=6, n_test=4)
    assert len({tuple(row) for row in np.concatenate([train, test])}) == 10
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-9)
    assert np.mean(train**2) == pytest.approx(1)
    again, _ = data.games(seed=3, n_train=6, n_test=1)
    np.testing.assert_array_equal(again, train)
    with pytest.raises(ValueError, match=r"n_train \+ n_test = 58: there are 57 games"):
        data.games(seed=0, n_train=50, n_test=8)


def test_a_screen_is_reduced_to_the_means_of_its_parts():
    blocks = np.arange(64).reshape(8, 8)
    np.testing.assert_array_equal(data._reduced(np.kron(blocks, np.ones((26, 20))).astype(np.uint8)), blocks.ravel())


def test_a_deviation_is_that_of_a_fit_to_odd_and_even_digits(shift):
    _, asked = shift
    assert detectors.odd(np.array([0, 1, 2, 9])).tolist() == [-1, 1, -1, 1]
    predicted = regressors.sklearn_gp(replace(asked, y=detectors.odd(asked.y)))
    np.testing.assert_array_equal(detectors.DETECTORS["GaussianProcessRegressor"](asked).values, predicted.std)


def test_the_score_of_bayesian_rnd_is_the_mean_square_of_its_errors(shift):
    _, asked = shift
    score = detectors.bayesian_rnd(asked)
    assert score.errors is not None
    assert score.errors.shape == (4, 75)
    np.testing.assert_array_equal(np.mean(score.errors**2, axis=0), score.values)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"n_train": 2000, "n_test": 10}, r"n_train \+ n_test = 2010: there are"),
        ({"n_train": 10, "n_test": 900}, "n_test = 900: there are|n_train"),
    ],
)
def test_digits_that_there_are_not_are_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        data.digits(seed=0, **arguments)


@pytest.mark.torch
def test_a_network_of_pytorch_has_the_activation_of_its_description():
    import torch

    from rndlib.practice import with_torch

    for activation, phi in (("erf", torch.erf), ("relu", torch.relu)):
        network = with_torch.network(MLP(2, width=8, depth=3, activation=activation), 3)
        x = torch.ones(4, 2, dtype=torch.float64)
        first, _, second, _, last = network
        assert torch.equal(network(x), last(phi(second(phi(first(x))))))


@pytest.mark.torch
def test_the_generator_of_pytorch_is_left_alone(line):
    import torch

    from rndlib.practice import with_torch

    before = torch.random.get_rng_state()
    with_torch.plain_rnd(line)
    assert torch.equal(before, torch.random.get_rng_state())
