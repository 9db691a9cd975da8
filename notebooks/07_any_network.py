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
# > **Claim.** The three equivalences hold for networks of the user's own, with their kernels in place of the
# > paper's.\
# > **Picture.** Convolutional networks on digits and Atari screens agree with the theory of their exact infinite-width
# > kernels, and approach it at rate $n^{-1/2}$ in the number of channels $n$.\
# > **Verdict.** The joint error is A1 0.086 at initialisation, A3 0.058 for the Bayesian RND error and A4 0.034 for
# > PyTorch modules; half the RND error is the ensemble variance to within A2 0.071 on the log scale; the tolerance is
# > 0.15. Errors of linearised networks have A5 0.046 at any width; the tolerance is 0.1.
#
# The paper proves its theorems for fully connected networks. The proofs use two facts: at initialisation the network is
# Gaussian with the NNGP kernel $\kappa$, and in training its tangent kernel (NTK) $\Theta$ does not change. Other wide
# networks have both properties, with kernels of their own, so the theorems should hold for them too. This notebook
# tests that on images, with networks that are not part of the library.
#
# | id | statement | compared with |
# |---|---|---|
# | A1, A1-ntk, A1-slope | distribution at initialisation, tangent kernel, and its rate | infinite-width kernels |
# | A2 | half the squared RND error is the variance of an ensemble | each other |
# | A2-law, A2-slope | distribution of the ensemble, and rate to kernel regression | infinite-width kernels |
# | A3, A3-slope | the Bayesian RND error has the posterior covariance, and its rate | infinite-width kernels |
# | A4, A4-slope | the same with PyTorch's default weights, and the rate of the kernel | the module's mean kernel |
# | A5 | errors of a linearised network are posterior samples at any width | its own tangent kernel |
#
# The infinite-width kernels are those of neural-tangents (Novak et al., 2020), which has them in closed form, and
# shares no code with this library.

# %% jupyter={"source_hidden": true} tags=["parameters", "hide-input"]
width: int = 96  # channels of each layer of a trained network
networks: int = 400  # networks in A1
trained: int = 128  # networks of each kind that are trained
untrained: int = 128  # untrained networks of 32 heads of each kind, for control variates
modules: int = 96  # PyTorch modules that are trained, in A4
kernel_modules: int = 40  # of them, those whose tangent kernels are compared, at each of kernel_widths
draws: int = 64  # modules over which their mean kernel is taken
n_points: int = 32  # test images
n_joint: int = 8  # of these, how many enter joint distributions, an even number
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
scale_off: float = 1.2  # scale of one layer's weights in sensitivity checks, relative to the right one
rtol: float = 0.05  # relative error allowed to each trained function

# %% jupyter={"source_hidden": true} tags=["hide-input"]
import warnings
from dataclasses import replace
from functools import partial

import numpy as np

