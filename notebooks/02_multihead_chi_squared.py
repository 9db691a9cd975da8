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
# # Many heads: RND has the chi-squared distribution of an ensemble's variance
#
# > **Claim.** $\tfrac12\bar\epsilon^2(x)$ of $K$ heads and the variance $\bar\sigma_f^2(x)$ of $K + 1$ ensemble members
# > have the same distribution, $\Sigma(x, x)/K \cdot \chi^2(K)$ (Proposition 3.3, Theorem 3.4).\
# > **Picture.** Over seeds, both histograms follow the predicted density, and not the one with $K - 1$ degrees of
# > freedom.\
# > **Verdict.** The distributions differ from the prediction by M2 0.01 and from each other by M2-pair 0.012 (root mean
# > square of a probability); the tolerance is 0.03. One degree of freedom fewer gives 0.11, weights that are 5 % larger
# > 0.06. Extrapolated to infinite width, the variance over networks is off by at most M-limit 0.041; the tolerance is
# > 0.1.
#
# By Corollary 3.2, half the squared RND error is the variance of an ensemble on average over networks. In practice one
# has *one* RND network with $K$ outputs (*heads*), which share the hidden layers (the *trunk*), and one number at each
# $x$,
#
# $$\tfrac12\bar\epsilon^2(x) = \frac{1}{2K}\sum_{i=1}^{K}\epsilon_i^2(x).$$
#
# It scatters from seed to seed, and so does the variance $\bar\sigma_f^2(x)$ of a finite ensemble. By the second half
# of Section 3, both scatter in the same way:
#
# | id | statement | in the paper |
# |---|---|---|
# | M1 | the heads of one network are independent, at every training time | Proposition 3.3 |
# | M2 | the error of $K$ heads, and the variance of $K + 1$ members, are $\Sigma^f_{xx}/K\;\chi^2(K)$ | Theorem 3.4 |
# | M2-pair | the two have the same distribution | Theorem 3.4 |
# | M3 | at two points, this error has the covariance $2\,(\Sigma^f_{xx'})^2/K$ | Theorem 3.1, Proposition 3.3 |
# | M-limit | the dependence between heads vanishes at infinite width | Theorem 3.4, as a limit |
#
# ## Why it is true
#
# Heads share every hidden weight, but head $i$ has its own row $w_i$ in the last layer:
# $f_i(x) = \tfrac{\sigma_w}{\sqrt n}\,w_i^\top \phi(z(x)) + \sigma_b b_i$. Given the trunk, two heads are independent
# Gaussians at initialisation. The covariance that they share is random, but as a mean over $n$ hidden units it tends to
# $\kappa$, which is the same for every trunk. In training, the error of head $j$ changes head $i$ through the tangent
# kernel between them,
#
# $$\nabla_\theta f_i(x)^\top\,\nabla_\theta f_j(x') = \frac{1}{n}\sum_{u=1}^{n} w_{iu}\,w_{ju}\,(\dots)
# \;\longrightarrow\; 0 \quad (i \ne j),$$
#
# a mean of terms with random signs. So in the limit each head trains as if it were a separate network.
#
# With $K$ independent errors $\epsilon_i(x) \sim \mathcal{N}(0, 2\Sigma^f_{xx})$ (Theorem 3.1),
# $\tfrac12\bar\epsilon^2(x)$ is $\Sigma^f_{xx}/K$ times a sum of $K$ squared standard normal variables. The sample
# variance of $K + 1$ members has the same distribution, as one degree of freedom goes into estimating their mean. RND
# knows that its mean is zero, so it needs one network output less.

# %% jupyter={"source_hidden": true} tags=["parameters", "hide-input"]
width: int = 768  # units in each hidden layer, n
heads: int = 2  # heads of one network, K, at least 2; ensembles have one member more
bodies: int = 4096  # trained networks
ensembles: int = 768  # trained ensembles, at most as many
n_points: int = 32  # test points
n_joint: int = 4  # of these, how many enter the test of independence jointly
times: list[float] = [0.0, 0.1, 10.0]  # training times t of the test of independence, besides convergence
time_bodies: int = 1024  # networks at each time, convergence included
overlap: float = 0.5  # part of its output row that the wrong variant's head shares with the first head
little: float = 0.2  # the same, of the sensitivity check
limit_widths: list[int] = [128, 256, 512]  # widths of the networks of M-limit
limit_heads: int = 8  # heads of each
limit_bodies: int = 768  # networks of each width
untrained: int = 4096  # untrained networks of each width, for control variates
narrow: int = 64  # width of a narrow network
many: list[int] = [4, 16, 64]  # numbers of heads on it
many_networks: int = 64  # networks for each of them
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function
limit_rtol: float = 0.05  # the same, of the networks of M-limit
many_rtol: float = 0.1  # the same, of networks with many heads

