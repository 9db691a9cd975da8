"""Settings that leave the limit: how they are measured, the stored table, and the advice made of it."""

from dataclasses import replace

import departures as script
import numpy as np
import pytest

from rndlib import advice, explain_setting, laws
from rndlib.advice import Ratio
from rndlib.paper.evidence.statistics import to_law
from rndlib.paper.many_heads import head_variance
from rndlib.paper.practice import measured
from rndlib.paper.practice.assumptions import SETTINGS
from rndlib.paper.practice.settings import DATA, PAPER, Setting, measure


def test_the_table_has_every_setting_once():
    assert [(name, [*each]) for name, each in advice.table().items()] == [
        (name, [*each]) for name, each in SETTINGS.items()
    ]
    for ratio in (ratio for each in advice.table().values() for ratios in each.values() for ratio in ratios.values()):
        assert 0 < ratio.low <= ratio.value <= ratio.high


def test_a_law_of_linearised_heads_can_be_computed_again():
    stored = measured.linearised_heads()["linearised Bayesian RND"]
    few = laws.bayesian_rnd_error(PAPER, DATA.X, DATA.X_test).var
    many = head_variance(PAPER, DATA.X, DATA.X_test, 0.25, "shared")
    assert stored[3] == pytest.approx(np.mean(many / few), rel=1e-6)
    assert all(np.diff(stored) < 0)


@pytest.mark.check
def test_a_row_can_be_measured_again():
    again = measure(SETTINGS["width"]["16"](), script.SEED)
    for name, stored in advice.table()["width"]["16"].items():
        assert again[name] == pytest.approx(stored, rel=1e-3), name


@pytest.mark.check
def test_ratios_see_a_wrong_half_and_a_wrong_posterior():
    """Laws of other networks move the ratios to them, and hardly that of the two sides. Labels move the ensemble's."""
    small = Setting(replace(PAPER, width=128), networks=256)
    found, wrong = measure(small), measure(replace(small, kernel=replace(PAPER, sigma_w=2.0)))
    for name in ("rnd_to_law", "ensemble_to_law", "bayesian"):
        assert wrong[name].value < 0.8 * found[name].value, name
    assert wrong["rnd"].value == pytest.approx(found["rnd"].value, rel=0.05)
    hard = measure(replace(small, y=8 * small.y))
    assert hard["ensemble_to_law"].value > 3 * found["ensemble_to_law"].value
    assert hard["rnd_to_law"] == found["rnd_to_law"]


@pytest.mark.check
def test_told_of_more_noise_than_there_is_the_error_grows():
    small = Setting(replace(PAPER, width=128), networks=256, noise_std=0.2, told_noise_std=0.2)
    right, wrong = (measure(of)["bayesian"].value for of in (small, replace(small, told_noise_std=0.8)))
    assert right == pytest.approx(1, abs=0.15)
    assert wrong > 2


@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_squares_to_their_law_cover_it(scale):
    """Exact draws: the 95 % interval has the scale in it in 180 to 200 of 200 runs."""
    rng, inside = np.random.default_rng(0), 0
    variance = np.array([1.0, 4.0, 0.5])
    for _ in range(200):
        found = to_law(scale * variance * rng.standard_normal((300, 3)) ** 2, variance)
        inside += bool(found.logs[1, 0] <= np.log(scale) <= found.logs[2, 0])
    assert 180 <= inside < 200


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        ((1.0, 0.9, 1.1), "safe"),
        ((1.2, 1.1, 1.3), "biased"),
        ((0.6, 0.5, 0.7), "biased"),
        ((3.0, 2.8, 3.2), "meaningless"),
    ],
)
def test_a_verdict_is_by_the_far_end(ratio, expected):
    assert Ratio(*ratio).verdict == expected


def test_advice_takes_the_worse_of_two_neighbours_and_of_two_departures():
    between = explain_setting(width=100)
    order = ["safe", "biased", "meaningless"].index
    assert order(between.rnd) == max(order(advice.table()["width"][n]["rnd"].verdict) for n in ("64", "256"))
    both = explain_setting(width=1024, time=0.1)
    assert (both.bayesian, len(both.reasons)) == ("meaningless", 2)
    assert "0.1" in str(both)


def test_beyond_what_was_measured_the_last_counts():
    assert explain_setting(labels=100.0).rnd == explain_setting(labels=16).rnd == "meaningless"
    assert "100.0 asked, beyond what was measured: with 16," in explain_setting(labels=100.0).reasons[0]
    assert "beyond" not in str(explain_setting(labels=16))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({}, "no argument: give some of width"),
        ({"colour": 3}, "colour: give some of width"),
        ({"optimizer": "LBFGS"}, "optimizer = 'LBFGS': give one of momentum"),
        ({"activation": 3}, "activation = 3: give one of silu"),
        ({"width": "wide"}, "width = 'wide': give one of 1024"),
        ({"width": float("nan")}, "width = nan: give one of 1024"),
        ({"width": True}, "width = True: give one of 1024"),
        ({"heads": 0}, "heads = 0: give a number above 0"),
        ({"labels": -1}, "labels = -1: give a number above 0"),
        ({"rate": 5}, "rate = 5: .*diverges: give less than 1"),
    ],
)
def test_bad_input(setting, message):
    with pytest.raises(ValueError, match=message):
        explain_setting(**setting)
