"""One step of the solver: what the machine allows, and where its time goes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import rates
from benchmarks.timing import side_by_side
from rndlib import MLP, cores, datasets, kernels
from rndlib.cores import parallel
from rndlib.paper.evidence.estimate import Estimate
from rndlib.running.costs import Row
from rndlib.training.backends import load
from rndlib.training.backends.jax import (
    _integrate,  # pyright: ignore[reportPrivateUsage]
    linearise,
)
from rndlib.training.backends.jax.activations import value_and_slope
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import WIDE
from rndlib.training.flow.integration import MOST_STEPS
from rndlib.training.problem import Spectrum, block_size
from rndlib.training.weights import Role, draw

NOTE = (
    "A step of the solver linearises one network at N = 10 points, forms and decomposes its tangent kernel, and moves "
    "its parameters and the midpoint of the next step. Rows with *of it* are parts of it by themselves, as XLA has "
    "them; *the rest*, which passes over the parameters and over the units of each point, is what they leave. *goal* "
    "is the project's, for the share."
)

GOAL = 0.5
"""The project's, for the share of the bound in the time of a step."""

DTYPE = "float32"
"""The precision of steps at the default accuracy. The eigenproblem is in float64."""

TIME = 1e-3
"""Time of the flow that a step covers, and again to the next midpoint; the cost does not depend on it."""


def operations(width: int, n_samples: int, in_dim: int) -> float:
    """Operations of its matrix products, with one head and depth 2.

    They are two Gram matrices over the units, and passes of the points through both layers: forward, along the change
    of the parameters, and backward for two vectors. A sum of n products has n - 1 additions.
    """
    forward, along, backward = (2 * in_dim - 1) + 2, (2 * in_dim - 1) + 2 + 2, 1 + 2 * (2 * in_dim + 2)
    return gram_operations(width, n_samples) + float(width) * n_samples * (forward + along + backward)


def gram_operations(width: int, n_samples: int) -> float:
    """Operations of its two Gram matrices over the units."""
    return 2.0 * width * n_samples * (2 * n_samples)


@in_float64
def rows(width: int, side: int, steps: int) -> list[Row]:
    """Rows for a step of one network of this width, and for its parts."""
    net, data = MLP(3, width=width), datasets.toy(seed=0, n_test=1)
    n, d = data.X.shape
    size, blocks = min(8, block_size(net, 1, n)), 2 * len(cores.usable())
    networks = size * blocks
    generator = np.random.default_rng(0)
    units = generator.standard_normal((n, width)).astype(DTYPE)
    each = {
        "whole": (by_library(net, data, size, steps), blocks),
        "Gram": (_compiled(lambda x: _grams(x, 2 * steps), units), networks),
        "SiLU": (_compiled(lambda z: _silus(z, steps), units), networks),
        "eigenproblem": (_compiled(_eigenproblems, generator.standard_normal((steps, n, n))), networks),
    }
    times = side_by_side({name: partial(parallel, one, range(count)) for name, (one, count) in each.items()})
    seconds = {name: times[name].scaled(1 / (networks * steps)).spread for name in each}
    products, in_grams, in_silus = operations(width, n, d), gram_operations(width, n), float(n * width)
    grams, silus, rest = (
        rates.bound(DTYPE, side, *counted) for counted in ((in_grams, 0.0), (0.0, in_silus), (products - in_grams, 0.0))
    )
    left = seconds["whole"].value - sum(seconds[name].value for name in ("Gram", "SiLU", "eigenproblem"))
    shared: Row = {"dtype": DTYPE, "width": width}
    found: list[Row] = [
        {"task": task, **shared, "seconds": time, **_against(time, bound)}
        for task, time, bound in (
            ("step of the solver, one network", seconds["whole"], grams + silus + rest),
            ("of it: two Gram products", seconds["Gram"], grams),
            ("of it: SiLUs with their slopes", seconds["SiLU"], silus),
            ("of it: an eigenproblem", seconds["eigenproblem"], None),
            ("of it: the rest", left, rest),
        )
    ]
    found[0]["goal"] = GOAL
    return found


def _against(time: Estimate | float, bound: float | None) -> Row:
    if bound is None:
        return {}
    return {"bound": bound, "share": bound / (time.value if isinstance(time, Estimate) else time)}


def _compiled(function: Callable[[Any], Any], given: np.ndarray) -> Callable[[int], Any]:
    program = jax.jit(function, compiler_options=WIDE)

    @in_float64
    def one(_: int) -> Any:
        return jax.block_until_ready(program(given))

    return one


# Each repeats a part on what the round before has changed, as XLA would compute the same thing only once.


def _grams(x: Any, count: int) -> Any:
    def again(_: int, carry: Any) -> Any:
        x, gram = carry
        gram = linearise.gram(x)
        return x.at[0, 0].set(1 / gram[0, 0]), gram

    return lax.fori_loop(0, count, again, (x, jnp.zeros((len(x), len(x)), x.dtype)))[1]


def _silus(z: Any, count: int) -> Any:
    def again(_: int, carry: Any) -> Any:
        z, _, _ = carry
        value, slope = value_and_slope("silu")(z)
        return z.at[0, 0].set(slope[0, 0]), value, slope

    return lax.fori_loop(0, count, again, (z, z, z))[1:]


def _eigenproblems(matrices: Any) -> Any:
    return lax.map(lambda a: jnp.linalg.eigh(a @ a.T)[0], matrices)


def by_library(net: MLP, data: datasets.Regression, size: int, steps: int) -> Callable[[int], Any]:
    """A call that takes so many steps with each network of the block whose number it is given."""
    spectrum = Spectrum(*map(jnp.asarray, np.linalg.eigh(kernels.kernel(net, data.X).ntk)))
    times = np.zeros((2 * MOST_STEPS, 2))
    times[:steps] = TIME
    targets = np.tile(data.y[:, None], (size, 1, 1))

    @in_float64
    def one(block: int) -> Any:
        params = draw(net, 1, 0, Role.MEMBER, range(block * size, (block + 1) * size))
        state = linearise.to_jax(net, params), np.zeros(targets.shape)
        X, y, noise = (np.asarray(a, DTYPE) for a in (data.X, targets, 0.0))
        residual = np.swapaxes(load("jax").functions(net, params, data.X, "float64"), 1, 2) - targets
        there = _integrate(net, state, X, y, noise, residual, spectrum, times, np.full(size, steps))
        return jax.block_until_ready(there)[0]

    return one
