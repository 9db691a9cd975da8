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
# # Preliminaries: what an infinitely wide network is, and how it trains
#
# > **Claim.** In the limit of width a network starts as a draw from a Gaussian process with covariance $\kappa$, its
# > tangent kernel is one fixed $\Theta$, and training is kernel regression from its own start (Propositions B.2 and
# > B.3, Eq. 6).\
# > **Picture.** Errors fall with the width along lines of slope $-1/2$; those of the wrong formulas stay where they
# > are.\
# > **Verdict.** At the largest width the relative errors are P1 0.018, P2 0.067, P4 0.039 and P5 0.055, with 0.1
# > allowed. Eq. 6 holds with a plus where the paper prints a minus.
#
# Everything in the paper rests on a few known facts about wide networks. They turn training, a nonlinear affair with
# many thousands of parameters, into linear algebra with two kernels. This notebook states those facts for a reader who
# knows Gaussian processes (GPs), and checks each on networks that can be run:
#
# | id | statement | in the paper |
# |---|---|---|
# | P1 | before training, a wide network is a draw from a GP, with the *NNGP kernel* $\kappa$ | Proposition B.2 |
# | P2 | its *tangent kernel* is the NTK $\Theta$ in every draw, and connects no two outputs | Proposition B.3 |
# | P3 | training leaves the tangent kernel where it is | Section 2, below Eq. 5 |
# | P4 | so at every time $t$ it is a kernel regression from its own start | Eq. 6, Theorem B.1, Eqs. 15 to 25 |
# | P5 | the last layer's part of the tangent kernel is $\kappa$ | Section 4, Eqs. 12 to 14 |
#
# Two of these are printed with a slip (a layer's index in P2, a sign in P4). The printed form serves as the negative
# control there: the check that passes the corrected form must reject it.
#
# ## The network
#
# All networks here are those of the paper's Eq. 1. With $n_0$ inputs, $L$ affine layers, hidden layers of width $n$
# and a nonlinearity $\phi$,
#
# $$z_i^l(x) = \sigma_b b_i^l + \frac{\sigma_w}{\sqrt{n_{l-1}}}\sum_{j} w_{ij}^l\, x_j^l(x), \qquad
# x_j^l(x) = \phi\bigl(z_j^{l-1}(x)\bigr), \qquad f = z^L, \tag{1}$$
#
# from $x^1(x) = x$, and every $w$ and $b$ is drawn from $\mathcal{N}(0, 1)$. The factor $1/\sqrt{n_{l-1}}$ stands in
# the network, and not in the variance of the weights. At the start that makes no difference to $f$. It does to
# gradients: each of the many weights gets a small one, and moves little in training. This *NTK parametrisation* is what
# P2 to P4 depend on.

# %% tags=["parameters"]
wide: int = 256  # units in each hidden layer, n, of the networks of P1
few: int = 4  # units in each hidden layer of its control, networks that are far from Gaussian
between: list[int] = [16, 64]  # widths between the two, for the figure
networks: int = 8192  # networks of P1, each with weights of its own
kernel_widths: list[int] = [64, 128, 256, 512, 1024]  # widths of P2 and P5
kernel_networks: int = 16  # networks of P2 and P5 at each width
train_widths: list[int] = [128, 512, 2048]  # widths of P3 and P4
train_networks: int = 12  # networks of P3 and P4 at each width
times: list[float] = [0.1, 1.0, 10.0]  # training times t of P3 and P4, besides t = infinity
gd_steps: int = 10  # steps of gradient descent of P4, at a rate of 0.1 on the loss averaged over the training points
kernel_activation: str = "tanh"  # nonlinearity of P1, P2 and P5
kernel_depth: int = 3  # affine layers, the paper's L, of P1, P2 and P5; at least 3
kernel_sigma_b: float = 0.5  # scale of the biases in P1, P2 and P5
activation: str = "silu"  # silu, relu, erf, gelu or tanh, in P3 and P4 as in the other notebooks
depth: int = 2  # affine layers in P3 and P4: 2 is one hidden layer
sigma_b: float = 0.1  # scale of the biases in P3 and P4
sigma_w: float = 1.5  # scale of the weights
n_points: int = 16  # test points
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
rtol: float = 5e-3  # relative error allowed to each trained function
degrees: list[int] = [5, 10, 25, 50, 100]  # of neural-tangents' quadrature in the comparison with it; [] leaves it out

# %%
from dataclasses import replace
from functools import partial
from math import inf, sqrt

import numpy as np
from scipy.stats import chi2

