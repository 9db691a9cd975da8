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
# # Many heads on one body: RND has the chi-squared law of a small ensemble
#
# > **Claim.** $\tfrac12\bar\epsilon^2(x)$ of $K$ heads and $\bar\sigma_f^2(x)$ of $K + 1$ ensemble members have one
# > law, $\Sigma(x, x)/K \cdot \chi^2(K)$ (Proposition 3.3, Theorem 3.4).\
# > **Picture.** Over seeds, both histograms follow the density of the theorem, and not the density with $K - 1$ degrees
# > of freedom.\
# > **Verdict.** The distributions differ from the law by M2 0.01 and from each other by M2-pair 0.012 (in probability,
# > root mean square), with 0.03 allowed. One degree of freedom fewer is 0.11 away, weights 5 % larger 0.06. At infinite
# > width, the variance over bodies is off by M-limit 0.041 at most, with 0.1 allowed.
#
# Corollary 3.2 equates expectations: on average over networks, half the squared RND error is the variance of an
# ensemble. In practice nobody has that average. One has *one* RND network with $K$ outputs ("heads") on shared hidden
# layers (the "body"), and one number at each $x$,
#
# $$\tfrac12\bar\epsilon^2(x) = \frac{1}{2K}\sum_{i=1}^{K}\epsilon_i^2(x),$$
#
# which scatters from seed to seed. So does the variance $\bar\sigma_f^2(x)$ of an ensemble with finitely many members.
# The second half of Section 3 of the paper says that the two scatter in the same way. Checked here are
#
# | id | statement | in the paper |
# |---|---|---|
# | M1 | the heads of one body are independent, at every training time | Proposition 3.3 |
# | M2 | this error of $K$ heads and the variance of $K + 1$ members are $\Sigma^f_{xx}/K\;\chi^2(K)$ | Theorem 3.4 |
# | M2-pair | the two follow one law, whatever it is | Theorem 3.4 |
# | M3 | at two points, this error has the covariance $2\,(\Sigma^f_{xx'})^2/K$ | Theorem 3.1, Proposition 3.3 |
# | M-limit | what the heads still have in common vanishes at infinite width | Theorem 3.4, as a limit |
#
# and, at the end, what happens when the heads are many and the body is narrow.
#
# ## Why it is true
#
# Heads share every hidden weight, so it is not obvious that they are independent. The last layer makes them so. Head
# $i$ is $f_i(x) = \tfrac{\sigma_w}{\sqrt n}\,w_i^\top \phi(z(x)) + \sigma_b b_i$, with a row $w_i$ of its own. Given
# the body, two heads at the start are Gaussian and independent, with the covariance that this body gives them. They
# could still be dependent because that covariance is random and common to both. But it is a mean over $n$ hidden units
# and tends to $\kappa$, which is the same for every body. In training, an error of head $j$ moves head $i$ through the
# tangent kernel between the two,
#
# $$\nabla_\theta f_i(x)^\top\,\nabla_\theta f_j(x') = \frac{1}{n}\sum_{u=1}^{n} w_{iu}\,w_{ju}\,(\dots)
# \;\longrightarrow\; 0 \quad (i \ne j),$$
#
# which is a mean of terms with random signs: the pulls of two heads on the hidden weights cancel. So each head moves as
# if it had a body of its own, and stays independent of the others.
#
# With $K$ independent errors $\epsilon_i(x) \sim \mathcal{N}(0, 2\Sigma^f_{xx})$ (Theorem 3.1),
# $\tfrac12\bar\epsilon^2(x)$ is $\Sigma^f_{xx}/K$ times a sum of $K$ squared standard normal variables. The sample
# variance of $K + 1$ independent Gaussian members has the same law, since one degree of freedom goes into their mean.
# The ensemble needs one member more because it has to estimate its mean; RND knows that its mean is zero.

