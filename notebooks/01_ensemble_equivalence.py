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
# # Ensemble equivalence: half the squared RND error is the variance of an ensemble
#
# > **Claim.** $\tfrac12\,\mathbb{E}[\epsilon^2(x)] = \mathbb{V}[f(x; \theta_\infty)]$ at every $x$, and likewise at
# > every training time (Theorems 2.1 and 3.1, Corollary 3.2).\
# > **Picture.** The ratio of half the squared RND error to the ensemble variance is 1 at all test points. Without the
# > half it is 2.\
# > **Verdict.** The joint error of mean and covariance is E1 0.025 (ensemble) and E2 0.015 (RND error); the tolerance
# > is 0.1, and distributions that are slightly wrong give 0.18 and 0.24. Extrapolated to infinite width, the variances
# > agree with the theorems to within E-limit 0.029.
#
# A deep ensemble trains many networks $f$ on the same labels $\mathcal{Y}$, from independent initial weights. The
# spread of their outputs is its uncertainty. Random network distillation (RND) uses no labels. It trains one network,
# the predictor $u$, to imitate another one, the target $g$, which has the same architecture and fixed random weights,
# on the training inputs $\mathcal{X}$. Its uncertainty is the error $\epsilon(x) = u(x) - g(x)$ at other inputs. By
# Section 3 of the paper, the two agree in the limit of infinite width. Five statements are tested:
#
# | id | statement | in the paper |
# |---|---|---|
# | E1 | members of a converged ensemble are Gaussian-process draws with known mean and covariance | Theorem 2.1 |
# | E2 | the converged RND error is a draw from a Gaussian process with mean zero and a known covariance | Theorem 3.1 |
# | E3 | half the expected squared error is the ensemble variance, at every $x$ and for any labels | Corollary 3.2 |
# | E4 | the same holds at every training time | Section 3, with the proof of Theorem B.1 |
# | E-limit | the errors of both variances at finite width vanish at rate $1/n$ | Theorems 2.1 and 3.1 |
#
# ## Why it is true
#
# Two kernels describe an infinitely wide network. The *NNGP kernel* $\kappa$ describes it at initialisation: over
# random weights, $f_0$ is a draw from a Gaussian process with covariance $\kappa$, written $\mathcal{GP}(0, \kappa)$.
# The *neural tangent kernel* (NTK) $\Theta$ describes training:
#
# $$\Theta(x, x') = \nabla_\theta f(x; \theta)^\top\, \nabla_\theta f(x'; \theta)$$
#
# says how much a gradient step on $f(x')$ changes $f(x)$. In a finite network it is random, and changes in training. As
# the width grows, it becomes one fixed kernel, because many weights each move very little (notebook 00). Gradient flow
# on $\tfrac12\|f(\mathcal{X}) - \mathcal{Y}\|^2$ is then a linear differential equation, and ends at
#
# $$f_\infty(x) = f_0(x) + \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,
# \bigl(\mathcal{Y} - f_0(\mathcal{X})\bigr). \tag{1}$$
#
# (Eq. 6 and Theorem B.1 print a minus sign; the proof has the plus. See notebook 00.) So a trained network is an affine
# map of a Gaussian draw. It is Gaussian too, and the labels enter only its mean. E1 to E4 follow.

# %% jupyter={"source_hidden": true} tags=["parameters", "hide-input"]
width: int = 2048  # units in each hidden layer, n, in E1 to E3
networks: int = 512  # trained networks of each kind in E1 to E3, each with weights of its own
untrained: int = 1024  # untrained networks of 32 heads, for the control variates of each kind
n_points: int = 16  # test points at which variances are compared
n_joint: int = 8  # of these, how many enter the joint distributions of E1 and E2
times: list[float] = [0.1, 1.0, 10.0]  # training times t of E4
learning_rate: float = 0.1  # of gradient descent in E4, on the loss averaged over the training points
gd_steps: list[int] = [50]  # numbers of its steps, k
time_width: int = 512  # as width, for E4, where every time is a training of its own
time_networks: int = 384  # as networks, for E4
narrow: list[int] = [128, 256, 512]  # narrower networks, for E-limit and to see how wide is wide
narrow_networks: int = 512  # as networks, for each of them
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function

