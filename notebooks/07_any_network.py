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
# > **Claim.** The three equivalences hold for networks that the user wrote, with their own kernels in place of those of
# > Eq. 1.\
# > **Picture.** Errors of convolutional networks on digits and on Atari screens fall on the laws of their exact
# > infinite kernels, at the rate of one over the root of the number of channels.\
# > **Verdict.** With 0.15 allowed, the start is off its law by A1 0.086, the Bayesian RND error by A3 0.058, that of
# > PyTorch modules by A4 0.034, and the log ratio of half the RND error to the ensemble's variance by A2 0.071. With
# > 0.1 allowed, linearised errors are off by A5 0.046 at any width.
#
# The paper proves its theorems for fully connected networks. Their proofs use two facts about a network: at
# initialisation it is Gaussian with the NNGP kernel $\kappa$, and in training its tangent kernel $\Theta$ stays what it
# was. Wide networks of other kinds have both properties, with kernels of their own. So the theorems should hold for
# them, word for word. Here they are put to the test on images, with networks that are not part of this library.
#
# | id | statement | the reference |
# |---|---|---|
# | A1, A1-ntk, A1-slope | the law at the start, the tangent kernel, and the rate in width | infinite kernels |
# | A2 | half the squared RND error is the variance of an ensemble | each other |
# | A2-law, A2-slope | the law of the ensemble, and the rate at which each member approaches it | infinite kernels |
# | A3, A3-slope | the Bayesian RND error has the covariance of the posterior; the rate | infinite kernels |
# | A4, A4-slope | so it has with PyTorch's default weights; the rate of the kernel | the module's mean kernel |
# | A5 | errors of the linearised network are posterior samples at any width | its own tangent kernel |
#
# The infinite kernels are those of neural-tangents (Novak et al., 2020), which has them in closed form for its own
# convolutional layers, and shares no code with this library.

# %% tags=["parameters"]
width: int = 96  # channels of each layer of a trained network
networks: int = 400  # networks in A1
trained: int = 128  # networks of each kind that are trained
untrained: int = 128  # further bodies of 32 heads of each kind that are not, for their partners
modules: int = 96  # PyTorch modules that are trained, in A4
kernel_modules: int = 40  # of them, those whose tangent kernels are compared, at each of kernel_widths
draws: int = 64  # modules over which their mean kernel is taken
n_points: int = 32  # test images
n_joint: int = 8  # of these, how many enter joint laws, an even number
kernel_widths: list[int] = [32, 256]  # channels at which tangent kernels are compared
kernel_networks: int = 160  # networks of each width
n_mixed: int = 3  # test images of each data set between which they are compared
widths: list[int] = [16, 96]  # channels at which trained networks are compared with the kernel regression
linear_widths: list[int] = [4, 64]  # channels of the linearised networks
linear_bodies: int = 32  # linearised networks of each width
linear_heads: int = 32  # heads of each
n_train: int = 8  # training images, N
data_seed: int = 0  # seed of the images
seed: int = 0  # seed of the networks
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
scale_off: float = 1.2  # scale of one layer's weights in near controls, relative to the right one
rtol: float = 0.05  # relative error allowed to each trained function

# %%
import inspect
import warnings
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np
import torch

from rndlib import RND, BayesianRND, DeepEnsemble, DepartureWarning, GradientFlow, initial, kernels, laws
from rndlib.paper import figures, parameters
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.partners import Partners, Untrained
from rndlib.paper.evidence.statistics import (
    joint_law,
    over_points,
    over_seeds,
    over_times,
    rate,
    relative_error,
    typical,
    whitened,
)
from rndlib.paper.fitted import tangent_kernels
from rndlib.paper.practice import convolutions, data
from rndlib.theory.dynamics import gain

parameters.check(globals(), "n_points % 2 == 0", "n_joint % 2 == 0", "n_joint <= n_points")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose

torch.set_num_threads(1)  # Its threads and those of JAX wait for each other.
flow = GradientFlow(rtol=rtol)
ledger = Ledger("07_any_network")


def worst(findings):
    """The finding with the largest value; a claim about all of them is judged by it."""
    return max(findings, key=lambda finding: finding.value)


