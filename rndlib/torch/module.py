"""A PyTorch module of the user's own as a network of rndlib."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from rndlib.any_network import AnyNetwork, Points, Weights


class Module(AnyNetwork):
    """A network that `build` makes, for `kernels.empirical`. The estimators do not train it yet.

    Its kernels are those of training in the parametrisation of the theorems: each tensor of weights relative to the
    scale of its initial values (`rndlib.any_network`). The head is the last layer, whose tensors alone depend on the
    number of outputs.
    Everything is computed in float64, on the CPU.

    Parameters
    ----------
    build : `build(outputs)` returns a new `nn.Module`, its weights freshly drawn, which maps (N, *shape) to
        (N, outputs).
    scales : standard deviations of the initial weights, by name or one for all; None measures them.

    Raises
    ------
    ValueError
        `build` does not return such a module, or it is not what the theorems are about: the message says why.

    Examples
    --------
    >>> from torch import nn
    >>> from rndlib.torch import Module
    >>> net = Module(lambda outputs: nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, outputs)))
    >>> [name for name, tensor in net.tensors(1).items() if tensor.outputs_axis is not None]
    ['2.weight', '2.bias']
    """

    def __init__(self, build: Callable[[int], nn.Module], *, scales: float | Mapping[str, float] | None = None):
        super().__init__(scales)
        self.build = build
        self._templates: dict[int, tuple[nn.Module, dict[str, Tensor]]] = {}

    def initial(self, outputs: int, seed: int) -> Weights:
        module = self._built(outputs, seed)
        return {name: value.detach().double().numpy().copy() for name, value in module.named_parameters()}

    @torch.no_grad()
    def functions(self, weights: Weights, X: Points) -> Float[np.ndarray, "n outputs"]:
        module, buffers = self._template(weights)
        values = functional_call(
            module, ({name: torch.from_numpy(a) for name, a in weights.items()}, buffers), (torch.from_numpy(X),)
        )
        if not isinstance(values, Tensor):
            raise ValueError(f"the module returns {type(values).__name__}: return one tensor (N, outputs)")
        return values.double().numpy()

    def jacobian(self, weights: Weights, X: Points) -> Weights:
        module, buffers = self._template(weights)

        def first(params: dict[str, Tensor], x: Tensor) -> Tensor:
            return functional_call(module, (params, buffers), (x[None],))[0, 0]

        params = {name: torch.from_numpy(a) for name, a in weights.items()}
        derivatives = vmap(grad(first), (None, 0))(params, torch.from_numpy(X))
        return {name: value.detach().numpy() for name, value in derivatives.items()}

    def _template(self, weights: Weights) -> tuple[nn.Module, dict[str, Any]]:
        """A module of as many outputs as the weights are for, in float64, and its buffers."""
        outputs = next(weights[name].shape[axis] for name, axis in self.outputs_axes.items() if axis is not None)
        if outputs not in self._templates:
            module = self._built(outputs, 0).double().requires_grad_(False)
            self._templates[outputs] = module, dict(module.named_buffers())
        return self._templates[outputs]

    def _built(self, outputs: int, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self.build(outputs)
        if not isinstance(module, nn.Module):
            raise ValueError(f"build({outputs}) = {module!r}: return an nn.Module")
        parameters = dict(module.named_parameters())
        if any(map(is_lazy, parameters.values())):
            raise ValueError("build returns lazy layers: say how many inputs each layer has")
        if not parameters:
            raise ValueError(f"build({outputs}) has no parameters: return a network to be trained")
        for layer in module.modules():
            name = type(layer).__name__
            if isinstance(layer, _BatchNorm) and layer.training:
                raise ValueError(
                    f"build returns a {name} in training mode, whose outputs depend on the batch: use GroupNorm or "
                    "LayerNorm, or call .eval()"
                )
            if isinstance(layer, _DropoutNd) and layer.training and layer.p > 0:
                raise ValueError(
                    f"build returns a {name} in training mode, whose outputs are random: leave it out, or call .eval()"
                )
        return module