# %% jupyter={"source_hidden": true} tags=["hide-input"]
import warnings
from dataclasses import replace
from functools import partial

import numpy as np

from rndlib import MLP, RND, DeepEnsemble, DepartureWarning, GradientDescent, GradientFlow, datasets, kernels, laws
from rndlib.paper import figures, parameters
from rndlib.paper.evidence import control_variates
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.control_variates import joined
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.statistics import joint_law, limit_of_variance, over_points, over_times
from rndlib.paper.evidence.tables import aligned

parameters.check(globals(), "n_joint <= n_points")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
first, joint = slice(n_joint), points[:n_joint]
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
larger = replace(net, sigma_w=1.05 * sigma_w)
flow = GradientFlow(rtol=rtol)
trained = partial(control_variates.trained, X=X, points=points, untrained=untrained)
ledger = Ledger("01_ensemble_equivalence")

# %% [markdown]
# The data are the paper's toy problem, $y = x_1 + x_2 + x_3 - 2\,x_1x_2x_3$ at $N = 10$ points drawn from
# $\mathcal{N}(0, I_3)$. Here every network has one output, so one trained network is one independent draw, and the
# intervals count these draws. The ensemble is trained on two sets of labels, $y$ and $|x|$, an odd and an even
# function. Training is gradient flow to $t = \infty$, solved to 2 % or better. Solutions fifty times as accurate had
# means within 0.002 standard deviations of these, and variances within 0.2 %.
#
# $M$ networks determine a variance only to within $\sqrt{2/M}$ of itself, 6 % for 512 of them. Most of this Monte-Carlo
# error comes from the initial functions, whose effect after training is known to good accuracy by (1). *Control
# variates* remove it (first appendix): `trained` fits a model, and returns the outputs of its networks at the test
# points with their control variates.

# %%
model, labels = DeepEnsemble(net, networks, seed=seed, solver=flow), {"|x|": np.linalg.norm(X, axis=1), "y": y}
ensembles = {name: trained(model, y=target) for name, target in labels.items()}
ensemble = ensembles["y"]
rnd = trained(RND(net, 1, networks, seed=seed, solver=flow))

# %% [markdown]
# ## E1: the distribution of a converged ensemble
#
# By (1) with $f_0 \sim \mathcal{GP}(0, \kappa)$, the functions are Gaussian with
#
# $$\mathbb{E}[f] = \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\mathcal{Y}, \qquad
# \Sigma^f_{xx'} = \kappa_{xx'} + \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}
# \kappa_{\mathcal{X}\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}
# - \bigl(\Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\kappa_{\mathcal{X}x'} + \text{h.c.}\bigr),$$
#
# where h.c. is the transpose of the term before it. This is not a Bayesian posterior. With $\kappa = \Theta$, the
# covariance would be $\Theta_{xx'} - \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}$,
# that of a Gaussian process posterior with prior covariance $\Theta$, which has the same mean and more variance. This
# posterior is the wrong variant.
#
# The statistic is the joint error of mean and covariance at $p$ points (P1 in notebook 00). Its upper 95 % confidence
# limit must be at most 0.1: a mean off by a tenth of a standard deviation everywhere, or variances off by 14 %.
# Sensitivity check: the distribution for weights that are 5 % larger.

# %%
law, posterior = (of(net, X, y, joint, full_cov=True) for of in (laws.ensemble, laws.posterior))
scaled = laws.ensemble(larger, X, y, joint, full_cov=True)
ledger.record("E1", *(joint_law(ensemble.at(first), of) for of in (law, posterior, scaled)))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
fig_e1 = figures.covariances(
    law.cov,
    {"ensemble": np.cov(ensemble.at(first).values.T), "wrong: posterior": posterior.cov},
    r"Theorem 2.1: the functions of a deep ensemble have the covariance $\Sigma^f$",
)
figures.save(fig_e1, "fig_e1")

