"""One step of the solver: what the machine allows, and where its time goes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.linalg import get_blas_funcs
from threadpoolctl import threadpool_limits

from benchmarks import by_hand, rates
from benchmarks.timing import side_by_side
from rndlib import MLP, cores, datasets, kernels
from rndlib.cores import parallel
from rndlib.running.costs import Row, Spread
from rndlib.training.backends.jax import linearise
from rndlib.training.backends.jax.activations import VALUE_AND_SLOPE
from rndlib.training.backends.jax.exponential import Spectrum
from rndlib.training.backends.jax.flow import _integrate  # pyright: ignore[reportPrivateUsage]
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import WIDE
from rndlib.training.backends.sizes import block_size
from rndlib.training.flow.integration import MOST_STEPS
from rndlib.training.weights import Role, draw

NOTE = (
    "A step of the solver linearises one network at N = 10 points, forms and decomposes its tangent kernel, and moves "
    "its parameters and the midpoint of the next step. Rows with *of it* are parts of it by themselves, as XLA has "
    "them; *the rest*, which passes over the parameters and over the units of each point, is what they leave. *by "
    "BLAS* is the same product outside of XLA, which has no call for it. *at best* keeps the eigenproblem and XLA's "
    "Gram products and has all else at its bound. *by hand* is a program of the same steps for these two layers alone: "
    "what it takes more than at best is up to XLA, what the library takes more than that to the library."
)

DTYPE = "float32"
"""That of the steps at the accuracy that is asked for by default; the eigenproblem is in float64."""

TIME = 1e-3
"""Over which a step follows its flow, and again to the next midpoint; what it costs does not depend on it."""


def operations(width: int, n_samples: int, in_dim: int) -> float:
    """Of its matrix products, with one head and depth 2: those of two Gram matrices over the units, and passes of the
    points through both layers, forward, along the change of the parameters, and backward for two vectors. A sum has one
    addition less than products."""
    forward, along, backward = (2 * in_dim - 1) + 2, (2 * in_dim - 1) + 2 + 2, 1 + 2 * (2 * in_dim + 2)
    return gram_operations(width, n_samples) + float(width) * n_samples * (forward + along + backward)


def gram_operations(width: int, n_samples: int) -> float:
    """Of its two Gram matrices over the units."""
    return 2.0 * width * n_samples * (2 * n_samples)


@in_float64
def rows(width: int, side: int, steps: int) -> list[Row]:
    """Of the table: a step of one network of this width, and its parts."""
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
        "by hand": (alone(net, data, steps), networks),
        "eigenproblem": (_compiled(_eigenproblems, generator.standard_normal((steps, n, n))), networks),
    }
    calls: dict[str, Callable[[], object]] = {
        name: lambda one=one, count=count: parallel(one, range(count)) for name, (one, count) in each.items()
    }
    columns = np.asfortranarray(units.T)
    (gemm,) = get_blas_funcs(("gemm",), (columns,))

    @threadpool_limits.wrap(limits=1)
    def by_blas() -> None:
        for _ in range(2 * steps):
            gemm(1.0, columns, columns, trans_a=True)

    times = side_by_side({**calls, "BLAS": by_blas})
    seconds = {name: times[name].scaled(1 / (networks * steps)).spread for name in each}
    blas = times["BLAS"].scaled(1 / (len(cores.usable()) * steps)).spread
    products, in_grams, in_silus = operations(width, n, d), gram_operations(width, n), float(n * width)
    grams, silus, rest = (
        rates.bound(DTYPE, side, *counted) for counted in ((in_grams, 0.0), (0.0, in_silus), (products - in_grams, 0.0))
    )
    whole = grams + silus + rest
    left = seconds["whole"].median - sum(seconds[name].median for name in ("Gram", "SiLU", "eigenproblem"))
    shared: Row = {"dtype": DTYPE, "width": width}
    return [
        {"task": task, **shared, "seconds": time, **_against(time, bound)}
        for task, time, bound in (
            ("step of the solver, one network", seconds["whole"], whole),
            ("of it: two Gram products", seconds["Gram"], grams),
            ("of it: SiLUs with their slopes", seconds["SiLU"], silus),
            ("of it: an eigenproblem", seconds["eigenproblem"], None),
            ("of it: the rest", left, rest),
            ("two Gram products by BLAS", blas, grams),
            ("step, by hand", seconds["by hand"], whole),
            ("step, at best", seconds["Gram"].median + seconds["eigenproblem"].median + silus + rest, whole),
        )
    ]


def _against(time: Spread | float, bound: float | None) -> Row:
    if bound is None:
        return {}
    return {"bound": bound, "share": bound / (time.median if isinstance(time, Spread) else time)}


def _compiled(function: Callable[[Any], Any], given: np.ndarray) -> Callable[[int], Any]:
    program = jax.jit(function, compiler_options=WIDE)

    @in_float64
    def one(_: int) -> Any:
        return jax.block_until_ready(program(given))

    return one


# The parts, so often, each on what the time before has changed: else XLA would compute them once.


def _grams(x: Any, count: int) -> Any:
    def again(_: int, carry: Any) -> Any:
        x, gram = carry
        gram = linearise.gram(x)
        return x.at[0, 0].set(1 / gram[0, 0]), gram

    return lax.fori_loop(0, count, again, (x, jnp.zeros((len(x), len(x)), x.dtype)))[1]


def _silus(z: Any, count: int) -> Any:
    def again(_: int, carry: Any) -> Any:
        z, _, _ = carry
        value, slope = VALUE_AND_SLOPE["silu"](z)
        return z.at[0, 0].set(slope[0, 0]), value, slope

    return lax.fori_loop(0, count, again, (z, z, z))[1:]


def _eigenproblems(matrices: Any) -> Any:
    return lax.map(lambda a: jnp.linalg.eigh(a @ a.T)[0], matrices)


def by_library(net: MLP, data: datasets.Regression, size: int, steps: int, dtype: str = DTYPE) -> Callable[[int], Any]:
    """A call that takes so many steps with each network of a block of that size, whose number it is given: how far
    its parameters get."""
    spectrum = Spectrum(*map(jnp.asarray, np.linalg.eigh(kernels.kernel(net, data.X).ntk)))
    times = np.zeros((2 * MOST_STEPS, 2))
    times[:steps] = TIME
    targets = np.tile(data.y[:, None], (size, 1, 1))

    @in_float64
    def one(block: int) -> Any:
        params = draw(net, 1, 0, Role.MEMBER, range(block * size, (block + 1) * size))
        state = linearise.transposed(params), np.zeros(targets.shape)
        X, y, noise = (np.asarray(a, dtype) for a in (data.X, targets, 0.0))
        counts, given = np.full(size, steps), np.asarray(False)
        there, _ = _integrate(net, state, X, y, noise, spectrum, times, counts, targets, given)
        return jax.block_until_ready(there)[0]

    return one


def alone(net: MLP, data: datasets.Regression, steps: int, dtype: str = DTYPE) -> Callable[[int], Any]:
    """A call that takes the same steps by hand with a single network, whose number it is given."""
    program = by_hand.program(net, TIME, TIME, steps)

    @in_float64
    def one(network: int) -> Any:
        params = [(w[0], b[0]) for w, b in linearise.transposed(draw(net, 1, 0, Role.MEMBER, [network]), dtype)]
        X, y = (np.asarray(a, dtype) for a in (data.X, data.y))
        return jax.block_until_ready(program(params, X, y))

    return one
