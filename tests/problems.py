"""Training problems for the tests of gradient flow: networks, data and targets, on either backend."""

from typing import Any

import numpy as np
from networks import body, relative, runge_kutta, values

from rndlib import MLP, kernels
from rndlib.training import backends
from rndlib.training import problem as training
from rndlib.training.integration import Integration
from rndlib.training.problem import Spectrum
from rndlib.training.weights import Role, draw, draw_offsets

# Shared by tests of training, so that JAX compiles it once for all of them.
NET = MLP(3, width=128, sigma_b=0.5)
# Five points on three axes: every mode of the kernel has trained by t = 15, so that explicit methods get there.
AXES = 1.5 * np.vstack([np.eye(3), -np.eye(3)[:2]])
X_TEST = np.random.default_rng(2).normal(size=(200, 3))
REFERENCES: dict[tuple, np.ndarray] = {}
"""By problem and time, as both backends are held to the same."""


class Problem:
    """Networks of a description with their first weights, to be trained on the values of others of its kind."""

    def __init__(self, net, X, heads=1, bodies=1, seed=0, noise_std=0.0, backend="jax"):
        self.name, self.backend = backend, backends.load(backend)
        self.net, self.X, self.noise_std = net, X, noise_std
        self.start = draw(net, heads, seed, Role.PREDICTOR, range(bodies))
        # The same for all backends, so that they share a reference.
        self.y = backends.load("jax").functions(net, draw(net, heads, seed, Role.TARGET, range(bodies)), X)
        self.xi = draw_offsets(seed, range(bodies), len(X), heads) if noise_std else None
        self.theta = kernels.kernel(net, X).ntk + noise_std**2 * np.eye(len(X))

    def train(self, solver, hint=None) -> Any:
        """Parameters and report."""
        return self.advised(solver, hint)[:2]

    def advised(self, solver, hint=None) -> Any:
        """Parameters, report, and the hint to other bodies."""
        with self.backend.settings():
            spectrum = Spectrum(*np.linalg.eigh(self.theta))
            return Integration(self.given, self.backend, spectrum, solver.time, solver.rtol).run(hint)

    @property
    def given(self):
        y = np.swapaxes(self.y, 1, 2)
        xi = np.zeros_like(y) if self.xi is None else self.xi
        return training.Problem(self.net, self.start, self.X, y, xi, self.noise_std)

    def functions(self, params, X=X_TEST):
        return np.stack([values(self.net, body(params, i), X) for i in range(len(self.y))])

    def reference(self, time):
        key = self.net, self.X.tobytes(), self.y.tobytes(), self.noise_std, time
        if key not in REFERENCES:
            trained = []
            for i, y in enumerate(self.y):
                xi = 0.0 if self.xi is None else self.xi[i]
                params = runge_kutta(self.net, body(self.start, i), self.X, y.T, time, self.noise_std, xi)
                trained.append(values(self.net, params, X_TEST))
            REFERENCES[key] = np.stack(trained)
        return REFERENCES[key]


def worst(functions, reference):
    """Largest relative error over the bodies."""
    return max(relative(f, r) for f, r in zip(functions, reference, strict=True))
