"""What this machine allows: the rates of XLA's matrix products and SiLUs, on every core at once."""

from collections.abc import Callable
from functools import cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.timing import Timing, side_by_side
from rndlib import cores
from rndlib.cores import parallel
from rndlib.paper.evidence.estimate import Estimate
from rndlib.running.costs import Row
from rndlib.training.backends.jax.activations import value_and_slope
from rndlib.training.backends.jax.precision import in_float64
from rndlib.training.backends.jax.programs import WIDE

DTYPES = ("float32", "float64")
SIDE, QUICK_SIDE = 2048, 512
SHAPES, ROUNDS = ((64, 256), (256, 256), (128, 512)), 256
"""The shapes of the matrices that the nonlinearity is applied to, and how often. They fit a core's caches."""


@cache
def _rates(dtype: str, side: int) -> tuple[Timing, Timing, float, float]:
    """The times of some products and some SiLUs on all cores, with the numbers of their operations and values."""
    count = 4 * len(cores.usable())
    both = {"as rndlib has it": lambda x: value_and_slope("silu")(x)[0], "jax.nn.silu": jax.nn.silu}
    products = side_by_side({"product": _on_all_cores(lambda a: a @ a, dtype, (side, side), count)})["product"]

    def values(silu: Callable[[Any], Any], x: Any) -> Any:
        # A product with a column, as in a network's last layer. Writing all values would take longer than computing
        # them, and XLA does not vectorise a plain sum.
        weights = jnp.ones((x.shape[1], 1), x.dtype)
        return lax.map(lambda scale: silu(scale * x) @ weights, jnp.linspace(0.5, 1.5, ROUNDS, dtype=x.dtype))

    forms = {(name, shape): (silu, shape) for name, silu in both.items() for shape in SHAPES}
    times = side_by_side(
        {form: _on_all_cores(partial(values, silu), dtype, shape, count) for form, (silu, shape) in forms.items()}
    )
    fastest = min(times, key=lambda form: times[form].spread.value / prod(form[1]))
    return products, times[fastest], 2.0 * side**3 * count, float(prod(fastest[1]) * ROUNDS * count)


def operations_per_second(dtype: str) -> float:
    """The rate of matrix products on all cores at once."""
    products, _, operations, _ = _rates(dtype, SIDE)
    return operations / products.spread.value


def _on_all_cores(function: Callable[[Any], Any], dtype: str, shape: tuple[int, ...], count: int) -> Callable[[], Any]:
    """A call that applies a compiled function `count` times, as many at once as there are cores."""
    compiled = jax.jit(function, compiler_options=WIDE)
    given = np.random.default_rng(0).standard_normal((count, *shape)).astype(dtype)

    @in_float64
    def one(index: int) -> Any:
        return jax.block_until_ready(compiled(given[index]))

    return lambda: parallel(one, range(count))


def rows(dtype: str, side: int) -> list[Row]:
    """The rows of both rates."""
    products, silus, operations, values = _rates(dtype, side)
    return [
        {"task": "matrix product", "dtype": dtype, "rate": _per_second(operations, products), "unit": "Gflop/s"},
        {"task": "SiLU", "dtype": dtype, "rate": _per_second(values, silus), "unit": "10^9 values/s"},
    ]


def _per_second(count: float, time: Timing) -> Estimate:
    median, low, high = time.spread
    return Estimate(count / median / 1e9, count / high / 1e9, count / low / 1e9)


def bound(dtype: str, side: int, operations: float, values: float) -> float:
    """Seconds that so many operations of matrix products and so many SiLUs take at the machine's rates."""
    products, silus, all_operations, all_values = _rates(dtype, side)
    return products.spread.value * operations / all_operations + silus.spread.value * values / all_values
