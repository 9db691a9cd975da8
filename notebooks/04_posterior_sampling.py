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
# # Posterior sampling: the mean plus one head's error is a function drawn from the posterior
#
# > **Claim.** $\tilde\mu(x) + \epsilon^b_i(x)$ is a draw from the NTK-GP posterior, jointly over $x$. Different heads
# > $i$ give independent draws, at most $K$ of them (Corollary 4.3).\
# > **Picture.** Functions drawn by a network look like exact draws: they meet at the data and fan out between.\
# > **Verdict.** The mean and covariance of the samples are off by S1 0.028, with 0.25 allowed; with the errors of
# > standard RND they are off by 0.43. Heads are drawn without replacement, because the paper's draw repeats them.
#
# Notebook 03 gave random network distillation (RND) a target with which its errors have the covariance of a Bayesian
# posterior. This notebook puts that to use. A posterior is a law of whole functions, and many users want functions
# rather than error bars: to act on one of them (Thompson sampling), or to pass it on to a later computation. Corollary
# 4.3 of the paper says how to get functions from Bayesian RND: estimate the posterior's mean, and add the error of one
# head. Two statements are checked here:
#
# | id | statement | in the paper |
# |---|---|---|
# | S1 | mean plus error is a draw from the posterior, jointly over all $x$ | Corollary 4.3, by Theorem 4.2 |
# | S2 | different heads give independent draws, and $K$ heads give $K$ of them | Corollary 4.3, by Proposition 3.3 |
#
# ## Why it is true
#
# Take the tangent kernel $\Theta$ (introduced in notebook 01) as the prior covariance of a Gaussian process, and
# condition it on labels $\mathcal{Y}$ at the training inputs $\mathcal{X}$. The posterior at $x$ has
#
# $$\mu^b(x) = \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\mathcal{Y}, \qquad
# \Sigma^b_{xx'} = \Theta_{xx'} - \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}.$$
#
# The labels appear only in the mean. A draw is the mean plus a draw from $\mathcal{GP}(0, \Sigma^b)$, and the second
# term needs no labels. Theorem 4.2 says that the converged error of Bayesian RND,
# $\epsilon^b_i(x) = u_i(x) - \tilde g_i(x)$, is such a draw. So with some estimate $\tilde\mu \approx \mu^b$,
#
# $$\tilde\mu_i(x) = \tilde\mu(x) + \epsilon^b_i(x) \tag{1}$$
#
# is a draw from the posterior: a function that can be evaluated anywhere. The heads $i = 1, \dots, K$ of one body are
# independent in the limit of width (Proposition 3.3), and so are the functions.
#
# The mean is easy to get. A network that starts from the zero function and is trained on $\mathcal{Y}$ converges to it.
# To start from zero, subtract the initial function for good. This takes one training of one network.

# %% tags=["parameters"]
width: int = 2048  # units in each hidden layer, n, of the predictors
mean_width: int = 16384  # the same for the one network that estimates the mean
n_points: int = 8  # test points, p, at which samples are compared jointly
networks: int = 2048  # bodies of one head, in S1
heads: int = 4  # heads of each body, K, in S2
bodies: int = 1024  # such bodies
many_heads: int = 64  # heads of the one fit that draws functions
permutations: int = 999  # in the two-sample test
corners: int = 3  # training points that the walk in the figures passes
shown: int = 24  # functions in each panel of the figures
noise_std: float = 0.5  # standard deviation of the observation noise in the last figure
times: list[float] = [0.1, 1.0, 10.0, 100.0]  # training times t at which the law is compared with the posterior
crowd: list[int] = [8, 64, 256]  # heads on one narrow body, in the table of crowding
narrow: int = 512  # width of the narrow bodies
mean_networks: int = 16  # networks that estimate the mean, in the table of their shifts
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function

# %%
import warnings
from dataclasses import replace

import numpy as np

