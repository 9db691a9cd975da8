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
# > **Verdict.** The mean and covariance of the samples are off by S1 0.032, with 0.1 allowed; with the errors of
# > standard RND they are off by 0.44. In energy distance the samples are at S1-energy 0.12 of what standard RND is at,
# > with 0.2 allowed. Heads are drawn without replacement, because the paper's draw repeats them.
#
# Notebook 03 gave random network distillation (RND) a target with which its errors have the covariance of a Bayesian
# posterior. This notebook puts that to use. A posterior is a law of whole functions, and many users want functions
# rather than error bars: to act on one of them (Thompson sampling), or to pass it on to a later computation. Corollary
# 4.3 of the paper says how to get functions from Bayesian RND: estimate the posterior's mean, and add the error of one
# head. Three statements are checked here:
#
# | id | statement | in the paper |
# |---|---|---|
# | S1 | mean plus error is a draw from the posterior, jointly over all $x$ | Corollary 4.3, by Theorem 4.2 |
# | S2 | different heads give independent draws, and $K$ heads give $K$ of them | Corollary 4.3, by Proposition 3.3 |
# | S-limit | what is left of the error of the mean estimate vanishes at infinite width | Corollary 4.3, as a limit |
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
width: int = 1024  # units in each hidden layer, n, of the predictors
mean_widths: list[int] = [8192, 16384, 65536]  # widths of networks that estimate the mean; the last is used
n_points: int = 8  # test points, p, at which samples are compared jointly
networks: int = 800  # bodies of one head, in S1
untrained: int = 256  # further bodies of 32 heads, for control variates
controls: int = 400  # as networks, of the control
heads: int = 2  # heads of each body, K, in S2
bodies: int = 1536  # such bodies
wide: int = 2048  # width of the one body with many heads
many_heads: int = 64  # heads of the one fit that draws functions
corners: int = 3  # training points that the walk in the figures passes
shown: int = 24  # functions in each panel of the figures
noise_std: float = 0.5  # standard deviation of the observation noise in the last figure
times: list[float] = [0.1, 1.0, 10.0, 100.0]  # training times t at which the law is compared with the posterior
crowd: list[int] = [8, 64, 256]  # heads on one narrow body, in the table of crowding
narrow: int = 512  # width of the narrow bodies
mean_networks: int = 16  # networks of each width that estimate the mean, in S-limit
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

from rndlib import (
    MLP,
    RND,
    BayesianRND,
    DeepEnsemble,
    DepartureWarning,
    GradientFlow,
    HeadsWarning,
    datasets,
    laws,
)
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
from rndlib.paper.evidence.tables import aligned

parameters.check(globals(), "heads >= 2", "corners <= n_train")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
flow = GradientFlow(rtol=rtol)
ledger = Ledger("04_posterior_sampling")

mean = BayesianRND(replace(net, width=mean_widths[-1]), heads=1, seed=seed, solver=flow).fit(X, y).predict

# %% [markdown]
# `mean` is the library's own estimate, from one network that is wider than the predictors. The corollary does not say
# which estimate to take. One network of the predictors' width would do too, but its error would be in every sample (see
# S-limit).
#
# ## What the samples look like
#
# The data are the paper's toy problem, $y = x_1 + x_2 + x_3 - 2\,x_1x_2x_3$ at ten points drawn from
# $\mathcal{N}(0, I_3)$. To plot functions of three inputs, walk in straight lines from a training point to a test
# point, on to the next training point, and so on. `fit` trains one body with $K$ heads on $\mathcal{X}$. `sample_y`
# returns mean plus error for as many heads as you ask for:

# %%
bayesian = BayesianRND(replace(net, width=wide), heads=many_heads, seed=seed, solver=flow, mean=mean).fit(X)

# %% tags=["figure"]
stops = [stop for pair in zip(X[:corners], points, strict=False) for stop in pair][: 2 * corners - 1]
walk, distance, at_stops = figures.walk(stops)
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
# $S$ are the mean and covariance of the samples, whitened so that the posterior is $\mathcal{N}(0, I)$. As there, they
# are estimated with control variates, so that less noise is left. The upper end of its
# 95 % interval must stay below $0.1$: a tenth of a standard deviation in every direction, or 14 % of the variances.
#
# The first statistic sees two moments only. The second, the energy distance, is zero only for equal laws:
#
# $$D^2 = 2\,\mathbb{E}|z - w| - \mathbb{E}|z - z'| - \mathbb{E}|w - w'|,$$
#
# with two samples $z, z'$ and two draws $w, w'$ from the posterior, in the same coordinates. The means over $w$ are
# known in closed form, so only the networks add sampling noise. No finite width is exactly at its limit, so the
# question is not whether $D = 0$ but how large it may be. $D$ is a metric, and the unit is the distance between the
# posterior and the law of standard RND errors. The samples must be within a fifth of it, so that they are at least four
# times as close to the posterior as to that law. It is the length of a mean over networks as well, of features that are
# infinitely many, so control variates help here too.
#
# The negative control of both is that law itself: standard RND errors added to the same mean. The near controls are
# wrong by little. For the moments, weights are scaled by 5 % more; for the energy distance, the posterior is the one
# for observation noise of standard deviation $0.1$.

# %%
posterior = laws.posterior(net, X, y, points, full_cov=True)
wrong = laws.rnd_error(net, X, points, full_cov=True)
scaled = laws.posterior(replace(net, sigma_w=1.05 * sigma_w), X, y, points, full_cov=True)
blurred = laws.posterior(net, X, y, points, noise_std=0.1, full_cov=True)