# %% tags=["parameters"]
width: int = 768  # units in each hidden layer, n
heads: int = 2  # heads of one body, K, at least 2; ensembles have one member more
bodies: int = 4096  # trained bodies
ensembles: int = 768  # trained ensembles, at most as many
n_points: int = 32  # test points
n_joint: int = 4  # of these, how many enter the test of independence jointly
times: list[float] = [0.0, 0.1, 10.0]  # training times t of the test of independence, besides the end
time_bodies: int = 1024  # bodies at each time, the end included
overlap: float = 0.5  # part of its output row that the control's head shares with the first head
little: float = 0.2  # the same, of the near control
limit_widths: list[int] = [128, 256, 512]  # widths of the bodies of M-limit
limit_heads: int = 8  # heads of each
limit_bodies: int = 768  # bodies of each width
untrained: int = 4096  # further bodies of each width that are not trained, for the partners
narrow: int = 64  # width of a narrow body
crowd: list[int] = [4, 16, 64]  # numbers of heads on it, in ascending order; the last is a multiple of the others
models: int = 20  # models of that many heads in all
wider: int = 128  # width of a wider body, with the heads per hidden unit of the second crowd
wider_bodies: int = 48  # bodies of that kind
n_trains: list[int] = [15]  # other numbers of training points, on the wider body
depths: list[int] = [3]  # other depths, on the wider body
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function
limit_rtol: float = 0.05  # the same, of the bodies of M-limit
crowded_rtol: float = 0.1  # the same, of crowded bodies

# %%
import warnings
from dataclasses import replace
from math import inf

import numpy as np

from rndlib import MLP, RND, DeepEnsemble, DepartureWarning, GradientFlow, datasets, laws
from rndlib.paper import figures, parameters
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.partners import Untrained
from rndlib.paper.evidence.statistics import (
    covariance_pairs,
    dependence,
    distance_between,
    distance_to_law,
    excess_spread,
    field_covariance,
    limit,
    mixed,
)
from rndlib.paper.evidence.tables import aligned
from rndlib.paper.fitted import variances

parameters.check(
    globals(), "heads >= 2", "n_joint <= n_points", "ensembles <= bodies", "all(crowd[-1] % K == 0 for K in crowd)"
)
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
ledger = Ledger("02_multihead_chi_squared")


def rnd(count, time=inf):
    """`count` trained bodies."""
    return RND(net, heads, count, seed=seed, solver=GradientFlow(time, rtol=rtol)).fit(X)


def by_body(model):
    """Errors of the heads of a model's bodies at the test points, (bodies, heads, points)."""
    return model.errors(points).reshape(model.bodies, model.heads, -1)


def largest(findings):
    """The finding with the largest value; if it is within the tolerance, all are."""
    return max(findings, key=lambda finding: finding.value)


# %% [markdown]
# The unit of replication is a body, or an ensemble, with its own seed. The data are the paper's toy problem, $N = 10$
# points in three dimensions. $K = 2$ heads are few on purpose. The larger $K$ is, the harder it is to tell the law of
# $K$ heads from that of $K - 1$, and a check that cannot tell them apart shows nothing. The theorem also needs few
# heads for the width. Training is gradient flow to $t = \infty$.

# %%
predictors = rnd(bodies)
errors = by_body(predictors)
members = DeepEnsemble(net, ensembles * (heads + 1), seed=seed, solver=GradientFlow(rtol=rtol)).fit(X, y)
functions = members.functions(points).reshape(ensembles, heads + 1, -1)
law = laws.ensemble(net, X, y, points, full_cov=True)

# %% [markdown]
# ## M1: the heads are independent
#
# Zero correlation is not enough, since uncorrelated variables can be dependent. The random body that two heads share
# would show first in their *squares*: bodies that make one head large make the other large too. So the check takes
# three measures. Each is a correlation $R$ over bodies between two heads, and each is zero under the proposition: the
# correlation of the errors, the correlation of their squares (and of products over test points), and the distance
# correlation of Székely, Rizzo and Bakirov, which is zero only for independent vectors. All three take the errors at
# several test points jointly, whitened so that the law of Theorem 3.1 is $\mathcal{N}(0, I)$. The judged value is the
# largest upper end of their 95 % intervals, over several finite training times and the end of training. It must be at
# most $0.1$. Sampling error alone gives $B$ bodies an upper end of about $\sqrt{5/B}$, so this takes a thousand.
#
# In the negative control, half of the second head's output row is that of the first, in predictor and target. An error
# is linear in the output rows, so in the limit this mixes the errors of the two heads with correlation $0.5$. The
# control is made in that way. In the near control the correlation is $0.2$.