from rndlib import MLP, RND, BayesianRND, GradientFlow, HeadsWarning, datasets, figures, laws
from rndlib.evidence.ledger import Ledger
from rndlib.evidence.statistics import (
    dependence_of_samples,
    energy,
    energy_test,
    exact_draws,
    expected_repeats,
    joint_law,
    repeats,
    whitened,
    with_replacement,
)
from rndlib.evidence.tables import aligned

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
flow = GradientFlow(rtol=rtol)
ledger = Ledger()

mean = BayesianRND(replace(net, width=mean_width), heads=1, seed=seed, solver=flow).fit(X, y).predict

# %% [markdown]
# `mean` is the library's own estimate, from one network that is wider than the predictors. The corollary does not say
# which estimate to take. One network of the predictors' width would do too, but its error would be in every sample (see
# "Limits").
#
# ## What the samples look like
#
# The data are the paper's toy problem, $y = x_1 + x_2 + x_3 - 2\,x_1x_2x_3$ at ten points drawn from
# $\mathcal{N}(0, I_3)$. To plot functions of three inputs, walk in straight lines from a training point to a test
# point, on to the next training point, and so on. `fit` trains one body with $K$ heads on $\mathcal{X}$. `sample_y`
# returns mean plus error for as many heads as you ask for:

# %%
bayesian = BayesianRND(net, heads=many_heads, seed=seed, solver=flow, mean=mean).fit(X)

# %% tags=["figure"]
stops = [stop for pair in zip(X[:corners], points, strict=False) for stop in pair][: 2 * corners - 1]
walk, distance, at_stops = datasets.walk(stops)
known = (at_stops[::2], y[: len(at_stops[::2])])


def draws_of(law):
    """Functions drawn from a law on the walk, with its mean and standard deviation."""
    return figures.Sampled(exact_draws(law, shown, seed), law.mean, np.sqrt(law.var))


def samples_of(model):
    """Functions drawn from a fit, with its mean and standard deviation."""
    return figures.Sampled(model.sample_y(walk, min(shown, many_heads)).T, *model.predict(walk, return_std=True))


law = laws.posterior(net, X, y, walk, full_cov=True)
plain = RND(net, heads=many_heads, seed=seed, solver=flow).fit(X).errors(walk)
standard = figures.Sampled(mean(walk) + plain[:shown], mean(walk), np.sqrt(np.mean(plain**2, axis=0)))
fig_functions = figures.functions_on_walk(
    distance,
    law,
    known,
    {"exact posterior": draws_of(law), "Bayesian RND": samples_of(bayesian), "control: standard RND": standard},
    "Corollary 4.3: mean plus error is a function drawn from the posterior",
)
figures.save(fig_functions, "fig_functions")

# %% [markdown]
# Functions along the walk in label units, above as they are, below after subtracting the posterior's mean; the band is
# two standard deviations of the posterior. All functions pass through the data, since errors vanish on $\mathcal{X}$.
# Between the data, those of Bayesian RND fill the band like exact draws and are as smooth. The mean and standard
# deviation that `predict` gives, the latter from $K$ errors, are close to the posterior's. Standard RND errors added to
# the same mean are as smooth, but at most places they do not fill the band. They are the negative control of S1.
#
# Functions answer questions about several points at once, and error bars do not. How large is the function at its
# largest on this walk? Every sample has an answer, and the answers have a law of their own. Error bars do not say how
# the values at neighbouring places depend on each other. Drawing at each place independently gives a wrong answer:

# %% tags=["beside"]
drawn = exact_draws(law, 4000, seed)
sources = {
    "exact posterior": drawn,
    "Bayesian RND": bayesian.sample_y(walk, many_heads).T,
    "control: standard RND": mean(walk) + plain,
    "exact error bars, independent over x": exact_draws(replace(law, cov=np.diag(law.var)), 4000, seed),
}
rows = [
    [label, str(len(at)), f"{at.max(axis=1).mean():.2f}", f"{at.max(axis=1).std(ddof=1):.2f}"]
    for label, at in sources.items()
]
print(aligned(["largest value on the walk", "samples", "mean", "sd"], rows))