# %% jupyter={"source_hidden": true} tags=["hide-input"]
import warnings
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from rndlib import MLP, RND, DeepEnsemble, DepartureWarning, GradientFlow, HeadsWarning, datasets, laws
from rndlib.paper import figures, parameters
from rndlib.paper.evidence import control_variates
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.statistics import (
    covariance_pairs,
    dependence,
    distance_between,
    distance_to_law,
    excess_spread,
    field_covariance,
    level,
    limit,
    mixed,
    spread,
)
from rndlib.paper.evidence.tables import aligned
from rndlib.paper.fitted import variances

parameters.check(globals(), "heads >= 2", "n_joint <= n_points", "ensembles <= bodies")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose
warnings.simplefilter("ignore", HeadsWarning)  # and the appendix has many heads on them

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
larger = replace(net, sigma_w=1.05 * sigma_w)
trained = partial(control_variates.trained, X=X, points=points, untrained=untrained, heads=limit_heads)
ledger = Ledger("02_multihead_chi_squared")

# %% [markdown]
# An independent observation is a network, or an ensemble, with its own seed. There are only $K = 2$ heads: the larger
# $K$, the harder it is to tell $K$ degrees of freedom from $K - 1$, and a test that cannot tell them apart shows
# nothing. Training is gradient flow to $t = \infty$ on the toy problem with $N = 10$ points.


# %%
def predictors(count, time=inf):
    """Trained networks."""
    return RND(net, heads, count, seed=seed, solver=GradientFlow(time, rtol=rtol)).fit(X)


def errors_of(model):
    """Their errors at the test points, (networks, heads, points)."""
    return model.errors(points).reshape(model.bodies, heads, -1)


rnd = predictors(bodies)
errors = errors_of(rnd)
members = DeepEnsemble(net, ensembles * (heads + 1), seed=seed, solver=GradientFlow(rtol=rtol)).fit(X, y)
functions = members.functions(points).reshape(ensembles, heads + 1, -1)
law = laws.ensemble(net, X, y, points, full_cov=True)

# %% [markdown]
# ## M1: the heads are independent
#
# Uncorrelated heads can still be dependent: a trunk that makes one head large makes the other large too. So three
# correlations between two heads are estimated, over networks: that of the errors, that of their squares and products,
# and the distance correlation of Székely, Rizzo and Bakirov, which is zero only for independent vectors. All use
# several test points jointly, and several training times. The largest of their upper 95 % confidence limits must be at
# most 0.1.
#
# Wrong variant: half of the second head's output row is that of the first, in predictor and target, which gives the
# errors a correlation of 0.5. Sensitivity check: a correlation of 0.2.


# %%
def worst(part):
    """The largest dependence over times and measures, with this part of the first head mixed into the second."""
    found = []
    for time, of in errors_at.items():
        cov = laws.rnd_error(net, X, points[:n_joint], time=time, full_cov=True).cov
        found += [dependence(mixed(of[..., :n_joint], part), cov, by) for by in ("errors", "squares", "distance")]
    return max(found)


errors_at = {**{time: errors_of(predictors(time_bodies, time)) for time in times}, inf: errors[:time_bodies]}
ledger.record("M1", *map(worst, (0.0, overlap, little)))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
scale = np.sqrt(2 * law.var[0])
panels = {"heads of one network": errors, "wrong: shared row": mixed(errors, overlap)}
fig_m1 = figures.pairs(
    {title: sample[:, :2, 0] / scale for title, sample in panels.items()},
    "head's error",
    "Proposition 3.3: the heads of one network are independent",
)
figures.save(fig_m1, "fig_m1")

