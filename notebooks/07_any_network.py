# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Any network: the equivalences for a convolutional network on images
#
# > **Claim.** The three equivalences hold for networks that the user wrote: with the network's own kernels in place of
# > those of Eq. 1.\
# > **Picture.** Errors of convolutional networks on digits and on Atari screens fall on the laws of their exact
# > infinite kernels, as one over the root of the number of channels.\
# > **Verdict.** TODO
#
# The paper proves its theorems for fully connected networks. Their proofs use two facts about a network: at
# initialisation it is Gaussian with the NNGP kernel $\kappa$, and in training its tangent kernel $\Theta$ stays what it
# was. Wide networks of other kinds have both properties, with kernels of their own. So the theorems should hold for
# them, word for word. Here they are put to the test on images, with networks that are not part of this library.
#
# | id | statement | the reference |
# |---|---|---|
# | A1 | law at the start (A1), tangent kernel (A1-ntk), and the rate at which it is approached (A1-slope) | exact infinite kernels of neural-tangents |
# | A2 | half the squared RND error is the variance of an ensemble (A2); the ensemble's law (A2-law); the rate (A2-slope) | each other; the infinite kernels |
# | A3 | the Bayesian RND error has the posterior's covariance (A3), with its rate (A3-slope) | the infinite kernels |
# | A4 | the same for a PyTorch module with PyTorch's default weights (A4, A4-slope) | its mean tangent kernel |
# | A5 | linearised, the errors are exact posterior samples of any network | its own tangent kernel |

# %% tags=["parameters"]
width: int = 64  # channels of each layer of a trained network
networks: int = 400  # networks of each kind in A1 to A4
n_points: int = 24  # test images
n_joint: int = 8  # of these, how many enter joint laws, an even number
kernel_widths: list[int] = [16, 64, 256]  # channels at which tangent kernels are compared
kernel_networks: int = 16  # networks of each width
widths: list[int] = [16, 64, 128]  # channels at which trained networks are compared with the kernel regression
width_networks: int = 32  # networks of each width
linear_widths: list[int] = [4, 16, 64]  # channels of the linearised networks
linear_heads: int = 1024  # heads of each
n_train: int = 10  # training images, N
data_seed: int = 0  # seed of the images
seed: int = 0  # seed of the networks
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function

# %%
import warnings
from functools import cache, partial
from math import inf

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.experimental import enable_x64

from rndlib import RND, BayesianRND, DeepEnsemble, GradientFlow, figures, initial, kernels, laws
from rndlib.evidence.ledger import Ledger
from rndlib.evidence.statistics import joint_law, over_seeds, over_times, rate, relative_error, typical
from rndlib.jax import Function
from rndlib.practice import data
from rndlib.theory.dynamics import gain

with warnings.catch_warnings():  # of its own dependencies, while it is imported
    warnings.simplefilter("ignore")
    from neural_tangents import stax

flow = GradientFlow(rtol=rtol)
ledger = Ledger()


def worst(findings):
    """The finding with the largest value; a claim about all of them is judged by it."""
    return max(findings, key=lambda finding: finding.value)


# %% [markdown]
# ## The images
#
# Both data sets come with packages. scikit-learn has handwritten *digits*, grey, 8 by 8 pixels. Half of the test images
# are of classes that the training images do not have. The *games* are screens of Atari games, each of another game,
# grey as usual in reinforcement learning, and reduced to 8 by 8 pixels. Both are centred and scaled by the training images.

