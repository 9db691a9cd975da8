"""Automatic mode: network, units and noise of a fit, those that are given or those of maximum evidence."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.any_network import AnyNetwork
from rndlib.network import MLP
from rndlib.prior import Prior
from rndlib.theory import kernels, reference

Points = Float[np.ndarray, "n *shape"]
Labels = Float[np.ndarray, "n outputs"]
Column = float | Float[np.ndarray, " _"]
MeanFunction = Callable[[Points], Float[np.ndarray, "n *outputs"]]
"""A function of points in the user's units."""

MOST_ROWS = 1000
"""Rows on which the evidence of a user's network is computed."""

WIDTHS = {2: 512, 3: 256}
"""Units per layer of the networks whose initial functions become draws, by depth."""

LARGEST = 1e150
"""Size of columns and labels whose squares float64 still has."""

MOST = 1e6
"""Most times that a noise may be the deviation of y, and a length scale that of its column, or the other way round."""

LEAST_NOISE = 1e-3
"""Noise std without labels, where initial outputs are about 1: it keeps the kernel of repeated points invertible."""


@dataclass(frozen=True)
class Units:
    """The network reads `(X - centre) / scale` and has labels `(y - mean) / size`. By default nothing changes.

    centre, scale: One number per column of X. mean, size: Of all labels. prior: Adds its features.
    """

    centre: Column = 0.0
    scale: Column = 1.0
    mean: float = 0.0
    size: float = 1.0
    prior: Prior | None = None

    def inputs(self, X: Points) -> Float[np.ndarray, "n *columns"]:
        """Points as the network reads them."""
        read = (X - self.centre) / self.scale
        return read if self.prior is None else np.hstack([read.reshape(len(X), -1), self.prior._phi(X)])

    def labels(self, y: Float[np.ndarray, "n *outputs"]) -> Float[np.ndarray, "n *outputs"]:
        """Labels as the network has them."""
        return (y - self.mean) / self.size

    def spread(self, values: Float[np.ndarray, "*heads t"], outputs: tuple[int, ...]) -> Any:
        """Differences of functions, the same for every output, in the user's units: (*heads, t, *outputs)."""
        return np.multiply.outer(values, np.full(outputs, self.size))


@dataclass(frozen=True)
class Choice:
    """A network, its units, the noise in these units, and sentences that say what was chosen how."""

    net: MLP | AnyNetwork
    units: Units = Units()
    noise_std: float = 0.0
    notes: tuple[str, ...] = ()
    log_evidence: float | None = None


def choose(
    net: MLP | AnyNetwork | None, X: Points, y: Labels | None, noise_std: Any, input_scales: Any, prior: Prior | None
) -> Choice:
    """The choice for points, and labels less their prior mean, in the user's units. What is not None is kept.

    Without a network there is one column of labels at most. Columns are standardised, and the exact log evidence of the
    NTK-GP chooses everything that is not given; without labels, the network is the default one with GELU. A user's
    network with `output_scale=None` gets the one of largest evidence.
    """
    if net is not None:
        if isinstance(net, AnyNetwork) and net.output_scale is None and y is not None:
            return _scaled(net, X, y, noise_std)
        return Choice(net, noise_std=float(noise_std or 0.0))
    centre, scale = _standard("X", X)
    if input_scales is not None:
        input_scales = checks.array("input_scales", input_scales, X.shape[1])
        checks.require((input_scales > 0).all(), f"input_scales = {input_scales}: give numbers above 0, in units of X")
        near = np.abs(np.log(input_scales / scale)) < np.log(MOST)
        wanted = f"columns have deviations {scale}: give scales within a factor of {MOST:g} of them"
        checks.require((near | (np.ptp(X, axis=0) == 0)).all(), f"input_scales = {input_scales}: {wanted}")
    if y is None:
        units = Units(centre, scale if input_scales is None else input_scales)
        note = "Columns are standardised; without labels, the network is the default one with GELU."
        noise = LEAST_NOISE if noise_std is None else float(noise_std)
        # Like silu, and with a kernel in closed form: by quadrature, points a hundred times as far out as those of the
        # fit take minutes.
        return Choice(MLP(X.shape[1], WIDTHS[2], activation="gelu"), units, noise, (note,))
    from rndlib.theory import evidence  # SciPy's optimisers take a while to load

    (mean,), (size,) = _standard("y", y)
    if noise_std is not None:
        wanted = f"y has a deviation of {size:.3g}: give a noise of at most {MOST:g} times that, in the units of y"
        checks.require(noise_std <= MOST * size, f"noise_std = {noise_std}: {wanted}")
    found = evidence.maximise(
        (X - centre) / scale,
        ((y - mean) / size)[:, 0],
        features=None if prior is None or prior.features is None else prior._phi(X),
        noise_std=None if noise_std is None else float(noise_std / size),
        input_scales=None if input_scales is None else input_scales / scale,
    )
    units = Units(centre, scale * found.input_scales, mean, size * found.output_scale)
    net = replace(found.net, width=WIDTHS[found.net.depth])
    log_evidence = found.log_evidence - found.rows * float(np.log(size))  # density of y in its own units
    note = (
        f"The evidence of the NTK-GP on {found.rows} of {len(X)} rows chose depth {net.depth}, sigma_w "
        f"{net.sigma_w:.2g}, sigma_b {net.sigma_b:.2g}, a scale for each column, an output scale and noise_std: "
        f"{log_evidence:.1f} nats."
    )
    return Choice(net, units, found.noise_std / found.output_scale, (note,), log_evidence)


def _scaled(net: AnyNetwork, X: Points, y: Labels, noise_std: float | None) -> Choice:
    """A user's network with the output scale of largest evidence, by its mean empirical kernel on some of the rows."""
    from rndlib.theory import evidence

    rows = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
    kernel = kernels.empirical(net, X[rows], draws=4).ntk
    output_scale, noise, nats = evidence.of_kernel(kernel, y[rows], noise_std)
    note = (
        f"The evidence of the network's kernel on {len(rows)} of {len(X)} rows chose the output scale "
        f"{output_scale:.3g} and the noise {noise:.3g}: {nats:.1f} nats."
    )
    return Choice(net.with_output_scale(output_scale), noise_std=noise, notes=(note,))


def limit(net: MLP | AnyNetwork, draws: int) -> reference.Network:
    """The infinite-width kernels of a network, for a user's own the mean over that many draws."""
    return net if isinstance(net, MLP) else partial(kernels.empirical, net, draws=draws)


def prior_std(net: MLP | AnyNetwork, X: Points) -> float | None:
    """The deviation of a network's prior at X, or at some of it; None if the kernel cannot be integrated."""
    try:
        return float(np.sqrt(reference.diagonal(limit(net, 2), X if isinstance(net, MLP) else X[:16]).ntk.mean()))
    except ValueError:
        return None


def _standard(name: str, values: Float[np.ndarray, "n columns"]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; a deviation of 1 where a column is constant up to rounding."""
    largest = np.abs(values).max(initial=0.0)
    wanted = f"squares of more than {LARGEST:g} leave the range of float64: give other units"
    checks.require(largest <= LARGEST, f"{name} has values up to {largest:.3g}: {wanted}")
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    constant = deviation <= 1e-12 * np.abs(values).max(axis=0, initial=0.0)
    return np.where(constant, values[0], mean), np.where(constant, 1.0, deviation)