from rndlib import MLP, DeepEnsemble, GradientDescent, GradientFlow, datasets, figures, initial, kernels, laws
from rndlib.activations import ACTIVATIONS
from rndlib.evidence.claims import CLAIMS
from rndlib.evidence.ledger import Ledger
from rndlib.evidence.statistics import (
    excess_kurtosis,
    joint_law,
    over_seeds,
    rate,
    relative_error,
    slope,
    squared_lengths,
    typical,
)
from rndlib.evidence.tables import aligned
from rndlib.theory.dynamics import gain
from rndlib.theory.expectations import expectations

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
deep = MLP(3, depth=kernel_depth, activation=kernel_activation, sigma_w=sigma_w, sigma_b=kernel_sigma_b)
ledger = Ledger()

# %% [markdown]
# The inputs are those of the paper's toy problem, draws from $\mathcal{N}(0, I_3)$. P3 and P4, where networks are
# trained, use the network of the other notebooks. P1, P2 and P5, where only kernels are compared, use one with two
# hidden layers, a larger bias and a nonlinearity that saturates. There every part of the recursions below matters, so
# that a mistake in one would be seen: with one hidden layer the misprinted index of P2 does not even exist, and with
# silu and a bias of $0.1$ the mistakes that serve as controls would change the kernels by only a few percent.
#
# ## P1: before training, a draw from a Gaussian process
#
# Proposition B.2 (Eqs. 35 to 37; its proof is Eqs. 38 to 49) says that in the limit $n \to \infty$ each output is a
# draw from a GP with mean zero, independent of the other outputs, and gives its covariance layer by layer:
#
# $$\kappa^1(x, x') = \frac{\sigma_w^2}{n_0} x^\top x' + \sigma_b^2, \qquad
# \kappa^l(x, x') = \sigma_b^2 + \sigma_w^2\, \mathbb{E}_{z \sim \mathcal{GP}(0, \kappa^{l-1})}
# \bigl[\phi(z(x))\,\phi(z(x'))\bigr].$$
#
# The first layer is linear in Gaussian weights, so it is Gaussian. Given the layer below, each unit of a later layer
# is also a sum of Gaussian weights, whose covariance is an average over the $n$ units below:
# $\sigma_b^2 + \frac{\sigma_w^2}{n}\sum_j x_j^l(x)\,x_j^l(x')$. That average is random, but with growing width it
# settles at its expectation $\kappa^l$. A narrow network is a *mixture* of Gaussians, one for each draw of the lower
# layers. Its tails are too heavy, and they become Gaussian as the scatter of the average goes away.
#
# Two outputs have weights of their own in the last layer, so they are uncorrelated at any width. They are not
# independent in a narrow network, where they share the lower layers' scatter; in the limit they are.
#
# So there are two things to check: the first two moments, and the Gaussian shape. Both are checked on networks with two
# outputs, for both outputs at all test points jointly, in coordinates $w$ in which the law, with $\kappa$ in the blocks
# of each output and $0$ between them, is $\mathcal{N}(0, I)$.
#
# * **P1**: let $m$ and $S$ be mean and covariance of the $p$ coordinates over networks; the statistic is the upper
#   95 % end of $\sqrt{(|m|^2 + \tfrac12\|S - I\|_F^2)/p}$, freed of sampling noise. The control is $\kappa$ with the
#   bias left out of the last layer, $\kappa^L - \sigma_b^2$.
# * **P1-gauss**: the law has $\mathbb{E}|w|^4 = p(p+2)$, and a covariance that scatters by the factor $1 + e$, with
#   $\mathbb{E}[e] = 0$, makes this larger by $1 + \mathbb{V}[e]$. The statistic is the outer 95 % end of that relative
#   excess. The control is a network of a few units a layer. Its covariance is nearly the same, and its shape is not.


# %%
def layer(l):
    """The exact kernels of the l-th layer's outputs, (points, points) each."""
    return kernels.kernel(replace(deep, depth=l), points)


def average(l):
    """sigma_w^2 E[phi phi] and sigma_w^2 E[phi' phi'] over the units below layer l, (points, points) each."""
    below = layer(l - 1).nngp
    variance = below.diagonal()
    both = expectations(ACTIVATIONS[deep.activation], variance[:, None], variance[None], below)
    return [deep.sigma_w**2 * expectation for expectation in both]


def starts(n):
    """Both outputs of untrained networks of width n at the test points, one after the other, (networks, 2 * points)."""
    return initial.functions(replace(deep, width=n), points, networks, heads=2, seed=seed).reshape(networks, -1)


L, origin = kernel_depth, np.zeros(2 * n_points)
two, unbiased = np.kron(np.eye(2), layer(L).nngp), np.kron(np.eye(2), average(L)[0])
start, narrow = starts(wide), starts(few)
_ = ledger.record("P1", joint_law(start, origin, two), joint_law(start, origin, unbiased))
_ = ledger.record("P1-gauss", excess_kurtosis(start, two), excess_kurtosis(narrow, two))
ledger

