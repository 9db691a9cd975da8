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
# # Bayesian RND: a target that makes the error a draw from the posterior
#
# > **Claim.** If the predictor imitates $\tilde g(x) = \nabla_\theta u(x; \vartheta_0)^\top \psi^*$, its error has the
# > covariance $\Theta_{xx'} - \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}$ of the
# > NTK-GP posterior (Proposition 4.1, Theorem 4.2).\
# > **Picture.** The covariance of the errors agrees with the posterior's, entry by entry. That of standard RND does
# > not.\
# > **Verdict.** The joint error is B1 0.02 for the target, B3 0.015 for the converged error and B5 0.012 with
# > observation noise; the tolerance is 0.1. The standard target gives 0.44; 5 % more $\sigma_w$, or a training point
# > left out, at least 0.14.
#
# By notebook 01, the RND error of a wide network is a draw from a Gaussian process (GP) with mean zero and twice the
# variance of a deep ensemble. This is not a Bayesian posterior. Section 4 of the paper changes one thing, the target.
# The error is then a draw from the posterior of Bayesian inference with an infinitely wide network. Seven statements
# are tested:
#
# | id | statement | in the paper |
# |---|---|---|
# | B1 | the engineered target is a draw from a GP with covariance $\Theta - \kappa$ | Proposition 4.1 |
# | B2 | it is uncorrelated with the predictor, so the initial error has covariance $\Theta$ | Section 4, Eq. 14 |
# | B3 | the converged error has mean zero and the posterior covariance | Theorem 4.2 |
# | B3-time | at finite training time $t$, the error has the covariance predicted for it | Theorem 4.2, at finite $t$ |
# | B4 | members of a Bayesian ensemble have the same variance, at every $x$ | Section 4, after He et al. (2020) |
# | B5 | with observation noise, the error has the covariance of the noisy posterior | Section 4, footnote on noise |
# | B-limit | the error of the variance at finite width vanishes | Theorem 4.2, as a limit |
#
# ## Why it is true
#
# At initialisation, an infinitely wide network is a draw from $\mathcal{GP}(0, \kappa)$, with the NNGP kernel $\kappa$.
# Training changes it through the neural tangent kernel (NTK) $\Theta$. If the error $\epsilon = u - \tilde g$ starts as
# a draw $\epsilon_0 \sim \mathcal{GP}(0, \kappa^\epsilon)$, it ends at
#
# $$\epsilon_\infty(x) = \epsilon_0(x) - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,
# \epsilon_0(\mathcal{X}). \tag{1}$$
#
# This conditions a GP draw on being zero at $\mathcal{X}$ (Matheron's rule), except that the draw has covariance
# $\kappa^\epsilon$ and the weights have $\Theta$. For standard targets $\kappa^\epsilon = 2\kappa$. If it were
# $\Theta$, (1) would have the covariance
#
# $$\Theta_{xx'} - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,\Theta_{\mathcal{X}x'},$$
#
# the posterior covariance of a GP with prior covariance $\Theta$ (the NTK-GP), given noise-free observations at
# $\mathcal{X}$. The predictor contributes $\kappa$. So the target must contribute $\Theta - \kappa$, independently of
# the predictor.

# %% jupyter={"source_hidden": true} tags=["parameters", "hide-input"]
width: int = 1024  # units in each hidden layer, n
draws: int = 1536  # networks of each kind in B1 and B2, which are not trained, each with weights of its own
networks: int = 384  # trained networks of each kind in B3 and B4, at each time of B3-time and noise level of B5
untrained: int = 768  # untrained networks of 32 heads, for control variates
n_points: int = 16  # test points at which variances are compared
n_joint: int = 8  # of these, how many enter joint distributions
times: list[float] = [0.1, 1.0, 10.0, 100.0]  # training times t of B3-time
noise: list[float] = [0.1, 0.2, 0.5]  # standard deviations of the observation noise in B5, in the units of y
narrow: list[int] = [256, 512]  # narrower networks, for B-limit
narrow_networks: int = 768  # as networks, for each of them
many_widths: list[int] = [256, 1024]  # widths of networks with many heads
many_heads: list[int] = [8, 32, 128]  # heads on one network, K
many_networks: int = 8  # networks for each of them
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function
many_rtol: float = 0.1  # the same, of networks with many heads

# %% jupyter={"source_hidden": true} tags=["hide-input"]
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import block_diag

