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
# # Many heads on one body: the chi-squared law that RND shares with a small ensemble
#
# > **Claim.** $\tfrac12\bar\epsilon^2(x)$ of $K$ heads and $\bar\sigma_f^2(x)$ of $K + 1$ ensemble members have one
# > law, $\Sigma(x, x)/K \cdot \chi^2(K)$ (Proposition 3.3, Theorem 3.4).\
# > **Picture.** Over seeds, both histograms follow the density of the theorem; that with $K - 1$ degrees of freedom
# > lies beside them.\
# > **Verdict.** The probabilities of the samples differ from the law's by M2 0.008 and from each other by M2-pair
# > 0.01, with 0.05 allowed; the wrong laws are off by 0.11.
#
# Corollary 3.2 equates expectations: half the squared RND error is, on average over networks, the variance of an
# ensemble. Nobody has that average. In practice there is *one* RND network, with $K$ outputs ("heads") on shared hidden
# layers (the "body"), and one number at each $x$,
#
# $$\tfrac12\bar\epsilon^2(x) = \frac{1}{2K}\sum_{i=1}^{K}\epsilon_i^2(x),$$
#
# which scatters from seed to seed. So does the variance $\bar\sigma_f^2(x)$ of an ensemble of finitely many members.
# The second half of Section 3 says that the two scatter in the same way. Checked here are
#
# | id | statement | in the paper |
# |---|---|---|
# | M1 | the heads of one body are independent, at every training time | Proposition 3.3 |
# | M2 | that error of $K$ heads, and the variance of $K + 1$ members, are $\Sigma^f_{xx}/K\;\chi^2(K)$ | Theorem 3.4 |
# | M2-pair | the two follow one law, whatever it is | Theorem 3.4 |
# | M3 | at two points, that error has the covariance $2\,(\Sigma^f_{xx'})^2/K$ | with Theorem 3.1, Proposition 3.3 |
#
# and, at the end, what becomes of it when the heads are many and the body is narrow.
#
# ## Why it is true
#
# Heads share every hidden weight, so it is not obvious that they are independent; what makes them so is the last
# layer. Head $i$ is $f_i(x) = \tfrac{\sigma_w}{\sqrt n}\,w_i^\top \phi(z(x)) + \sigma_b b_i$ with a row $w_i$ of its
# own. Given the body, two heads at the start are Gaussian and independent, both with the covariance that the body
# gives them. What could still tie them together is that this covariance is random. But it is a mean over $n$ hidden
# units and tends to $\kappa$, the same for every body, so in the limit there is nothing left to share. In training,
# what an error of head $j$ does to head $i$ is governed by the tangent kernel between the two,
#
# $$\nabla_\theta f_i(x)^\top\,\nabla_\theta f_j(x') = \frac{1}{n}\sum_{u=1}^{n} w_{iu}\,w_{ju}\,(\dots)
# \;\longrightarrow\; 0 \quad (i \ne j),$$
#
# a mean of terms with random signs: the pulls of two heads on the hidden weights cancel. So each head moves as if it
# had a body of its own, and stays independent of the others.
#
# With $K$ independent errors $\epsilon_i(x) \sim \mathcal{N}(0, 2\Sigma^f_{xx})$ (Theorem 3.1),
# $\tfrac12\bar\epsilon^2(x)$ is $\Sigma^f_{xx}/K$ times a sum of $K$ squared standard normal numbers. And the sample
# variance of $K + 1$ independent Gaussian members is the same, one degree of freedom having gone into their mean. One
# extra member is the price for not knowing the mean, which RND knows to be zero.

# %% tags=["parameters"]
width: int = 1024  # units in each hidden layer, n
heads: int = 2  # heads of one body, K, at least 2; ensembles have one member more
bodies: int = 1024  # trained bodies, and as many ensembles
n_points: int = 32  # test points
n_joint: int = 4  # of these, how many enter the test of independence jointly
times: list[float] = [0.0, 0.1, 1.0, 10.0]  # training times t of the test of independence, besides the end
time_bodies: int = 512  # bodies at each time, the end included
overlap: float = 0.5  # part of its output row that the control's head shares with the first head
narrow: int = 64  # width of a narrow body
crowd: list[int] = [4, 16, 64]  # numbers of heads on it, in ascending order; the last is a multiple of the others
models: int = 20  # models of that many heads in all
wider: int = 128  # width of a wider body, with as many heads for its width as the second of the crowd
wider_bodies: int = 64  # bodies of that kind
n_trains: list[int] = [5, 15]  # other numbers of training points, on the wider body
depths: list[int] = [3]  # other depths, on the wider body
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function
crowded_rtol: float = 0.05  # the same, of crowded bodies

