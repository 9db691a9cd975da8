"""A PyTorch module of the user's own as a network of rndlib."""

from collections.abc import Callable, Mapping
from threading import Lock, local
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from rndlib.any_network import AnyNetwork, Derivatives, Points, Weights, faults
from rndlib.training.backends.torch import LinearModule, TorchBackend, each_point, hosted

_DRAWING = Lock()  # PyTorch's generator is one for all threads.


class Module(AnyNetwork):
    """A network that `build` makes, for the estimators, `kernels.empirical` and `initial`.

    It is trained in the parametrisation of the theorems: each tensor of weights relative to the scale of its initial
    values (`rndlib.any_network`). The head is the last layer, whose tensors alone depend on the number of outputs.
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
    ValueError: `build` does not return such a module, or it is not what the theorems are about: the message says why.

    >>> import numpy as np
    >>> from torch import nn
    >>> from rndlib import RND
    >>> from rndlib.torch import Module
    >>> net = Module(lambda outputs: nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, outputs)))
    >>> RND(net, heads=4, bodies=2).fit(np.eye(3)).errors(np.ones((1, 3))).shape
    (8, 1)
    """

    library: ClassVar[str] = "torch"

    def __init__(
        self,
        build: Callable[[int], nn.Module],
        *,
        scales: float | Mapping[str, float] | None = None,
        output_scale: float | None = 1.0,
    ):
        super().__init__(scales, output_scale)
        self.build = build
        self._templates = local()  # `functional_call` changes a module while it runs, so every thread has its own

    def __reduce__(self) -> Any:
        return self._rebuilt(self.build)

    def arrays(self, outputs: int, seed: int) -> Weights:
        module = self._built(outputs, seed)
        return {name: a.detach().numpy() for name, a in (*module.named_parameters(), *module.named_buffers())}

    def initial(self, outputs: int, seed: int) -> Weights:
        module = self._built(outputs, seed)
        return {name: value.detach().double().numpy().copy() for name, value in module.named_parameters()}

    @hosted
    def functions(self, weights: Weights, X: Points) -> Float[np.ndarray, "n outputs"]:
        tensors, points = _tensors(weights, X)
        self._template(tensors, points)
        with faults(f"the network fails on points of shape {X.shape[1:]}", "give X in the shape that it reads"):
            values = self._of_weights(tensors, points)
        if not isinstance(values, Tensor):
            raise ValueError(f"the module returns {type(values).__name__}: return one tensor (N, outputs)")
        return values.double().numpy()

    @hosted
    def derivatives(self, weights: Weights, X: Points) -> Derivatives:
        def first(weights: dict[str, Tensor], x: Tensor) -> Tensor:
            return self._of_weights(weights, x[None])[0, 0]

        tensors, points = _tensors(weights, X)
        self._template(tensors, points)  # `vmap` allows no random numbers
        derivatives = each_point(grad(first))(tensors, points)
        return {name: rows.detach().numpy().reshape(len(X), -1) for name, rows in derivatives.items()}

    @hosted
    def _differentiate(self, weights: Weights, X: Points) -> None:
        tensors, points = _tensors(weights, X)
        self._template(tensors, points)

        def function(params: Any, X: Tensor) -> Tensor:
            return self._of_weights(dict(zip(tensors, params[0], strict=True)), X)

        traced = LinearModule(TorchBackend(), function, [tuple(tensors.values())], points)
        traced.vjp(torch.ones_like(traced.value))

    @hosted
    def _largest(self, x: Float[np.ndarray, "1 *shape"]) -> int:
        sizes, module = [], self._built(1, 0).double()
        for layer in module.modules():
            layer.register_forward_hook(lambda _, __, out: sizes.append(getattr(out, "numel", lambda: 1)()))
        module(_tensors({}, x)[1])
        return max(sizes)

    def of_omega(self, omega: Any, X: Tensor) -> Tensor:
        """The outputs at X, a function of the parameters that are trained, on their device and in their precision."""
        weights = self.weights(omega, torch.movedim)
        for name, value in weights.items():
            if isinstance(value, np.ndarray):
                weights[name] = torch.tensor(value, device=X.device)
        return self._of_weights(weights, X).to(X.dtype)

    def _of_weights(self, weights: dict[str, Tensor], X: Tensor) -> Any:
        """The outputs at X, a function of all weights by name."""
        with sdpa_kernel(SDPBackend.MATH):  # the faster ways to attention are not differentiated twice
            values = functional_call(self._template(weights, X), weights, (X,))
        return values if self.output_scale is None else self.output_scale * values

    def _template(self, weights: dict[str, Tensor], X: Tensor) -> nn.Module:
        """A module of as many outputs as the weights are for, of the type and on the device of X."""
        outputs = next(weights[name].shape[axis] for name, axis in self.outputs_axes.items() if axis is not None)
        key = str((outputs, X.dtype, X.device))
        templates = vars(self._templates)
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


def _tensors(weights: Weights, X: Points) -> tuple[dict[str, Tensor], Tensor]:
    """Copies as tensors: PyTorch refuses negative strides, and a module may write into what it is given."""
    *tensors, points = (torch.from_numpy(np.array(a, order="C")) for a in (*weights.values(), X))
    return dict(zip(weights, tensors, strict=True)), points
