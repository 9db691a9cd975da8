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
# # Posterior sampling: functions drawn by a network
#
# > **Claim.** $\tilde\mu(x) + \epsilon^b_i(x)$ is a draw from the NTK-GP posterior, jointly over $x$. Different heads
# > $i$ give independent draws, at most $K$ of them (Corollary 4.3).\
# > **Picture.** Functions drawn by a network look like exact draws: they pass through the data and spread out in
# > between.\
# > **Verdict.** The joint error of the samples is S1 0.032; the tolerance is 0.1, and the errors of standard RND give
# > 0.44. Their energy distance is S1-energy 0.12 of that of standard RND; the tolerance is 0.2. Heads are drawn without
# > replacement, because the paper's draw repeats them.
#
# In notebook 03, the errors of Bayesian RND have the covariance of a posterior. Many users want functions rather than
# error bars: to act on one of them (Thompson sampling), or to ask about several points at once, such as where the
# maximum is. Corollary 4.3 turns errors into functions: estimate the posterior mean, and add the error of one head.
# Three statements are tested:
#
# | id | statement | in the paper |
# |---|---|---|
# | S1 | mean plus error is a draw from the posterior, jointly over all $x$ | Corollary 4.3, by Theorem 4.2 |
# | S2 | different heads give independent draws, and $K$ heads give $K$ of them | Corollary 4.3, by Proposition 3.3 |
# | S-limit | the error of the mean estimate at finite width vanishes | Corollary 4.3, as a limit |
#
# ## Why it is true
#
# Take the neural tangent kernel (NTK) $\Theta$ as the prior covariance of a Gaussian process. Given labels
# $\mathcal{Y}$ at the training inputs $\mathcal{X}$, the posterior at $x$ has
#
# $$\mu^b(x) = \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\mathcal{Y}, \qquad
# \Sigma^b_{xx'} = \Theta_{xx'} - \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}.$$
#
# The labels enter only the mean. A draw is the mean plus a draw from $\mathcal{GP}(0, \Sigma^b)$, and the converged
# error of Bayesian RND is such a draw (Theorem 4.2). So with an estimate $\tilde\mu \approx \mu^b$,
#
# $$\tilde\mu_i(x) = \tilde\mu(x) + \epsilon^b_i(x) \tag{1}$$
#
# is a draw from the posterior: a function that can be evaluated anywhere. Heads are independent in the limit
# (Proposition 3.3), and so are the functions. For the mean, train one network on $\mathcal{Y}$ and subtract its initial
# function.

# %% jupyter={"source_hidden": true} tags=["parameters", "hide-input"]
width: int = 1024  # units in each hidden layer, n, of the predictors
mean_widths: list[int] = [8192, 16384, 65536]  # widths of networks that estimate the mean; the last is used
n_points: int = 8  # test points, p, at which samples are compared jointly
networks: int = 800  # networks of one head, in S1
untrained: int = 256  # further networks of 32 heads, for control variates
controls: int = 400  # as networks, of the control
heads: int = 2  # heads of each network, K, in S2
bodies: int = 1536  # such networks
wide: int = 2048  # width of the one network with many heads
many_heads: int = 64  # heads of the one fit that draws functions
corners: int = 3  # training points that the walk in the figures passes
shown: int = 24  # functions in each panel of the figures
mean_networks: int = 16  # networks of each width that estimate the mean, in S-limit
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

import numpy as np

from rndlib import MLP, RND, BayesianRND, DeepEnsemble, DepartureWarning, GradientFlow, datasets, laws
from rndlib.paper import figures, parameters
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.control_variates import Sample, trained
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.statistics import (
    dependence_of_samples,
    energy,
    exact_draws,
    joint_law,
    limit,
    mixed,
    repeats,
    whitened,
    with_replacement,
)

parameters.check(globals(), "heads >= 2", "corners <= n_train")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
flow = GradientFlow(rtol=rtol)
ledger = Ledger("04_posterior_sampling")