# %%
from dataclasses import replace
from math import inf

import numpy as np

from rndlib import MLP, RND, DeepEnsemble, GradientFlow, datasets, figures, laws
from rndlib.evidence.ledger import Ledger
from rndlib.evidence.statistics import (
    covariance_pairs,
    dependence,
    distance_between,
    distance_to_law,
    field_covariance,
    mixed,
)
from rndlib.evidence.tables import aligned

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
ledger = Ledger()


def rnd(count, time=inf):
    """So many bodies, trained."""
    return RND(net, heads, count, seed=seed, solver=GradientFlow(time, rtol=rtol)).fit(X)


def by_body(model):
    """Errors of the heads of a model's bodies at the test points, (bodies, heads, points)."""
    return model.errors(points).reshape(model.bodies, model.heads, -1)


def largest(findings):
    """The finding with the largest value: where it is within a tolerance, all are."""
    return max(findings, key=lambda finding: finding.value)


# %% [markdown]
# The unit of replication is a body (or an ensemble) with its own seed, throughout. The data are the paper's toy
# problem, $N = 10$ points in three dimensions. $K = 2$ heads are few on purpose: the law of $K$ heads and the law of
# $K - 1$ are the harder to tell apart the larger $K$ is, and a check that cannot tell them apart shows nothing. That
# the heads are few against the width is also what the theorem needs. Training is gradient flow to $t = \infty$.

# %%
predictors = rnd(bodies)
errors = by_body(predictors)
members = DeepEnsemble(net, bodies * (heads + 1), seed=seed, solver=GradientFlow(rtol=rtol)).fit(X, y)
functions = members.functions(points).reshape(bodies, heads + 1, -1)
law = laws.ensemble(net, X, y, points, full_cov=True)

# %% [markdown]
# ## M1: the heads are independent
#
# Zero correlation would not do: uncorrelated is not independent, and the random body that two heads have in common
# would show in their *squares* first, as bodies that are large in one head are large in the other. So three measures
# are taken, each a correlation $R$ over bodies between two heads and each zero under the proposition: of the errors
# themselves, of their squares (and products over test points), and the distance correlation of Székely, Rizzo and
# Bakirov, which is zero for independent vectors only. All see the errors at several test points jointly, in
# coordinates in which the law of Theorem 3.1 is $\mathcal{N}(0, I)$. The largest of them, over several finite
# times and the end of training, must be at most $0.2$, with the upper end of its 95 % interval.
#
# In the negative control half of the second head's output row is that of the first, in predictor and target. An error
# is linear in the output rows, so in the limit this mixes the errors of the two with correlation $0.5$, and that is how
# the control is made.


# %%
def measures(errors, time):
    """R between the heads: of errors, squares, and distances."""
    joint = laws.rnd_error(net, X, points[:n_joint], time=time, full_cov=True).cov
    return [dependence(errors[:, :, :n_joint], joint, by) for by in ("errors", "squares", "distance")]


at = {f"{time:g}": (by_body(rnd(time_bodies, time)), time) for time in times}
at["infinity"] = (errors[:time_bodies], inf)
found = {name: measures(*pair) for name, pair in at.items()}
shared = {name: measures(mixed(sample, overlap), time) for name, (sample, time) in at.items()}
_ = ledger.record("M1", *(largest(np.ravel(list(each.values()))) for each in (found, shared)))
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
print("Upper ends of R, and in brackets those of the control")
print(aligned(["t", "errors", "squares", "distance"], rows))

