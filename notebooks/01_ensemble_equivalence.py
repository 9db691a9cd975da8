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
# > **Claim.** $\tfrac12\,\mathbb{E}[\epsilon^2(x)] = \mathbb{V}[f(x; \theta_\infty)]$ at every $x$ and every training
# > time (Theorems 2.1 and 3.1, Corollary 3.2).\
# > **Picture.** The ratio of half the RND error to the ensemble's variance is 1 at all test points; without the half
# > it is 2.\
# > **Verdict.** Mean and covariance are those of the theorems within E1 0.034 (ensemble) and E2 0.015 (RND error),
# > with 0.25 allowed; the wrong laws are off by 0.56 and 0.73.
#
# A deep ensemble trains many networks $f$ on the same labels $\mathcal{Y}$ from independent initial weights, and reads
# uncertainty off their spread. Random network distillation (RND) never sees a label: it trains one network, the
# predictor $u$, to imitate another of the same kind with fixed random weights, the target $g$, on the training inputs
# $\mathcal{X}$, and reads uncertainty off the error $\epsilon(x) = u(x) - g(x)$ elsewhere. Section 3 of the paper says
# that in the limit of width the two report the same number. Four statements are checked here:
#
# | id | statement | in the paper |
# |---|---|---|
# | E1 | a converged ensemble consists of draws from a Gaussian process with a known mean and covariance | Theorem 2.1 |
# | E2 | the converged RND error is a draw from a Gaussian process with mean zero and a known covariance | Theorem 3.1 |
# | E3 | half the expected squared error is the ensemble's variance, at every $x$, whatever the labels | Corollary 3.2 |
# | E4 | so it is at every training time, not only at the end | Section 3, with the proof of Theorem B.1 |
#
# ## Why it is true
#
# Two kernels describe an infinitely wide network. Before training, its function is a draw from a Gaussian process with
# covariance $\kappa$, the *NNGP kernel*: over random weights, $f(x; \theta_0) \sim \mathcal{GP}(0, \kappa)$. What
# training does to that draw is the business of the second, the *tangent kernel*
#
# $$\Theta(x, x') = \nabla_\theta f(x; \theta)^\top\, \nabla_\theta f(x'; \theta),$$
#
# which says how much $f(x)$ moves when gradient descent pulls at $f(x')$. In a finite network it depends on the
# weights, random at the start and changing in training. With growing width it becomes one fixed kernel (the NTK), the
# same for every draw and all along the way, because many weights each move very little. Gradient flow on
# $\tfrac12\|f(\mathcal{X}) - \mathcal{Y}\|^2$ is then a linear differential equation, and it ends at
#
# $$f_\infty(x) = f_0(x) + \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,
# \bigl(\mathcal{Y} - f_0(\mathcal{X})\bigr) \tag{1}$$
#
# (where the paper's main text and Theorem B.1 print a minus sign for the plus; its proof has it right). This is the
# formula by which one conditions a draw from a Gaussian process on data, except that the draw has covariance $\kappa$
# and is conditioned with the weights of another kernel, $\Theta$. All four statements follow from (1): a trained
# network is an affine map of a Gaussian draw, so it is Gaussian too, and labels enter only through its mean.

# %% tags=["parameters"]
width: int = 2048  # units in each hidden layer, n, in E1 to E3
networks: int = 2048  # networks of each kind in E1 to E3, each with weights of its own
n_points: int = 16  # test points at which variances are compared
n_joint: int = 8  # of these, how many enter the joint laws of E1 and E2
times: list[float] = [0.1, 1.0, 10.0]  # training times t of E4
learning_rate: float = 0.1  # of gradient descent in E4, on the loss averaged over the training points
gd_steps: list[int] = [50]  # numbers of its steps, k
time_width: int = 512  # as width, for E4, where every time is a training of its own
time_networks: int = 1152  # as networks, for E4
narrow: list[int] = [64, 512]  # narrower networks, to see how wide is wide
narrow_networks: int = 512  # networks of each kind in that comparison
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function

# %%
from dataclasses import replace

import numpy as np

from rndlib import (
    MLP,
    RND,
    DeepEnsemble,
    DivergenceError,
    GradientDescent,
    GradientFlow,
    datasets,
    figures,
    kernels,
    laws,
)
from rndlib.evidence.ledger import Ledger
from rndlib.evidence.statistics import joint_law, over_points, over_times
from rndlib.evidence.tables import aligned

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
flow = GradientFlow(rtol=rtol)
ledger = Ledger()