# %% [markdown]
# ## What the samples look like
#
# `mean` is the library's estimate, from one network that is wider than the predictors. `fit` trains one network with
# $K$ heads on the toy problem, and `sample_y` returns mean plus error for as many heads as asked for. To plot functions
# of three inputs, walk in straight lines from a training point to a test point, on to the next training point, and so
# on:

# %%
mean = BayesianRND(replace(net, width=mean_widths[-1]), heads=1, seed=seed, solver=flow).fit(X, y).predict
bayesian = BayesianRND(replace(net, width=wide), heads=many_heads, seed=seed, solver=flow, mean=mean).fit(X)
standard = RND(net, heads=many_heads, seed=seed, solver=flow).fit(X)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
stops = [stop for pair in zip(X[:corners], points, strict=False) for stop in pair][: 2 * corners - 1]
walk, distance, at_stops = figures.walk(stops)
on_walk = laws.posterior(net, X, y, walk, full_cov=True)
fig_samples = figures.functions_on_walk(
    distance,
    on_walk,
    (at_stops[::2], y[: len(at_stops[::2])]),
    {
        "exact posterior": exact_draws(on_walk, shown, seed),
        "Bayesian RND": bayesian.sample_y(walk, min(shown, many_heads)).T,
        "wrong: standard RND": mean(walk) + standard.errors(walk)[:shown],
    },
    "Corollary 4.3: mean plus error is a function drawn from the posterior",
)
figures.save(fig_samples, "fig_samples")

# %% [markdown]
# Functions along the walk in label units: above as they are, below minus the posterior mean. The band is two posterior
# standard deviations. The samples of Bayesian RND pass through the data, and fill the band as exact draws do. Standard
# RND errors added to the same mean do not fill it.
#
# ## S1: one sample is a draw from the posterior
#
# Samples are compared with the posterior at $p$ test points jointly. An independent observation is a network with its
# own seed, so every network has one head here. All samples share one estimate of the mean, whose error counts against
# them. There are two statistics.
#
# * **S1** is the joint error of mean and covariance (P1 in notebook 00), estimated with control variates (notebook 01).
#   Its upper 95 % confidence limit must be at most 0.1.
# * **S1-energy** sees the whole distribution. With samples $z, z'$ and posterior draws $w, w'$, whitened,
#   $$D^2 = 2\,\mathbb{E}|z - w| - \mathbb{E}|z - z'| - \mathbb{E}|w - w'|$$
# is zero only for equal distributions. $D$ is a metric. Its unit is the distance between the posterior and the
# distribution of standard RND errors, and it must be at most a fifth of that. $D$ is the norm of a mean in an RKHS, so
# control variates reduce its variance as well.
#
# Wrong variant of both: standard RND errors added to the same mean. Sensitivity checks: weights that are 5 % larger,
# and the posterior for observation noise of 0.1.

# %%
posterior, blurred = (laws.posterior(net, X, y, points, noise_std=s, full_cov=True) for s in (0, 0.1))
scaled = laws.posterior(replace(net, sigma_w=1.05 * sigma_w), X, y, points, full_cov=True)
plain = laws.rnd_error(net, X, points, full_cov=True)

one_head = BayesianRND(net, heads=1, bodies=networks, seed=seed, solver=flow, mean=mean)
errors = trained(one_head, X, points, untrained=untrained)
values = one_head.sample_y(points, networks).T  # in random order, so both are put in that of the first point
values, order = values[np.argsort(values[:, 0])], np.argsort(errors.values[:, 0])
samples = Sample(values, mean(points) + errors.own[order], mean(points) + errors.others)
wrong = mean(points) + RND(net, heads=1, bodies=controls, seed=seed, solver=flow).fit(X).errors(points)

first = joint_law(samples, posterior), joint_law(wrong, posterior), joint_law(samples, scaled)
second = energy(samples, posterior, plain), energy(wrong, posterior, plain), energy(samples, blurred, plain)
_ = ledger.record("S1", *first), ledger.record("S1-energy", *second)
ledger.last(2)

