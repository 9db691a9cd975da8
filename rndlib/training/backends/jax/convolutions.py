"""Convolutions as matrix products of patches, which XLA computes many times faster on a CPU.

XLA has no fast path there for float64, nor for the derivatives of single points, which are convolutions in groups: the
derivatives of 100 small images take 200 times as long as by patches.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from rndlib.training.backends.jax.evaluation import bound, evaluated


def by_products(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays, with products in place of convolutions where JAX computes on a CPU.

    Convolutions in loops, branches and functions with derivatives of their own stay as they are.
    """

    def replaced(*given: Any) -> Any:
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(*given)
        values = evaluated(traced.jaxpr, traced.consts, jax.tree.leaves(given), _step)
        return jax.tree.unflatten(jax.tree.structure(shapes), values)

    return replaced if jax.default_backend() == "cpu" else function


def _step(step: Any, values: list[Any]) -> list[Any]:
    return [_product(step, *values)] if is_plain(step) else bound(step, values)


def is_plain(step: Any) -> bool:
    """Whether it is a convolution in which every output reads all channels of its own image alone."""
    given = step.params
    if step.primitive.name != "conv_general_dilated":
        return False
    return given["feature_group_count"] == 1 and given["batch_group_count"] == 1


def _product(step: Any, data: Any, weights: Any) -> jax.Array:
    read = patches(step, data, weights.shape)
    weights = jnp.transpose(weights, step.params["dimension_numbers"].rhs_spec)
    out = read @ weights.reshape(len(weights), -1).T  # (images, *positions, outputs)
    return out.transpose(np.argsort(positions_first(step))).astype(step.outvars[0].aval.dtype)


def positions_first(step: Any) -> list[int]:
    """The axes of the result: images, positions, outputs."""
    images, outputs, *positions = step.params["dimension_numbers"].out_spec
    return [images, *positions, outputs]


def patches(step: Any, data: Any, weights: tuple[int, ...]) -> jax.Array:
    """What each position reads, (images, *positions, channels * pixels of the window), for weights of this shape."""
    given = step.params
    numbers = given["dimension_numbers"]
    images, window = jnp.transpose(data, numbers.lhs_spec), [weights[axis] for axis in numbers.rhs_spec[2:]]
    none = 0, 0, 0
    between = [gap - 1 for gap in given["lhs_dilation"]]
    edges = [(*edge, gap) for edge, gap in zip(given["padding"], between, strict=True)]
    images = lax.pad(images, jnp.zeros((), images.dtype), [none, none, *edges])
    strides, apart = given["window_strides"], given["rhs_dilation"]
    wide = [(size - 1) * gap for size, gap in zip(window, apart, strict=True)]
    last = [size - more for size, more in zip(images.shape[2:], wide, strict=True)]
    # A slice for each pixel of the window: unlike a gather, its transpose is fast.
    starts = [[at * gap for at, gap in zip(pixel, apart, strict=True)] for pixel in np.ndindex(*window)]
    ends = [[start + size for start, size in zip(each, last, strict=True)] for each in starts]
    slices = [
        lax.slice(images, (0, 0, *start), (*images.shape[:2], *end), (1, 1, *strides))
        for start, end in zip(starts, ends, strict=True)
    ]
    read = jnp.moveaxis(jnp.stack(slices, 2), (1, 2), (-2, -1))
    return read.reshape(*read.shape[:-2], -1)