# %% tags=["figure"]
fig_p1 = figures.covariances(
    two,
    {f"networks, $n = {wide}$": np.cov(start.T), "control: bias left out": unbiased},
    r"Proposition B.2: before training, the outputs have the covariance $\kappa$",
)
figures.save(fig_p1, "fig_p1")

# %% tags=["figure"]
fig_p1_gauss = figures.histograms(
    {f"networks, $n = {wide}$": squared_lengths(start, two), f"control: $n = {few}$": squared_lengths(narrow, two)},
    (rf"law, $\chi^2$ of {2 * n_points}", chi2(2 * n_points)),
    "squared whitened length",
    "Proposition B.2: the outputs of wide networks are jointly Gaussian",
    tails=True,
)
figures.save(fig_p1_gauss, "fig_p1_gauss")

# %% [markdown]
# The covariances have a block for each pair of outputs. What they do not show is the shape: the outer bars of the
# control (all that lies beyond the axis is in the last one) are networks whose lower layers happened to be large.
#
# How fast does this go away? The scatter of an average over $n$ units has a variance of order $1/n$, so the excess
# should be of that order. The covariance is off by the order of $1/n$ too (by nothing at all with one hidden layer).
# Both statistics end at what this many networks leave open: some standard errors of a fourth moment, or the distance
# that as many draws from the law itself would show. (P5 looks at the scatter of the average itself.)

# %% tags=["figure"]
starts_by_width = {few: narrow, **{n: starts(n) for n in between}, wide: start}
shape = np.array([excess_kurtosis(at, two).value for at in starts_by_width.values()])
moments = np.array([joint_law(at, origin, two).value for at in starts_by_width.values()])
fig_p1_width = figures.against_size(
    list(starts_by_width),
    {
        "fourth moment (P1-gauss)": (shape,) * 3,
        "mean and covariance (P1)": (moments,) * 3,
    },
    "width $n$ (units in each hidden layer)",
    "outer 95 % end of the error\n(no units)",
    r"Proposition B.2: outputs tend to a Gaussian process as $n \to \infty$",
    guides={"$1/n$": ("fourth moment (P1-gauss)", -1)},
    levels={"margin of P1": CLAIMS["P1"].tolerance},
)
figures.save(fig_p1_width, "fig_p1_width")

# %% [markdown]
# ## P2: the tangent kernel is the same for every draw
#
# Train $f$ by gradient flow on $\mathcal{L} = \tfrac12\|f(\mathcal{X}) - \mathcal{Y}\|^2$. By the chain rule the
# function moves as (Eq. 5)
#
# $$\frac{d}{dt} f(x; \theta_t) = -\Theta_t(x, \mathcal{X})\,\bigl(f(\mathcal{X}; \theta_t) - \mathcal{Y}\bigr), \qquad
# \Theta_t(x, x') = \nabla_\theta f(x; \theta_t)^\top\,\nabla_\theta f(x'; \theta_t).$$
#
# The tangent kernel $\Theta_t$ says how far an error at $x'$ pulls the function at $x$: as far as the gradients at the
# two points are similar. In a finite network it is random, through the initial weights, and it changes in training.
# Proposition B.3 (Eqs. 50 to 55) is about the first of these: at the start, and in the limit of width, it is not
# random. With the same kind of average over units as in P1,
#
# $$\Theta^1 = \kappa^1, \qquad \Theta^l = \Theta^{l-1}\,\dot\kappa^{l} + \kappa^l, \qquad
# \dot\kappa^l(x, x') = \sigma_w^2\,\mathbb{E}_{z \sim \mathcal{GP}(0, \kappa^{l-1})}
# \bigl[\phi'(z(x))\,\phi'(z(x'))\bigr].$$
#
# Read from the right: the parameters of layer $l$ itself contribute $\kappa^l$. Those of the layers below reach $f$
# through the slopes $\phi'$ of the units in between, hence the factor $\dot\kappa^l$, entry by entry. For two
# different outputs $i \ne j$ the two contributions carry the products of two independent rows of weights, which
# average to zero: $\Theta_{ij} = 0$. The outputs train as if each had a body to itself, as Proposition 3.3 says.
#
# **As printed, this fails.** Proposition B.3 has $\dot\kappa^{l-1}$ in its recursion (Eq. 52), while its proof
# (Eqs. 57 and 64) has $\dot\kappa^{l}$. With $\dot\kappa^l$ as defined in Eq. 54, through $\kappa^{l-1}$, the proof is
# right. (Also, the gradients of Eqs. 50 and 55 are meant to be those with respect to all parameters
# $\theta^{\le l}$ up to the layer; with those of layer $l$ alone, nothing would recur.) The printed recursion is the
# negative control.
#
# What is compared is the tangent kernel of networks with two outputs at all test points: the four blocks that belong
# to the pairs of outputs, against $\Theta$ in the two diagonal blocks and $0$ in the others. The error of a network is
# $\|\Theta_0 - \Theta\|_F / \|\Theta\|_F$ over all blocks, and **P2** its geometric mean over networks at the largest
# width. **P2-slope** fits a power of the width to the errors of each seed. An average over $n$ units errs by
# $1/\sqrt{n}$, so the power should be $-1/2$; the statistic is the distance from there.