# %%
def measures(errors, time):
    """R between the heads: of errors, squares, and distances."""
    joint = laws.rnd_error(net, X, points[:n_joint], time=time, full_cov=True).cov
    return [dependence(errors[:, :, :n_joint], joint, by) for by in ("errors", "squares", "distance")]


at = {f"{time:g}": (by_body(rnd(time_bodies, time)), time) for time in times}
at["infinity"] = (errors[:time_bodies], inf)
found = {name: measures(*pair) for name, pair in at.items()}
shared, nearly = (
    {name: measures(mixed(sample, part), time) for name, (sample, time) in at.items()} for part in (overlap, little)
)
_ = ledger.record("M1", *(largest(np.ravel(list(each.values()))) for each in (found, shared, nearly)))
ledger

# %% tags=["figure"]
scale = np.sqrt(2 * law.var[0])
panels = {"heads of one body": errors, "control: shared row": mixed(errors, overlap)}
fig_m1 = figures.pairs(
    {title: sample[:, :2, 0] / scale for title, sample in panels.items()},
    "head's error",
    "Proposition 3.3: the heads of one body are independent",
)
figures.save(fig_m1, "fig_m1")

# %% tags=["beside"]
rows = [
    [name, *(f"{m.value:.2g} ({c.value:.2g})" for m, c in zip(found[name], shared[name], strict=True))] for name in at
]
print("Upper ends of the 95 % intervals of R, the control's in brackets")
print(aligned(["t", "errors", "squares", "distance"], rows))

# %% [markdown]
# Each dot is one body: the errors of its two heads at one test point, in the law's standard deviations. They show no
# relation, and the control does. By all three measures, and at every time, the heads are independent to within the
# margin, although they share every hidden weight. Exactly independent heads would give similar upper ends, because most
# of what is left is sampling error. The control shows how each measure responds: its correlation is $0.5$ in the errors
# and $0.5^2$ in the squares.
#
# ## M2: the law of the error of $K$ heads, and of the variance of $K + 1$ members
#
# Each body and each ensemble gives one number at each test point. The numbers are compared with
# $\Sigma^f_{xx}/K\;\chi^2(K)$, with $\Sigma^f_{xx}$ from Theorem 2.1, so nothing is fitted. The distance is that of
# Cramér and von Mises: the root mean square difference between the two cumulative distribution functions, averaged over
# the law and the test points, and corrected for sampling noise. The interval counts bodies, each with all its test
# points. The tolerance is $0.03$, three percentage points. The negative control is the law with $K - 1$ degrees of
# freedom, as for an ensemble of $K$. It has the right mean, and only the wrong scatter. For $K = 2$ it is ten
# percentage points away. The near control is the law of networks whose weights are scaled by 5 % more, with variances
# about a quarter larger.

# %%
square = variances(predictors, points, bodies)
variance = variances(members, points, ensembles)
chi, fewer = laws.mean_square(law.var, heads), laws.mean_square(law.var, heads - 1)
both = {f"RND, {heads} heads": square, f"ensemble of {heads + 1}": variance}

scaled = laws.ensemble(replace(net, sigma_w=1.05 * sigma_w), X, y, points, full_cov=True)

by_law = [
    [distance_to_law(values, of) for values in both.values()]
    for of in (chi, fewer, laws.mean_square(scaled.var, heads))
]
_ = ledger.record("M2", *map(largest, by_law))

one_less = functions[:, :heads].var(axis=1, ddof=1)
of_ensembles = variance, one_less, 4 / 5 * variance
_ = ledger.record("M2-pair", *(distance_between(square[:ensembles], values, chi) for values in of_ensembles))
ledger

# %% tags=["figure"]
unit = laws.mean_square(1.0, heads), laws.mean_square(1.0, heads - 1)
fig_m2 = figures.histograms(
    {name: values[:, 0] / law.var[0] for name, values in both.items()},
    (rf"theorem: $\chi^2({heads}) / {heads}$", unit[0]),
    r"value over $\Sigma^f_{xx}$",
    r"Theorem 3.4: $\frac{1}{2}\bar\epsilon^2$ and the variance of $K + 1$ members are "
    r"$\Sigma^f_{xx}\,\chi^2(K) / K$",
    (rf"control: $\chi^2({heads - 1}) / {heads - 1}$", unit[1]),
)
figures.save(fig_m2, "fig_m2")