# %% [markdown]
# ## S1: one sample is a draw from the posterior
#
# The claim is about all $x$ jointly, so the samples are compared with the posterior at $p$ test points at once. The
# unit of replication is a body with its own seed. So here every body has one head, and all heads are sampled. All
# samples share one estimate of the mean. Its error does not average out over bodies, and counts against the samples.
#
# Two statistics are judged. The first is that of notebook 01, $\sqrt{(|m|^2 + \tfrac12\|S - I\|_F^2)/p}$. Here $m$ and
# $S$ are the mean and covariance of the samples, whitened so that the posterior is $\mathcal{N}(0, I)$. The upper end
# of its 95 % interval must stay below $0.25$: a quarter of a standard deviation in every direction, or 35 % of the
# variances.
#
# The first statistic sees two moments only. The second, the energy distance, is zero only for equal laws:
#
# $$D^2 = 2\,\mathbb{E}|z - w| - \mathbb{E}|z - z'| - \mathbb{E}|w - w'|,$$
#
# with two samples $z, z'$ and two draws $w, w'$ from the posterior, in the same coordinates. The means over $w$ are
# known in closed form, so only the networks add sampling noise. No finite width is exactly at its limit, so the
# question is not whether $D = 0$ but how large it may be. $D$ is a metric. If it is at most half the distance between
# the posterior and the law of standard RND errors, the samples are nearer to the posterior. That is the margin.
#
# Both checks have room. In simulations with as many exact draws as networks here, the two statistics were 0.03 and
# 0.08, with standard deviations of 0.01 and 0.02. For exact draws from the law of standard RND errors they were 0.43
# and 1.03, with 0.003 and 0.01.

# %%
posterior = laws.posterior(net, X, y, points, full_cov=True)
wrong = laws.rnd_error(net, X, points, full_cov=True)

one_head = BayesianRND(net, heads=1, bodies=networks, seed=seed, solver=flow, mean=mean).fit(X)
samples = one_head.sample_y(points, networks).T
control = mean(points) + RND(net, heads=1, bodies=networks, seed=seed, solver=flow).fit(X).errors(points)

_ = ledger.record("S1", *(joint_law(of, posterior.mean, posterior.cov) for of in (samples, control)))
_ = ledger.record("S1-energy", *(energy(of, posterior.mean, posterior.cov, wrong.cov) for of in (samples, control)))
ledger

# %% [markdown]
# By both statistics the samples are where exact draws would be, and the control is where exact draws from its own law
# would be. The next figure looks at the same samples in two more ways. The first is the squared whitened distance of
# each sample from the mean, which is $\chi^2_p$ under the posterior. The second is a two-sample test against as many
# exact draws as there are networks. It computes $D^2$ between the two groups, and again after exchanging members at
# random, which shows $D^2$ for equal laws.

# %% tags=["beside"]
exact = exact_draws(posterior, networks, seed)
groups = {"Bayesian RND": samples, "control: standard RND": control}
tests = {
    label: energy_test(of, exact, posterior.mean, posterior.cov, permutations, seed=seed)
    for label, of in groups.items()
}
groups["exact draws"] = exact
squares = {label: np.sum(whitened(of, posterior.mean, posterior.cov) ** 2, axis=1) for label, of in groups.items()}
for label, test in tests.items():
    print(f"{label}: p = {test.pvalue:.1g}")

# %% tags=["figure"]
fig_s1 = figures.distances_from_law(
    squares,
    n_points,
    tests["Bayesian RND"].null_distribution,
    {label: test.statistic for label, test in tests.items()},
    "Corollary 4.3: samples of Bayesian RND have the law of the posterior",
)
figures.save(fig_s1, "fig_s1")

# %% [markdown]
# Left, densities of the squared whitened distance: Bayesian RND and exact draws follow the law, and the control does
# not. Right, the two-sample statistic $D^2$, in whitened units, on its distribution for equal laws. Bayesian RND is
# within it, and the control far outside. No verdict depends on this test. Its null hypothesis is false at every finite
# width, so with enough networks it would always reject.