# %% [markdown]
# The heads are independent within the margin at every time, by all three measures, although they share every hidden
# weight. Under exact independence the upper ends would come out at much the same: most of what is left is the number
# of bodies. The control shows what each measure has to say about the plainest dependence: its correlation is $0.5$ in
# the errors, and $0.5^2$ in the squares.
#
# ## M2: the law of the error of $K$ heads, and of the variance of $K + 1$ members
#
# Both sides are numbers that come once a body or once an ensemble. They are compared with
# $\Sigma^f_{xx}/K\;\chi^2(K)$, which has nothing to be fitted: $\Sigma^f_{xx}$ is that of Theorem 2.1. The distance is
# that of Cramér and von Mises, by how much the probabilities "at most $s$" differ, as a root mean square over $s$ and
# over the test points, freed of the sampling noise. A body counts once, with all its test points. The tolerance is
# $0.05$, five percentage points. The negative control has $K - 1$ degrees of freedom, as for an ensemble of $K$: with
# the mean where it should be, and only the scatter wrong. For $K = 2$ that is ten percentage points away.

# %%
square = predictors.variances(points, bodies)
variance = members.variances(points, bodies)
chi, fewer = laws.mean_square(law.var, heads), laws.mean_square(law.var, heads - 1)
both = {f"RND, {heads} heads": square, f"ensemble of {heads + 1}": variance}

to_law = {name: distance_to_law(values, chi) for name, values in both.items()}
to_fewer = [distance_to_law(values, fewer) for values in both.values()]
_ = ledger.record("M2", largest(to_law.values()), largest(to_fewer))

one_less = functions[:, :heads].var(axis=1, ddof=1)
_ = ledger.record("M2-pair", distance_between(square, variance, chi), distance_between(square, one_less, chi))
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
# The histograms are of one test point, and follow the density of the theorem, not the one beside it. M2-pair puts the
# two samples against each other: its negative control are ensembles of $K$ members, made of the same networks.
# One member too few is seen. That RND says as much as an ensemble of *one more* is part of the theorem, and it is true.
#
# SciPy's two-sample test of Kolmogorov and Smirnov looks at the largest difference of the same probabilities, one test
# point at a time. Here is its p-value, the median over test points. It is shown and not judged: a hypothesis of exact
# equality is false at every finite width, and enough networks would reject it.

# %% tags=["beside"]
from scipy.stats import ks_2samp

for name, other in ((f"ensembles of {heads + 1}", variance), (f"control: ensembles of {heads}", one_less)):
    p = np.median([ks_2samp(*pair).pvalue for pair in zip(square.T, other.T, strict=True)])
    print(f"{name}: {'below 1e-6' if p < 1e-6 else 'above 0.05' if p > 0.05 else f'{p:.1g}'}")

# %% [markdown]
# ## M3: the field over $x$
#
# One body gives a whole function $\tfrac12\bar\epsilon^2(\cdot)$. If the $K$ error functions are independent draws from
# a Gaussian process, not only at one $x$, its values at two points covary: for Gaussian pairs
# $\operatorname{Cov}(\epsilon^2(x), \epsilon^2(x')) = 2\operatorname{Cov}(\epsilon(x), \epsilon(x'))^2$, and so
#
# $$\operatorname{Cov}\bigl(\tfrac12\bar\epsilon^2(x), \tfrac12\bar\epsilon^2(x')\bigr)
# = \frac{2\,\bigl(\Sigma^f_{xx'}\bigr)^2}{K}.$$
#
# It matters to whoever takes a mean or a maximum of the uncertainty over points: neighbours err together, and more test
# points are not more evidence. The check compares all pairs of test points at once. Errors of the covariances are
# taken in units of the variances $\Sigma^f_{xx}\Sigma^f_{x'x'}$, and their root mean square is divided by that of the
# law's covariances. Independence over $x$ is then at distance $1$, and it is the control: at each point the values of
# the bodies are shuffled, which leaves every law of M2 as it is. The tolerance is half of that.