from rndlib import RND, BayesianRND, DeepEnsemble, DepartureWarning, GradientFlow, initial, kernels, laws
from rndlib.paper import figures, parameters
from rndlib.paper.evidence import control_variates
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.statistics import (
    centred,
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

parameters.check(globals(), "n_points % 2 == 0", "n_joint % 2 == 0", "n_joint <= n_points")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose

first, flow = slice(n_joint), GradientFlow(rtol=rtol)
posterior = partial(laws.bayesian_rnd_error, full_cov=True)
ledger = Ledger("07_any_network")

# %% [markdown]
# ## The images
#
# Both data sets come with packages. scikit-learn has handwritten *digits* of 8 by 8 grey pixels; half of the test
# images are of classes that are not in the training set. ale-py has Atari *games*, one screen per game, in grey and
# reduced to 8 by 8 pixels. Both are centred and scaled by their training images.

# %%
digits, games = data.digits(data_seed, n_train, n_points // 2), data.games(data_seed, n_train, n_points)
tests = np.stack([digits.inside, digits.outside["held-out digits"]], axis=1)  # known and new classes in turn
images = {"digits": (digits.X, tests), "games": games}
images = {name: tuple(part.reshape(-1, 8, 8, 1) for part in pair) for name, pair in images.items()}
X, points = images["digits"]
y = np.where(digits.digits % 2, 0.5, -0.5)  # one for odd and zero for even digits, less a half

# %% [markdown]
# ## The network
#
# A user writes two functions: one that draws parameters, and one that applies them. Here two convolutions of 3 by 3
# pixels with a stride of 2 are followed by a mean over positions and a linear layer. As in Eq. 1, every parameter is
# drawn from $\mathcal{N}(0, 1)$, and the factors $\sigma_w/\sqrt{\text{fan-in}}$ and $\sigma_b$ are part of the network
# (`scales=1.0`). The two functions are in `rndlib.paper.practice.convolutions.in_jax`.

# %%
network = partial(convolutions.in_jax, sigma_w=sigma_w, sigma_b=sigma_b)
exact = partial(convolutions.infinite, sigma_w, sigma_b)
infinite, flattened, wider = exact(), exact(flatten=True), exact(second=scale_off * sigma_w)

# %% [markdown]
# ## A1: at initialisation
#
# A wide network should be a draw from $\mathcal{GP}(0, \kappa)$ (Proposition B.2), at all test images jointly. The
# statistic is the joint error of mean and covariance (P1 in notebook 00). Wrong variant: the kernel of a network that
# flattens the positions in place of averaging over them. Sensitivity check: a second layer whose scale is 20 % too
# large.


# %%
def worst(kernel):
    """The larger joint error of the two data sets, for the covariance by this kernel."""
    covs = {name: kernel(test[first], test[first]).nngp for name, (_, test) in images.items()}
    return max(joint_law(start[name], centred(cov)) for name, cov in covs.items())


start = {
    name: initial.functions(network(width), test[first], networks, seed=seed)[:, 0]
    for name, (_, test) in images.items()
}
ledger.record("A1", *map(worst, (infinite, flattened, wider)))

# %% [markdown]
# The empirical NTK of a wide CNN should match the infinite-width NTK (Proposition B.3). Its error should decrease at
# rate $n^{-1/2}$. Kernels are evaluated between a few images of both data sets.

# %%
mixed = np.concatenate([test[:n_mixed] for _, test in images.values()])
numbers = range(seed * kernel_networks, (seed + 1) * kernel_networks)
theta_0 = {n: [kernels.empirical(network(n), mixed, draws=1, seed=i).ntk for i in numbers] for n in kernel_widths}
off = [
    np.stack([relative_error(np.array(of), kernel(mixed, mixed).ntk) for of in theta_0.values()], axis=1)
    for kernel in (infinite, flattened, wider)
]
ledger.record("A1-ntk", *(typical(errors[:, -1]) for errors in off))
ledger.record("A1-slope", *(rate(kernel_widths, errors) for errors in off))
ledger.last(2)

# %% [markdown]
# ## A2: half the squared RND error is the variance of an ensemble
#
# On the digits, predictors imitate random convolutional networks, and ensemble members tell odd from even digits. All
# train to convergence by gradient flow. Half the squared error should be the variance (Corollary 3.2), on average over
# test images. Both could be wrong in the same way, so the ensemble is also compared with Theorem 2.1 for the
# infinite-width kernels (A2-law). Control variates reduce the Monte-Carlo error (notebook 01).

# %%
run = partial(control_variates.trained, X=X, points=points, untrained=untrained, kernel=infinite)
rnd = run(RND(network(width), 1, trained, seed=seed, solver=flow))
ensembles = {n: DeepEnsemble(network(n), trained, seed=seed, solver=flow) for n in widths}
members = {n: run(model, y=y) for n, model in ensembles.items()}

variance = laws.ensemble(infinite, X, y, points).var
ratios = [over_times([rnd], [members[width]], variance[None], factor) for factor in (1 / 2, 1, 5 / 8)]
limits = [laws.ensemble(kernel, X, y, points[first], full_cov=True) for kernel in (infinite, flattened, wider)]
ledger.record("A2", *ratios)
ledger.record("A2-law", *(joint_law(members[width].at(first), law) for law in limits))
ledger.last(2)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
margin = CLAIMS["A2"].tolerance
series = {
    label: over_points(rnd, members[width], f).ratios for label, f in (("RND / ensemble", 0.5), ("wrong: no half", 1))
}
fig_ratio = figures.ratios(
    {
        "half the squared error / variance": figures.Ratios(
            series, tuple(np.exp([-margin, margin])), "tolerance of the average"
        )
    },
    "test image",
    r"Corollary 3.2 for a convolutional network: $\mathbb{E}[\frac{1}{2}\epsilon^2(x)] = \mathbb{V}[f(x)]$",
    xscale="linear",
)
figures.save(fig_ratio, "fig_ratio")

# %% [markdown]
# The ratio at each test image, with its simultaneous 95 % band. The claim is about the average, for which the shaded
# tolerance is drawn. At finite width labels do enter the ensemble variance: members differ in their NTKs, so they fit
# the same labels differently.
#
# ## A3: the Bayesian RND error has the posterior covariance
#
# Only the target changes, to $\nabla_\theta u(x; \vartheta_0)^\top \psi^*$: one Jacobian-vector product, whatever the
# network $u$ is (Theorem 4.2, notebook 03). No labels are needed, so both data sets take part. The statistic is that of
# A1. Wrong variant: the standard target. Sensitivity check: that of A1.

# %%
bayesian = {n: BayesianRND(network(n), 1, trained, seed=seed, solver=flow) for n in widths}
errors = {n: run(model) for n, model in bayesian.items()}
of_games = run(bayesian[width], X=images["games"][0], points=images["games"][1])
law, game_law = (posterior(infinite, train, test[first]) for train, test in images.values())
both = joint_law(errors[width].at(first), law), joint_law(of_games.at(first), game_law)
wrong = joint_law(rnd.at(first), law)
ledger.record("A3", max(both), wrong, joint_law(errors[width].at(first), posterior(wider, X, points[first])))

# %% [markdown]
# A sharper statement is about each single network: it should end at the kernel regression from its own initial function
# (P4 in notebook 00). The distance has no sampling error, and should decrease at rate $n^{-1/2}$.


# %%
def distances(samples, models, labels, kernel):
    """Relative distance of each network from its own kernel regression, (networks, widths)."""
    at = {n: control_variates.regressions(models[n], X, points, labels, kernel) for n in widths}
    return np.stack([relative_error(samples[n].values, at[n]) for n in widths], axis=1)


found = {}
for claim, *trained_ones in (("A2-slope", members, ensembles, y), ("A3-slope", errors, bayesian, None)):
    found[claim] = [distances(*trained_ones, kernel) for kernel in (infinite, exact(erf=True), flattened)]
    ledger.record(claim, *(rate(widths, each) for each in found[claim]))
ledger.last(2)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
by_width = {
    "ensemble member": found["A2-slope"][0],
    "Bayesian RND error": found["A3-slope"][0],
    "wrong: flattened": found["A3-slope"][2],
}
fig_slopes = figures.against_size(
    widths,
    {label: over_seeds(each) for label, each in by_width.items()},
    "channels",
    "distance from the kernel regression\n(relative)",
    "Each network tends to the kernel regression of the infinite-width kernel",
    guides={r"$1/\sqrt{n}$": ("ensemble member", -1 / 2)},
)
figures.save(fig_slopes, "fig_slopes")

# %% [markdown]
# Distance of single networks from the kernel regression, geometric means over networks with 95 % intervals. It
# decreases at rate $n^{-1/2}$ for the infinite-width kernel, and not for the wrong kernel.
#
# ## A4: a module with PyTorch's default weights
#
# PyTorch draws weights from $U(-1, 1)/\sqrt{\text{fan-in}}$, without factors in the network. Bayesian RND needs a
# $\psi$ whose prior matches the kernel of the training. So the library trains every tensor relative to its initial
# scale $s$, $w = s\,\omega$, and draws $\psi$ with the variances of the initial weights. The kernel is then $J S^2
# J^\top$ with $S = \mathrm{diag}(s)$, and the initial error has the mean kernel as covariance, at any width.
#
# The reference is the mean tangent kernel of the module over draws (`kernels.empirical`). Wrong variant: training the
# weights themselves, with $\psi$ of the same variances, as the paper's recipe would be for an unmodified module.
# Sensitivity check: a last layer with weights that are 20 % larger. The module has no biases, whose share of the
# kernel would depend on the width.

# %%
module, grey, grey_tests = convolutions.in_torch, X.reshape(-1, 1, 8, 8), points[first].reshape(-1, 1, 8, 8)
of_module = partial(kernels.empirical, module(width), draws=draws, seed=seed)
model = BayesianRND(module(width), 1, modules, seed=seed, solver=flow)
of_modules = run(model, X=grey, points=grey_tests, kernel=of_module)
themselves = BayesianRND(module(width, 1.0), 1, 2 * n_joint, seed=seed, solver=flow).fit(grey).errors(grey_tests)
law = posterior(of_module, grey, grey_tests)
larger = replace(law, cov=scale_off**2 * law.cov)
ledger.record("A4", joint_law(of_modules, law), joint_law(themselves, law), joint_law(of_modules, larger))

# %% [markdown]
# The empirical NTK of a single module should converge to its mean at rate $n^{-1/2}$.

# %%
chosen = grey_tests[: 2 * n_mixed]
mean = {n: kernels.empirical(module(n), chosen, draws=draws, seed=seed) for n in kernel_widths}
of_weights = {n: kernels.empirical(module(n, 1.0), chosen, draws=4, seed=seed).ntk for n in kernel_widths}
seeds = [i + 1 for i in numbers[:kernel_modules]]
own = {n: np.array([kernels.empirical(module(n), chosen, draws=1, seed=i).ntk for i in seeds]) for n in kernel_widths}
compared = {n: of.ntk for n, of in mean.items()}, of_weights, {n: of.body for n, of in mean.items()}
off = [np.stack([relative_error(own[n], of[n]) for n in kernel_widths], axis=1) for of in compared]
ledger.record("A4-slope", *(rate(kernel_widths, each) for each in off))

# %% [markdown]
# ## A5: linearised, at any width
#
# A1 to A4 hold in a limit. `linearised=True` removes the limit: it trains the network linearised at its initial
# weights, whose tangent kernel does not change. Each head has its own $\psi$, and its error is an exact draw from the
# posterior of the Gaussian process with this one network's NTK. So the errors of each network, whitened by its own
# posterior, should be standard normal up to Monte-Carlo error, even with four channels. Wrong variant: the mean kernel
# over networks. Sensitivity check: the kernel for a last layer with weights that are 20 % larger.


# %%
def joint_errors(n):
    """Joint errors of linearised modules by their own posteriors, that of the mean kernel, and those of larger ones."""
    model = BayesianRND(module(n), linear_heads, linear_bodies, linearised=True, seed=seed).fit(grey)
    errors = model.errors(grey_tests).reshape(linear_bodies, linear_heads, -1)
    own = tangent_kernels(model, both)[:, 0, 0]
    mean = np.broadcast_to(kernels.empirical(module(n), both, draws=draws, seed=seed).ntk, own.shape)
    variants = (own, 1.0), (mean, 1.0), (own, scale_off)
    covs = [convolutions.own_posteriors(kernel, n_train, scale) for kernel, scale in variants]
    white = [[whitened(e, centred(cov)) for e, cov in zip(errors, of, strict=True)] for of in covs]
    return [joint_law(np.concatenate(of), centred(np.eye(n_joint))) for of in white]


both = np.concatenate([grey, grey_tests])
ledger.record("A5", *map(max, zip(*map(joint_errors, linear_widths), strict=True)))

# %% [markdown]
# ## Limits
#
# The images are small, the networks have two convolutions, and training sets are small enough to train hundreds of
# networks. No test says how well the infinite network models the labels. Kernels of deeper networks, and of modules
# with biases, strides or pooling, come from `kernels.empirical` in the same way.

# %%
ledger.close()
