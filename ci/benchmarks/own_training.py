"""Networks of the user's own trained to convergence, against the loop that a user of PyTorch would write."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import images
from benchmarks.momentum import Momentum, choices, fewest
from benchmarks.timing import once, ratio, side_by_side
from rndlib import DeepEnsemble, GradientFlow
from rndlib.any_network import AnyNetwork, Weights, spawned
from rndlib.factors import product
from rndlib.running.costs import Row
from rndlib.training.weights import Role

ACCURACY = 1e-2
"""Relative distance of the test function from the converged flow's, at which training is done."""

TIGHT = GradientFlow(rtol=ACCURACY / 10)
MEMBERS, REPEATS = 2, 2
TRAINED = 60.0
"""Seconds that one network of a peer is trained for at most; where it takes longer, its distance stays open."""


def rows(n: int, n_test: int, channels: int, seconds: float, goal: float) -> list[Row]:
    """rndlib by both libraries and PyTorch by each rule; a call to a peer takes about so many seconds."""
    X, y, X_test = images.digits(n, n_test)
    net = images.module(channels)
    nets: dict[str, AnyNetwork] = {"rndlib, Module": net, "rndlib, Function": images.function(channels)}
    solver = GradientFlow(rtol=ACCURACY)
    models = {name: DeepEnsemble(net, MEMBERS, solver=solver, dtype="float32") for name, net in nets.items()}
    calls: dict[str, Callable[[], object]] = {name: partial(m.fit, X, y) for name, m in models.items()}
    for call in calls.values():
        call()
    some = [Member(net, body, X, y, X_test) for body in range(MEMBERS)]
    rules, timed = {}, {}
    for rule in choices(some[0].values):
        each = [choices(member.values)[rule] for member in some]
        rules[rule] = each, int(np.median([member.steps(one) for member, one in zip(some, each, strict=True)]))
        timed[rule] = max(1, min(rules[rule][1], int(seconds / some[0].step(each[0]))))
        calls[rule] = partial(some[0].train, each[0], timed[rule])
    times = side_by_side(calls, REPEATS)
    times |= {name: times[name].scaled(1 / MEMBERS) for name in nets}
    first = next(iter(nets))
    shared: Row = {"task": "training a network", "N": n, "weights": net.parameters(1)}
    found, limits = [], np.empty(0)
    for name, model in models.items():
        time = times[name]
        tight = DeepEnsemble(nets[name], MEMBERS, solver=TIGHT, dtype="float32").fit(X, y).functions(X_test)
        error = float(np.median(_distance(model.functions(X_test), tight)))
        steps = {"steps": model.report.evaluations, "error": error}
        ours = {} if name == first else {"times rndlib's": ratio(time, times[first])}
        found.append({**shared, "by": name, "seconds": time.spread, **ours, **steps})
        limits = tight if name == first else limits  # of the networks that the peers train
    for rule, (each, steps) in rules.items():
        time = times[rule].scaled(steps / timed[rule])
        reached = None
        if time.spread.value <= TRAINED:
            ends = np.array([member.train(one, steps) for member, one in zip(some, each, strict=True)])
            reached = float(np.median(_distance(ends, limits)))
        more = {"goal": f"{goal:g}", "steps": steps, "error": reached, "timed": f"{timed[rule]} steps"}
        found.append(
            {
                **shared,
                "by": f"PyTorch, {rule}",
                "seconds": time.spread,
                "times rndlib's": ratio(time, times[first]),
                **more,
            }
        )
    return found


class Member:
    """A member of the ensemble as a module, and its linear model at the start."""

    def __init__(self, net: Any, body: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray):
        self.build, self.weights = partial(net.build, 1), net.initial(1, spawned(0, int(Role.MEMBER), body))
        self.X, self.y, self.X_test = (torch.tensor(a, dtype=torch.float32) for a in (X, y[:, None], X_test))
        every = np.concatenate([X, X_test])
        theta, f = kernel(net, self.weights, every), net.functions(self.weights, every)[:, 0]
        self.values, vectors = np.linalg.eigh(theta[: len(X), : len(X)])
        self.residual = (f[: len(X)] - y) @ vectors
        self.across = theta[len(X) :, : len(X)] @ vectors / self.values
        self.limit = f[len(X) :] - self.across @ self.residual

    def steps(self, rule: Momentum) -> int:
        """Steps until the linear model is within `ACCURACY` of its limit."""
        size = ACCURACY * np.linalg.norm(self.limit)

        def done(steps: int) -> bool:
            return bool(np.linalg.norm(self.across @ (rule.left(self.values, steps) * self.residual)) <= size)

        return fewest(done)

    def step(self, rule: Momentum) -> float:
        """Seconds of a step, roughly."""
        self.train(rule, 1)
        return once(partial(self.train, rule, 20)) / 20

    def train(self, rule: Momentum, steps: int) -> np.ndarray:
        """The function at the test points after so many steps from the start."""
        module = self.build()
        module.load_state_dict({name: torch.tensor(a) for name, a in self.weights.items()})
        optimiser = torch.optim.SGD(module.parameters(), rule.rate, rule.momentum)
        for _ in range(steps):
            optimiser.zero_grad()
            loss = 0.5 * ((module(self.X) - self.y) ** 2).sum()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            return module(self.X_test)[:, 0].double().numpy()


def kernel(net: AnyNetwork, weights: Weights, X: np.ndarray) -> np.ndarray:
    """The tangent kernel of a network whose scales are 1."""
    return np.sum([product(one, one)[:, 0, :, 0] for one in net.factors(weights, X).values()], axis=0)


def _distance(functions: np.ndarray, limits: np.ndarray) -> np.ndarray:
    return np.linalg.norm(functions - limits, axis=1) / np.linalg.norm(limits, axis=1)