one_head = BayesianRND(net, heads=1, bodies=networks, seed=seed, solver=flow, mean=mean)
errors = trained(one_head, X, points, untrained=untrained)
samples = one_head.sample_y(points, networks).T
control = mean(points) + RND(net, heads=1, bodies=controls, seed=seed, solver=flow).fit(X).errors(points)

# Samples come in random order. Sorted by their values at the first point, they are in the order of the sorted errors.
samples = samples[np.argsort(samples[:, 0])]
in_order = np.argsort(errors.values[:, 0])
samples = Sample(samples, mean(points) + errors.own[in_order], mean(points) + errors.others)

first = joint_law(samples, posterior), joint_law(control, posterior), joint_law(samples, scaled)
second = energy(samples, posterior, wrong), energy(control, posterior, wrong), energy(samples, blurred, wrong)
_ = ledger.record("S1", *first)
_ = ledger.record("S1-energy", *second)
ledger

# %% [markdown]
# By both statistics the samples are indistinguishable from exact posterior draws; the control is not.

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
# samples. The margin is a fifth: with $K$ heads, two samples may be the same function once in $5K$ fits. The unit is a
# body. The near control gives the second head a part of the first, so that their correlation is $0.3$.
#
# The number of samples is counted. Its near control asks a fit of $K$ heads for $K + 1$ samples, so that one head is
# drawn a second time.

# %%
errors = BayesianRND(net, heads=heads, bodies=bodies, seed=seed, solver=flow).fit(X).errors(points)
errors = errors.reshape(bodies, heads, n_points)
replaced = with_replacement(errors, heads, seed=seed)
drawings = errors, replaced, mixed(errors, 0.3)
_ = ledger.record("S2", *(dependence_of_samples(of, posterior.cov, heads) for of in drawings))

drawn = bayesian.sample_y(points, many_heads, random_state=seed)
printed = with_replacement(drawn.T[None], many_heads, seed=seed)[0].T
one_more = np.hstack([drawn, drawn[:, :1]])
_ = ledger.record("S2-draws", *map(repeats, (drawn, printed, one_more)))
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
print(f"with replacement: {repeats(printed).value:.0f}")
try:
    bayesian.sample_y(points, many_heads + 1)
except ValueError as refusal:
    print(refusal)

# %% [markdown]
# ## S-limit: one mean for all
#
# The errors come from independent networks, but (1) adds the same estimate $\tilde\mu$ to all of them. Its error at a
# finite width is a common shift of all samples. Measure its square in variances of the posterior, as the mean over all
# directions at the test points. To leading order it is a multiple of $1/n$. So a line through it at several widths must
# pass through zero at $1/n = 0$. The unit is a network that estimates the mean. The margin is $0.002$, the squared
# error of the mean of $512$ exact samples, as many as the paper's experiment has heads. The negative control leaves the
# network's own initial function in the mean. The near control is the posterior mean for labels with noise of standard
# deviation $0.05$.

# %%
owns = {n: [seed + 1000 * (mean_networks * i + k) for k in range(mean_networks)] for i, n in enumerate(mean_widths)}


def estimates(n):
    """The mean as each of several networks estimates it, (mean_networks, points)."""
    fits = [BayesianRND(replace(net, width=n), heads=1, seed=own, solver=flow).fit(X, y) for own in owns[n]]
    return np.stack([fit.predict(points) for fit in fits])


def shifts(means, law):
    """The squared shift of each estimate from a law's mean, (mean_networks,)."""
    return np.mean(whitened(means, replace(law, cov=posterior.cov)) ** 2, axis=1)


def line(means, law):
    """The line through the squared shifts at all widths."""
    return limit({n: [shifts(means[n], law)] for n in mean_widths})


centred = {n: estimates(n) for n in mean_widths}
uncentred = {
    n: DeepEnsemble(replace(net, width=n), mean_networks, seed=owns[n][0], solver=flow).fit(X, y).functions(points)
    for n in mean_widths
}
slight = laws.posterior(net, X, y, points, noise_std=0.05)
found, kept, near = line(centred, posterior), line(uncentred, posterior), line(centred, slight)
_ = ledger.record("S-limit", found, kept, near)
ledger

# %% tags=["figure"]
fig_limit = figures.extrapolated(
    mean_widths,
    {"network of the mean": found, "control: mean for noise 0.05": near},
    CLAIMS["S-limit"].tolerance,
    "squared shift of the mean\n(variances of the posterior)",
    "Corollary 4.3: on a line in $1/n$, the error of the mean vanishes at infinite width",
)
figures.save(fig_limit, "fig_limit")

# %% [markdown]
# Squared shifts with 95 % intervals over networks (at infinite width 90 %, of which each end is judged at 95 %). The
# near control has the same squared shifts from a slightly wrong mean, and its line must not end at zero. As shifts they
# are, in standard deviations of the posterior:

# %% tags=["beside"]
rows = [[str(n), f"{np.sqrt(shifts(centred[n], posterior).mean()):.1g}"] for n in mean_widths]
print(aligned(["width of the mean network", "shift"], rows))

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
# Gaussian process is cheaper at every $N$ from 10 to 10,000 (`make bench SECTIONS=samples`).
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
# This is one data set, one pair of scales and one architecture; all are parameters. And the posterior is that of a
# Gaussian process with the fixed kernel $\Theta$. What a finite network learns beyond it is not part of it.
#
# ## Ledger

# %%
ledger.close()