# %% [markdown]
# Covariances between test points minus the theoretical ones, in units of the theoretical standard deviations. The
# ensemble agrees with the theory. The posterior has a different covariance, so an ensemble does not sample from it.
# Section 4 of the paper therefore introduces Bayesian variants (notebook 03).
#
# ## E2: the distribution of the RND error
#
# Write (1) for the predictor, whose labels are $g(\mathcal{X})$, and subtract $g(x)$:
#
# $$\epsilon_\infty(x) = \epsilon_0(x) - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,
# \epsilon_0(\mathcal{X}), \qquad \epsilon_0 = u_0 - g.$$
#
# The initial error is the difference of two independent networks. Its mean is zero, and its covariance is
# $\kappa^\epsilon = 2\kappa$. Training applies the same linear map as to an ensemble member. So the covariance of the
# converged error, $\Sigma^\epsilon$, is $\Sigma^f$ with $2\kappa$ in place of $\kappa$. The statistic is that of E1.
# Wrong variant: $\kappa$ once instead of twice, as if the fixed target had no variance. Sensitivity check: one training
# point left out.
#
# **As printed, this fails.** The proof of Theorem 3.1 ends with the converged error distributed as
# $\mathcal{GP}(0, \kappa^\epsilon)$. That is its distribution at initialisation. The theorem itself has
# $\Sigma^\epsilon$ and is right.

# %%
error_law, printed = (laws.rnd_error(net, X, joint, time, full_cov=True) for time in (np.inf, 0))
once = laws.ensemble(net, X, 0 * y, joint, full_cov=True)
left_out = laws.rnd_error(net, X[:-1], joint, full_cov=True)
print(f"joint error for the covariance kappa^eps, as printed: {joint_law(rnd.at(first), printed).value:.2g}")
ledger.record("E2", *(joint_law(rnd.at(first), of) for of in (error_law, once, left_out)))

# %% [markdown]
# ## E3: equal in expectation, for any labels
#
# $\Sigma^f$ does not depend on the labels, and $\Sigma^\epsilon$ is linear in its prior, so $\Sigma^\epsilon =
# 2\,\Sigma^f$. The error has mean zero, so its variance is its expected square:
#
# $$\tfrac12\,\mathbb{E}\bigl[\epsilon^2(x)\bigr] = \mathbb{V}\bigl[f(x)\bigr].$$
#
# **As printed, this fails.** Corollary 3.2 has no half. Its proof divides by two, and so does Theorem 3.4. The printed
# form is the wrong variant.
#
# The ratio of the two sides is estimated at every test point, for both sets of labels, with a band that covers all
# ratios at once with 95 % confidence. The whole band must be within 0.15 of 1 on the log scale. The standard deviations
# then differ by less than 8 % at every $x$. Sensitivity check: the variance of five members divided by 5 in place of 4.

# %%
both, twice = joined(list(ensembles.values())), joined([rnd] * len(ensembles))
half, whole, biased = (over_points(twice, both, factor) for factor in (1 / 2, 1, 5 / 8))
ledger.record("E3", half, whole, biased)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
series = {}
for label, found, name in (("labels $y$", half, "y"), ("labels $|x|$", half, "|x|"), ("wrong: no half", whole, "y")):
    start = list(labels).index(name) * n_points
    series[label] = found.ratios[start : start + n_points] - [start, 0, 0, 0]
margin = CLAIMS["E3"].tolerance
fig_e3 = figures.ratios(
    {"half the squared error / variance": figures.Ratios(series, tuple(np.exp([-margin, margin])))},
    "test point",
    r"Corollary 3.2 with the half: $\frac{1}{2}\,\mathbb{E}[\epsilon^2(x)] = \mathbb{V}[f(x)]$ for all $x$ and labels",
    xscale="linear",
)
figures.save(fig_e3, "fig_e3")

