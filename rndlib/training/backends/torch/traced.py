"""Networks of the user's own and their tangents at their parameters, by PyTorch's own differentiation.

J v comes from differentiating the product J' v, a linear function of v, once more: that takes one pass through a graph
that is there already, where forward differentiation would evaluate the network anew.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jacrev, vmap

from rndlib.any_network import faults
from rndlib.cores import slices
from rndlib.training.trees import mapped

FORMED = 2**26
"""Most derivatives, points times heads times parameters, that are held at once: twice where a kernel is formed."""

_PLAIN = "keep to PyTorch's differentiable operations, on tensors and not in place"
_ONE_BY_ONE = (
    "train with StochasticGradient, which needs no such derivatives, or write it in what torch.func.vmap allows: "
    "torch.where for a condition or a mask; for an nn.GRU or nn.LSTM a loop over time, or lax.scan in a "
    "rndlib.jax.Function"
)


def each_point(derivative: Callable[..., Any]) -> Callable[[Any, Tensor], Any]:
    """`derivative(params, x)` at every one of several points."""

    def derivatives(params: Any, X: Tensor) -> Any:
        with faults("the network cannot be differentiated point by point", _ONE_BY_ONE):
            return vmap(derivative, (None, 0))(params, X)

    return derivatives


class TracedBody:
    """One network, linearised on N points.

    function : `function(params, X)` returns (N, heads); the outputs at a point depend on that point alone.
    params : layers of tensors, of which the last is the head, with the outputs on the first axis.
    """

    def __init__(self, function: Callable[[Any, Tensor], Tensor], params: Any, X: Float[Tensor, "n *shape"]):
        self.function, self.X = function, X
        self.params = mapped(lambda a: a.detach().requires_grad_(), params)
        with torch.enable_grad(), faults("the network cannot be differentiated", _PLAIN):
            self.graph = function(self.params, X)

    @property
    def leaves(self) -> list[Tensor]:
        return [a for layer in self.params for a in layer]

    @cached_property
    def pulled(self) -> tuple[Tensor, list[Tensor]]:
        """v = 0, and J' v as a function of it."""
        v = torch.zeros_like(self.graph, requires_grad=True)
        with torch.enable_grad(), faults("the network cannot be differentiated twice", _PLAIN):
            return v, list(torch.autograd.grad(self.graph, self.leaves, v, create_graph=True, materialize_grads=True))

    def in_float32(self) -> "TracedBody":
        return TracedBody(self.function, mapped(Tensor.float, self.params), self.X.float())

    def push_forward(self, change: Any) -> Float[Tensor, "n heads"]:
        v, pulled = self.pulled
        moved = [a for layer in change for a in layer]
        used = [(p, a) for p, a in zip(pulled, moved, strict=False) if p.requires_grad]
        if not used:
            return torch.zeros_like(v)
        with faults("the network cannot be differentiated twice", _PLAIN):
            return torch.autograd.grad([p for p, _ in used], v, [a for _, a in used], retain_graph=True)[0]

    def pull_back(self, v: Float[Tensor, "n heads"]) -> Any:
        with faults("the network cannot be differentiated", _PLAIN):
            flat = iter(torch.autograd.grad(self.graph, self.leaves, v, retain_graph=True, materialize_grads=True))
        return mapped(lambda _: next(flat), self.params)

    def push_forward_each(self, changes: Any) -> Float[Tensor, "vectors n"]:
        """J times several changes of the parameters of one output. Each row of J is formed once, for all of them."""
        flat = torch.cat([a.flatten(1) for layer in changes for a in layer], 1)
        return torch.cat([flat @ J[:, : flat.shape[1]].mT for _, J in self._rows()], 1)

    def pull_back_each(self, v: Float[Tensor, "vectors n"]) -> Any:
        """J' v of several vectors v, of one output, by the rows of J."""
        flat = torch.stack([v[:, some] @ J for some, J in self._rows()]).sum(0)
        parts = iter(flat.split([a.numel() for a in self.leaves], 1))
        return mapped(lambda a: next(parts).reshape(len(v), *a.shape), self.params)

    def _rows(self) -> Iterator[tuple[slice, Float[Tensor, "points size"]]]:
        """The rows of J, of one output, for as many points at a time as `FORMED` allows."""
        each = each_point(grad(lambda params, x: self.function(params, x[None])[0, 0]))
        params = mapped(Tensor.detach, self.params)
        rows = max(1, FORMED // sum(a.numel() for a in self.leaves))
        for some in slices(len(self.X), rows):
            yield some, torch.cat([a.flatten(1) for layer in each(params, self.X[some]) for a in layer], 1)

    def kernel_product(self, v: Float[Tensor, "vectors n heads"]) -> Float[Tensor, "vectors n heads"]:
        return torch.stack([self.push_forward(self.pull_back(one)) for one in v])

    def kernel_matrix(self) -> Float[Tensor, "n_heads n_heads"]:
        each = each_point(jacrev(lambda params, x: self.function(params, x[None])[0]))
        params = mapped(Tensor.detach, self.params)
        return self._gram(lambda X: each(params, X), self.graph.shape[1])

    def last_layer_gram(self) -> Float[Tensor, "n n"]:
        *body, head = mapped(Tensor.detach, self.params)
        each = each_point(grad(lambda head, x: self.function([*body, head], x[None])[0, 0]))
        return self._gram(lambda X: [each(head, X)], 1)

    def _gram(self, jacobian: Callable[[Tensor], Any], heads: int) -> Float[Tensor, "n_heads n_heads"]:
        """J J', with J of as many points at a time as `FORMED` allows: leaves (points, heads, *tensor)."""
        rows = max(1, FORMED // (heads * sum(a.numel() for a in self.leaves)))

        def flat(X: Tensor) -> list[Tensor]:
            return [a.reshape(len(X) * heads, -1) for layer in jacobian(X) for a in layer]

        blocks = self.X.split(rows)
        ends = [0, *accumulate(len(x) * heads for x in blocks)]
        spans = [slice(*span) for span in pairwise(ends)]
        total = self.graph.new_empty(ends[-1], ends[-1])
        for i, x in enumerate(blocks):
            left = flat(x)
            for j, other in enumerate(blocks[i:], start=i):
                right = left if j == i else flat(other)
                part = torch.stack([a @ b.mT for a, b in zip(left, right, strict=True)]).sum(0)
                total[spans[i], spans[j]], total[spans[j], spans[i]] = part, part.mT
        return total


class Traced:
    """A batch of networks of one description, linearised: the products of `LinearMLP`, one body after the other."""

    def __init__(self, each: list[TracedBody]):
        self.each = each

    @property
    def values(self) -> Float[Tensor, "bodies n heads"]:
        return torch.stack([one.graph.detach() for one in self.each])

    def bodies(self) -> list["Traced"]:
        """The same of one body after the other, each with a leading axis of one."""
        return [Traced([one]) for one in self.each]

    def in_float32(self) -> "Traced":
        return Traced([one.in_float32() for one in self.each])

    def push_forward(self, change: Any) -> Float[Tensor, "bodies n heads"]:
        return self._stacked(TracedBody.push_forward, change)

    def pull_back(self, v: Float[Tensor, "bodies n heads"]) -> Any:
        return self._stacked(TracedBody.pull_back, v)

    def push_forward_each(self, changes: Any) -> Float[Tensor, "bodies vectors n 1"]:
        """J times several changes of the parameters, (bodies, vectors, ...), of networks of one output."""
        return self._stacked(TracedBody.push_forward_each, changes)[..., None]

    def pull_back_each(self, v: Float[Tensor, "bodies vectors n 1"]) -> Any:
        """J' v of several vectors v, in the shape of the parameters, (bodies, vectors, ...)."""
        return self._stacked(TracedBody.pull_back_each, v[..., 0])

    def kernel_product(self, v: Float[Tensor, "bodies vectors n heads"]) -> Float[Tensor, "bodies vectors n heads"]:
        """Theta v of several vectors v."""
        return self._stacked(TracedBody.kernel_product, v)

    def kernel_matrix(self) -> Float[Tensor, "bodies n_heads n_heads"]:
        return self._stacked(TracedBody.kernel_matrix)

    def last_layer_gram(self) -> Float[Tensor, "bodies n n"]:
        """The last layer's part of Theta for one head."""
        return self._stacked(TracedBody.last_layer_gram)

    def _stacked(self, product: Callable[..., Any], *given: Any) -> Any:
        """A product of every body, with its own part of what is given, as one tree of tensors."""
        parts = [product(one, *mapped(lambda a, i=i: a[i], given)) for i, one in enumerate(self.each)]
        return mapped(lambda *same: torch.stack(same), *parts)