# %% [markdown]
# ## S2: the samples are independent, and there are $K$ of them
#
# Now one body has $K$ heads, and many such bodies show how the heads of one body depend on each other. If the $K$ heads
# are independent, any two samples of one fit are independent.
#
# **As printed, this fails.** Corollary 4.3 draws $i \sim \mathcal{U}[1, K]$ for every sample. Two draws hit the same
# head with probability $1/K$, and then the two samples are one and the same function. So their correlation is $1/K$ at
# every $x$. Each sample is a draw from the posterior, but the samples are not independent. The mean of $S$ of them has
# the variance of a mean of
#
# $$\frac{S}{1 + (S - 1)/K} \le K$$
#
# independent ones, which is about $K/2$ for $S = K$. And about $K(1 - 1/K)^K \approx K/e$ of $S = K$ samples repeat
# another one. The corollary's "at most $K$" is right for drawing *without replacement*, which is what `sample_y` does.
# The $K$ samples are then all the heads in random order.
#
# Independence is measured by the distance correlation, which is zero only for independent samples. (An ordinary
# correlation can be zero for dependent ones.) For the mixture "equal with probability $1/K$, independent otherwise" it
# is exactly $1/K$, because the joint characteristic function minus the product of its margins is $1/K$ times that of
# two equal samples. The statistic is the distance correlation in multiples of $1/K$, averaged over all pairs of
# samples. The margin is a half: nearer to independence than to drawing with replacement. The unit is a body. With this
# number of bodies, exactly independent samples have an upper end of 0.11 in simulations, with a standard deviation of
# 0.04. Drawing with replacement gives 1.06, with 0.04.

# %%
errors = BayesianRND(net, heads=heads, bodies=bodies, seed=seed, solver=flow).fit(X).errors(points)
errors = errors.reshape(bodies, heads, n_points)
replaced = with_replacement(errors, heads, seed=seed)
_ = ledger.record("S2", *(dependence_of_samples(of, posterior.cov, heads) for of in (errors, replaced)))

drawn = bayesian.sample_y(points, many_heads, random_state=seed)
printed = with_replacement(drawn.T[None], many_heads, seed=seed)[0].T
_ = ledger.record("S2-draws", repeats(drawn), repeats(printed))
ledger

# %% [markdown]
# Different heads pass. Drawing with replacement is rejected, at the value of the closed form. The table has the
# ordinary correlation of two samples of one fit, averaged over test points:

# %% tags=["beside"]
two = {"without replacement": errors[:, :2], "control: with replacement, as printed": replaced[:, :2]}
two = {label: at / np.sqrt(posterior.var) for label, at in two.items()}
rows = [[label, f"{np.mean(at[:, 0] * at[:, 1]).round(2) + 0.0:.2g}"] for label, at in two.items()]
print(aligned(["two samples of a fit", "correlation"], [*rows, ["with replacement, closed form", f"{1 / heads:.2g}"]]))

# %% tags=["figure"]
fig_s2 = figures.pairs(
    {label: at[:, :, 0] for label, at in two.items()},
    "sample",
    "Corollary 4.3, without replacement: two samples of one fit are independent",
)
figures.save(fig_s2, "fig_s2")

# %% [markdown]
# One dot per fit: two of its samples at one test point, in the posterior's standard deviations. With replacement, one
# fit in $K$ lies on the diagonal.
#
# A user has one fit and asks it for samples. Here are as many as it has heads, and then one more:

# %% tags=["beside"]
print(f"repeats among {many_heads} samples, without replacement: {repeats(drawn).value:.0f}")
print(f"with replacement: {repeats(printed).value:.0f}, expected {expected_repeats(many_heads, many_heads):.0f}")
try:
    bayesian.sample_y(points, many_heads + 1)
except ValueError as refusal:
    print(refusal)

# %% [markdown]
# ## With observation noise
#
# The paper treats noise in a footnote: $\Theta_{\mathcal{X}\mathcal{X}} + \sigma_n^2 I$ takes the place of
# $\Theta_{\mathcal{X}\mathcal{X}}$. In training, the targets are jittered and the parameters are pulled back to their
# start (B5 in notebook 03).

