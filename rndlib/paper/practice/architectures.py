"""Networks of architectures other than the paper's, as a user would write them in JAX, for points of 3 columns.

All are in the parametrisation of Eq. 1: every weight is drawn from N(0, 1), and its scale stands outside. The sums over
units are the ones that a limit of infinite width is about. Notebook 08 trains them.
"""

from functools import cache, partial
from math import sqrt
from typing import Any

from rndlib.jax import Function


def _drawn(shapes: Any, key: Any, outputs: int) -> Any:
    import jax

    shapes = [*shapes, (shapes[-1][-1], outputs)]
    return [
        jax.random.normal(each, shape) for each, shape in zip(jax.random.split(key, len(shapes)), shapes, strict=True)
    ]


def _linear(w: Any, x: Any) -> Any:
    return 1.5 / sqrt(w.shape[0]) * x @ w


@cache
def residual(width: int = 256) -> Function:
    """A hidden layer, a second one that is added to it, and a linear layer."""
    import jax

    def apply(parameters, x):
        first, second, last = parameters
        h = _linear(first, x)
        return _linear(last, jax.nn.silu(h + _linear(second, jax.nn.silu(h))))

    return Function(partial(_drawn, [(3, width), (width, width)]), apply, scales=1.0)


@cache
def normalised(width: int = 256) -> Function:
    """Two hidden layers, the second with normalisation over its units (layer normalisation), and a linear layer."""
    import jax

    def apply(parameters, x):
        first, second, last = parameters
        h = _linear(second, jax.nn.silu(_linear(first, x)))
        h = (h - h.mean(-1, keepdims=True)) / h.std(-1, keepdims=True)
        return _linear(last, jax.nn.silu(h))

    return Function(partial(_drawn, [(3, width), (width, width)]), apply, scales=1.0)


@cache
def attention(width: int = 256, power: float = 1.0) -> Function:
    """One head of self-attention over the columns, each a token with a position, and a linear layer.

    Scores are divided by `width ** power`. With 1 they vanish as the network grows, and each token gets the same
    attention. With 1/2, as usual, they stay random, and no width makes the outputs Gaussian (Hron et al., 2020).
    """
    import jax
    import jax.numpy as jnp

    def apply(parameters, x):
        embedding, query, key, value, last = parameters
        tokens = jnp.stack([x, jnp.ones_like(x), *(jnp.zeros_like(x).at[:, i].set(1.0) for i in range(2))], axis=-1)
        h = jax.nn.silu(_linear(embedding, tokens))
        scores = jnp.einsum("nqu,nku->nqk", _linear(query, h), _linear(key, h)) / width**power
        mixed = jax.nn.softmax(scores, axis=-1) @ _linear(value, h)
        return _linear(last, jax.nn.silu(mixed).mean(axis=1))

    return Function(partial(_drawn, [(4, width), *[(width, width)] * 3]), apply, scales=1.0)