def ensemble(net, members, labels, solver):
    """Functions of trained ensemble members at the test points, (members, points)."""
    return DeepEnsemble(net, members, seed=seed, solver=solver).fit(X, labels).functions(points)


def rnd(net, pairs, solver):
    """Errors of trained predictors, each with a target of its own, at the test points, (pairs, points)."""
    return RND(net, heads=1, bodies=pairs, seed=seed, solver=solver).fit(X).errors(points)


# %% [markdown]
# The data are the paper's toy problem, $y = x_1 + x_2 + x_3 - 2\,x_1x_2x_3$ at $N = 10$ points drawn from
# $\mathcal{N}(0, I_3)$. Nothing here is about the heads of one network (that is Theorem 3.4, in another notebook), so
# every predictor has one head, a body of its own and a target of its own. One trained network is then one independent
# draw, which is what the intervals below count. Labels only matter to the ensemble. To see that, it is trained twice:
# on $y$, an odd function of $x$, and on $|x|$, an even one.
#
# Training is gradient flow to $t = \infty$. The solver is allowed to err by 2 % of the size of a function. Held
# against solutions that were asked to be fifty times as accurate, this moved the mean over 192 networks of this width
# by less than 0.002 standard deviations at any test point, and the variance by less than 0.2 %. The number of networks
# leaves 0.02 standard deviations and 3 % open.

# %%
labels = {"norm": np.linalg.norm(X, axis=1), "y": y}
functions = {name: ensemble(net, networks, target, flow) for name, target in labels.items()}
errors = rnd(net, networks, flow)

# %% [markdown]
# ## E1: the law of a converged ensemble
#
# Taking mean and covariance of (1), with $f_0 \sim \mathcal{GP}(0, \kappa)$, gives Theorem 2.1: the functions are
# Gaussian with
#
# $$\mathbb{E}[f] = \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\mathcal{Y}, \qquad
# \Sigma^f_{xx'} = \kappa_{xx'} + \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}
# \kappa_{\mathcal{X}\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}
# - \bigl(\Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\kappa_{\mathcal{X}x'} + \text{h.c.}\bigr).$$
#
# It looks like a posterior and is none. With $\kappa = \Theta$ the terms would collapse to
# $\Theta_{xx'} - \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}$, the posterior of a
# Gaussian process with prior $\Theta$. It has the same mean, but more variance, and serves as the negative control.
#
# The claim is about all test points jointly, so the check is too. In coordinates in which the law is $\mathcal{N}(0,
# I)$, let $m$ and $S$ be mean and covariance of the networks at $p$ points. The statistic is
# $\sqrt{(|m|^2 + \tfrac12\|S - I\|_F^2)/p}$, freed of the sampling noise in $m$ and $S$, and of its 95 % interval the
# upper end is judged. At the tolerance of $0.25$ the mean would be off by a quarter of a standard deviation in every
# direction, or the variances by 35 %. As the coordinates give all directions the same weight, it sees those in which
# the law hardly varies as well as those in which it varies most.

# %%
joint = points[:n_joint]
law = laws.ensemble(net, X, y, joint, full_cov=True)
posterior = laws.posterior(net, X, y, joint, full_cov=True)
sampled = functions["y"][:, :n_joint]

_ = ledger.record("E1", joint_law(sampled, law.mean, law.cov), joint_law(sampled, posterior.mean, posterior.cov))
ledger

# %% tags=["figure"]
fig_e1 = figures.covariances(
    law.cov,
    {"ensemble": np.cov(sampled.T), "control: posterior": posterior.cov},
    r"Theorem 2.1: the functions of a deep ensemble have the covariance $\Sigma^f$",
)
figures.save(fig_e1, "fig_e1")