# %% [markdown]
# Densities over seeds at one test point, with bars of two standard errors. The horizontal axis is the value over the
# law's variance. Both histograms follow the density of the theorem, and not the control's. M2-pair compares the two
# samples with each other. Its negative control is ensembles of $K$ members, made of the same networks, and the check
# notices the one missing member. In its near control the variances are a fifth too small, as $1/M$ for $1/(M - 1)$
# makes those of five members. RND with $K$ heads reports as much as an ensemble with *one member more*, as the theorem
# says.
#
# SciPy's two-sample Kolmogorov-Smirnov test takes the largest difference of the same distribution functions, at one
# test point at a time. Here is its median p-value over test points. No verdict depends on it: at every finite width
# exact equality is false, and with enough networks the test would reject it.

# %% tags=["beside"]
from scipy.stats import ks_2samp

for name, other in ((f"ensembles of {heads + 1}", variance), (f"control: ensembles of {heads}", one_less)):
    p = np.median([ks_2samp(*pair).pvalue for pair in zip(square.T, other.T, strict=True)])
    print(f"{name}: {'below 1e-6' if p < 1e-6 else 'above 0.05' if p > 0.05 else f'{p:.1g}'}")

# %% [markdown]
# ## M3: the field over $x$
#
# One body gives a whole function $\tfrac12\bar\epsilon^2(\cdot)$. If its $K$ error functions are independent draws from
# a Gaussian process, the values of this function at two points are correlated. For Gaussian pairs
# $\operatorname{Cov}(\epsilon^2(x), \epsilon^2(x')) = 2\operatorname{Cov}(\epsilon(x), \epsilon(x'))^2$, and so
#
# $$\operatorname{Cov}\bigl(\tfrac12\bar\epsilon^2(x), \tfrac12\bar\epsilon^2(x')\bigr)
# = \frac{2\,\bigl(\Sigma^f_{xx'}\bigr)^2}{K}.$$
#
# This matters if you take a mean or a maximum of the uncertainty over points: the errors of neighbouring points go
# together, and more test points are not more evidence. The check compares all pairs of test points at once. The errors
# of the covariances are taken in units of the variances $\Sigma^f_{xx}\Sigma^f_{x'x'}$, and their root mean square is
# divided by that of the law's covariances. The control is independence over $x$: the values at each point are shuffled
# among the bodies, which leaves every law of M2 unchanged. It is at distance $1$. The tolerance is $0.15$. The near
# control is that of M2. Squares of Gaussian variables have heavy tails, so this check needs the most bodies. Of exact
# draws, sampling error alone exceeds the tolerance in one of four runs with 1,024 bodies, and in one of 400 with 4,096.

# %%
shuffled = np.random.default_rng(seed).permuted(square, axis=0)
variants = (square, law), (shuffled, law), (square, scaled)
_ = ledger.record("M3", *(field_covariance(values, of.cov, heads) for values, of in variants))
ledger

# %% tags=["figure"]
first = slice(0, 8)
series = {**both, "control: shuffled": shuffled}
fig_m3 = figures.covariances_of_squares(
    {name: covariance_pairs(values[:, first], law.cov[first, first], heads) for name, values in series.items()},
    r"the law, $2\,(\Sigma^f_{xx'})^2 / K$",
    r"Two points covary over bodies: $\mathrm{Cov}[\frac{1}{2}\bar\epsilon^2(x), \frac{1}{2}\bar\epsilon^2(x')]"
    r" = 2\,(\Sigma^f_{xx'})^2 / K$",
)
figures.save(fig_m3, "fig_m3")

# %% [markdown]
# One marker per pair among the first eight test points, with bars of two standard errors: the covariance over bodies
# against the law's, both over the two variances. At the right are near neighbours, whose uncertainties rise and fall
# together. The ensemble does the same. The shuffled values show no covariance.
#
# ## M-limit: the limit itself
#
# At a finite width the heads of one body have something in common, so Theorem 3.4 holds only up to terms of order
# $1/n$. If the squared errors of two heads have the correlation $r$, the variance of $\tfrac12\bar\epsilon^2$ over
# bodies is $1 + (K - 1)\,r$ times the theorem's. With $K = 8$ heads this excess can be measured at moderate widths. A
# line in $1/n$ through it must pass through zero at infinite width. It is measured as the mean squared deviation from
# $\Sigma^f_{xx}$, so that a wrong mean counts as well. The margin is a tenth of the variance over bodies.
#
# The partners of notebook 01 take part of the noise away: those of the eight heads of a body give the body's
# $\tfrac12\bar\epsilon^2$ as it would be without the movement of the tangent kernel. The negative control is that of
# M1, heads that share half of an output row with the first. The near control is that of M2, the law of weights 5 %
# larger.


