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
    outputs, channels, *window = step.params["dimension_numbers"].rhs_spec
    out = read @ jnp.transpose(weights, (*window, channels, outputs)).reshape(-1, weights.shape[outputs])
    return out.transpose(np.argsort(positions_first(step))).astype(step.outvars[0].aval.dtype)


def positions_first(step: Any) -> list[int]:
    """The axes of the result: images, positions, outputs."""
    images, outputs, *positions = step.params["dimension_numbers"].out_spec
    return [images, *positions, outputs]


def patches(step: Any, data: Any, weights: tuple[int, ...]) -> jax.Array:
    """What each position reads, (images, *positions, pixels of the window * channels), for weights of this shape.

    Channels stay side by side in memory, so that most of the copying is of whole rows.
    """
    given = step.params
    numbers = given["dimension_numbers"]
    first, channels, *places = numbers.lhs_spec
    window = [weights[axis] for axis in numbers.rhs_spec[2:]]
    none = 0, 0, 0
    between = [gap - 1 for gap in given["lhs_dilation"]]
    edges = [(*edge, gap) for edge, gap in zip(given["padding"], between, strict=True)]
    read = jnp.transpose(data, (first, *places, channels))
    read = lax.pad(read, jnp.zeros((), read.dtype), [none, *edges, none])
    # One axis after the other, and a slice for each pixel: few to compile, and unlike a gather's, their transpose is
    # fast.
    for axis, (size, stride, apart) in enumerate(
        zip(window, given["window_strides"], given["rhs_dilation"], strict=True)
    ):
        last = read.shape[axis + 1] - (size - 1) * apart
        starts = [pixel * apart for pixel in range(size)]
        read = jnp.stack([lax.slice_in_dim(read, at, at + last, stride, axis + 1) for at in starts], -2)
    return read.reshape(*read.shape[: len(window) + 1], -1)