# %% [markdown]
# A trained network is a sample from the law, to well within the margin, and the ensemble is not a sample of the
# posterior, which is visibly another matrix. That is the reason for the Bayesian variants of Section 4.
#
# ## E2: the law of the RND error
#
# Write (1) for the predictor, whose labels are $g(\mathcal{X})$, and subtract $g(x)$ on both sides: the error obeys
#
# $$\epsilon_\infty(x) = \epsilon_0(x) - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,
# \epsilon_0(\mathcal{X}), \qquad \epsilon_0 = u_0 - g.$$
#
# At the start the error is the difference of two independent networks. Its covariance is the sum of theirs,
# $\kappa^\epsilon = \kappa^u + \kappa^g = 2\kappa$, and its mean is zero. Training applies the same linear map to it as
# to an ensemble member. So Theorem 3.1 gives it the covariance $\Sigma^\epsilon$, which is $\Sigma^f$ with
# $\kappa^\epsilon$ for $\kappa$. The check is that of E1, and the negative control has $\kappa$ once, as if the fixed
# target added no variance.

# %%
law = laws.rnd_error(net, X, joint, full_cov=True)
once = laws.ensemble(net, X, np.zeros(n_train), joint, full_cov=True)
sampled = errors[:, :n_joint]

found = joint_law(sampled, law.mean, law.cov)
_ = ledger.record("E2", found, joint_law(sampled, once.mean, once.cov))
ledger

# %% tags=["figure"]
fig_e2 = figures.covariances(
    law.cov,
    {"RND error": sampled.T @ sampled / networks, r"control: $\kappa$ once": once.cov},
    r"Theorem 3.1: the RND error has the covariance $\Sigma^\epsilon = 2\,\Sigma^f$",
)
figures.save(fig_e2, "fig_e2")

# %% [markdown]
# **As printed, this fails.** The last lines of the paper's proof of Theorem 3.1 say that the *converged* error is
# distributed as $\mathcal{GP}(0, \kappa^\epsilon)$. That is the law before training. After it the covariance is
# $\Sigma^\epsilon$, as the theorem states. The same statistic tells the two apart:

# %% tags=["beside"]
printed = laws.rnd_error(net, X, joint, time=0, full_cov=True)
print(f"Sigma^eps, as in the theorem: {found.value:.2g}")
print(f"kappa^eps, as in the proof:   {joint_law(sampled, printed.mean, printed.cov).value:.2g}")

# %% [markdown]
# ## E3: the two are equal in expectation, whatever the labels
#
# Compare the two laws. $\Sigma^f$ contains $\kappa$ and no labels, and $\Sigma^\epsilon$ is linear in its prior, so
# $\kappa^\epsilon = 2\kappa$ gives $\Sigma^\epsilon = 2\,\Sigma^f$. As the error has mean zero, its variance is its
# expected square:
#
# $$\tfrac12\,\mathbb{E}\bigl[\epsilon^2(x)\bigr] = \mathbb{V}\bigl[f(x)\bigr].$$
#
# **As printed, this fails.** Corollary 3.2 has $\mathbb{E}[\epsilon^2] = \mathbb{V}[f]$, without the half. Its proof
# sketch divides by two, and so does Theorem 3.4.
#
# One ratio for each test point and each set of labels is estimated from the networks, together with a band that
# covers all ratios at once at 95 %. The claim holds if the whole band lies nearer to 1 than to 2, on the log scale:
# within $\tfrac12\log 2$. The printed form is the negative control.

# %%
both = np.hstack(list(functions.values()))
twice = np.hstack([errors] * len(functions))  # one RND stands against every ensemble
half, whole = over_points(twice, both), over_points(np.sqrt(2) * twice, both)
_ = ledger.record("E3", half.finding, whole.finding)
ledger


# %% tags=["figure"]
def for_labels(ratio, name):
    """Test point, ratio, and the ends of its band, for one set of labels."""
    first = list(functions).index(name) * n_points
    ends = np.exp([ratio.estimate, ratio.low, ratio.high])[:, first : first + n_points]
    return np.stack([np.arange(1, n_points + 1), *ends], axis=1)


series = {
    "with the half, labels $y$": for_labels(half, "y"),
    "with the half, labels $|x|$": for_labels(half, "norm"),
    "control: without the half, as printed": for_labels(whole, "y"),
}
fig_e3 = figures.ratios(
    {"mean squared error / variance": figures.Ratios(series, (np.sqrt(1 / 2), np.sqrt(2)))},
    "test point",
    r"Corollary 3.2 with the half: $\frac{1}{2}\,\mathbb{E}[\epsilon^2(x)] = \mathbb{V}[f(x)]$ for all $x$ and labels",
    xscale="linear",
)
figures.save(fig_e3, "fig_e3")