# %%
digits = data.digits(data_seed, n_train, n_points // 2)
tests = np.stack([digits.inside, digits.outside["held-out digits"]], axis=1)  # one of each in turn
rows = {"digits": (digits.X, tests), "games": data.games(data_seed, n_train, n_points)}
images = {name: tuple(part.reshape(-1, 8, 8, 1) for part in pair) for name, pair in rows.items()}
X, points = images["digits"]
y = np.where(digits.digits % 2, -1.0, 1.0)  # odd and even
zero = np.zeros(n_joint)

# %% [markdown]
# ## The network
#
# This is all that a user writes: a function that draws parameters, and one that applies them. Two convolutions of 3 by
# 3 pixels with a stride of 2 are followed by a mean over positions and a linear layer. As in Eq. 1, every parameter is
# drawn from $\mathcal{N}(0, 1)$, and the factors $\sigma_w/\sqrt{\text{fan-in}}$ and $\sigma_b$ stand outside
# (`scales=1.0` says so). A convolution is written as a matrix product of patches, which on a CPU and in double
# precision is many times faster than JAX's own.


# %%
@cache
def network(channels):
    """A convolutional network of the user's own."""
    fan_in = [9, 9 * channels, channels]

    def init(key, outputs):
        units = zip(jax.random.split(key, 3), fan_in, [channels, channels, outputs], strict=True)
        return [jax.random.normal(key, (n + 1, m)) for key, n, m in units]

    def affine(layer, x):
        return sigma_w / (len(layer) - 1) ** 0.5 * x @ layer[:-1] + sigma_b * layer[-1]

    def patches(x):
        x = jnp.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)])
        n, h, w, c = x.shape
        at = [(i, j) for i in range(3) for j in range(3)]
        shifted = [lax.slice(x, (0, i, j, 0), (n, h - 2 + i, w - 2 + j, c), (1, 2, 2, 1)) for i, j in at]
        return jnp.concatenate(shifted, axis=-1)

    def apply(params, x):
        for layer in params[:-1]:
            x = jax.nn.gelu(affine(layer, patches(x)), approximate=False)
        return affine(params[-1], x.mean((1, 2)))

    return Function(jax.jit(init, static_argnums=1), apply, scales=1.0)


def exact(second=sigma_w, pool=stax.GlobalAvgPool):
    """Kernels of the same network with infinitely many channels, by neural-tangents."""
    conv = [stax.Conv(1, (3, 3), (2, 2), "SAME", W_std=s, b_std=sigma_b) for s in (sigma_w, second)]
    head = stax.Dense(1, W_std=sigma_w, b_std=sigma_b)
    kernel_fn = stax.serial(conv[0], stax.Gelu(), conv[1], stax.Gelu(), pool(), head)[2]

    def both_kernels(X1, X2):
        with enable_x64():
            return kernel_fn(jnp.asarray(X1), jnp.asarray(X2), ("nngp", "ntk"))

    return both_kernels


# %% [markdown]
# The reference is neural-tangents, which knows the kernels of such a network with infinitely many channels. It shares
# no code with this library. `kernels.empirical` gives the kernels of any network of finite width.
#
# ## A1: the start
#
# A wide network at initialisation should be a draw from $\mathcal{GP}(0, \kappa)$ (Proposition B.2), at all test
# images jointly. The statistic is that of notebook 03: outputs are whitened by the law, and the distance of their mean
# and covariance from 0 and $I$ is taken per square root of an image, with the upper end of its 95 % interval. The
# control is the kernel of another architecture, in which the positions are flattened and not averaged. (Novak et al.
# (2019) showed that weight sharing leaves no trace in that one.)


# %%
def at_joint(name, kernel_fn):
    """Kernels between the images of the joint checks."""
    chosen = images[name][1][:n_joint]
    return kernel_fn(chosen, chosen)


infinite, flattened, wider = exact(), exact(pool=stax.Flatten), exact(second=1.2 * sigma_w)
start = {
    name: initial.functions(network(width), test[:n_joint], networks, seed=seed)[:, 0]
    for name, (_, test) in images.items()
}
found, control = (
    worst(joint_law(start[name], zero, at_joint(name, kernel_fn).nngp) for name in images)
    for kernel_fn in (infinite, flattened)
)
_ = ledger.record("A1", found, control)
ledger

# %% [markdown]
# The tangent kernel of each single network should be $\Theta$ (Proposition B.3), up to an error that falls as one over
# the square root of the number of channels, as sums over channels do. The control is a network whose second layer has a
# scale that is 20 % too large.


# %%
def single_kernels(name):
    """Tangent kernels of networks, each of one draw: (networks, widths, images, images)."""
    chosen, numbers = images[name][1][:n_joint], range(seed * kernel_networks, (seed + 1) * kernel_networks)
    return np.stack(
        [[kernels.empirical(network(n), chosen, draws=1, seed=i).ntk for n in kernel_widths] for i in numbers]
    )


theta_0 = {name: single_kernels(name) for name in images}
errors = {
    label: {name: relative_error(theta_0[name], at_joint(name, kernel_fn).ntk)}
}
