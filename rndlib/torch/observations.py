"""How observations are read: tensors, arrays, or entries of a dictionary of these, as rows of numbers."""

from collections.abc import Hashable, Iterable, Mapping
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from rndlib import checks

Rows = tuple[Tensor, torch.Size]
"""Observations as rows, and the leading dimensions that they had."""


class Reader:
    """Reads observations (*leading, *shape) as rows.

    Parameters
    ----------
    space: Shape of one observation; a number n, for (n,); or what has a `shape`, such as gymnasium's `Box`. For
        dictionaries, what has `spaces` by name, such as gymnasium's `Dict`, or a mapping of names to shapes.
    keys: Name or names of the entries to read, of a dictionary or a TensorDict; None for all that `space` names.
        Several are flattened, and joined in their common type.

    Raises
    ------
    ValueError: `space` has no such shapes, or not those of `keys`.

    >>> import numpy as np
    >>> from rndlib.torch.observations import Reader
    >>> reader = Reader({"position": 2, "time": ()})
    >>> rows, leading = reader({"position": np.ones((5, 4, 2)), "time": np.ones((5, 4))})
    >>> reader.shape, rows.shape, leading
    ((3,), torch.Size([20, 3]), torch.Size([5, 4]))
    """

    def __init__(self, space: Any, keys: Hashable | Iterable[Hashable] = None):
        spaces = getattr(space, "spaces", space)
        self.keys: list[Any] | None = None
        if isinstance(spaces, Mapping) or keys is not None:
            self.keys = [*spaces] if keys is None else [*keys] if isinstance(keys, list | tuple) else [keys]
            if not isinstance(spaces, Mapping):
                spaces = dict.fromkeys(self.keys[:1], space)
            if not self.keys or not {*self.keys} <= {*spaces}:
                raise ValueError(f"keys = {keys!r}: give names that obs_shape has a shape for, which are {[*spaces]}")
        named = [("", space)] if self.keys is None else [(f" of {key!r}", spaces[key]) for key in self.keys]
        for name, part in named:
            if part is None or hasattr(part, "spaces") or getattr(part, "shape", ()) is None:
                raise ValueError(f"obs_shape{name} = {part!r}: flatten it to one array, or leave it out by keys=")
        self.shapes = [shape(part) for _, part in named]
        self.shape = self.shapes[0] if len(self.shapes) == 1 else (sum(map(prod, self.shapes)),)
        if not self.shape:
            raise ValueError(f"obs_shape = {space!r}: give observations of one axis or more, such as one-hot vectors")

    def __call__(self, obs: Any) -> Rows:
        """The rows of `obs`, and its leading dimensions; rows that were read before are read as they are.

        Raises
        ------
        ValueError: `obs` is no such observations, or has none.
        """
        if self.keys is None or isinstance(obs, Tensor):
            return read(obs, self.shape)
        try:
            entries = [obs[key] for key in self.keys]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"obs is {type(obs).__name__}: give a dictionary with {self.keys} ({error!r})") from error
        each = [read(entry, of) for entry, of in zip(entries, self.shapes, strict=True)]
        leading = [tuple(of) for _, of in each]
        checks.require(len({*leading}) == 1, f"the entries of obs have leading dimensions {leading}: give equal ones")
        if len(each) == 1:
            return each[0]
        return torch.cat([rows.reshape(len(rows), -1) for rows, _ in each], 1), each[0][1]

    def like(self, obs: Any, values: Shaped[Tensor, " rows"], leading: torch.Size) -> Any:
        """Values (*leading,) in the kind of `obs`: a tensor if it has tensors, else a NumPy array."""
        values = values.view(leading)
        first = obs if self.keys is None or isinstance(obs, Tensor) else obs[self.keys[0]]
        return values if isinstance(first, Tensor) else values.numpy(force=True)


def shape(space: Any) -> tuple[int, ...]:
    """The shape of an observation as a tuple of whole numbers, n standing for (n,)."""
    sizes = space if isinstance(space, int | np.integer) else getattr(space, "shape", space)
    sizes = tuple(sizes) if isinstance(sizes, Iterable) else (sizes,)
    return tuple(checks.whole("obs_shape", size, at_least=1) for size in sizes)


def read(entry: Any, shape: tuple[int, ...]) -> Rows:
    """An entry (*leading, *shape) as rows (rows, *shape), and its leading dimensions."""
    try:
        # PyTorch refuses negative strides, and warns about read-only arrays: only such arrays are copied.
        tensor = entry if isinstance(entry, Tensor) else torch.as_tensor(np.require(entry, requirements=["C", "W"]))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"obs is {type(entry).__name__}: give a tensor or an array of numbers ({error})") from error
    axes = tensor.ndim - len(shape)
    if axes < 1 or tensor.shape[axes:] != shape or not tensor.numel():
        sizes = ", ".join(["batch", *map(str, shape)])
        either = "; obs[None] may be meant, or, of a vector environment, obs_shape=envs.single_observation_space"
        alone = either if tensor.shape == shape else ""
        raise ValueError(f"obs has shape {tuple(tensor.shape)}: give ({sizes}), with at least one row{alone}")
    checks.require(not tensor.is_complex(), "obs is complex: give real numbers, such as its real and imaginary parts")
    # On an accelerator, asking would wait. The sum takes no memory; that of large numbers may be infinite.
    if tensor.is_floating_point() and tensor.device.type == "cpu" and not isfinite(tensor.detach().sum()):
        bad = (~tensor.isfinite()).nonzero()
        if len(bad):
            raise ValueError(f"obs has a NaN or infinity, first at {bad[0].tolist()}: remove or impute it")
    return tensor.reshape(-1, *shape), tensor.shape[:axes]
