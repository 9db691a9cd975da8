"""The warning about many heads on one narrow body; tests/test_departure.py has the drift that comes with them."""

import warnings

import numpy as np
import pytest

from rndlib import MLP, RND, GradientFlow, datasets, laws
from rndlib.paper.evidence.statistics import level, spread
from rndlib.theory.crowding import CROWDING, HeadsWarning, warn_if_narrow


@pytest.mark.parametrize(
    ("net", "heads"), [(MLP(3, width=1024), 16), (MLP(3, width=16), 1), (MLP(3, width=16, depth=1), 64)]
)
def test_is_silent_where_the_theorems_hold(net, heads):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_narrow(net, heads)


@pytest.mark.check
def test_standard_rnd_keeps_its_mean_and_scatters_more():
    """32 heads on 64 units. The rule for the excess is good to a factor of 3; 40 bodies know the variance to a third.

    The mean of as many bodies is known to 0.05, and is within a tenth by the rule.
    """
    heads, bodies = 32, 40
    data = datasets.toy(2, n_test=50)
    net = MLP(3, width=64)
    variance = laws.ensemble(net, data.X, data.y, data.X_test).var
    model = RND(net, heads, bodies, solver=GradientFlow(rtol=5e-2))
    with pytest.warns(HeadsWarning, match="spread"):
        errors = model.fit(data.X).errors(data.X_test).reshape(bodies, heads, -1)
    squares = np.mean(errors**2, axis=1) / 2
    _, low, high = level(squares, variance)
    assert low < 1.1
    assert high > 0.9
    _, low, high = spread(squares, variance, heads)
    excess = CROWDING * heads / net.width
    assert low > 1
    assert low < 1 + 3 * excess
    assert high > 1 + excess / 3