# %% tags=["beside"]
print(f"with the half: ratios from {np.exp(half.estimate.min()):.2g} to {np.exp(half.estimate.max()):.2g}")
print(f"as printed:    ratios from {np.exp(whole.estimate.min()):.2g} to {np.exp(whole.estimate.max()):.2g}")

# %% [markdown]
# RND, which saw no label, stands at the same place relative to both ensembles. What is left differs from 1 by what
# this many networks leave open: a variance from $M$ networks is known to $\sqrt{2/M}$ of itself, and the ratio of two
# to $2/\sqrt{M}$.
#
# ## E4: at every training time
#
# Nothing above needed the end of training. At time $t$, (1) holds with
# $\Theta_{\mathcal{X}\mathcal{X}}^{-1}\bigl(I - e^{-t\,\Theta_{\mathcal{X}\mathcal{X}}}\bigr)$ for
# $\Theta_{\mathcal{X}\mathcal{X}}^{-1}$, for the predictor as for an ensemble member, so the equality is there all
# along: from $t = 0$, where both sides are $\kappa$, to the end. Gradient descent has
# $(I - \eta\,\Theta_{\mathcal{X}\mathcal{X}})^k$ after $k$ steps of size $\eta$ where gradient flow has the
# exponential, and again the same for both.
#
# The paper trains with a learning rate of $0.1$ and does not say whether its loss is a sum over points, as printed, or
# a mean. On the sum, gradient descent diverges unless $\eta < 2/\lambda_{\max}(\Theta_{\mathcal{X}\mathcal{X}})$. On
# the mean, $0.1$ amounts to $\eta = 0.1/N$ on the sum, and that reading is used here:

# %%
rate = learning_rate / n_train
largest = np.linalg.eigvalsh(kernels.kernel(net, X).ntk)[-1]
print(f"eta = {rate:.2g} on the sum; the bound 2 / lambda_max is {2 / largest:.2g}")

# %% [markdown]
# That leaves no room to speak of for $0.1$ on the sum: other draws of ten points have bounds on either side of it, and
# the bound of a finite network scatters around that of the limit.
#
# One number is judged at each time: the ratio of the two sides, averaged over the test points with each in units of
# its own variance. The margin is 25 %, for all times at once. The negative control sets RND at time $t$ against
# ensembles at time $2t$. Both are trained, both are near their laws, and only the time is wrong.

# %%
wide = replace(net, width=time_width)
solvers = {f"t = {t:g}": GradientFlow(t, rtol=rtol) for t in times}
solvers |= {f"{k} steps": GradientDescent(rate, k) for k in gd_steps}
later = {f"t = {2 * t:g}": GradientFlow(2 * t, rtol=rtol) for t in times}


def variance_at(solver):
    """The law's variance of a function trained by this solver, (points,)."""
    eta = rate if isinstance(solver, GradientDescent) else None
    return laws.ensemble(wide, X, y, points, time=solver.time, learning_rate=eta).var


def ensembles(solvers):
    """Functions at the end of each training, (times, members, points), and the law's variance there."""
    trained = np.stack([ensemble(wide, time_networks, y, solver) for solver in solvers.values()])
    return trained, np.stack([variance_at(solver) for solver in solvers.values()])


errors_t = np.stack([rnd(wide, time_networks, solver) for solver in solvers.values()])
functions_t, variance_t = ensembles(solvers)
at_t = over_times(errors_t, functions_t, variance_t)
control = over_times(errors_t[: len(times)], *ensembles(later))
_ = ledger.record("E4", at_t.finding, control.finding)
ledger

# %% tags=["beside"]
rows = {name: part for name, *part in zip(solvers, *np.exp([at_t.estimate, at_t.low, at_t.high]), strict=True)}
print(aligned(["training", "ratio", "low", "high"], [[name, *(f"{v:.2g}" for v in row)] for name, row in rows.items()]))