# %%
shuffled = np.random.default_rng(seed).permuted(square, axis=0)
_ = ledger.record("M3", field_covariance(square, law.cov, heads), field_covariance(shuffled, law.cov, heads))
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
# Every marker is a pair among the first eight test points, its bar two standard errors. Pairs at the right are near
# neighbours, whose uncertainties rise and fall together. The ensemble, drawn beside it, does the same.
#
# ## Heads against width
#
# All of this is about a fixed number of heads and a width that grows. In practice the heads are often as many as the
# hidden units. Two things then no longer average out. The body is random, and all of its heads have the same one. And
# the pulls of the heads on the hidden weights do not cancel: each is of the order $1/\sqrt n$ of a head's own, but
# there are $K$ of them. Either makes heads of one body alike, and likeness adds up: if the squares of two heads have
# the correlation $r$, the variance of $\tfrac12\bar\epsilon^2$ over bodies is $1 + (K - 1)\,r$ times what it should be.
# With $r$ proportional to $1/n$ that is $1 + c\,K/n$. Here are mean and variance over bodies, both over those of the
# theorem and averaged over the test points: on a narrow body and on a wider one, with other numbers $N$ of training
# points, and with one hidden layer more.

# %% tags=["beside"]
import warnings

from rndlib.evidence.statistics import level, spread
from rndlib.theory.crowding import CROWDING, HeadsWarning

warnings.simplefilter("ignore", HeadsWarning)  # crowded bodies are what this part looks at


def crowded(n, k, count, n_train=n_train, depth=depth, time=inf):
    """1/2 eps-bar^2 of bodies of k heads on width n, (count, points), and the law's variance at these points."""
    at = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
    body = replace(net, width=n, depth=depth)
    model = RND(body, k, count, seed=seed, solver=GradientFlow(time, rtol=crowded_rtol)).fit(at.X)
    return model.variances(at.X_test, count), laws.ensemble(body, at.X, at.y, at.X_test, time=time).var


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
# The mean stays within a tenth or so, with as many heads as hidden units. What goes is the precision that so many heads
# should have bought. The variance over bodies grows with $K/n$, whatever $n$ is, but with a factor $c$ that depends on
# the problem. Before training, where only the random body is at work, it is about 1.5. At the end it is two to three at
# $N = 10$, about one at $N = 5$, and more at $N = 15$. In runs that are not shown, of 100 bodies of 32 heads on 128
# units each, it was five at $N = 20$, between one and two with inputs in 10 and 30 dimensions, and about four with
# $\sigma_w = \sigma_b = 1$. The rule of thumb has $c = 3.3$, and its excess over 1 is to be trusted within a factor
# of 3, no more. The library warns where the rule predicts half as much variance again, $K > 0.15\,n$. Counting
# equations against parameters, $NK$ against the number of hidden weights, which explains Bayesian RND (notebook 03),
# does not help here: one hidden layer more multiplies the hidden weights by some thirty and leaves $c$ nearly where it
# was. The body is as random as before.
#
# The remedy is `bodies`: the same number of heads, spread over several bodies. Bodies are independent, so that only
# heads on the same one add up, and $K/n$ is per body. Here are models of as many heads in all as the largest crowd
# above, with the variance over models as a multiple of the theorem's:

# %% tags=["beside"]
rows = []
for k, (q, var) in sorted(many.items()):
    each = q.reshape(models, in_all // k, -1).mean(axis=1)
    rows.append(
        [str(in_all // k), str(k), f"{1 + CROWDING * k / narrow:.2g}", *(f"{v:.2g}" for v in spread(each, var, in_all))]
    )
print(aligned(["bodies", "heads on each", "rule", "found", "low", "high"], rows))

# %% [markdown]
# ## Limits
#
# The law of $K$ heads was checked for a small $K$, where it can be told from its neighbours. For larger $K$ all the
# chi-squared laws look alike, and what a crowded body does to the variance is much larger than the difference between
# $K$ and $K - 1$ degrees of freedom. `heads` must be at least 2 here, as no law has zero degrees of freedom. Ensembles
# come to their law later than RND (notebook 01), which is why they are wide. Labels $y$ enter only there. As for the
# room that the tolerances leave: with fewer and narrower bodies and $N = 5$ (the profile `calibrate`), the
# values of 30 seeds were four of their standard deviations or more below the tolerances, and those of the controls
# eight or more above.
#
# ## Ledger

# %%
ledger.write()
ledger