# %%
theta, same_head = layer(L).ntk, np.eye(2)[:, :, None, None]
printed = layer(L - 1).ntk * average(L - 1)[1] + layer(L).nngp
print(
    "Theta is the recursion with kappa-dot of layer L:",
    np.allclose(layer(L - 1).ntk * average(L)[1] + layer(L).nngp, theta),
)

parts = {
    n: initial.tangent_kernels(replace(deep, width=n), points, kernel_networks, heads=2, seed=seed)
    for n in kernel_widths
}


def errors(kernel):
    """Relative error of each network's tangent kernel, (networks, widths)."""
    return np.stack([relative_error(sum(part), same_head * kernel) for part in parts.values()], axis=1)


found, control = errors(theta), errors(printed)
_ = ledger.record("P2", typical(found[:, -1]), typical(control[:, -1]))
_ = ledger.record("P2-slope", rate(kernel_widths, found, -1 / 2), rate(kernel_widths, control, -1 / 2))
ledger

# %% tags=["figure"]
first, last = kernel_widths[0], kernel_widths[-1]
one = {n: sum(parts[n])[0] for n in (first, last)}
fig_p2 = figures.matrices(
    (r"$\Theta$", theta),
    {
        f"one network,\n$n = {first}$": one[first][0, 0],
        f"one network,\n$n = {last}$": one[last][0, 0],
        f"between outputs,\n$n = {last}$": one[last][0, 1],
        "control:\nas printed": printed,
    },
    "tangent kernel\n(label units squared)",
    r"Proposition B.3: the tangent kernel of a wide network is $\Theta$ in every draw",
)
figures.save(fig_p2, "fig_p2")

# %% tags=["figure"]
scale = np.linalg.norm(theta)
across = np.stack([np.linalg.norm(sum(part)[:, 0, 1], axis=(1, 2)) / scale for part in parts.values()], axis=1)
alone = np.stack([relative_error(sum(part)[:, 0, 0], theta) for part in parts.values()], axis=1)
fig_p2_width = figures.against_size(
    kernel_widths,
    {
        "within an output": over_seeds(alone),
        "between two outputs": over_seeds(across),
        "control: as printed": over_seeds(control),
    },
    "width $n$ (units in each hidden layer)",
    "relative error of the tangent kernel",
    r"Proposition B.3: the tangent kernel tends to $\Theta$ as $n \to \infty$",
    guides={r"$1/\sqrt{n}$": ("within an output", -1 / 2)},
    levels={"margin of P2": CLAIMS["P2"].tolerance},
)
figures.save(fig_p2_width, "fig_p2_width")

# %% [markdown]
# The errors fall along $1/\sqrt{n}$, within one output and between the two, while the distance from the printed kernel
# stays. The bars are 95 % intervals over networks.
#
# ## P3: training leaves it where it is
#
# The second source of change is training. In a wide network the function changes as a sum over many weights, so each
# has to move only by the order of $1/\sqrt{n}$. Weights that hardly move hardly change the gradients that make up
# $\Theta_t$. Lee et al. (2019), whom the paper follows, bound the relative change
# $\|\Theta_t - \Theta_0\|_F / \|\Theta_0\|_F$ by a constant over $\sqrt{n}$. **P3** fits a power of the width to the
# change of each seed, the largest over the training times, on training and test points together. The upper end of its
# interval must lie below $-1/2$.
#
# What would it take for this to fail? Not more training, but another parametrisation. Write $f/s$ for the network's
# output and multiply the learning rate by $s^2$. The linear theory stays as it is, but for a smaller start $f_0/s$,
# since $\Theta$ becomes $\Theta/s^2$; but each weight must now move $s$ times as far. With $s \propto \sqrt{n}$ the
# movement of the weights no longer shrinks. That is the *mean-field* scaling, in which networks of every width learn
# features, and it is the negative control. (The *standard* parametrisation with one learning rate for all widths is no
# such control: its tangent kernel grows like $n$, training is the faster the wider the network, and gradient descent
# diverges.) A glance at Eq. 5 shows that fitting $f/s$ to $\mathcal{Y}$ at the rate $s^2$ moves the weights as fitting
# $f$ to $s\,\mathcal{Y}$ does at the rate 1, and so it is run here, with $s = 1$ at the smallest width.

# %%
both, ends = np.vstack([X, points]), [*times, inf]
flows = [GradientFlow(time, rtol=rtol) for time in ends]
f_0, theta_0, f_t, theta_t, theta_mean_field = {}, {}, {}, {}, {}