# %% tags=["figure"]
moments = np.geomspace(0.2 * min(s.time for s in solvers.values()), 5 * max(s.time for s in solvers.values()), 60)
some = slice(None, None, max(1, n_points // 4))
lines = np.stack([laws.ensemble(wide, X, y, points[some], time=t).var for t in moments])
fig_e4 = figures.variance_against(
    "training time $t$",
    ("law at time $t$", moments, lines),
    [solver.time for solver in solvers.values()],
    {
        "ensemble variance": functions_t.var(axis=1, ddof=1)[:, some],
        "half the squared RND error": np.mean(errors_t**2, axis=1)[:, some] / 2,
    },
    np.sqrt(2 / time_networks),
    "At every training time, half the mean squared RND error is the ensemble variance",
)
figures.save(fig_e4, "fig_e4")

# %% [markdown]
# Ensemble and RND fall along the same lines, and the law says where they are at any moment. The markers of gradient
# descent are drawn at $t = k\eta$; its steps are small enough for the lines of gradient flow to fit them. Stopping
# early is no obstacle then: RND that is stopped at some time tells the variance of an ensemble that is stopped at the
# same time, and of no other.
#
# ## How wide is wide
#
# The theorems speak of a limit. How far a finite network is from it depends on how far its weights must travel. In
# the limit the squared distance has the expectation
#
# $$\mathbb{E}\,\|\theta_\infty - \theta_0\|^2 = \mathcal{Y}^\top\Theta_{\mathcal{X}\mathcal{X}}^{-1}\mathcal{Y}
# + \operatorname{tr}\bigl(\Theta_{\mathcal{X}\mathcal{X}}^{-1}\kappa_{\mathcal{X}\mathcal{X}}\bigr),$$
#
# the first term for the labels, the second for getting rid of the initial function (twice that for RND, which has two
# of them and no labels). The tangent kernel stays where it is if the width is large against it. So here are the
# statistic of E1 and E2 at several widths, with labels three times as large beside the ones from above, and in
# brackets the variance over the law's, averaged over the test points. The tolerance was 0.25; these are fewer networks
# than above, and the statistic of as many draws from the law itself would come out at 0.1 now and then.

# %% tags=["beside"]
train = kernels.kernel(net, X)
start = np.trace(np.linalg.solve(train.ntk, train.nngp))
labels["3 y"] = 3 * y
travel = {name: start + target @ np.linalg.solve(train.ntk, target) for name, target in labels.items()}


def samples(n, name):
    """Outputs of `narrow_networks` networks of width n; those of width `width` were trained above."""
    above = {"RND": errors, **functions} if n == width else {}
    if name in above:
        return above[name][:narrow_networks]
    at = replace(net, width=n)
    return rnd(at, narrow_networks, flow) if name == "RND" else ensemble(at, narrow_networks, labels[name], flow)


def distance(n, name):
    """The statistic of E1 or E2 at width n, and the mean ratio of the variance to the law's, if training succeeds."""
    law = laws.rnd_error(net, X, points, full_cov=True)
    if name != "RND":
        law = laws.ensemble(net, X, labels[name], points, full_cov=True)
    try:
        drawn = samples(n, name)
    except DivergenceError:
        return "not solved"
    found = joint_law(drawn[:, :n_joint], law.mean[:n_joint], law.cov[:n_joint, :n_joint])
    return f"{found.value:.2g} ({np.mean(drawn.var(axis=0, ddof=1) / law.var):.1f})"


head = ["width", "RND", *(f"ensemble, labels {name}" for name in labels)]
body = [["squared distance", f"{2 * start:.2g}", *(f"{d:.2g}" for d in travel.values())]]
body += [[str(n), distance(n, "RND"), *(distance(n, name) for name in labels)] for n in [*narrow, width]]
print(aligned(head, body))

# %% [markdown]
# RND is near its law in every row. What it has to learn is of the size of its own outputs, and its mean is zero at any
# width: change the sign of the last layers of predictor and target, and every error changes its sign. An ensemble
# comes to its law later the larger its labels. Narrow networks fail E1 on $y$, and on $3y$ even the widest here do not
# pass it, with a variance above the law's. *Whatever the labels* is a statement about the limit. At a given width it
# is true of labels that are not too large or too rough for that width; where it fails, it is the ensemble that has
# left the law, and not RND.
#
# ## Limits
#
# One data set, one pair of scales, one architecture; all are parameters. The verdicts are about margins, not about
# exact equality, which no finite width has. ReLU networks need more width, and their gradient flow is much harder to
# solve, since a unit switches on or off whenever its kink crosses a training point: allow a larger `rtol` there (0.05),
# and expect that narrow ones are not solved. The test points come from the
# distribution of the training points, and far away from those both sides grow without bound. And the equality is one
# of expectations: what a single RND with $K$ heads reports scatters around it as $\chi^2_K$, which is the subject of
# Theorem 3.4.
#
# ## Ledger

# %%
ledger.write()
ledger