from rndlib import (
    MLP,
    RND,
    BayesianEnsemble,
    BayesianRND,
    DeepEnsemble,
    DepartureWarning,
    GradientFlow,
    HeadsWarning,
    datasets,
    kernels,
    laws,
)
from rndlib.paper import figures, parameters
from rndlib.paper.evidence import control_variates
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.controls import MisbuiltTarget, NoiseWithoutPull
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.statistics import centred, joint_law, level, limit_of_variance, over_points
from rndlib.paper.evidence.tables import aligned
from rndlib.training.weights import Role

parameters.check(globals(), "n_joint <= n_points")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose
warnings.simplefilter("ignore", HeadsWarning)  # and the appendix has many heads on them

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
first, joint = slice(n_joint), points[:n_joint]
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
larger = replace(net, sigma_w=1.05 * sigma_w)
flow = GradientFlow(rtol=rtol)
trained = partial(control_variates.trained, X=X, points=points, untrained=untrained)
ledger = Ledger("03_bayesian_target")

# %% [markdown]
# The data are the paper's toy problem with $N = 10$ points. Every predictor has one output, so one trained network is
# one independent draw, and the intervals count these draws.
#
# ## B1: the target
#
# The last layer's part of the tangent kernel tends to $\kappa$ (P5 in notebook 00), and the lower layers contribute
# $\Theta - \kappa$. Take the gradient of the predictor with respect to these lower parameters as random features, and a
# standard normal vector $\psi$ as their weights:
#
# $$\tilde g(x) = \nabla_{\vartheta_0} u(x; \vartheta_0)^\top \psi^*, \qquad \psi^* = \{\psi^{\le L-1}, 0\}.$$
#
# Given $\vartheta_0$, this is a GP at any width, with the empirical kernel of the lower layers as covariance. So it
# tends to a draw from $\mathcal{GP}(0, \Theta - \kappa)$. Nothing is trained yet.
#
# The statistic is the joint error of mean and covariance at $p$ points (P1 in notebook 00), whose upper 95 % confidence
# limit must be at most 0.1. Wrong variant: the last layer's part of $\psi$ is not set to zero, so the target has
# covariance $\Theta$. Sensitivity check: weights that are 5 % larger.

# %%
proposed = BayesianRND(net, 1, draws, seed=seed)
_, targets = proposed.initial(joint)
_, kept = MisbuiltTarget(net, draws, keep_last=True, seed=seed).initial(joint)
theory, of_larger = (kernels.kernel(of, joint) for of in (net, larger))
variants = (targets, theory), (kept, theory), (targets, of_larger)
ledger.record("B1", *(joint_law(drawn, centred(of.body)) for drawn, of in variants))

# %% [markdown]
# ## B2: the initial error
#
# Target and predictor share $\vartheta_0$ and are still uncorrelated: given $\vartheta_0$, the predictor is fixed, and
# the target has mean zero because $\psi$ has. In the limit both are Gaussian, so they are independent, and
#
# $$\kappa^\epsilon = \kappa + (\Theta - \kappa) = \Theta.$$
#
# The statistic is that of B1, for the vector of $2p$ outputs of predictor and target. In theory it has the blocks
# $\kappa$ and $\Theta - \kappa$, and zero between them. Wrong variant: the gradient at $\psi$ itself,
# $\nabla_\psi g(x; \psi)^\top\psi^*$, a target that does not use the predictor. Sensitivity check: that of B1.

# %%
pair = np.hstack(proposed.initial(joint))
alone = np.hstack(MisbuiltTarget(net, draws, at=Role.DIRECTION, seed=seed).initial(joint))
law, wider = (centred(block_diag(of.nngp, of.body)) for of in (theory, of_larger))
ledger.record("B2", *(joint_law(drawn, of) for drawn, of in ((pair, law), (alone, law), (pair, wider))))

# %% [markdown]
# ## B3: the converged error
#
# With $\kappa^\epsilon = \Theta$, training to $t = \infty$ gives the posterior covariance (Theorem 4.2). Wrong variant:
# the standard target. Sensitivity check: one training point left out of the posterior. Control variates, described in
# notebook 01, reduce the Monte-Carlo error.