# %% [markdown]
# The ratio at each of the 16 test points, with its simultaneous 95 % band. RND used no label, and has the same ratio to
# both ensembles.
#
# ## E4: at every training time
#
# At time $t$, (1) holds with
# $\Theta_{\mathcal{X}\mathcal{X}}^{-1}\bigl(I - e^{-t\,\Theta_{\mathcal{X}\mathcal{X}}}\bigr)$ in place of
# $\Theta_{\mathcal{X}\mathcal{X}}^{-1}$, for predictor and member alike. So the equality holds from $t = 0$, where both
# sides are $\kappa$, to the end. For $k$ steps of gradient descent at a learning rate $\eta$,
# $(I - \eta\,\Theta_{\mathcal{X}\mathcal{X}})^k$ replaces the exponential.
#
# The paper trains at a learning rate of 0.1. If its loss is a sum over points, as printed, gradient descent diverges
# unless $\eta < 2/\lambda_{\max}(\Theta_{\mathcal{X}\mathcal{X}})$, which is close to 0.1 here. The loss is therefore
# read as a mean, so that $\eta = 0.1/N$ on the sum.
#
# The statistic is the ratio of the two sides, averaged over test points in units of their variances. It must be within
# 10 % of 1 at all times. Wrong variant: RND at time $t$ against ensembles at $2t$. Sensitivity check: ensembles at
# $1.25\,t$.

# %%
wide, eta = replace(net, width=time_width), learning_rate / n_train
flows = [GradientFlow(t, rtol=rtol) for t in times]
solvers = flows + [GradientDescent(eta, k) for k in gd_steps]
later = [GradientFlow(2 * t, rtol=rtol) for t in times]
slightly = [GradientFlow(1.25 * times[0], rtol=rtol)]
rnd_at = [trained(RND(wide, 1, time_networks, seed=seed, solver=solver)) for solver in solvers]


def ensembles_at(solvers):
    """Ensembles trained by these solvers, and the theoretical variances."""
    rates = [getattr(solver, "learning_rate", None) for solver in solvers]
    laws_at = [laws.ensemble(wide, X, y, points, s.time, False, eta) for s, eta in zip(solvers, rates, strict=True)]
    members = [trained(DeepEnsemble(wide, time_networks, seed=seed, solver=solver), y=y) for solver in solvers]
    return members, np.stack([law.var for law in laws_at])


