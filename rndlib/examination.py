"""What is refused of a network that the user wrote, before it trains, and its errors in a sentence."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sysconfig import get_paths
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from rndlib import checks

if TYPE_CHECKING:
    from rndlib.any_network import AnyNetwork

PROBES = 4  # points that a network is tried on
_ROUNDING = 1e-8  # relative to the largest output
_FEWEST, _MEAN = 32, 6.0  # numbers whose mean is looked at, and how many standard errors it may be from 0


def examine(net: "AnyNetwork", X: Float[np.ndarray, "n *shape"]) -> None:
    """Try a network of two outputs on some rows of X. Raises as `rndlib.any_network.AnyNetwork.examine`."""
    x, omega = X[:PROBES], net.of_two
    f = net.values(omega, x)
    checks.require(
        f.shape == (len(x), 2), f"the network with outputs = 2 maps {x.shape} to {f.shape}: return (N, outputs)"
    )
    checks.require(np.isfinite(f).all(), "the network's outputs have a NaN or infinity: scale the inputs to about 1")
    drawn, again = (weights | others for weights, others in (net.arrays(2, 0), net.arrays(2, 0)))
    changed = [name for name, array in drawn.items() if not np.array_equal(array, again[name])]
    checks.require(
        not changed,
        f"the network's {', '.join(changed)} differ between two draws with one seed: draw them from the key that "
        "init is given in JAX, from PyTorch's generator on the CPU in build, and from nothing else",
    )

    def equal(values: np.ndarray, others: np.ndarray, wrong: str) -> None:
        near = np.abs(values - others).max() <= _ROUNDING * max(1.0, np.abs(values).max())
        checks.require(near, f"the network's outputs {wrong}")

    def turned(*factors: float) -> np.ndarray:
        """The outputs with the slices of the head for each of them multiplied."""
        *body, head = omega
        return net.values([*body, tuple((a.T * factors).T for a in head)], x)

    equal(f, net.values(omega, x), "change from call to call: switch off dropout, .eval() in torch")
    alone = np.concatenate([net.values(omega, x[i : i + 1]) for i in range(len(x))])
    equal(f, alone, "depend on the other rows of the batch: normalise by groups or layers, not over the batch")
    # A negative factor, which a ReLU at the end does not let pass, and not -1, which an odd function does.
    equal(
        turned(-2.0, -2.0) + 2 * f,
        3 * turned(0.0, 0.0),
        "are not affine in the head's weights: let the head be the last layer, and share no weights with it",
    )
    equal(f[:, 1], turned(2.0, 1.0)[:, 1], "share weights of the head: give each output its own")
    # The theorems are about functions whose mean over initialisations is 0.
    mean = "start with a mean that is not 0: {}; a mean belongs in the estimator's prior"
    equal(np.zeros_like(f), turned(0.0, 0.0), mean.format("start biases of the last layer at 0 or at random"))
    for name in net.head:
        a = drawn[name]
        near = a.size < _FEWEST or abs(a.mean()) <= _MEAN * a.std() / a.size**0.5
        checks.require(near, f"the network's outputs {mean.format(f'draw {name} of the last layer about 0')}")
    with faults("the network cannot be differentiated", net.differentiable):
        net.differentiate(omega, x)


class Fault(ValueError):
    """An error inside a network that the user wrote, in a sentence."""


@contextmanager
def faults(what: str, remedy: str) -> Iterator[None]:
    """Turn any error into a `Fault`: what fails, at which line of the user's, why, and what works."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, Fault) and error.__cause__ else error
        reason = str(cause).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
        raise Fault(f"{what}{_line(cause)} ({type(cause).__name__}: {reason}): {remedy}") from cause


def _line(error: BaseException) -> str:
    """The last line of code that an error passed through outside of libraries."""
    libraries = (*(get_paths()[of] for of in ("stdlib", "purelib", "platlib")), str(Path(__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.line for frame in frames if not frame.filename.startswith(libraries)]
    return f" at {lines[-1]!r}" if lines and lines[-1] else ""