# %% tags=["figure"]
law = laws.posterior(net, X, y, walk, noise_std=noise_std, full_cov=True)
noisy = BayesianRND(net, heads=many_heads, noise_std=noise_std, seed=seed, solver=flow).fit(X, y)
fig_noise = figures.functions_on_walk(
    distance,
    law,
    known,
    {"exact noisy posterior": draws_of(law), "Bayesian RND": samples_of(noisy)},
    "With observation noise, mean plus error is a function drawn from the noisy posterior",
)
figures.save(fig_noise, "fig_noise")

# %% [markdown]
# As in the first figure, in label units, with observation noise. The samples no longer pass through the labels. They
# fill the band of the noisy posterior as exact draws do.
#
# ## What samples cost
#
# A Gaussian process can be sampled without any network. Joint samples at $T$ points need a factor of their covariance,
# which takes $O(T^3)$ operations. Trained networks are evaluated in $O(T)$. With ten labels, networks of width 1024 and
# two cores, the two take equally long at about 3000 points. At 10,000 points Bayesian RND takes a ninth of the time,
# and its samples have 0.96 of the exact variance. But with more labels, networks train for longer. At 1000 points the
# Gaussian process is cheaper at every $N$ from 10 to 10,000 (`make bench SECTIONS=sampling`).
#
# ## Limits
#
# **Not before convergence.** Half the squared error of *standard* RND equals the variance of an ensemble at every
# training time (notebook 01). Nothing similar holds here. At time $t$ the error has the covariance
#
# $$\Theta_{xx'} - \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}
# (I - e^{-2t\,\Theta_{\mathcal{X}\mathcal{X}}})\,\Theta_{\mathcal{X}x'}.$$
#
# That is not a posterior on these data, and it is too wide wherever a slow direction matters. The law says by how much.
# Ten training points converge soon; more points, or closer ones, have slower directions.

# %% tags=["beside"]
rows = [
    [f"{t:g}", f"{np.mean(laws.bayesian_rnd_error(net, X, points, time=t).var / posterior.var):.1f}"] for t in times
]
print(aligned(["training time t", "variance over the posterior's, mean over test points"], rows))

# %% [markdown]
# **Not more samples than heads, and not too many heads.** More heads on one body give more samples, but they share its
# hidden weights. With one direction $\psi$ per body, as the paper's footnote suggests, they all pull these weights the
# same way, and the errors come out too small. What counts is the number of equations per hidden parameter, $NK/P$.
# Notebook 03 measures the effect, and the library warns of it. Each row has the same number of heads, on fewer and
# fewer narrow bodies:

# %% tags=["beside"]
body, rows = replace(net, width=narrow), []
for K in crowd:
    with warnings.catch_warnings(action="ignore", category=HeadsWarning):
        model = BayesianRND(body, heads=K, bodies=max(crowd) // K, seed=seed, solver=flow, mean=mean).fit(X)
    ratio = np.mean(model.variance(points) / posterior.var)
    rows.append([str(K), f"{n_train * K / body.hidden_parameters:.2g}", f"{ratio:.1f}"])
print(aligned(["heads K of a body", "N K / P", "mean squared error over the posterior's variance"], rows))

# %% [markdown]
# **One mean for all.** The errors come from independent networks, but (1) adds the same estimate $\tilde\mu$ to all of
# them. Its error at a finite width is a common shift of all samples. The table has this shift in standard deviations of
# the posterior, as a root mean square over all directions at the test points and over several such networks:

# %% tags=["beside"]
rows = []
for n in sorted({narrow, width, mean_width}):
    fits = [BayesianRND(replace(net, width=n), 1, seed=seed + 1000 * k, solver=flow) for k in range(mean_networks)]
    estimates = np.stack([fit.fit(X, y).predict(points) for fit in fits])
    shift = np.sqrt(np.mean(whitened(estimates, posterior.mean, posterior.cov) ** 2))
    rows.append([str(n), f"{shift:.1g}"])
print(aligned(["width of the mean network", "shift"], rows))

# %% [markdown]
# This is one data set, one pair of scales and one architecture; all are parameters. And the posterior is that of a
# Gaussian process with the fixed kernel $\Theta$. What a finite network learns beyond it is not part of it.
#
# ## Ledger

# %%
ledger.write()
ledger
