"""Steps of training on all points, written once for every array library in terms of a linearised network."""

from collections.abc import Callable
from typing import Any

from rndlib.training.flow.exponential import dense, flow_integral
from rndlib.training.flow.library import Library
from rndlib.training.problem import Spectrum
from rndlib.training.trees import mapped

Linearise = Callable[[Any], tuple[Any, Any]]
"""Parameters to the function on X, (N, K), and its tangent, a `rndlib.training.protocols.Linearised`."""


def descent_step(linearise: Linearise, state: Any, y: Any, noise_std: Any, rate: Any) -> Any:
    """Parameters and offsets after one step of gradient descent."""
    params, offsets = state
    f, tangent = linearise(params)
    r = f + noise_std * offsets - y
    return mapped(lambda p, slope: p - rate * slope, state, (tangent.pull_back(r), noise_std * r))


def flow_evaluation(
    linearise: Linearise,
    start: Any,
    y: Any,
    noise_std: Any,
    residual: Any,
    spectrum: Spectrum,
    times: Any,
    lib: Library,
) -> Callable[[Any, Any], Any]:
    """One evaluation of network and kernel in gradient flow, `(index, carry) -> carry`.

    The carry holds the changes from `start` of the state (parameters and offsets), and of the parameters at which the
    network is evaluated next. It is in the precision of y; r and v, functions on the training set, are in float64.
    `residual` is that of `start`, and `times` has the rows of `Backend.integrate`.
    """
    xp, dtype = lib.xp, str(y.dtype).removeprefix("torch.")
    params, offsets = start
    noise = lib.cast(noise_std, "float64") ** 2

    def minus(a: Any, b: Any) -> Any:
        return mapped(lambda a, b: a - b, a, b)

    def evaluate(i: Any, carry: Any) -> Any:
        (shift, xi), here = carry
        f, tangent = linearise(mapped(lambda p, s: p + s, params, here))
        # r is the residual at the step's start, by the linear model at `here`. The branch takes the change as an array,
        # because XLA would otherwise compute it anew for every point.
        away = (i > 0) & (times[i - 1, 1] > 0)
        moved = lib.cond(away, tangent.push_forward, lambda _: xp.zeros_like(f), minus(shift, here))
        r = lib.cast(f + moved + noise_std * (offsets + xi) - y, "float64")
        r = lib.cond(i == 0, lambda _: residual, lambda r: r, r)
        over, ahead = times[i]
        if dense(*r.shape[-2:]):
            v = flow_integral(tangent, r, xp.stack([over, over + ahead]), noise, spectrum, lib)
            v = lib.cast(v, dtype)
            to_end, to_midpoint = lib.pull_backs(tangent, v)
            return (minus(shift, to_end), xi - noise_std * v[0]), minus(shift, to_midpoint)
        v = lib.cast(flow_integral(tangent, r, (over + ahead)[None], noise, spectrum, lib)[0], dtype)
        here = minus(shift, tangent.pull_back(v))
        there = here, xi - noise_std * v
        return mapped(lambda old, new: xp.where(ahead > 0, old, new), (shift, xi), there), here

    return evaluate