# %% [markdown]
# Each dot is one network: the errors of its two heads at one test point, in theoretical standard deviations. The two
# errors are unrelated; those of the wrong variant are correlated. Most of the remaining correlation is sampling
# error.
#
# ## M2: the distribution of the error
#
# Each network and each ensemble gives one number at each test point. They are compared with
# $\Sigma^f_{xx}/K\;\chi^2(K)$, with $\Sigma^f_{xx}$ of Theorem 2.1, so nothing is fitted. The statistic is the
# Cramér-von Mises distance, the root-mean-square difference of the cumulative distribution functions, averaged over
# test points and corrected for sampling noise. Its upper confidence limit must be at most 0.03, three percentage
# points. Wrong variant: $K - 1$ degrees of freedom, with the same mean. Sensitivity check: weights that are 5 % larger,
# whose variances are about a quarter larger.
#
# M2-pair compares the two samples with each other. Wrong variant: ensembles of $K$ members. Sensitivity check:
# variances that are a fifth too small.

# %%
square, variance = variances(rnd, points, bodies), variances(members, points, ensembles)
chi, fewer = laws.mean_square(law.var, heads), laws.mean_square(law.var, heads - 1)
scaled = laws.ensemble(larger, X, y, points, full_cov=True)

wider = laws.mean_square(scaled.var, heads)
by_law = [max(distance_to_law(values, of) for values in (square, variance)) for of in (chi, fewer, wider)]
one_less = functions[:, :heads].var(axis=1, ddof=1)
pairs = [distance_between(square[:ensembles], of, chi) for of in (variance, one_less, 4 / 5 * variance)]
ledger.record("M2", *by_law)
ledger.record("M2-pair", *pairs)
ledger.last(2)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
unit = laws.mean_square(1.0, heads), laws.mean_square(1.0, heads - 1)
both = {f"RND, {heads} heads": square, f"ensemble of {heads + 1}": variance}
fig_m2 = figures.histograms(
    {name: values[:, 0] / law.var[0] for name, values in both.items()},
    (rf"theorem: $\chi^2({heads}) / {heads}$", unit[0]),
    r"value over $\Sigma^f_{xx}$",
    r"Theorem 3.4: $\frac{1}{2}\bar\epsilon^2$ and the variance of $K + 1$ members are "
    r"$\Sigma^f_{xx}\,\chi^2(K) / K$",
    (rf"wrong: $\chi^2({heads - 1}) / {heads - 1}$", unit[1]),
)
figures.save(fig_m2, "fig_m2")

# %% [markdown]
# Densities over seeds at one test point, with bars of two standard errors, in units of the theoretical variance. Both
# histograms follow the theorem. RND with $K$ heads estimates the variance as precisely as an ensemble of $K + 1$
# members.
#
# ## M3: the covariance over points
#
# One network gives a whole function $\tfrac12\bar\epsilon^2(\cdot)$. For Gaussian pairs
# $\operatorname{Cov}(\epsilon^2(x), \epsilon^2(x')) = 2\operatorname{Cov}(\epsilon(x), \epsilon(x'))^2$, so
#
# $$\operatorname{Cov}\bigl(\tfrac12\bar\epsilon^2(x), \tfrac12\bar\epsilon^2(x')\bigr)
# = \frac{2\,\bigl(\Sigma^f_{xx'}\bigr)^2}{K}.$$
#
# This matters for a mean or maximum of the uncertainty over points: neighbouring points scatter together, and more test
# points are not more evidence. The statistic is the root-mean-square error of all covariances, relative to that of the
# theoretical ones; its upper confidence limit must be at most 0.15. Wrong variant: independence over $x$, by shuffling
# the values at each point among the networks. Sensitivity check: that of M2. Squared Gaussians have heavy tails, so
# this test needs the most networks.

# %%
shuffled = np.random.default_rng(seed).permuted(square, axis=0)
variants = (square, law), (shuffled, law), (square, scaled)
ledger.record("M3", *(field_covariance(values, of.cov, heads) for values, of in variants))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
first = slice(0, 8)
series = {**both, "wrong: shuffled": shuffled}
fig_m3 = figures.covariances_of_squares(
    {name: covariance_pairs(values[:, first], law.cov[first, first], heads) for name, values in series.items()},
    r"theory, $2\,(\Sigma^f_{xx'})^2 / K$",
    r"Two points covary over networks: $\mathrm{Cov}[\frac{1}{2}\bar\epsilon^2(x), \frac{1}{2}\bar\epsilon^2(x')]"
    r" = 2\,(\Sigma^f_{xx'})^2 / K$",
)
figures.save(fig_m3, "fig_m3")