def trained(n, solver, labels):
    """Networks of width n, trained on the labels: outputs and tangent kernels at all points."""
    model = DeepEnsemble(replace(net, width=n), train_networks, seed=seed, solver=solver).fit(X, labels)
    return model.functions(both), model.tangent_kernels(both)[:, 0, 0]


for n in train_widths:
    at, scaled = replace(net, width=n), sqrt(n / train_widths[0]) * y
    f_0[n] = initial.functions(at, both, train_networks, seed=seed)[:, 0]
    theta_0[n] = sum(initial.tangent_kernels(at, both, train_networks, seed=seed))[:, 0, 0]
    f_t[n], theta_t[n] = map(np.stack, zip(*(trained(n, flow, y) for flow in flows), strict=True))
    theta_mean_field[n] = np.stack([trained(n, flow, scaled)[1] for flow in flows])


def change(kernels_t):
    """Largest relative change of each network's tangent kernel over the times, (networks, widths)."""
    return np.stack(
        [np.max([relative_error(k, theta_0[n]) for k in kernels_t[n]], axis=0) for n in train_widths], axis=1
    )


kept, moved = change(theta_t), change(theta_mean_field)
_ = ledger.record("P3", slope(train_widths, kept), slope(train_widths, moved))
ledger

# %% tags=["figure"]
fig_p3 = figures.against_size(
    train_widths,
    {"NTK parametrisation": over_seeds(kept), "control: mean-field scaling": over_seeds(moved)},
    "width $n$ (units in each hidden layer)",
    "relative change of the tangent kernel",
    r"Section 2: training leaves the tangent kernel where it is as $n \to \infty$",
    guides={r"$1/\sqrt{n}$, as the bound": ("NTK parametrisation", -1 / 2), "$1/n$": ("NTK parametrisation", -1)},
)
figures.save(fig_p3, "fig_p3")

# %% [markdown]
# Here the kernel changes even more slowly than the bound says, about like $1/n$. In the mean-field scaling a network
# of any width changes its kernel as much as the narrowest does; that is feature learning, and the paper's limit has
# none of it.
#
# ## P4: a trained network is the kernel regression from its own start
#
# With one fixed kernel, Eq. 5 is linear. This is the argument of the paper's Appendix B.1 (Eqs. 15 to 25): replace $f$
# by its linearisation $f^\text{lin}$ around the start (Eq. 18), whose tangent kernel is $\Theta_0$ for good. Then the
# error on the training set, $\delta_t = f^\text{lin}(\mathcal{X}; \theta_t) - \mathcal{Y}$, decays by itself (Eqs. 20
# and 21),
#
# $$\frac{d}{dt}\delta_t = -\Theta_{\mathcal{X}\mathcal{X}}\,\delta_t, \qquad
# \delta_t = e^{-t\,\Theta_{\mathcal{X}\mathcal{X}}}\,\delta_0,$$
#
# and all other outputs follow from it by integration (Eqs. 22 to 24). In the limit of width the network is its
# linearisation, the kernel is $\Theta$, and
#
# $$f_t(x) = f_0(x) + \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}
# \bigl(I - e^{-t\,\Theta_{\mathcal{X}\mathcal{X}}}\bigr)\bigl(\mathcal{Y} - f_0(\mathcal{X})\bigr)
# \;\xrightarrow{t \to \infty}\;
# f_0(x) + \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\bigl(\mathcal{Y} - f_0(\mathcal{X})\bigr).$$
#
# This is the formula by which one conditions a GP draw $f_0$ on data (the mean in Eq. 4), with $\Theta$ in the place of
# the prior's kernel. It says something about each single network, and not only about their law: given where a network
# starts, it is known where it is at any time.
#
# **As printed, this fails.** Eq. 6 and Theorem B.1 print a minus for the plus before the last term. The proof's Eq. 25,
# which subtracts $f_0(\mathcal{X}) - \mathcal{Y}$, is right. On the training set itself the printed form would give
# $2f_0(\mathcal{X}) - \mathcal{Y}$, the mirror image of the labels. It is the negative control.
#
# Gradient descent, by which networks are trained in practice, obeys the same equation with a step for the time: each
# of $k$ steps at a rate $\eta$ multiplies $\delta$ by $I - \eta\,\Theta_{\mathcal{X}\mathcal{X}}$, so
# $(I - \eta\,\Theta_{\mathcal{X}\mathcal{X}})^k$ stands where $e^{-t\,\Theta_{\mathcal{X}\mathcal{X}}}$ did.
#
# Each network is held against the prediction from its own start, at training points and test points together. Its
# error at a time is the distance from the prediction over the length of the way from $f_0$ to it, and **P4** takes the
# largest over the times and that step, and the geometric mean over the networks of the largest width.