# %%
def with_partners(n, own_seed):
    """Errors of trained bodies of width n, (bodies, heads, points), and the partners of their 1/2 eps-bar^2."""
    solver = GradientFlow(rtol=limit_rtol)
    model = RND(replace(net, width=n), limit_heads, limit_bodies, seed=own_seed, solver=solver)
    partners = Untrained(model, X, points, untrained, limit_heads).trained()
    return by_body(model.fit(X)), partners.half_mean_squares(limit_heads)


# Seeds of their own, as the line needs independent bodies.
trained = [with_partners(n, seed + 1000 * k) for k, n in enumerate(limit_widths, start=1)]


def line(variance, part=0.0, sharp=True):
    """The line through the excess spreads against a law's, of heads that share this part of an output row."""
    spreads = []
    for errors, partners in trained:
        half_mean_square = np.mean(mixed(errors, part) ** 2, axis=1) / 2
        spreads.append(excess_spread(half_mean_square, variance, limit_heads, partners if sharp else None))
    return limit(limit_widths, spreads)


found, wrong, near = line(law.var), line(law.var, overlap, sharp=False), line(scaled.var)
_ = ledger.record("M-limit", found.finding, wrong.finding, near.finding)
ledger

# %% tags=["beside"]
print(f"M-limit with partners {found.finding.value:.2g}, without {line(law.var, sharp=False).finding.value:.2g}")

# %% tags=["figure"]
fig_limit = figures.extrapolated(
    limit_widths,
    {f"RND, {limit_heads} heads on a body": found, r"control: law for $1.05\,\sigma_w$": near},
    CLAIMS["M-limit"].tolerance,
    "excess variance over bodies\n(relative to the law's)",
    "Theorem 3.4: on a line in $1/n$, the excess spread vanishes at infinite width",
)
figures.save(fig_limit, "fig_limit")

# %% [markdown]
# Excess variances of $\tfrac12\bar\epsilon^2$ over bodies with 95 % intervals (at infinite width 90 %, of which each
# end is judged at 95 %). At every finite width the spread is too large. The line meets infinite width within the
# margin of zero. Over the 200 seeds of the calibration, with $N = 5$, it does so at $-0.002$ on average, with a
# standard error of $0.001$.
#
# ## Heads against width
#
# So far the number of heads was fixed and the width large. In practice there are often as many heads as hidden units.
# Two things then no longer average out. First, the body is random, and all of its heads share it. Second, the pulls of
# the heads on the hidden weights no longer cancel: the pull of another head is smaller than a head's own by the order
# of $1/\sqrt n$, but there are $K$ of them. Both make the heads of one body alike, and this adds up: with the $r$ of
# M-limit, the variance of $\tfrac12\bar\epsilon^2$ over bodies is $1 + (K - 1)\,r$ times the theorem's. As $r$ is
# proportional to $1/n$, that is $1 + c\,K/n$. The next cells measure the mean and the variance over bodies, on a narrow
# and a wider body, for other numbers $N$ of training points, and with one more hidden layer.

# %% tags=["beside"]
from rndlib.paper.evidence.statistics import level, spread
from rndlib.theory.crowding import CROWDING, HeadsWarning

warnings.simplefilter("ignore", HeadsWarning)  # this part is about crowded bodies


def crowded(n, k, count, n_train=n_train, depth=depth, time=inf):
    """1/2 eps-bar^2 of bodies of k heads on width n, (count, points), and the law's variance at these points."""
    at = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
    body = replace(net, width=n, depth=depth)
    model = RND(body, k, count, seed=seed, solver=GradientFlow(time, rtol=crowded_rtol)).fit(at.X)
    return variances(model, at.X_test, count), laws.ensemble(body, at.X, at.y, at.X_test, time=time).var


