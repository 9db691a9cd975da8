"""The floor: what this machine's matrix product and SiLU throughput allow, and how near rndlib comes to it."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.section import Asked, Case, Section
from benchmarks.timing import REPEATS, Timing, side_by_side
from rndlib import MLP, DeepEnsemble, GradientDescent, cores, datasets, kernels
from rndlib.backends.jax import linearise
from rndlib.backends.jax.activations import VALUE_AND_SLOPE
from rndlib.backends.jax.exponential import Spectrum
from rndlib.backends.jax.flow import _integrate  # pyright: ignore[reportPrivateUsage]
from rndlib.backends.jax.precision import in_float64
from rndlib.backends.jax.programs import WIDE
from rndlib.backends.sizes import block_size
from rndlib.blocks import parallel
from rndlib.costs import Row, Spread
from rndlib.flow import MOST_STEPS
from rndlib.weights import Role, draw

DTYPES = ("float32", "float64")
WIDTHS, QUICK_WIDTHS = (512, 4096), (512,)
MEMBERS, QUICK_MEMBERS = 513, 33
POINTS, QUICK_POINTS = 5000, 1000
SIDE, QUICK_SIDE = 2048, 512
SHAPES, ROUNDS = ((64, 256), (256, 256), (128, 512)), 256
"""Matrices that the nonlinearity is applied to, so often: they and their values fit a core's caches."""

HALF_STEPS, QUICK_HALF_STEPS = 256, 64


def _cases(asked: Asked) -> Iterator[Case]:
    side = QUICK_SIDE if asked.quick else SIDE
    members, points = (QUICK_MEMBERS, QUICK_POINTS) if asked.quick else (MEMBERS, POINTS)
    half_steps = QUICK_HALF_STEPS if asked.quick else HALF_STEPS
    for dtype in DTYPES:
        yield Case(f"machine, {dtype}", lambda dtype=dtype: _machine(dtype, side))
    for width in asked.widths or (QUICK_WIDTHS if asked.quick else WIDTHS):
        for dtype in DTYPES:
            yield Case(
                f"evaluation, {width}, {dtype}",
                lambda width=width, dtype=dtype: [_evaluation(width, dtype, side, members, points)],
            )
        yield Case(f"half-step, {width}", lambda width=width: [_half_step(width, side, half_steps)])


SECTION = Section(
    "floor",
    "The floor: what the machine allows",
    "Matrix products and SiLUs are run on every core at once, as fast as XLA makes them here: products of square "
    "matrices, and the fastest of two forms of the nonlinearity over matrices of three shapes that stay in cache. "
    "*bound* is the time that a task's products and SiLUs take at these rates, one after the other, and *share* is the "
    "bound over the time. A half-step of the solver linearises one network at N = 10 points, forms and decomposes its "
    "tangent kernel, and moves its parameters; *eigenproblem* is what its decomposition takes alone.",
    _cases,
)


@cache
def _rates(dtype: str, side: int) -> tuple[Timing, Timing, float, float]:
    """The times of some products and some SiLUs on all cores, and how many operations and values they are."""
    count = 4 * len(cores.usable())
    both = {"as rndlib has it": lambda x: VALUE_AND_SLOPE["silu"](x)[0], "jax.nn.silu": jax.nn.silu}
    products = side_by_side({"product": _on_all_cores(lambda a: a @ a, dtype, (side, side), count)})["product"]

    def values(silu: Callable[[Any], Any], x: Any) -> Any:
        # A product with a column, as in a network's last layer: to write all values would take longer than to have
        # them, and a plain sum XLA does not vectorise.
        weights = jnp.ones((x.shape[1], 1), x.dtype)
        return lax.map(lambda scale: silu(scale * x) @ weights, jnp.linspace(0.5, 1.5, ROUNDS, dtype=x.dtype))

    forms = {(name, shape): (silu, shape) for name, silu in both.items() for shape in SHAPES}
    times = side_by_side(
        {form: _on_all_cores(partial(values, silu), dtype, shape, count) for form, (silu, shape) in forms.items()}
    )
    fastest = min(times, key=lambda form: times[form].spread.median / prod(form[1]))
    return products, times[fastest], 2.0 * side**3 * count, float(prod(fastest[1]) * ROUNDS * count)


def operations_per_second(dtype: str) -> float:
    """Of matrix products, all cores at once."""
    products, _, operations, _ = _rates(dtype, SIDE)
    return operations / products.spread.median