# %%
train_kernel, cross_kernel = kernels.kernel(net, X).ntk, kernels.kernel(net, X, both).ntk


def steps(n, time, learning_rate=None):
    """The second term of the formula above for each network, (networks, points), with the exact kernel."""
    return (y - f_0[n][:, :n_train]) @ gain(train_kernel, cross_kernel, time, learning_rate)


descent = GradientDescent(0.1 / n_train, gd_steps)
f_k = {n: trained(n, descent, y)[0] for n in train_widths}


def regression_error(n, sign):
    """Each network's largest error over the times, relative to the way that it should have moved, (networks,)."""
    ways = [(f, steps(n, t)) for f, t in zip(f_t[n], ends, strict=True)]
    ways.append((f_k[n], steps(n, descent.time, descent.learning_rate)))
    return np.max([relative_error(f, f_0[n] + sign * way, way) for f, way in ways], axis=0)


widest = train_widths[-1]
_ = ledger.record("P4", typical(regression_error(widest, +1)), typical(regression_error(widest, -1)))
ledger

# %% tags=["figure"]
shown_networks, shown_points = min(3, train_networks), slice(n_train, n_train + 3)
clock = np.geomspace(min(times) / 10, 100 * max(times), 80)
way = np.stack([steps(widest, t)[:shown_networks, shown_points] for t in clock], axis=1)
origins = f_0[widest][:shown_networks, None, shown_points]
fig_p4 = figures.trajectories(
    clock, origins + way, ("control: sign as printed", origins - way), ends,
    f_t[widest][:, :shown_networks, shown_points].swapaxes(0, 1),
    "Eq. 6: a trained network is the kernel regression from its own start",
)  # fmt: skip
figures.save(fig_p4, "fig_p4")

# %% [markdown]
# Three networks at three test points. The lines are not fitted: they are computed from the outputs at $t = 0$ and the
# exact kernel alone.
#
# Two errors are left in P4. The network is not quite its linearisation, and the kernel $\Theta_0$ of its linearisation
# is not quite $\Theta$. With each network's own $\Theta_0$ in the place of $\Theta$, the second is taken away:


# %% tags=["figure"]
def own_error(n):
    """As `regression_error`, with each network's own tangent kernel at the start."""
    largest = np.zeros(train_networks)
    for f, t in zip(f_t[n], ends, strict=True):
        gains = [gain(k[:n_train, :n_train], k[:n_train], t, None) for k in theta_0[n]]
        own = np.einsum("bn,bnp->bp", y - f_0[n][:, :n_train], np.stack(gains))
        largest = np.maximum(largest, relative_error(f, f_0[n] + own, own))
    return largest


by_width = {
    r"with $\Theta$": np.stack([regression_error(n, +1) for n in train_widths], axis=1),
    "with the network's own kernel": np.stack([own_error(n) for n in train_widths], axis=1),
    "control: sign as printed": np.stack([regression_error(n, -1) for n in train_widths], axis=1),
}
fig_p4_width = figures.against_size(
    train_widths,
    {label: over_seeds(values) for label, values in by_width.items()},
    "width $n$ (units in each hidden layer)",
    "largest error over the times\n(relative to the way moved)",
    r"Eq. 6: trained networks tend to kernel regression as $n \to \infty$",
    guides={r"$1/\sqrt{n}$": (r"with $\Theta$", -1 / 2), "$1/n$": ("with the network's own kernel", -1)},
    levels={"margin of P4": CLAIMS["P4"].tolerance},
)
figures.save(fig_p4_width, "fig_p4_width")

# %% [markdown]
# Nearly all of the error is the scatter of the initial kernel, which falls like $1/\sqrt{n}$. Given that kernel, the
# linear theory of Eq. 24 is much more accurate, and its error falls like the change of P3.
#
# The training error by itself shows Eq. 21. Some directions of $\Theta_{\mathcal{X}\mathcal{X}}$ decay a thousand times
# faster than others, so most of the error goes at once, and the rest takes its time:

# %% tags=["beside"]
gap_0 = f_0[widest][:, :n_train] - y
rows = []
for f, t in zip(f_t[widest], ends, strict=True):
    predicted = gap_0 + steps(widest, t)[:, :n_train]
    sizes = [
        np.mean(np.linalg.norm(gap, axis=1) / np.linalg.norm(gap_0, axis=1)) for gap in (f[:, :n_train] - y, predicted)
    ]
    rows.append([f"{t:g}", *(f"{size:.2f}" for size in sizes)])
print(aligned(["t", "training error left, networks", "Eq. 21"], rows))