in_all = crowd[-1]
many = {k: crowded(narrow, k, models * in_all // k) for k in crowd}
load = crowd[1] / narrow
side = wider, round(load * wider), wider_bodies
cases = {
    f"$n = {narrow}$, $N = {n_train}$, $L = {depth}$": [(k, narrow, *many[k]) for k in crowd],
    f"$n = {wider}$": [(side[1], wider, *crowded(*side))],
    f"$n = {wider}$, $N$ in {n_trains}": [(side[1], wider, *crowded(*side, n_train=N)) for N in n_trains],
    f"$n = {wider}$, $L$ in {depths}": [(side[1], wider, *crowded(*side, depth=L)) for L in depths],
}
cases = {name: rows for name, rows in cases.items() if rows}

early, low, high = spread(*crowded(*side, time=0), side[1])
print(f"before training, at K / n = {load:g}: variance {early:.2g} times the law's, [{low:.2g}, {high:.2g}]")

# %% tags=["figure"]
levels = {name: np.array([(k / n, *level(q, var)) for k, n, q, var in rows]) for name, rows in cases.items()}
spreads = {name: np.array([(k / n, *spread(q, var, k)) for k, n, q, var in rows]) for name, rows in cases.items()}
ends = [rows[:, 0] for rows in spreads.values()]
loads = np.geomspace(np.concatenate(ends).min() / 1.5, np.concatenate(ends).max() * 1.5)
rule = {f"rule of thumb, $1 + {CROWDING:g}\\,K / n$": (loads, 1 + CROWDING * loads)}
fig_crowd = figures.ratios(
    {
        "mean\n(over the law's)": figures.Ratios(levels),
        "variance over bodies\n(over the law's)": figures.Ratios(spreads, rules=rule),
    },
    "heads on a body over its width, $K / n$",
    "Rule of thumb: many heads on one body keep the mean and widen its spread over bodies",
)
figures.save(fig_crowd, "fig_crowd")

# %% [markdown]
# Left the mean, right the variance of $\tfrac12\bar\epsilon^2$ over bodies, each over the theorem's and averaged over
# test points, with 95 % intervals. The mean stays within a tenth or so, even with as many heads as hidden units. The
# variance does not: much of the precision that so many heads should bring is lost. The excess grows with $K/n$, at any
# $n$, with a factor $c$ that depends on the problem. Before training, when only the random body is at work, $c$ is
# about 1.5. At the end it is two to three at $N = 10$, and more at $N = 15$. Other runs, with 64 to 100 bodies of 32
# heads on 128 units each, gave $c \approx 1$ at $N = 5$ and $c \approx 5$ at $N = 20$, between one and two with inputs
# in 10 and 30 dimensions, and about four with $\sigma_w = \sigma_b = 1$. The rule of thumb has $c = 3.3$. Trust its
# excess over 1 to within a factor of 3. The library warns when the rule predicts an excess of one half, $K > 0.15\,n$.
# The ratio of equations to parameters, which explains Bayesian RND (notebook 03), does not help here: one more hidden
# layer multiplies the number of hidden weights by about thirty and hardly changes $c$, because the body is as random as
# before.
#
# The remedy is `bodies`, which spreads the same number of heads over several bodies. Bodies are independent, so only
# heads on the same body add up, and $K$ counts the heads per body. The table has models with as many heads in all as
# the largest crowd above, and the variance over models as a multiple of the theorem's:

# %% tags=["beside"]
rows = []
for k, (q, var) in sorted(many.items()):
    each = q.reshape(models, in_all // k, -1).mean(axis=1)
    rows.append(
        [str(in_all // k), str(k), f"{1 + CROWDING * k / narrow:.2g}", *(f"{v:.2g}" for v in spread(each, var, in_all))]
    )
print(aligned(["bodies", "heads on each", "predicted by the rule", "measured", "low", "high"], rows))

# %% [markdown]
# ## Limits
#
# The law of $K$ heads was checked for a small $K$, where its neighbours differ enough. For larger $K$ all the
# chi-squared laws look alike, and a crowded body changes the variance much more than one degree of freedom does.
# `heads` must be at least 2 here, since the control needs at least one degree of freedom. Ensembles need more width
# than RND to reach their law (notebook 01), so the networks here are wide. The labels $y$ matter only to the ensembles.
#
# ## Ledger

# %%
ledger.close()