# %%
posterior, left_out = (laws.bayesian_rnd_error(net, X[:n], joint, full_cov=True) for n in (n_train, n_train - 1))
errors = trained(BayesianRND(net, 1, networks, seed=seed, solver=flow))
standard = RND(net, 1, networks, seed=seed, solver=flow).fit(X).errors(points)[:, first]
variants = (errors.at(first), posterior), (standard, posterior), (errors.at(first), left_out)
ledger.record("B3", *(joint_law(drawn, of) for drawn, of in variants))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
shown = {"Bayesian RND error": errors.at(first).values, "wrong: standard RND": standard}
fig_b3 = figures.covariances(
    posterior.cov,
    {label: drawn.T @ drawn / networks for label, drawn in shown.items()},
    "Theorem 4.2: the Bayesian RND error has the covariance of the posterior",
)
figures.save(fig_b3, "fig_b3")

# %% [markdown]
# Covariances between test points minus the posterior's, in units of the posterior's standard deviations. The error of
# Bayesian RND is a draw from the centred posterior. That of standard RND has less variance, because its prior $2\kappa$
# contains nothing of the lower layers.
#
# ## B3-time: only at convergence
#
# The equality of notebook 01 holds at every training time. This one does not. With
# $E = e^{-t\,\Theta_{\mathcal{X}\mathcal{X}}}$, the error at time $t$ has the covariance
#
# $$\Theta_{xx'} - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,(I - E^2)\,\Theta_{\mathcal{X}x'}.$$
#
# It decreases from the prior at $t = 0$ to the posterior at $t = \infty$. An eigenvector of
# $\Theta_{\mathcal{X}\mathcal{X}}$ with eigenvalue $\lambda$ counts as observed once $e^{-2\lambda t} \ll 1$. So
# stopping early leaves more variance than the posterior has, at every $x$. (A Bayesian ensemble that is stopped at $t$
# has the same covariance.)
#
# The claim is that errors at time $t$ have this covariance. Wrong variant: the posterior. Sensitivity check: the
# covariance at $1.25\,t$. Each is evaluated at its worst time.


# %%
def law_at(t):
    """The theoretical distribution at time t."""
    return laws.bayesian_rnd_error(net, X, joint, time=t, full_cov=True)


def worst(law_for):
    """The largest joint error over the times."""
    return max(joint_law(of.at(first), law_for(t)) for t, of in errors_at.items())