at_times, wrong, near = map(ensembles_at, (solvers, later, slightly))
ledger.record("E4", *(over_times(rnd_at[: len(members)], members, var) for members, var in (at_times, wrong, near)))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
moments = np.geomspace(0.2 * min(s.time for s in solvers), 5 * max(s.time for s in solvers), 60)
some = slice(None, None, max(1, n_points // 4))
lines = np.stack([laws.ensemble(wide, X, y, points[some], time=t).var for t in moments])
fig_e4 = figures.variance_against(
    "training time $t$",
    ("theory at time $t$", moments, lines),
    [solver.time for solver in solvers],
    {
        "ensemble variance": np.stack([of.values.var(axis=0, ddof=1)[some] for of in at_times[0]]),
        "half the squared RND error": np.stack([np.mean(of.values**2, axis=0)[some] / 2 for of in rnd_at]),
    },
    np.sqrt(2 / time_networks),
    "At every training time, half the mean squared RND error is the ensemble variance",
)
figures.save(fig_e4, "fig_e4")

# %% [markdown]
# Variances at four test points, in label units squared, against training time, with bars of two standard errors.
# Ensemble and RND follow the theory (lines) at each time; gradient descent is placed at $t = k\eta$. So RND that is
# stopped early has the variance of an ensemble that is stopped at the same time.
#
# ## E-limit: extrapolation to infinite width
#
# No finite network is exactly at its limit, so E1 to E4 have tolerances. But the theorems are about the limit. To
# leading order, the error at width $n$ is proportional to $1/n$, so a line through the errors at several widths must
# pass through zero at $1/n = 0$. The error is that of the variance, relative to the theory and averaged over test
# points. The confidence limits of the intercept must be within 6 %, the Monte-Carlo error $\sqrt{2/512}$ of the paper's
# experiment. Wrong variant: the posterior variance in place of the ensemble's. Sensitivity check: that of E1.

# %%
by_width = {"ensemble": {}, "RND": {}}
for k, n in enumerate(narrow, start=1):
    own = {"seed": seed + 1000 * k, "solver": flow}  # seeds of their own, as the lines need independent networks
    by_width["ensemble"][n] = trained(DeepEnsemble(replace(net, width=n), narrow_networks, **own), y=y)
    by_width["RND"][n] = trained(RND(replace(net, width=n), 1, narrow_networks, **own))
by_width["ensemble"][width], by_width["RND"][width] = ensemble, rnd

variance = laws.ensemble(net, X, y, points).var
lines = {name: limit_of_variance(by_width[name], scale * variance) for name, scale in (("ensemble", 1), ("RND", 2))}
of_posterior, of_larger = laws.posterior(net, X, y, points), laws.ensemble(larger, X, y, points)
wrong, near = (limit_of_variance(by_width["ensemble"], of.var) for of in (of_posterior, of_larger))
ledger.record("E-limit", max(lines.values()), wrong, near)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
fig_limit = figures.extrapolated(
    [*narrow, width],
    {**lines, r"wrong: 5 % more $\sigma_w$": near},
    CLAIMS["E-limit"].tolerance,
    "error of the variance\n(relative to the theory)",
    "Theorems 2.1 and 3.1: extrapolated linearly in $1/n$, the errors vanish",
)
figures.save(fig_limit, "fig_limit")

# %% [markdown]
# Relative errors of the variance against $1/n$, with 95 % intervals over networks. The ensemble variance is too large
# by about $14/n$ of itself; for RND no error is visible. Both lines end at zero. For the wrong variant, the line is
# as straight, but does not end at zero.
#
# ## Limits
#
# The limits of notebook 00 apply. ReLU networks need more width and a larger `rtol` (0.05): their gradient flow is
# harder to solve. Test points come from the distribution of the training points; far away, both sides grow without
# bound. The equality is between expectations: the estimate of a single RND with $K$ heads scatters around it
# (notebook 02).
#
# ## Appendix: control variates
#
# For each trained network, the right-hand side of (1) is computed for its own $f_0$ with the exact kernel $\Theta$. It
# needs no training, and its distribution is known to high precision from the heads of a thousand further untrained
# networks. We estimate the moments of trained networks by those of the control variate plus the mean of (trained −
# control variate). This is unbiased whether or not (1) is true. The closer (1) is, the smaller the Monte-Carlo error.
# Intervals count trained and untrained networks.

# %% tags=["beside"]
found = {
    "E1": [joint_law(sample, law) for sample in (ensemble.at(first), ensemble.at(first).values)],
    "E2": [joint_law(sample, error_law) for sample in (rnd.at(first), rnd.at(first).values)],
    "E3": [half, over_points(twice.values, both.values)],
}
rows = [[claim, *(f"{each.value:.2g}" for each in pair)] for claim, pair in found.items()]
print(aligned(["value of", "with control variates", "without"], rows))

# %% [markdown]
# ## Appendix: how wide is wide
#
# How far a finite network is from the limit depends on how far its weights have to move. In the limit the expected
# squared distance is
#
# $$\mathbb{E}\,\|\theta_\infty - \theta_0\|^2 = \mathcal{Y}^\top\Theta_{\mathcal{X}\mathcal{X}}^{-1}\mathcal{Y}
# + \operatorname{tr}\bigl(\Theta_{\mathcal{X}\mathcal{X}}^{-1}\kappa_{\mathcal{X}\mathcal{X}}\bigr).$$
#
# The first term fits the labels, the second removes the initial function. RND has the second term twice, and no labels.
# The table has this distance, the joint error at several widths, and in brackets the ratio of the variance to the
# theoretical one:

# %% tags=["beside"]
train = kernels.kernel(net, X)
start, fit = np.trace(np.linalg.solve(train.ntk, train.nngp)), y @ np.linalg.solve(train.ntk, y)
theory = {"ensemble": law, "RND": error_law}
rows = [["squared distance", f"{start + fit:.2g}", f"{2 * start:.2g}"]]
for i, n in enumerate([*narrow, width]):
    joint_errors = [joint_law(by_width[name][n].at(first), theory[name]).value for name in theory]
    ratios = [1 + lines[name].errors[i].value for name in theory]
    rows.append([f"n = {n}", *(f"{e:.2g} ({r:.2f})" for e, r in zip(joint_errors, ratios, strict=True))])
print(aligned(["", *theory], rows))

# %% [markdown]
# RND is close to the theory in every row. An ensemble needs more width, and its narrow networks fail E1: the ensemble
# deviates from the infinite-width prediction, and RND does not. Larger labels need more width still (notebook 08).

# %%
ledger.close()
