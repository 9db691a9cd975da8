"""The methods of notebook 06: that each learns, its data, and the stored table."""

from importlib.util import find_spec

import numpy as np
import pytest

from rndlib.paper.practice import data, detectors, regressors, scores, stored

METHODS = [
    pytest.param(name, marks=[pytest.mark.torch] * ("torch" in of.modules)) for name, of in regressors.METHODS.items()
]


@pytest.fixture(scope="module")
def line():
    """A noisy line in two columns, of which the second says nothing; not in standard units."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, (300, 2))
    y = X[:, 0] + 0.3 * rng.standard_normal(300)
    return data.Split(1e2 * X[:200], 7 + 50 * y[:200], 1e2 * X[200:], 7 + 50 * y[200:])


@pytest.mark.check
# The evidence turns the second column off, which the network's scales and scikit-learn's bounds are warned of.
@pytest.mark.filterwarnings("ignore::rndlib.checks.ScaleWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
@pytest.mark.parametrize("name", METHODS)
def test_a_method_finds_the_line_and_the_noise(name, line):
    method = regressors.METHODS[name]
    if missing := [module for module in method.modules if find_spec(module) is None]:
        pytest.skip(f"{missing} not installed")
    found = method.run(line, 1)
    mean, std = found.moments
    scaled = line.standardised()
    truth = (line.X_test[:, 0] / 2 + 7 - line.y.mean()) / line.y.std()
    # Knowing nothing has the error of a constant, and the noise 0.3 is so much of the deviation of the labels.
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.5 * truth.std()
    noise = 15 / line.y.std()
    assert noise / 2 < np.median(std) < 2 * noise
    found_scores = scores.of_predictions(scaled.y_test, found, scaled.X_test)
    assert found_scores["joint"] > -np.log(scaled.y_test.std()) - 0.5 * np.log(2 * np.pi * np.e)  # of knowing nothing


@pytest.mark.parametrize("name", detectors.METHODS)
def test_a_detector_tells_photographs_from_digits(name):
    shift = data.digits(seed=0, n_train=80, n_test=25, held_out=7)
    values = detectors.METHODS[name].run(shift, 1)
    inside, _, photographs = np.split(values, 3)
    # Guessing has 0.5, with a standard error of 0.08 for 25 against 25.
    assert scores.auroc(inside, photographs) > 0.5 + 2 * 0.08


def test_a_stored_score_can_be_computed_again():
    again = stored.run("diabetes", "Bayesian ridge", 0)["scores"]
    for score, value in again.items():
        assert stored.values("diabetes", "Bayesian ridge", score)[0] == pytest.approx(value, rel=1e-6), score


def test_splits_share_no_points_and_are_scaled_by_the_training_points():
    split = data.split("diabetes", seed=3)
    assert len({tuple(row) for row in np.concatenate([split.X, split.X_test])}) == 442
    assert (len(split.y), len(split.y_test)) == stored.SIZES["diabetes"]
    scaled = split.standardised()
    np.testing.assert_allclose(scaled.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose([scaled.X.std(axis=0).min(), scaled.X.std(axis=0).max(), scaled.y.std()], 1)
    assert not np.array_equal(data.split("diabetes", seed=4).y_test, split.y_test)


def test_held_out_digits_are_of_other_classes_and_no_test_point_was_trained_on(monkeypatch):
    number, scaled_together = np.arange(600), []
    images = np.zeros((600, 64))
    images[:, 0], images[:, 1] = number % 10, number  # an image says which class and which image it is
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda return_X_y: (images, number % 10))
    monkeypatch.setattr(data, "_scaled", lambda *parts: scaled_together.append(len(parts)) or list(parts))
    found = data.digits(seed=5, n_train=200, n_test=50)
    held_out, photographs = (found.outside[kind] for kind in ("held-out digits", "photographs"))
    assert photographs.shape == (50, 64)
    assert scaled_together == [4]
    assert len({*found.X[:, 1], *found.inside[:, 1], *held_out[:, 1]}) == 300
    np.testing.assert_array_equal(found.digits, found.X[:, 0])
    assert len(set(found.digits)) == 7
    assert set(found.inside[:, 0]) <= set(found.digits)
    assert not set(held_out[:, 0]) & set(found.digits)


def test_images_are_scaled_by_the_training_images():
    images = np.random.default_rng(1).normal(5, 3, (9, 4))
    train, others = data._scaled(images[:6], images[6:])
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-12)
    assert np.mean(train**2) == pytest.approx(1)
    scale = (images[0, 0] - images[1, 0]) / (train[0, 0] - train[1, 0])
    np.testing.assert_allclose(scale * (others - train[:3]), images[6:] - images[:3])


def test_every_screen_is_of_another_game_and_they_are_scaled():
    pytest.importorskip("ale_py")
    train, test = data.games(seed=3, n_train=6, n_test=4)
    assert len({tuple(row) for row in np.concatenate([train, test])}) == 10
    assert np.mean(train**2) == pytest.approx(1)
    again, _ = data.games(seed=3, n_train=6, n_test=1)
    np.testing.assert_array_equal(again, train)
    with pytest.raises(ValueError, match=r"n_train \+ n_test = 58: there are 57 games"):
        data.games(seed=0, n_train=50, n_test=8)


def test_a_screen_is_reduced_to_the_means_of_its_parts():
    blocks = np.arange(64).reshape(8, 8)
    np.testing.assert_array_equal(data._reduced(np.kron(blocks, np.ones((26, 20))).astype(np.uint8)), blocks.ravel())


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