# %% [markdown]
# ### From one network to their law
#
# As $f_\infty$ is an affine map of $f_0$, and $f_0$ is a draw from $\mathcal{GP}(0, \kappa)$, $f_\infty$ is Gaussian:
# with $B = \bigl(I,\; -\Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\bigr)$ acting on test and training
# points (Eqs. 26 and 27), its covariance is $B\,\kappa\,B^\top$ with $\kappa$ on both (Eq. 28), and its mean
# $\Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\mathcal{Y}$. Multiplied out, these are Eqs. 29 and 30 and
# Theorem 2.1, the law of a deep ensemble. Its mean is that of a GP posterior with prior $\Theta$ (Eq. 4); its
# covariance is not, since two kernels are at work. Whether networks follow that law is claim E1 of notebook 01. That
# the closed form is what $B$ gives is algebra, checked here to rounding:

# %% tags=["beside"]
law = laws.ensemble(net, X, y, points, full_cov=True)
bayes = laws.posterior(net, X, y, points, full_cov=True)
B = np.hstack([-gain(train_kernel, cross_kernel[:, n_train:], inf, None).T, np.eye(n_points)])
pushed = B @ kernels.kernel(net, both).nngp @ B.T
print(
    "covariance of Theorem 2.1 is B kappa B':       ", np.allclose(pushed, law.cov, rtol=0, atol=1e-9 * law.cov.max())
)
print("mean of Theorem 2.1 is the posterior mean:     ", np.allclose(law.mean, bayes.mean))
print("its covariance is that of the posterior:       ", np.allclose(law.cov, bayes.cov))

# %% [markdown]
# ## P5: the last layer's part of the tangent kernel is the NNGP kernel
#
# Before training, $f$ is linear in the parameters of its last layer, which are standard normal (Eq. 12). So the inner
# product of its gradients with respect to them, $\Theta^L_{xx'}$, and its covariance given the layers below are one and
# the same thing, the average
# $\sigma_b^2 + \frac{\sigma_w^2}{n}\sum_j x_j^L(x)\,x_j^L(x')$ of P1 with the limit $\kappa$ (Eq. 13). In the
# recursion of P2 it is the term $\kappa^L$, and the layers below contribute
# $\Theta^{\le L-1} = \Theta^{L-1}\dot\kappa^L = \Theta - \kappa$. Section 4 is built on this split: a target function
# with the covariance $\Theta - \kappa$ lifts the covariance $\kappa$ of the predictor to $\Theta$ (Eq. 14).
#
# The check is that of P2, on the last layer's part of the same networks. The control is the part of the layers below.

# %%
exact = layer(L)
last_layer = np.stack([part[0][:, 0, 0] for part in parts.values()], axis=1)  # (networks, widths, points, points)
_ = ledger.record(
    "P5",
    typical(relative_error(last_layer[:, -1], exact.nngp)),
    typical(relative_error(last_layer[:, -1], exact.body)),
)
print("exact kernels: Theta less the body's part is kappa:", np.allclose(exact.ntk - exact.body, exact.nngp))
ledger

# %% tags=["figure"]
fig_p5 = figures.matrices(
    (r"$\kappa$", exact.nngp),
    {
        f"last layer's part,\n$n = {first}$": last_layer[0, 0],
        f"last layer's part,\n$n = {last}$": last_layer[0, -1],
        "control: part of\nthe layers below": exact.body,
    },
    "kernel\n(label units squared)",
    r"Section 4: the last layer's part of the tangent kernel is $\kappa$",
)
figures.save(fig_p5, "fig_p5")

# %% tags=["figure"]
fig_p5_width = figures.against_size(
    kernel_widths,
    {
        label: over_seeds(np.stack([relative_error(at, kernel) for at in last_layer.swapaxes(0, 1)], axis=1))
        for label, kernel in ((r"against $\kappa$", exact.nngp), ("control: layers below", exact.body))
    },
    "width $n$ (units in each hidden layer)",
    "relative error of the last layer's part",
    r"Section 4: the last layer's part of the tangent kernel tends to $\kappa$ as $n \to \infty$",
    guides={r"$1/\sqrt{n}$": (r"against $\kappa$", -1 / 2)},
    levels={"margin of P5": CLAIMS["P5"].tolerance},
)
figures.save(fig_p5_width, "fig_p5_width")

# %% [markdown]
# ## Beside another library
#
# All exact kernels above, and the laws of the other notebooks, come from this package's closed forms (for silu and tanh
# from sums of closed forms, right to about ten digits). The library neural-tangents derives the same quantities on its
# own: kernels by composing layers, laws by its own solution of Eq. 5. Where it has a closed form for the nonlinearity,
# the two should agree to rounding. (No verdict depends on this section; where the library cannot be imported, it is
# left out.)

# %% tags=["beside"]
from rndlib.running.quiet import quiet
from rndlib.training.backends.jax.precision import in_float64

stax = None
if degrees:
    try:
        with quiet():  # it imports TensorFlow, which talks
            import jax
            from neural_tangents import predict, stax
    except ImportError as error:
        print(f"neural-tangents cannot be imported here ({error})")


