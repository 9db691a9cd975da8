"""Settings that leave the limit: how they are measured, the stored table, and the advice made of it."""

from dataclasses import replace

import departures as script
import numpy as np
import pytest

from rndlib import explain_setting
from rndlib.evidence.estimate import Estimate
from rndlib.evidence.statistics import to_law
from rndlib.practice import advice, departures
from rndlib.practice.departures import DEPARTURES, Setting, measure, verdict


def test_the_table_has_every_setting_once():
    measured = [(row.departure, row.strength) for row in advice.rows()]
    assert measured == [(name, strength) for name, each in DEPARTURES.items() for strength in each.settings]
    for row in advice.rows():
        for ratio in row.ratios.values():
            assert 0 < ratio.low <= ratio.value <= ratio.high


def test_a_row_can_be_measured_again():
    (row,) = (row for row in advice.rows() if (row.departure, row.strength) == ("width", "16"))
    again = measure(DEPARTURES["width"].settings["16"](), script.SEED)
    for name, stored in row.ratios.items():
        assert getattr(again, name) == pytest.approx(stored, rel=1e-3), name


def test_ratios_see_a_wrong_half_and_a_wrong_posterior():
    """A law with a variance twice as large halves the ratios to it, and not that of the two sides."""
    small = replace(Setting(), net=replace(departures.PAPER, width=128), networks=256)
    doubled = replace(small, kernel=replace(departures.PAPER, sigma_w=1.5))
    assert measure(small).rnd == measure(doubled).rnd
    labels = replace(small, y=0 * small.y)
    assert measure(labels).ensemble_to_law.value < measure(replace(small, y=8 * small.y)).ensemble_to_law.value / 3


@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_squares_to_their_law_cover_it(scale):
    """Exact draws: the 95 % interval has the scale in it in 180 to 200 of 200 runs."""
    rng, inside = np.random.default_rng(0), 0
    variance = np.array([1.0, 4.0, 0.5])
    for _ in range(200):
        found = to_law(scale * variance * rng.standard_normal((300, 3)) ** 2, variance)
        inside += bool(found.low[0] <= np.log(scale) <= found.high[0])
    assert 180 <= inside < 200


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [((1.0, 0.9, 1.1), "safe"), ((1.2, 1.1, 1.3), "biased"), ((0.6, 0.5, 0.7), "biased"), ((3.0, 2.8, 3.2), "meaningless")],
)
def test_a_verdict_is_by_the_far_end(ratio, expected):
    assert verdict(Estimate(*ratio)) == expected


def test_advice_takes_the_worse_of_two_neighbours_and_of_two_departures():
    rows = {(row.departure, row.strength): row for row in advice.rows()}
    between = explain_setting(width=100)
    order = advice._WORST.index
    assert order(between.rnd) == max(order(rows["width", n].verdict("rnd")) for n in ("64", "256"))
    both = explain_setting(width=1024, time=0.1)
    assert (both.bayesian, len(both.reasons)) == ("meaningless", 2)
    assert "0.1" in str(both)


def test_beyond_what_was_measured_the_last_counts():
    assert explain_setting(labels=100.0).rnd == explain_setting(labels=16).rnd == "meaningless"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({}, "no argument: give some of width"),
        ({"colour": 3}, "colour: give some of width"),
        ({"optimizer": "LBFGS"}, "optimizer = 'LBFGS': measured were momentum"),
    ],
)
def test_bad_input(setting, message):
    with pytest.raises(ValueError, match=message):
        explain_setting(**setting)