# %% [markdown]
# By both statistics the samples are indistinguishable from exact posterior draws; the wrong variant is not.
#
# ## S2: the samples are independent, and there are $K$ of them
#
# **As printed, this fails.** Corollary 4.3 draws $i \sim \mathcal{U}[1, K]$ for every sample. With probability $1/K$,
# two samples use the same head and are the same function. Among $K$ samples, about $K/e$ repeat another one. The
# corollary's "at most $K$" is right for drawing *without replacement*, as `sample_y` does: $K$ samples are then all
# heads in random order.
#
# The statistic is the distance correlation between two samples of one fit, in multiples of $1/K$; it is zero only for
# independent samples, and exactly $1/K$ for the printed draw. It must be at most a fifth. Sensitivity check: heads with
# a correlation of 0.3. S2-draws counts repeated samples. Its sensitivity check asks $K$ heads for $K + 1$ samples.

# %%
errors = BayesianRND(net, heads=heads, bodies=bodies, seed=seed, solver=flow).fit(X).errors(points)
errors = errors.reshape(bodies, heads, n_points)
drawings = errors, with_replacement(errors, heads, seed=seed), mixed(errors, 0.3)
_ = ledger.record("S2", *(dependence_of_samples(of, posterior.cov, heads) for of in drawings))

drawn = bayesian.sample_y(points, many_heads, random_state=seed)
printed = with_replacement(drawn.T[None], many_heads, seed=seed)[0].T
one_more = np.hstack([drawn, drawn[:, :1]])
_ = ledger.record("S2-draws", *map(repeats, (drawn, printed, one_more)))
ledger.last(2)

# %% [markdown]
# Different heads pass. Drawing with replacement is rejected, near its exact value of 1.
#
# ## S-limit: one mean for all
#
# The errors come from independent networks, but (1) adds the same estimate $\tilde\mu$ to all of them. Its error at
# finite width shifts all samples together. The squared shift, in units of the posterior variance, must vanish on a line
# in $1/n$ (E-limit in notebook 01). The tolerance is 0.002, the squared error of the mean of 512 exact samples. Wrong
# variant: the network's own initial function is left in the mean. Sensitivity check: the posterior mean for observation
# noise of 0.05.


# %%
def estimates(n, first):
    """The mean as each of several networks of width n estimates it, (mean_networks, points), and uncentred."""
    wide, own = replace(net, width=n), [first + 1000 * k for k in range(mean_networks)]
    fits = [BayesianRND(wide, heads=1, seed=each, solver=flow).fit(X, y) for each in own]
    ensemble = DeepEnsemble(wide, mean_networks, seed=first, solver=flow).fit(X, y)
    return np.stack([fit.predict(points) for fit in fits]), ensemble.functions(points)


def line(means, law):
    """The line through the squared shifts from the law's mean, in variances of the posterior."""
    of = replace(law, cov=posterior.cov)
    return limit({n: [np.mean(whitened(at, of) ** 2, axis=1)] for n, at in means.items()})


both = {n: estimates(n, seed + 1000 * mean_networks * i) for i, n in enumerate(mean_widths)}
centred, uncentred = ({n: of[k] for n, of in both.items()} for k in (0, 1))
slight = laws.posterior(net, X, y, points, noise_std=0.05)
found, kept, near = line(centred, posterior), line(uncentred, posterior), line(centred, slight)
ledger.record("S-limit", found, kept, near)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
fig_limit = figures.extrapolated(
    mean_widths,
    {"network of the mean": found, "wrong: mean for noise of 0.05": near},
    CLAIMS["S-limit"].tolerance,
    "squared shift of the mean\n(variances of the posterior)",
    "Corollary 4.3: extrapolated linearly in $1/n$, the mean's error vanishes",
)
figures.save(fig_limit, "fig_limit")

# %% [markdown]
# Squared shifts against $1/n$, with 95 % intervals over networks. The line ends at zero; that of the sensitivity check
# does not.
#
# ## Limits
#
# The limits of notebook 00 apply. Samples are posterior draws only after convergence (B3-time in notebook 03). More
# heads on one network give more samples, but with too many of them the samples are too close to their mean (appendix of
# notebook 03); use `bodies`. With observation noise, `noise_std` gives samples of the noisy posterior (B5 in notebook
# 03).

# %%
ledger.close()