errors_at = {t: trained(BayesianRND(net, 1, networks, seed=seed, solver=GradientFlow(t, rtol=rtol))) for t in times}
ledger.record("B3-time", *map(worst, (law_at, lambda t: posterior, lambda t: law_at(1.25 * t))))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
rates = np.linalg.eigvalsh(kernels.kernel(net, X).ntk)
moments = np.geomspace(0.02 / rates[-1], 5 / rates[0], 80)
some = slice(None, None, max(1, n_points // 4))
lines = np.stack([laws.bayesian_rnd_error(net, X, points[some], time=t).var for t in moments])
fig_time = figures.variance_against(
    "training time $t$",
    ("theory at time $t$", moments, lines),
    times,
    {"Bayesian RND": np.stack([np.mean(of.values**2, axis=0)[some] for of in errors_at.values()])},
    np.sqrt(2 / networks),
    r"Theorem 4.2: the variance of the error falls to the posterior's as $t \to \infty$",
    levels=("posterior", laws.posterior(net, X, y, points[some]).var),
)
figures.save(fig_time, "fig_time")

# %% [markdown]
# Variances at four test points, in label units squared, against training time, with bars of two standard errors. They
# follow the theory (lines) down to the posterior. The smallest eigenvalue of $\Theta_{\mathcal{X}\mathcal{X}}$ decides
# how long this takes: here about $t = 100$, which is $100/\eta$ steps of gradient descent.
#
# ## B4: the variance of a Bayesian ensemble
#
# He et al. (2020) train the sum $f(x; \theta_t) + \nabla_{\theta_0}f(x;\theta_0)^\top\psi^*$ on the labels. It starts
# as a draw from $\mathcal{GP}(0, \Theta)$, so every member is a draw from the posterior, mean included. Both sides
# start from $\Theta$ once, so there is no half:
#
# $$\mathbb{E}\bigl[\epsilon^2(x)\bigr] = \mathbb{V}\bigl[f(x)\bigr].$$
#
# The statistic is that of E3 in notebook 01: the simultaneous 95 % band of the ratio at all test points must be within
# 0.15 of 1 on the log scale. Wrong variant: standard ensembles. Sensitivity check: the variance of five members divided
# by 5 in place of 4.

# %%
bayesian = trained(BayesianEnsemble(net, networks, seed=seed, solver=flow), y=y)
deep = DeepEnsemble(net, networks, seed=seed, solver=flow).fit(X, y).functions(points)
variants = (bayesian, 1), (deep, 1), (bayesian, 5 / 4)
ratio, wrong, near = (over_points(errors, functions, factor) for functions, factor in variants)
ledger.record("B4", ratio, wrong, near)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
margin = CLAIMS["B4"].tolerance
series = {"Bayesian ensemble": ratio.ratios, "wrong: standard ensemble": wrong.ratios}
fig_b4 = figures.ratios(
    {"mean squared error / variance": figures.Ratios(series, tuple(np.exp([-margin, margin])))},
    "test point",
    r"Section 4: for Bayesian RND and ensembles, $\mathbb{E}[\epsilon^2(x)] = \mathbb{V}[f(x)]$ at every $x$",
    xscale="linear",
)
figures.save(fig_b4, "fig_b4")

# %% [markdown]
# The ratio at each of the 16 test points, with its simultaneous 95 % band. Bayesian RND has the variance of the
# ensembles, without labels. Standard ensembles have between a half and a sixth of the posterior variance here: as a
# posterior, they are overconfident.
#
# ## B5: observation noise
#
# For labels with independent noise of standard deviation $\sigma$, the posterior covariance is
#
# $$\Theta_{xx'} - \Theta_{x\mathcal{X}}\,(\Theta_{\mathcal{X}\mathcal{X}} + \sigma^2 I)^{-1}\,\Theta_{\mathcal{X}x'}.$$
#
# A footnote of the paper mentions this extension, and does not say how to train for it. Here each training point gets
# one more parameter, an offset $\xi_i \sim \mathcal{N}(0, 1)$ on the training set only, and the loss is
#
# $$\tfrac12\,\bigl\|u(\mathcal{X}; \vartheta) + \sigma\,\xi - \tilde g(\mathcal{X})\bigr\|^2$$
#
# in $\vartheta$ and $\xi$. This adds $\sigma^2 I$ to the tangent kernel on $\mathcal{X}$ and to the prior covariance
# there, so both are still equal, and (1) gives the noisy posterior. For $\vartheta$ alone, it jitters the targets by
# $\sigma\,\xi(0)$ and adds L2 regularisation towards initialisation: at the end, $\vartheta$ minimises
#
# $$\bigl\|u(\mathcal{X};\vartheta) + \sigma\,\xi(0) - \tilde g(\mathcal{X})\bigr\|^2
# + \sigma^2\,\|\vartheta - \vartheta_0\|^2.$$
#
# Wrong variant: no regularisation. The predictor then fits its jittered targets exactly, which adds
# $\sigma^2\,\Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-2}\Theta_{\mathcal{X}x'}$ to the noise-free
# posterior covariance. Sensitivity check: the posterior for a quarter more noise. Each is evaluated at its worst noise
# level.


# %%
def worst(samples, factor=1.0):
    """The largest joint error over the noise levels, for the posterior with this factor on the noise."""
    levels = {s: laws.bayesian_rnd_error(net, X, joint, noise_std=factor * s, full_cov=True) for s in noise}
    return max(joint_law(samples[s].at(first), levels[s]) for s in noise)


noisy = {s: trained(BayesianRND(net, 1, networks, noise_std=s, seed=seed, solver=flow)) for s in noise}
unregularised = {s: NoiseWithoutPull(net, networks, jitter=s, seed=seed, solver=flow).fit(X) for s in noise}
jittered = {s: control_variates.Sample(model.errors(points)) for s, model in unregularised.items()}
ledger.record("B5", worst(noisy), worst(jittered), worst(noisy, 1.25))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
levels = np.geomspace(noise[0] / 3, noise[-1] * 2, 60)
curves = np.stack([laws.posterior(net, X, y, points[some], noise_std=s).var for s in levels])
groups = {"Bayesian RND": noisy, "wrong: no regularisation": jittered}
fig_noise = figures.variance_against(
    "standard deviation of the observation noise (label units)",
    ("noisy posterior", levels, curves),
    noise,
    {name: np.stack([np.mean(of.values**2, axis=0)[some] for of in group.values()]) for name, group in groups.items()},
    np.sqrt(2 / networks),
    "With observation noise, the error has the variance of the noisy posterior",
)
figures.save(fig_noise, "fig_noise")

# %% [markdown]
# Variances at four test points, in label units squared, against $\sigma$ in label units, with bars of two standard
# errors. These are raw means over the same networks at every level, so that all lie on one side of the theory; B5 has
# control variates. Without the regularisation, the variance grows without bound.
#
# ## B-limit: extrapolation to infinite width
#
# As E-limit in notebook 01, for the posterior variance: the line through the errors in $1/n$ must pass through zero, to
# within 6 % of the variance. Wrong variant: the variance of standard RND. Sensitivity check: weights that are 5 %
# larger.

# %%
by_width = {}
for k, n in enumerate(narrow, start=1):
    own = {"seed": seed + 1000 * k, "solver": flow}  # seeds of their own, as the line needs independent networks
    by_width[n] = trained(BayesianRND(replace(net, width=n), 1, narrow_networks, **own))
by_width[width] = errors

limits = laws.posterior(net, X, y, points), laws.rnd_error(net, X, points), laws.posterior(larger, X, y, points)
found, wrong, near = (limit_of_variance(by_width, law.var) for law in limits)
ledger.record("B-limit", found, wrong, near)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
fig_limit = figures.extrapolated(
    list(by_width),
    {"Bayesian RND": found, r"wrong: 5 % more $\sigma_w$": near},
    CLAIMS["B-limit"].tolerance,
    "error of the variance\n(relative to the posterior's)",
    "Theorem 4.2: extrapolated linearly in $1/n$, the error vanishes",
)
figures.save(fig_limit, "fig_limit")

# %% [markdown]
# Relative errors of the variance against $1/n$, with 95 % intervals over networks. At every width, and in the
# extrapolation, the variance is 1 to 2 % too small, well within the tolerance of 6 %. Narrower networks show terms of
# order $1/n^2$.
#
# ## Limits
#
# The limits of notebook 00 apply. The posterior is that of an infinitely wide network, whose kernel is fixed before any
# label is seen. No test here says how well it models the labels.
#
# ## Appendix: many heads on one network
#
# RND is cheap because many heads share one network. The theorems allow this, as they let the width grow at a fixed
# number of heads. For Bayesian RND, many heads per width change the variance itself. With one $\psi$ per network, as in
# the paper, $K$ heads at $N$ points pose $NK$ equations for the same $P$ hidden parameters. Shifting these parameters
# by $\psi$ would fit every head at every $x$. With few equations $\psi$ is not identifiable. With many, the network
# learns it, and its errors become smaller than the posterior's.

# %% tags=["beside"]
variance, rows, found = laws.posterior(net, X, y, points).var, [], {}
for kind in ("shared", "independent"):
    for n in many_widths:
        for k in many_heads:
            at = replace(net, width=n)
            options = {"directions": kind, "seed": seed, "solver": GradientFlow(rtol=many_rtol)}
            squares = BayesianRND(at, k, many_networks, **options).fit(X).errors(points) ** 2
            load = n_train * k / at.hidden_parameters
            found[kind, n, k] = load, *level(squares.reshape(many_networks, k, -1).mean(axis=1), variance)
            rows.append([kind, str(n), str(k), f"{load:.2g}", "{:.2f} [{:.2f}, {:.2f}]".format(*found[kind, n, k][1:])])
print(aligned(["directions", "width", "heads", "NK/P", "ratio"], rows))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
series = {}
for kind, word in (("shared", "network"), ("independent", "head")):
    for n in many_widths:
        label = rf"one $\psi$ per {word}, $n = {n}$"
        series[label] = np.array([row for (of, at, _), row in found.items() if (of, at) == (kind, n)])
fig_heads = figures.ratios(
    {"variance / posterior variance": figures.Ratios(series, (0.9, 1.1), "within a tenth")},
    "equations per hidden parameter, $NK / P$",
    r"Many heads: one $\psi$ per network lowers the variance, one per head raises it",
)
figures.save(fig_heads, "fig_heads")

# %% [markdown]
# The ratio against $NK/P$, the number of equations per hidden parameter. With one $\psi$ per network it falls to about
# 0.8 at $NK/P = 0.3$, at both widths, and stays there. The paper's experiment, 512 heads on one network, has $NK/P =
# 1280/n$: 0.31 at a width of 4096. There are two remedies. `bodies` spreads the heads over independent networks.
# `directions="independent"` draws one $\psi$ per head, which costs one Jacobian-vector product per head, and adds up to
# 20 % to the variance at $NK/P = 1.2$. `fit` warns if the ratio is off by more than 10 %.

# %%
ledger.close()