def tower(at, nonlinearity):
    """The kernel function of a network as neural-tangents builds it."""

    def dense():
        return stax.Dense(1, W_std=at.sigma_w, b_std=at.sigma_b, parameterization="ntk")

    hidden = [layer for _ in range(at.depth - 1) for layer in (dense(), nonlinearity)]
    return stax.serial(*hidden, dense())[2]


@in_float64
def deviations(at, nonlinearity, time):
    """Largest deviations from neural-tangents of the NNGP kernel, NTK, and the law's mean and covariance, relative."""
    with quiet():  # it warns of its quadrature, which is what is looked at here
        kernel_fn = tower(at, nonlinearity())
        theirs = kernel_fn(X, points, ("nngp", "ntk"))
        predicted = predict.gradient_descent_mse_ensemble(kernel_fn, X, y[:, None], learning_rate=1.0, diag_reg=0.0)
        # Its loss is the mean over points, and its time N times as long for the same training.
        t = None if time == inf else n_train * time
        mean, cov = predicted(t=t, x_test=points, get="ntk", compute_cov=True)
    ours, law = kernels.kernel(at, X, points), laws.ensemble(at, X, y, points, time=time, full_cov=True)
    pairs = [(theirs.nngp, ours.nngp), (theirs.ntk, ours.ntk), (mean[:, 0], law.mean), (cov, law.cov)]
    return [np.abs(np.asarray(a) - b).max() / np.abs(b).max() for a, b in pairs]


if stax is not None:
    head = ["nonlinearity", "L", "t", "NNGP kernel", "NTK", "mean", "covariance"]
    rows = []
    for name, nonlinearity, l, t in (
        ("erf", stax.Erf, 2, inf),
        ("relu", stax.Relu, 3, 1.0),
        ("gelu", stax.Gelu, 3, inf),
        ("gelu", stax.Gelu, 2, 1.0),
    ):
        agree = [error < 1e-10 for error in deviations(replace(net, activation=name, depth=l), nonlinearity, t)]
        rows.append([name, str(l), f"{t:g}", *("agrees" if ok else "DIFFERS" for ok in agree)])
    print(aligned(head, rows))

# %% [markdown]
# "Agrees" means to 1e-10 of the largest entry, all of it rounding: the law's covariance is a difference of larger
# numbers. For silu, the paper's nonlinearity, neural-tangents has no closed form. It integrates numerically, by
# Gauss-Hermite quadrature of a given degree in each of two dimensions, and that has an error of its own. The figure
# shows it shrink with the degree, towards the values of this package. Had these an error of their own, the curves would
# level off at it.

# %% tags=["figure", "beside"]
shown, silu = None, replace(net, activation="silu")
if stax is not None:
    rules = [partial(stax.ElementwiseNumerical, jax.nn.silu, deg=degree) for degree in degrees]
    by_degree = np.array([deviations(silu, rule, inf) for rule in rules]).T
    fig_nt = figures.against_size(
        degrees,
        {
            label: (at,) * 3
            for label, at in zip(
                ["NNGP kernel", "NTK", "the law's mean", "the law's covariance"], by_degree, strict=True
            )
        },
        "degree of the quadrature of neural-tangents",
        "largest deviation from the exact value\n(relative to the largest entry)",
        f"At degree {degrees[-1]} the quadrature is within {by_degree[:, -1].max():.1g} of the exact values",
    )
    shown = figures.save(fig_nt, "fig_nt")
shown

# %% [markdown]
# An error of the kernel is multiplied by the condition of $\Theta_{\mathcal{X}\mathcal{X}}$ on its way into the law.
# At degree 25, which the library suggests, the kernel is right to five digits and the law to two or three; at
# degree 5 the law is nonsense. This is why the kernels here are not integrated in this way.
#
# ## Limits
#
# How sure are the verdicts? `make calibrate` repeated the ledger of every notebook 200 times with other seeds, at the
# small sizes of the profile `calibrate`. No claim failed and no control passed; `rndlib report` shows the table.
#
# P1, P2 and P5 are shown on one architecture with two hidden layers and P3 and P4 on one with a single hidden layer, at
# one draw of the inputs; all are parameters. The widths at which a verdict holds depend on what a network has to learn:
# labels that are large or rough, or points that nearly repeat each other, move the weights further, and P3 and P4 hold
# later. (Notebook 01 looks at this under "How wide is wide".) Depth counts too: kernels scatter more with every layer.
# The number of outputs is two here. With many heads on one body the limit of P2 is reached later than for one, which is
# a matter for notebook 02. And the solver computes the gradient flow that the paper assumes. Gradient descent with a
# finite step has a law of its own, which notebook 01 checks; stochastic gradients are outside the paper.
#
# ## Ledger

# %%
ledger.write()
ledger