def _on_all_cores(function: Callable[[Any], Any], dtype: str, shape: tuple[int, ...], count: int) -> Callable[[], Any]:
    """A call that applies a compiled function `count` times, as many at once as there are cores."""
    compiled = jax.jit(function, compiler_options=WIDE)
    given = np.random.default_rng(0).standard_normal((count, *shape)).astype(dtype)

    @in_float64
    def one(index: int) -> Any:
        return jax.block_until_ready(compiled(given[index]))

    return lambda: parallel(one, range(count))


def _machine(dtype: str, side: int) -> list[Row]:
    products, silus, operations, values = _rates(dtype, side)
    return [
        {"task": "matrix product", "dtype": dtype, "rate": _per_second(operations, products), "unit": "Gflop/s"},
        {"task": "SiLU", "dtype": dtype, "rate": _per_second(values, silus), "unit": "10^9 values/s"},
    ]


def _per_second(count: float, time: Timing) -> Spread:
    median, low, high = time.spread
    return Spread(count / median / 1e9, count / high / 1e9, count / low / 1e9)


def _bound(dtype: str, side: int, operations: float, values: float) -> float:
    """Seconds that so many operations of matrix products and so many SiLUs take at the machine's rates."""
    products, silus, all_operations, all_values = _rates(dtype, side)
    return products.spread.median * operations / all_operations + silus.spread.median * values / all_values


def _evaluation(width: int, dtype: str, side: int, members: int, points: int) -> Row:
    net, data = MLP(3, width=width), datasets.toy(seed=0, n_test=points)
    model = DeepEnsemble(net, members, solver=GradientDescent(1e-3, 1), dtype=dtype).fit(data.X, data.y)
    (time,) = side_by_side({"": lambda: model.functions(data.X_test)}).values()
    products = sum(2 * rows * columns for rows, columns in net.layer_shapes(1))
    bound = _bound(dtype, side, float(products) * members * points, float(width) * members * points)
    return {
        "task": f"evaluation of {members} members on {points} points",
        "dtype": dtype,
        "width": width,
        "seconds": time.spread,
        "bound": bound,
        "share": bound / time.spread.median,
    }


def half_step_operations(width: int, n_samples: int, in_dim: int) -> float:
    """Of its matrix products, with one head and depth 2: those of two Gram matrices over the units, and passes of the
    points through both layers, forward, backward and along the change of the parameters. A sum has one addition less
    than products."""
    grams, forward = 2 * (2 * n_samples), (2 * in_dim - 1) + 2
    along, backward = (2 * in_dim - 1) + 2 + 2, 1 + 2 * in_dim + 2
    return float(width) * n_samples * (grams + forward + along + backward)


@in_float64
def _half_step(width: int, side: int, half_steps: int) -> Row:
    net, data = MLP(3, width=width), datasets.toy(seed=0, n_test=1)
    n, d = data.X.shape
    spectrum = Spectrum(*map(jnp.asarray, np.linalg.eigh(kernels.kernel(net, data.X).ntk)))
    size, blocks = min(8, block_size(net, 1, n)), 2 * len(cores.usable())
    durations = np.zeros(2 * MOST_STEPS)
    durations[:half_steps] = 1e-3

    @in_float64
    def one(block: int) -> Any:
        params = draw(net, 1, 0, Role.MEMBER, range(block * size, (block + 1) * size))
        state = linearise.arrays(params), jnp.zeros((size, n, 1))
        targets = jnp.asarray(np.tile(data.y[:, None], (size, 1, 1)))
        arrays = state, jnp.asarray(data.X), targets, jnp.asarray(0.0), spectrum, durations, np.asarray(half_steps)
        return jax.block_until_ready(_integrate(net, *arrays))

    count = size * blocks * half_steps
    matrices = np.random.default_rng(0).standard_normal((half_steps, n, n))
    decompose = jax.jit(lambda matrices: lax.map(lambda a: jnp.linalg.eigh(a @ a.T)[0], matrices))

    @in_float64
    def eigenproblems(_: int) -> Any:
        return jax.block_until_ready(decompose(jnp.asarray(matrices)))

    times = side_by_side(
        {
            "half-steps": lambda: parallel(one, range(blocks)),
            "eigenproblems": lambda: parallel(eigenproblems, range(size * blocks)),
        },
        REPEATS,
    )
    half_step, eigenproblem = (times[name].scaled(1 / count) for name in ("half-steps", "eigenproblems"))
    bound = _bound("float64", side, half_step_operations(width, n, d), float(n * width))
    return {
        "task": "half-step of the solver, one network",
        "dtype": "float64",
        "width": width,
        "seconds": half_step.spread,
        "bound": bound,
        "share": bound / half_step.spread.median,
        "eigenproblem": eigenproblem.spread.median,
    }
