"""How observations are read: tensors, arrays, or entries of a dictionary of these, as rows of numbers."""

from collections.abc import Hashable, Iterable, Mapping
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from rndlib import checks


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
        each = [space] if self.keys is None else [spaces[key] for key in self.keys]
        self.shapes = [shape(one) for one in each]
        self.shape = self.shapes[0] if len(each) == 1 else (sum(map(prod, self.shapes)),)
        if not self.shape:
            raise ValueError(f"obs_shape = {space!r}: give observations of one axis or more, such as one-hot vectors")

    def __call__(self, obs: Any) -> tuple[Shaped[Tensor, "rows *shape"], torch.Size]:
        """The rows of `obs`, and its leading dimensions. Raises ValueError if it is no such observations."""
        tensors = [_tensor(entry) for entry in self.entries(obs)]
        leading = tensors[0].shape[: max(0, tensors[0].ndim - len(self.shapes[0]))]
        for tensor, wanted in zip(tensors, self.shapes, strict=True):
            if tensor.shape != (*leading, *wanted) or not leading or not leading.numel():
                sizes = ", ".join(["batch", *map(str, wanted)])
                alone = "; obs[None] may be meant" if tensor.shape == wanted else ""
                raise ValueError(f"obs has shape {tuple(tensor.shape)}: give ({sizes}), with at least one row{alone}")
            _examine(tensor)
        if len(tensors) == 1:
            return tensors[0].reshape(-1, *self.shape), leading
        return torch.cat([tensor.reshape(leading.numel(), -1) for tensor in tensors], 1), leading

    def entries(self, obs: Any) -> list[Any]:
        """What is read of `obs`: itself, or its entries."""
        if self.keys is None:
            return [obs]
        try:
            return [obs[key] for key in self.keys]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"obs is {type(obs).__name__}: give a dictionary with {self.keys} ({error!r})") from error


def shape(space: Any) -> tuple[int, ...]:
    """The shape of an observation as a tuple of whole numbers, n standing for (n,)."""
    sizes = space if isinstance(space, int | np.integer) else getattr(space, "shape", space)
    sizes = tuple(sizes) if isinstance(sizes, Iterable) else (sizes,)
    return tuple(checks.whole("obs_shape", size, at_least=1) for size in sizes)


def _tensor(entry: Any) -> Tensor:
    try:
        # PyTorch refuses negative strides, and warns about read-only arrays: only such arrays are copied.
        return entry if isinstance(entry, Tensor) else torch.as_tensor(np.require(entry, requirements=["C", "W"]))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"obs is {type(entry).__name__}: give a tensor or an array of numbers ({error})") from error


def _examine(tensor: Tensor) -> None:
    if tensor.is_complex():
        raise ValueError("obs is complex: give real numbers, such as its real and imaginary parts side by side")
    # On an accelerator, asking would wait. The sum takes no memory; that of large numbers may be infinite.
    if tensor.is_floating_point() and tensor.device.type == "cpu" and not isfinite(tensor.detach().sum()):
        for row, part in enumerate(tensor):
            if not part.isfinite().all():
                bad = [row, *(~part.isfinite()).nonzero()[0].tolist()]
                raise ValueError(f"obs has a NaN or infinity, first at {bad}: remove or impute it")