# %% [markdown]
# One marker per pair of test points, with bars of two standard errors: the covariance over networks against the
# theoretical one, both divided by the two variances. Neighbours, at the right, rise and fall together.
#
# ## M-limit: extrapolation to infinite width
#
# At finite width the heads of one network are slightly dependent. If the squared errors of two heads have correlation
# $r$, the variance of $\tfrac12\bar\epsilon^2$ over networks is $1 + (K - 1)\,r$ times the theoretical one. With $K =
# 8$ this excess can be measured. A line in $1/n$ through it must pass through zero (E-limit in notebook 01). The
# confidence limits of the intercept must be within a tenth of the variance over networks. Wrong variant and sensitivity
# check: those of M1 and M2.

# %%
by_width = {}
for k, n in enumerate(limit_widths, start=1):
    own = {"seed": seed + 1000 * k, "solver": GradientFlow(rtol=limit_rtol)}  # the line needs independent networks
    model = RND(replace(net, width=n), limit_heads, limit_bodies, **own)
    by_width[n] = trained(model).by_network(limit_heads)


def line(by_width, variance):
    """The line through the excess spreads, against a theoretical variance."""
    squares = {n: sample.each(lambda e: np.mean(e**2, axis=-2) / 2) for n, sample in by_width.items()}
    return limit({n: excess_spread(sample, variance, limit_heads) for n, sample in squares.items()})


sharing = {n: control_variates.Sample(mixed(sample.values, overlap)) for n, sample in by_width.items()}
found, wrong, near = line(by_width, law.var), line(sharing, law.var), line(by_width, scaled.var)
ledger.record("M-limit", found, wrong, near)

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
fig_limit = figures.extrapolated(
    limit_widths,
    {f"RND, {limit_heads} heads on a network": found, r"wrong: 5 % more $\sigma_w$": near},
    CLAIMS["M-limit"].tolerance,
    "excess variance over networks\n(relative to the theory)",
    "Theorem 3.4: extrapolated linearly in $1/n$, the excess vanishes",
)
figures.save(fig_limit, "fig_limit")

# %% [markdown]
# Excess variance of $\tfrac12\bar\epsilon^2$ over networks against $1/n$, with 95 % intervals. At every finite width
# the spread is too large, and the line ends at zero within the tolerance.
#
# ## Limits
#
# The limits of notebook 00 apply. For larger $K$ all these chi-squared distributions look alike, and the effect of many
# heads per width, below, is larger than one degree of freedom.
#
# ## Appendix: many heads per width
#
# In practice there are often as many heads as hidden units. Then the random trunk that they share, and their
# interaction in training, no longer average out. The variance of $\tfrac12\bar\epsilon^2$ over networks grows as $1 +
# c\,K/n$, with $c$ of order 1 to 5 depending on the data. The mean stays within a tenth or so.

# %% tags=["beside"]
rows, on = {}, replace(net, width=narrow)
for k in many:
    model = RND(on, k, many_networks, seed=seed, solver=GradientFlow(rtol=many_rtol)).fit(X)
    values = np.mean(model.errors(points).reshape(many_networks, k, -1) ** 2, axis=1) / 2
    rows[k] = level(values, law.var), spread(values, law.var, k)
head = ["heads", "width", "mean over theory", "variance over theory"]
print(aligned(head, [[str(k), str(narrow), *(found.rounded() for found in pair)] for k, pair in rows.items()]))

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
names = "mean\n(over the theory)", "variance over networks\n(over the theory)"
series = [np.array([(k / narrow, *pair[i]) for k, pair in rows.items()]) for i in (0, 1)]
fig_heads = figures.ratios(
    {name: figures.Ratios({f"$n = {narrow}$": of}) for name, of in zip(names, series, strict=True)},
    "heads on a network over its width, $K / n$",
    "Many heads on one network keep the mean and increase the variance over networks",
)
figures.save(fig_heads, "fig_heads")

# %% [markdown]
# Left: mean, right: variance across networks, both divided by the theoretical value and averaged over test points.
# Much of the precision expected from so many heads is lost. The remedy is `bodies`, which spreads the same heads over
# several independent networks; only heads on the same network count in $K$. `fit` warns if the variance is off.

# %%
ledger.close()
