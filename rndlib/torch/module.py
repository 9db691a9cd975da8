"""A PyTorch module as a network."""

from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock, local
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from rndlib.any_network import AnyNetwork
from rndlib.examination import faults
from rndlib.initial_scales import Weights
from rndlib.training.backends import Backend, load
from rndlib.training.backends.torch import hosted

_DRAWING = Lock()  # PyTorch's generator is one for all threads.


class Module(AnyNetwork):
    """A network that `build` makes, for the estimators, `kernels.empirical` and `initial`.

    It is trained in the parametrisation of the theorems: each tensor of weights relative to the scale of its initial
    values (`rndlib.any_network`). The head is the last layer. Only its tensors depend on the number of outputs.
    Everything but the solver's steps is computed in float64.

    Parameters
    ----------
    build: `build(outputs)` returns a new `nn.Module`, its weights freshly drawn, which maps (N, *shape) to
        (N, outputs).
    scales: standard deviations of the initial weights, by name or one for all; None measures them. Tensors that start
        the same in every draw, such as biases of zero and gains of one, are not trained: `untrained` names them.
    output_scale: number by which the outputs are multiplied, > 0; None lets a fit choose it, and is 1 until then.
        Modules in PyTorch's own initialisation start with outputs of about 0.1.

    Raises
    ------
    ValueError: `build` does not return such a module, or the theorems do not cover it; the message says why.

    >>> import numpy as np
    >>> from torch import nn
    >>> from rndlib import RND
    >>> from rndlib.torch import Module
    >>> net = Module(lambda outputs: nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, outputs)))
    >>> RND(net, heads=4, bodies=2).fit(np.eye(3)).errors(np.ones((1, 3))).shape
    (8, 1)
    """

    library: str = "torch"
    differentiable: ClassVar[str] = "keep to PyTorch's differentiable operations, on tensors and not in place"

    def __init__(
        self,
        build: Callable[[int], nn.Module],
        *,
        scales: float | Mapping[str, float] | None = None,
        output_scale: float | None = 1.0,
    ):
        super().__init__(scales, output_scale)
        self.build = build

    @cached_property
    def _templates(self) -> local:
        return local()  # `functional_call` changes a module while it runs, so every thread has its own

    @property
    def backend(self) -> Backend:
        return load("torch")

    def arrays(self, outputs: int, seed: int) -> tuple[Weights, Weights]:
        module = self._built(outputs, seed)
        weights = {name: value.detach().double().numpy() for name, value in module.named_parameters()}
        return weights, {name: buffer.numpy() for name, buffer in module.named_buffers()}

    @hosted
    def _largest(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        sizes, module = [], self._built(1, 0).double()
        for layer in module.modules():
            layer.register_forward_hook(lambda _, __, out: sizes.append(getattr(out, "numel", lambda: 1)()))
        module(self.backend.tensors(x))
        return max(sizes)

    def of_omega(self, omega: Any, X: Tensor) -> Tensor:
        weights = self.weights(omega, torch.movedim)
        for name, value in weights.items():
            if isinstance(value, np.ndarray):
                weights[name] = torch.tensor(value, device=X.device)
        template = self._template(len(omega[-1][0]), X)
        # The faster ways to attention are not differentiated twice.
        failed = faults(
            f"the network fails on points of shape {tuple(X.shape[1:])}", "give X in the shape that it reads"
        )
        with failed, sdpa_kernel(SDPBackend.MATH):
            values = functional_call(template, weights, (X,))
        if not isinstance(values, Tensor):
            raise ValueError(f"the module returns {type(values).__name__}: return one tensor (N, outputs)")
        return (values if self.output_scale is None else self.output_scale * values).to(X.dtype)

    def _template(self, outputs: int, X: Tensor) -> nn.Module:
        """A module of as many outputs, of the type and on the device of X."""
        key, templates = str((outputs, X.dtype, X.device)), vars(self._templates)
        if key not in templates:
            templates[key] = self._built(outputs, 0).to(X.device, X.dtype).requires_grad_(False)
        return templates[key]

    @hosted
    def _built(self, outputs: int, seed: int) -> nn.Module:
        # On the CPU, whose generator alone is restored: `torch.manual_seed` would reseed those of all devices.
        with _DRAWING, torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(seed)
            with faults(f"build({outputs}) fails", "give a function from a number of outputs to an nn.Module"):
                module = self.build(outputs)
        if not isinstance(module, nn.Module):
            raise ValueError(f"build({outputs}) = {module!r}: return an nn.Module")
        parameters = dict(module.named_parameters())
        if any(map(is_lazy, parameters.values())):
            raise ValueError("build returns lazy layers: say how many inputs each layer has")
        if not parameters:
            raise ValueError(f"build({outputs}) has no parameters: return a network to be trained")
        for layer in module.modules():
            mixes, random = isinstance(layer, _BatchNorm), isinstance(layer, _DropoutNd) and layer.p > 0
            if layer.training and (mixes or random):
                raise ValueError(
                    f"build returns a {type(layer).__name__} in training mode, whose outputs "
                    f"{'depend on the batch' if mixes else 'are random'}: leave it out, use GroupNorm or LayerNorm, or "
                    "call .eval()"
                )
        return module