# %% [markdown]
# ## The images
#
# Both data sets come with packages. scikit-learn has handwritten *digits* of 8 by 8 grey pixels. Half of the test
# images are of classes that the training images do not have. ale-py has Atari *games*. Each screen is of another game,
# grey as usual in reinforcement learning, and reduced to 8 by 8 pixels. Both sets are centred and scaled by their
# training images.

# %%
digits = data.digits(data_seed, n_train, n_points // 2)
tests = np.stack([digits.inside, digits.outside["held-out digits"]], axis=1).reshape(n_points, -1)  # in turn
rows = {"digits": (digits.X, tests), "games": data.games(data_seed, n_train, n_points)}
images = {name: tuple(part.reshape(-1, 8, 8, 1) for part in pair) for name, pair in rows.items()}
X, points = images["digits"]
y = np.where(digits.digits % 2, 0.5, -0.5)  # one for odd and zero for even digits, less a half
zero = np.zeros(n_joint)

# %% tags=["figure"]
fig_images = figures.images(
    {
        f"{name}, {part}": of[:8]
        for name, pair in rows.items()
        for part, of in zip(["train", "test"], pair, strict=True)
    },
    "Training and test images of both data sets",
)
figures.save(fig_images, "fig_images")

# %% [markdown]
# The images as the networks see them: dark is above the mean training image, light below it.
#
# ## The network
#
# This is all that a user writes: a function that draws parameters, and one that applies them. Two convolutions of 3 by
# 3 pixels with a stride of 2 are followed by a mean over positions and a linear layer. As in Eq. 1, every parameter is
# drawn from $\mathcal{N}(0, 1)$, and the factors $\sigma_w/\sqrt{\text{fan-in}}$ and $\sigma_b$ stand outside
# (`scales=1.0` says so).

# %% tags=["beside"]
print(inspect.getsource(convolutions.in_jax))

# %%
network = partial(convolutions.in_jax, sigma_w=sigma_w, sigma_b=sigma_b)
exact = partial(convolutions.infinite, sigma_w, sigma_b)

# %% [markdown]
# ## A1: the start
#
# A wide network at initialisation should be a draw from $\mathcal{GP}(0, \kappa)$ (Proposition B.2), at all test
# images jointly. The statistic is that of notebook 03: outputs are whitened by the law, and the distance of their mean
# and covariance from 0 and $I$ is taken per square root of an image, with the upper end of its 95 % interval. The
# first control is the kernel of another architecture, which flattens the positions in place of averaging over them. The
# second is the same network with a second layer whose scale is 20 % too large.


# %%
def at_joint(name, kernel_fn):
    """Kernels between the images of the joint checks."""
    chosen = images[name][1][:n_joint]
    return kernel_fn(chosen, chosen)


infinite, flattened, wider = exact(), exact(flatten=True), exact(second=scale_off * sigma_w)
of_erf = exact(erf=True)
start = {
    name: initial.functions(network(width), test[:n_joint], networks, seed=seed)[:, 0]
    for name, (_, test) in images.items()
}
_ = ledger.record(
    "A1",
    *(
        worst(joint_law(start[name], zero, at_joint(name, kernel_fn).nngp) for name in images)
        for kernel_fn in (infinite, flattened, wider)
    ),
)
ledger

# %% [markdown]
# The tangent kernel of each single network should be $\Theta$ (Proposition B.3), up to an error that falls as one over
# the square root of the number of channels, as that of sums over channels does. The kernels are taken between a few
# images of both data sets.

# %%
mixed = np.concatenate([test[:n_mixed] for _, test in images.values()])
numbers = range(seed * kernel_networks, (seed + 1) * kernel_networks)
theta_0 = {n: [kernels.empirical(network(n), mixed, draws=1, seed=i).ntk for i in numbers] for n in kernel_widths}
off = [
    np.stack([relative_error(of_width, kernel_fn(mixed, mixed).ntk) for of_width in theta_0.values()], axis=1)
    for kernel_fn in (infinite, flattened, wider)
]
_ = ledger.record("A1-ntk", *(typical(errors[:, -1]) for errors in off))
_ = ledger.record("A1-slope", *(rate(kernel_widths, errors, -1 / 2) for errors in off))
ledger

# %% [markdown]
# ## A2: half the squared RND error is the variance of an ensemble
#
# On the digits, predictors are trained to imitate random convolutional networks, and ensemble members to tell odd from
# even. All train to convergence by gradient flow. As in notebook 01, half the squared error of the one should be the
# variance of the other (Corollary 3.2), here on average over test images. The equality could hold between two
# quantities that are both wrong. So the ensemble is also held against the law of Theorem 2.1 (A2-law), with the
# infinite kernels in it.
#
# As there, each trained network has a partner: the kernel regression from its own start, which costs no training. Those
# of many more networks, which are not trained, take most of the sampling error away (`rndlib.paper.evidence.partners`).


# %%
def run(model, name, *labels, kernel=infinite):
    """What the networks of a model become at the test images, and their partners, with those of untrained ones."""
    X, points = images[name]
    start = starts[model, name] = Untrained(model, X, points, untrained, kernel=kernel)
    fitted = model.fit(X, *labels)
    return (fitted.functions if labels else fitted.errors)(points), start.trained(*labels)


starts = {}
rnd = run(RND(network(width), 1, trained, seed=seed, solver=flow), "digits")
ensembles = {n: DeepEnsemble(network(n), trained, seed=seed, solver=flow) for n in widths}
members = {n: run(model, "digits", y) for n, model in ensembles.items()}


def scaled(factor):
    """The squared RND errors times a factor, and their partners'."""
    errors, partners = rnd
    return np.sqrt(factor) * errors, partners.each(lambda values: np.sqrt(factor) * values)


def ratio(factor=1.0):
    """Log of half the squared errors, times a factor, over the variance, averaged over test images."""
    (errors, *one), (functions, *other) = scaled(factor), members[width]
    one, other = Partners.stacked(one), Partners.stacked(other)
    return over_times(errors[None], functions[None], law.var[None], partners=(one, other)).finding


def in_law(samples, partners, law):
    """Distance of networks from a law at the images of the joint checks."""
    at = slice(n_joint)
    return joint_law(
        samples[:, at], law.mean[at], law.cov[at, at], partners=partners.each(lambda values: values[..., at])
    )


law, of_flattened, of_wider = (
    laws.ensemble(kernel_fn, X, y, points, full_cov=True) for kernel_fn in (infinite, flattened, wider)
)
_ = ledger.record("A2", *map(ratio, (1, 2, 5 / 4)))
_ = ledger.record("A2-law", *(in_law(*members[width], of) for of in (law, of_flattened, of_wider)))
ledger

# %% tags=["figure"]
places = np.arange(1, n_points + 1)
functions, of_functions = members[width]
bands = {}
for label, factor in {"RND / ensemble": 1, "control: no half": 2}.items():
    errors, of_errors = scaled(factor)
    bands[label] = over_points(errors, functions, partners=(of_errors, of_functions))
fig_a2 = figures.ratios(
    {
        "half the squared error / variance": figures.Ratios(
            {name: np.stack([places, *np.exp([at.estimate, at.low, at.high])], axis=1) for name, at in bands.items()},
            (np.exp(-CLAIMS["A2"].tolerance), np.exp(CLAIMS["A2"].tolerance)),
            "margin of the average",
        )
    },
    "test image",
    r"Corollary 3.2 for a convolutional network: $\mathbb{E}[\frac{1}{2}\epsilon^2(x)] = \mathbb{V}[f(x)]$",
    xscale="linear",
)
figures.save(fig_a2, "fig_a2")

# %% [markdown]
# The ratio at each of the test images, with bands of 95 % confidence for all of them together; digits of known and of
# new classes alternate. The claim is about their average, which the shaded margin is for.
#
# At finite width, labels do enter. The members differ in their kernels, and each kernel makes something else of the
# same labels. This adds to the variance of the ensemble, in proportion to the square of the labels, and not to the
# error of RND, which has no labels. It falls as one over the width, and is seen below as the distance of members from
# their regression.
#
# ## A3: the Bayesian RND error has the posterior covariance
#
# Only the target changes, to $\nabla_\theta u(x; \vartheta_0)^\top \psi^*$. This is one Jacobian-vector product,
# whatever the network $u$ is (Theorem 4.2, notebook 03). No label is needed, so both data sets take part.

# %%
bayesian = {n: BayesianRND(network(n), 1, trained, seed=seed, solver=flow) for n in widths}
errors = {(name, n): run(bayesian[n], name) for name, n in [*(("digits", n) for n in widths), ("games", width)]}
posterior = partial(laws.bayesian_rnd_error, full_cov=True)
posteriors = {name: posterior(infinite, *pair) for name, pair in images.items()}
_ = ledger.record(
    "A3",
    worst(in_law(*errors[name, width], posteriors[name]) for name in images),
    in_law(*rnd, posteriors["digits"]),
    in_law(*errors["digits", width], posterior(wider, X, points)),
)
ledger

# %% tags=["figure"]
cov = posteriors["digits"].cov[:n_joint, :n_joint]
samples = {"Bayesian RND error": errors["digits", width][0], "control: standard RND": rnd[0]}
fig_a3 = figures.covariances(
    cov,
    {label: of[:, :n_joint].T @ of[:, :n_joint] / len(of) for label, of in samples.items()},
    "Theorem 4.2 for a convolutional network: the posterior covariance on digits",
)
figures.save(fig_a3, "fig_a3")

# %% [markdown]
# Covariances between test images, in the posterior's standard deviations, and below them their differences from it.
#
# The laws say where many networks end. A sharper statement is about each single one: it should end as its partner, the
# kernel regression from its own start (P4 in notebook 00). The distance between the two has no sampling error in it,
# only that of the width, and should fall as one over the root of the width. (A scale that is 20 % off would be no
# control here: it multiplies $\Theta$ by nearly one number, and a regression divides by it.)


# %%
def slopes(claim, of_networks, models, *labels):
    """Record the rate at which networks approach their partners, and those by kernels of other architectures."""
    by_kernel = {"own": None, "erf": of_erf, "flattened": flattened}
    partners = {
        label: [starts[models[n], "digits"].trained(*labels, kernel=kernel).own for n in widths]
        for label, kernel in by_kernel.items()
    }
    found = {
        label: np.stack([relative_error(of_networks[n][0], own) for n, own in zip(widths, at, strict=True)], axis=1)
        for label, at in partners.items()
    }
    ledger.record(claim, *(rate(widths, distances, -1 / 2) for distances in found.values()))
    return found


of_members = slopes("A2-slope", members, ensembles, y)
of_errors = slopes("A3-slope", {n: errors["digits", n] for n in widths}, bayesian)
ledger

# %% tags=["figure"]
by_width = {
    "ensemble member": of_members["own"],
    "Bayesian RND error": of_errors["own"],
    "control: flattened": of_errors["flattened"],
}
fig_slope = figures.against_size(
    widths,
    {label: over_seeds(found) for label, found in by_width.items()},
    "channels",
    "distance from the kernel regression\n(relative)",
    "Each network tends to the kernel regression of the infinite kernel",
    guides={r"$1/\sqrt{n}$": ("ensemble member", -1 / 2)},
)
figures.save(fig_slope, "fig_slope")

# %% [markdown]
# Distances of single networks from the regression with the infinite kernel, geometric means over networks with 95 %
# intervals. They fall along the line of one over the root of the number of channels, and those from the regression with
# the wrong kernel do not.
#
# ## A4: a module with PyTorch's default weights
#
# PyTorch draws weights from $U(-1, 1)/\sqrt{\text{fan-in}}$ and has no factors outside. For Bayesian RND this matters:
# $\psi$ must have the law that makes the prior of the error the kernel of the training. The library trains every tensor
# relative to the scale $s$ of its initial weights, $w = s\,\omega$, and draws $\psi$ with the variances of the
# initial weights. The kernel is then $J S^2 J^\top$ with $S = \mathrm{diag}(s)$, and the error before training has its
# mean as covariance, at any width (`rndlib.any_network`).
#
# The reference is the mean tangent kernel of the module over draws (`kernels.empirical`). The first control trains the
# weights themselves, with $\psi$ of the same variances. This is what the paper's recipe gives for a PyTorch module as
# it is. The module has no biases. With PyTorch's biases the law holds too, but their variance falls as one over the
# width, so the kernel itself is another one at each width, and no rate could be seen.


# %% tags=["beside"]
print(inspect.getsource(convolutions.in_torch))

# %%
module = convolutions.in_torch
grey, grey_tests = X.reshape(-1, 1, 8, 8), points[:n_joint].reshape(-1, 1, 8, 8)
images["grey"] = grey, grey_tests
of_module = partial(kernels.empirical, module(width), draws=draws, seed=seed)
module_posterior = posterior(of_module, grey, grey_tests)
module_errors = run(BayesianRND(module(width), 1, modules, seed=seed, solver=flow), "grey", kernel=of_module)
weights_themselves = BayesianRND(module(width, 1.0), 1, 2 * n_joint, seed=seed, solver=flow).fit(grey)
of_larger = replace(module_posterior, cov=scale_off**2 * module_posterior.cov)
_ = ledger.record(
    "A4",
    in_law(*module_errors, module_posterior),
    joint_law(weights_themselves.errors(grey_tests), module_posterior.mean, module_posterior.cov),
    in_law(*module_errors, of_larger),
)
ledger

# %% [markdown]
# The tangent kernel of a single module should approach the mean one, at the rate of A1.

# %%
chosen = grey_tests[: 2 * n_mixed]
mean_kernel, of_weights = (
    {n: kernels.empirical(module(n, scales), chosen, draws=count, seed=seed) for n in kernel_widths}
    for scales, count in {None: draws, 1.0: 4}.items()
)
module_kernels = {
    n: [kernels.empirical(module(n), chosen, draws=1, seed=i + 1).ntk for i in numbers[:kernel_modules]]
    for n in kernel_widths
}
compared = (
    {n: mean_kernel[n].ntk for n in kernel_widths},
    {n: of_weights[n].ntk for n in kernel_widths},
    {n: mean_kernel[n].body for n in kernel_widths},
)
of_module_kernels = (
    np.stack([relative_error(module_kernels[n], expected[n]) for n in kernel_widths], axis=1) for expected in compared
)
_ = ledger.record("A4-slope", *(rate(kernel_widths, distances, -1 / 2) for distances in of_module_kernels))
ledger

# %% [markdown]
# ## A5: linearised, at any width
#
# A1 to A4 are limits. `linearised=True` leaves the limit out: it trains the network linearised at its start, whose
# tangent kernel does not change. Each head has a $\psi$ of its own. Its error is then an exact draw from the posterior
# of the Gaussian process that has the tangent kernel of this one network, at any width. So the check whitens the errors
# of each network by the posterior of its own kernel. What comes out should be standard normal up to Monte-Carlo noise,
# even with four channels. The first control whitens with the mean kernel over networks. The second whitens with the
# kernel that the network would have if the weights of its last layer were 20 % larger.


# %%
def own_posterior(kernel):
    """Posterior covariance at the joint test images, of the kernel at the training images and them, in this order."""
    train, cross = kernel[:n_train, :n_train], kernel[:n_train, n_train:]
    return kernel[n_train:, n_train:] - cross.T @ gain(train, cross, inf, None)


def whitened_errors(n):
    """Errors of linearised modules, whitened by their own posteriors, the mean kernel's, and those of larger ones."""
    model = BayesianRND(module(n), linear_heads, linear_bodies, linearised=True, seed=seed).fit(grey)
    errors = model.errors(grey_tests).reshape(linear_bodies, linear_heads, n_joint)
    both = np.concatenate([grey, grey_tests])
    kernel = tangent_kernels(model, both)[:, 0, 0]
    mean = own_posterior(kernels.empirical(module(n), both, draws=draws, seed=seed).ntk)
    posteriors = map(own_posterior, kernel), [mean] * linear_bodies, map(own_posterior, scale_off**2 * kernel)
    return [
        np.concatenate([whitened(e, zero, cov) for e, cov in zip(errors, covs, strict=True)]) for covs in posteriors
    ]


linear = {n: [joint_law(white, zero, np.eye(n_joint)) for white in whitened_errors(n)] for n in linear_widths}
_ = ledger.record("A5", *(worst(found) for found in zip(*linear.values(), strict=True)))
ledger

# %% [markdown]
# ## Limits
#
# Both data sets are small images, the networks have two convolutions, and training sets are small enough for hundreds
# of networks to be trained. The references are exact for the architecture, not for the task: how good a model of the
# labels the infinite network is, no check here says. Kernels of modules with PyTorch's biases, of deeper networks, and
# with strides or pooling of other kinds can be had from `kernels.empirical` in the same way.
#
# ## Ledger

# %%
ledger.close()
