"""Automatic mode: the network, the scales and the noise that make the training labels most probable."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from rndlib import checks
from rndlib.estimators.units import Units, standard
from rndlib.network import MLP

WIDTHS = {2: 512, 3: 256}
"""Units per layer of the networks whose initial functions become draws, by depth."""

LEAST_NOISE = 1e-3
"""Noise std of RND, relative to initial outputs of about 1: it keeps the kernel of repeated points invertible."""


@dataclass(frozen=True)
class Automatic:
    """What was chosen: a network, its units, the noise in the network's units, and sentences that say so."""

    net: MLP
    units: Units
    noise_std: float
    log_evidence: float | None
    notes: tuple[str, ...]

    @classmethod
    def choose(
        cls, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n outputs"] | None, noise_std: Any, input_scales: Any
    ) -> "Automatic":
        """The choice for points and labels in the user's units.

        Without labels, columns are standardised, and the network is the default one. With labels, the exact log
        evidence of the NTK-GP chooses all that is not given.
        """
        centre, scale = standard(X)
        if input_scales is not None:
            input_scales = checks.array("input_scales", input_scales, X.shape[1])
            if (input_scales <= 0).any():
                raise ValueError(
                    f"input_scales = {input_scales}: give numbers above 0, in the units of the columns of X"
                )
        if y is None:
            return cls._without_labels(X.shape[1], Units(centre, scale if input_scales is None else input_scales))
        from rndlib.theory import evidence  # SciPy's optimisers take a while to load

        mean, size = standard(y)
        if noise_std is not None:  # one noise for all outputs, so one unit
            size = np.full_like(size, np.sqrt(np.mean(np.square(size))))
        found = evidence.maximise(
            (X - centre) / scale,
            (y - mean) / size,
            noise_std=None if noise_std is None else float(noise_std / np.max(size)),
            input_scales=None if input_scales is None else input_scales / scale,
        )
        units = Units(centre, scale * found.input_scales, mean, size * found.output_scale)
        net = replace(found.net, width=WIDTHS[found.net.depth])
        log_evidence = found.log_evidence - found.rows * float(np.log(size).sum())  # density of y in its own units
        note = (
            f"The evidence of the NTK-GP on {found.rows} of {len(X)} rows chose depth {net.depth}, sigma_w "
            f"{net.sigma_w:.2g}, sigma_b {net.sigma_b:.2g}, a scale for each column, an output scale and noise_std: "
            f"{log_evidence:.1f} nats."
        )
        return cls(net, units, found.noise_std / found.output_scale, log_evidence, (note,))

    @classmethod
    def _without_labels(cls, columns: int, units: Units) -> "Automatic":
        note = "Columns are standardised; without labels, the network is the default one."
        return cls(MLP(columns, WIDTHS[2]), units, LEAST_NOISE, None, (note,))
