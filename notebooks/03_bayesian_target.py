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
# # Bayesian RND: a target that turns the error into a draw from the posterior
#
# > **Claim.** When the predictor imitates $\tilde g(x) = \nabla_\theta u(x; \vartheta_0)^\top \psi^*$, its error has
# > the covariance $\Theta_{xx'} - \Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-1}\Theta_{\mathcal{X}x'}$ of
# > the NTK-GP posterior (Proposition 4.1, Theorem 4.2).\
# > **Picture.** The covariance of the errors agrees with the posterior's, entry by entry; that of standard RND does
# > not.\
# > **Verdict.** The target's law is off by B1 0.02, the converged error's by B3 0.015 and with observation noise by B5
# > 0.012, with 0.1 allowed; the standard target is off by 0.44, and 5 % more $\sigma_w$ or a point left out by 0.14 or
# > more.
#
# Notebook 01 showed what the error of random network distillation (RND) is in the limit of width: a draw from a
# Gaussian process with mean zero, whose variance is twice that of a deep ensemble. It is not a Bayesian posterior.
# Section 4 of the paper changes one thing, the target that the predictor $u$ imitates. The error then becomes a draw
# from the posterior of Bayesian inference with an infinitely wide network. Seven statements are checked here:
#
# | id | statement | in the paper |
# |---|---|---|
# | B1 | the engineered target is a draw from a Gaussian process with covariance $\Theta - \kappa$ | Proposition 4.1 |
# | B2 | it is uncorrelated with the predictor, and the prior of the error is $\Theta$ | Section 4, Eq. 14 |
# | B3 | the converged error has mean zero and the covariance of the posterior | Theorem 4.2 |
# | B3-time | before convergence it has another covariance, that of a law at time $t$ | Theorem 4.2, at finite $t$ |
# | B4 | the members of a Bayesian ensemble have the same variance, at every $x$ | Section 4, after He et al. (2020) |
# | B5 | with observation noise the error has the covariance of the noisy posterior | Section 4, footnote on noise |
# | B-limit | what is left of the error of the variance vanishes at infinite width | Theorem 4.2, as a limit |
#
# ## Why it is true
#
# Before training, an infinitely wide network is a draw from $\mathcal{GP}(0, \kappa)$, where $\kappa$ is the NNGP
# kernel. Training moves it by the tangent kernel $\Theta$ (NTK). Let the error $\epsilon = u - \tilde g$ start as a
# draw $\epsilon_0$ from $\mathcal{GP}(0, \kappa^\epsilon)$. With training points $\mathcal{X}$ it ends at
#
# $$\epsilon_\infty(x) = \epsilon_0(x) - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,
# \epsilon_0(\mathcal{X}). \tag{1}$$
#
# This is how one conditions a draw from a Gaussian process on being zero at $\mathcal{X}$ (Matheron's rule). But that
# rule needs one kernel, and here are two: the draw has $\kappa^\epsilon$ and the weights have $\Theta$. With standard
# targets $\kappa^\epsilon = 2\kappa$. If it were $\Theta$, the covariance of (1) would be
#
# $$\Theta_{xx'} - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,\Theta_{\mathcal{X}x'},$$
#
# the posterior covariance of a Gaussian process with prior covariance $\Theta$ (the NTK-GP), given noise-free
# observations at $\mathcal{X}$. The predictor alone contributes $\kappa$ at the start. So the target has to contribute
# $\Theta - \kappa$, independently of the predictor. Proposition 4.1 says how to build such a target.

# %% tags=["parameters"]
width: int = 1024  # units in each hidden layer, n
draws: int = 1536  # networks of each kind in B1 and B2, which are not trained, each with weights of its own
networks: int = 384  # trained networks of each kind in B3 and B4, at each time of B3-time and noise level of B5
untrained: int = 768  # further bodies of 32 heads of each kind, for the partners
n_points: int = 16  # test points at which variances are compared
n_joint: int = 8  # of these, how many enter joint laws
times: list[float] = [0.1, 1.0, 10.0, 100.0]  # training times t of B3-time
noise: list[float] = [0.1, 0.2, 0.5]  # standard deviations of the observation noise in B5, in the units of y
narrow: list[int] = [256, 512]  # narrower networks, for B-limit
narrow_networks: int = 768  # as networks, for each of them
crowd_widths: list[int] = [256, 1024]  # widths at which heads share a body
crowd_heads: list[int] = [1, 32, 128]  # heads on one body, K
crowd: int = 512  # heads in all, spread over crowd / K bodies, but no fewer than crowd_bodies
crowd_bodies: int = 8  # fewest bodies
n_train: int = 10  # training points, N
data_seed: int = 2  # seed of the training and test points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers, the paper's L: 2 is one hidden layer
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.1  # scale of the biases
rtol: float = 0.02  # relative error allowed to each trained function
crowd_rtol: float = 0.1  # the same where heads share a body

# %%
import warnings
from dataclasses import replace

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
    datasets,
    kernels,
    laws,
)
from rndlib.paper import figures, parameters
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.controls import MisbuiltTarget, NoiseWithoutPull
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.partners import Untrained
from rndlib.paper.evidence.statistics import joint_law, level, limit, over_points, relative_variance
from rndlib.paper.evidence.tables import aligned
from rndlib.paper.many_heads import TOLERATED, predicted_ratio
from rndlib.training.weights import Role

parameters.check(globals(), "n_joint <= n_points")
warnings.simplefilter("ignore", DepartureWarning)  # some networks are narrow on purpose

data = datasets.toy(data_seed, n_train=n_train, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
joint = points[:n_joint]
zero = np.zeros(n_joint)
net = MLP(3, width=width, depth=depth, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
larger = replace(net, sigma_w=1.05 * sigma_w)
flow = GradientFlow(rtol=rtol)
ledger = Ledger("03_bayesian_target")


def worst(findings):
    """The finding with the largest value; a claim about all of them is judged by it."""
    return max(findings, key=lambda finding: finding.value)


def jointly(values):
    """Those at the points of the joint laws."""
    return values[..., :n_joint]


def against(cov, errors, partners=None):
    """The statistic of errors, with or without partners, against the law with mean zero and this covariance."""
    return joint_law(jointly(errors), zero, cov, partners=partners and partners.each(jointly))


# %% [markdown]
# The data are the paper's toy problem: $N = 10$ points drawn from $\mathcal{N}(0, I_3)$, with labels
# $y = x_1 + x_2 + x_3 - 2\,x_1x_2x_3$ that only the ensembles see. Until the section on heads, every predictor has one
# head and a body of its own. So one trained network is one independent draw, and the intervals count these draws.
#
# ## B1: the law of the target
#
# An output is linear in the weights of the last layer. So the last layer's part of the tangent kernel is a sum of
# products of that layer's inputs, which tends to $\kappa$: $\Theta^{L} = \kappa$ (P5 in notebook 00). The layers below
# contribute the rest, $\Theta^{\le L-1} = \Theta - \kappa$. Now take the gradient of the predictor with respect to
# these lower parameters as a vector of random features, and a standard normal vector $\psi$ as their weights:
#
# $$\tilde g(x) = \nabla_{\vartheta_0} u(x; \vartheta_0)^\top \psi^*, \qquad \psi^* = \{\psi^{\le L-1}, 0\}.$$
#
# Given $\vartheta_0$, this is a Gaussian process at any width. Its covariance is the empirical kernel
# $\Theta^{\le L-1}_0$, which tends to $\Theta - \kappa$. So the target tends to a draw from
# $\mathcal{GP}(0, \Theta - \kappa)$. Nothing is trained yet.
#
# The claim is about all test points jointly, so the check is too. The outputs at $p$ points are whitened, so that the
# law becomes $\mathcal{N}(0, I)$; let $m$ and $S$ be the mean and covariance of the networks in these coordinates. The
# statistic is $\sqrt{(|m|^2 + \tfrac12\|S - I\|_F^2)/p}$, corrected for the sampling noise in $m$ and $S$. The upper
# end of its 95 % interval is judged. A value of 0.1, the tolerance, means a mean that is off by a tenth of a standard
# deviation in every direction, or variances that are off by 14 %. A value of 0 means that no difference can be
# resolved. The negative control keeps the last layer's part of $\psi$ as it was drawn, so that the target has the
# covariance $\Theta$. A second, near control shows how fine the check is: the law of networks whose weights are scaled
# by 5 % more.

# %%
proposed = BayesianRND(net, 1, draws, seed=seed)
_, targets = proposed.initial(joint)
_, control = MisbuiltTarget(net, draws, keep_last=True, seed=seed).initial(joint)
at_joint, of_larger = (kernels.kernel(of, joint) for of in (net, larger))

near = against(of_larger.body, targets)
_ = ledger.record("B1", *(against(at_joint.body, drawn) for drawn in (targets, control)), near)
ledger

# %% tags=["figure"]
fig_b1 = figures.covariances(
    at_joint.body,
    {"targets": targets.T @ targets / draws, "control: last layer kept": control.T @ control / draws},
    r"Proposition 4.1: the target has the covariance $\Theta - \kappa$",
)
figures.save(fig_b1, "fig_b1")

# %% [markdown]
# Covariances between test points, in the law's standard deviations, and below them their differences from the law. The
# target has the law of Proposition 4.1, and it has it because the last layer's part of $\psi$ is zero. With that part,
# the target also has $\kappa$, which the predictor is about to contribute.
#
# ## B2: the start of the error
#
# Target and predictor share the parameters $\vartheta_0$, and are nevertheless uncorrelated: given $\vartheta_0$, the
# predictor is fixed, and the target has mean zero because $\psi$ has. In the limit both are Gaussian, so uncorrelated
# means independent. Hence
#
# $$\kappa^\epsilon = \kappa + (\Theta - \kappa) = \Theta.$$
#
# The check joins predictor and target in one vector of $2p$ outputs. The claimed law of this vector has the blocks
# $\kappa$ and $\Theta - \kappa$ on the diagonal and zeros elsewhere. The prior of the error, the difference of the two,
# follows from it. The negative control takes the gradient of the network at $\psi$ itself,
# $\nabla_\psi g(x; \psi)^\top\psi^*$: a target that does not involve the predictor. The near control is that of B1.

# %%
law, near = (block_diag(of.nngp, of.body) for of in (at_joint, of_larger))
nowhere = np.zeros(len(law))
alone = MisbuiltTarget(net, draws, at=Role.DIRECTION, seed=seed)
pair, control = np.hstack(proposed.initial(joint)), np.hstack(alone.initial(joint))

_ = ledger.record("B2", *(joint_law(drawn, nowhere, of) for drawn, of in ((pair, law), (control, law), (pair, near))))
ledger

# %% [markdown]
# A target can be wrong in two ways: in its own law, or by being correlated with the predictor. At $\psi$ itself it has
# the wrong law, since its features and weights are dependent; it is independent of the predictor. With the predictor's
# own parameters in the place of $\psi$, $\nabla_{\vartheta_0}u(x;\vartheta_0)^\top\vartheta_0^*$, it is wrong in both
# ways. The table has the same statistic for the target, for the pair, and for their error, whose law should be
# $\Theta$:

# %% tags=["beside"]
along = MisbuiltTarget(net, draws, along=Role.PREDICTOR, seed=seed)


def faults(model):
    """The statistic for target, pair and error."""
    predictor, target = model.initial(joint)
    held = [(target, at_joint.body), (np.hstack([predictor, target]), law), (predictor - target, at_joint.ntk)]
    return [f"{joint_law(drawn, np.zeros(len(cov)), cov).value:.2g}" for drawn, cov in held]


constructions = {"as proposed": proposed, "at psi itself": alone, "along the predictor": along}
print(aligned(["target", "its law", "the pair", "the error"], [[k, *faults(m)] for k, m in constructions.items()]))

# %% [markdown]
# ## B3: the law of the converged error
#
# With $\kappa^\epsilon = \Theta$ in place, training to $t = \infty$ should leave the posterior covariance (Theorem
# 4.2). The negative control is the standard target of Section 3, whose errors have twice the ensemble's covariance. The
# near control is the posterior with one training point left out.
#
# Trained networks are few, and a covariance from few networks is noisy. So each one gets a *partner*, as in notebook
# 01: the right-hand side of (1) for its own $\epsilon_0$, which needs no training. Partners are also made of the heads
# of many bodies that are never trained. The moments are those of all partners, plus what the trained networks
# differ by from their own (control variates; `paper.evidence.partners`). This is unbiased whether or not (1) is true,
# and the closer (1) is, the less noise is left. Intervals count trained networks and untrained bodies.

# %%
posterior, left_out = (laws.posterior(net, X[:n], y[:n], points, full_cov=True) for n in (n_train, n_train - 1))
cov = posterior.cov[:n_joint, :n_joint]
model = BayesianRND(net, 1, networks, seed=seed, solver=flow)
errors = model.fit(X).errors(points)
untrained_pairs = Untrained(model, X, points, untrained)
partners = untrained_pairs.trained(solver=flow)
standard = RND(net, 1, networks, seed=seed, solver=flow).fit(X).errors(points)

near = against(left_out.cov[:n_joint, :n_joint], errors, partners)
_ = ledger.record("B3", against(cov, errors, partners), against(cov, standard), near)
ledger

# %% tags=["beside"]
print(f"B3 with partners {against(cov, errors, partners).value:.2g}, without {against(cov, errors).value:.2g}")

# %% tags=["figure"]
shown = {"Bayesian RND error": jointly(errors), "control: standard RND": jointly(standard)}
fig_b3 = figures.covariances(
    cov,
    {label: drawn.T @ drawn / networks for label, drawn in shown.items()},
    "Theorem 4.2: the Bayesian RND error has the covariance of the posterior",
)
figures.save(fig_b3, "fig_b3")

# %% [markdown]
# As above, for converged errors: the error of a trained Bayesian RND predictor is a draw from the centred posterior.
# The error of standard RND comes from another process. Here it has less variance, because its prior $2\kappa$ contains
# nothing of the layers below the last one.
#
# ## B3-time: only at the end
#
# In notebook 01 the equality of RND and ensembles held at every training time. This equality does not. At time $t$, (1)
# holds with $\Theta_{\mathcal{X}\mathcal{X}}^{-1}(I - E)$ in the place of $\Theta_{\mathcal{X}\mathcal{X}}^{-1}$, where
# $E = e^{-t\,\Theta_{\mathcal{X}\mathcal{X}}}$. An error that starts from $\Theta$ then has the covariance
#
# $$\Theta_{xx'} - \Theta_{x\mathcal{X}}\,\Theta_{\mathcal{X}\mathcal{X}}^{-1}\,(I - E^2)\,\Theta_{\mathcal{X}x'}.$$
#
# It falls from the prior at $t = 0$ to the posterior at $t = \infty$. Each direction of the data has its own rate: an
# eigenvector of $\Theta_{\mathcal{X}\mathcal{X}}$ with eigenvalue $\lambda$ counts as observed once
# $e^{-2\lambda t} \ll 1$. In between, the law is not the posterior for any level $\sigma$ of independent noise, which
# would have $1/(\lambda + \sigma^2)$ where training has $(1 - e^{-2\lambda t})/\lambda$. Stopping early leaves more
# variance than the posterior has, at every $x$. (A Bayesian ensemble stopped at $t$ has the covariance of the law at
# $t$ too. So the two methods agree with each other at any time, and with the posterior at the end.)
#
# The claim is that errors at time $t$ follow the law at $t$. The control puts the posterior in its place, and the near
# control the law at $1.25\,t$. All are judged at the time where they do worst.


# %%
def law_at(t):
    """The covariance of the law at time t, at the points of the joint check."""
    return laws.bayesian_rnd_error(net, X, joint, time=t, full_cov=True).cov


flows = {t: GradientFlow(t, rtol=rtol) for t in times}
errors_t = {t: BayesianRND(net, 1, networks, seed=seed, solver=s).fit(X).errors(points) for t, s in flows.items()}
partners_t = {t: untrained_pairs.trained(solver=s) for t, s in flows.items()}
at_t, as_posterior, later = (
    {t: against(law(t), errors_t[t], partners_t[t]) for t in times}
    for law in (law_at, lambda t: cov, lambda t: law_at(1.25 * t))
)
_ = ledger.record("B3-time", *(worst(found.values()) for found in (at_t, as_posterior, later)))
ledger

# %% tags=["beside"]
plain = worst([against(law_at(t), errors_t[t]) for t in times])
print(f"B3-time with partners {worst(at_t.values()).value:.2g}, without {plain.value:.2g}")
rows = [[f"{t:g}", *(f"{found[t].value:.2g}" for found in (at_t, as_posterior, later))] for t in times]
print(aligned(["t", "against the law at t", "against the posterior", "against the law at 1.25 t"], rows))

# %% tags=["figure"]
rates = np.linalg.eigvalsh(kernels.kernel(net, X).ntk)
moments = np.geomspace(0.02 / rates[-1], 5 / rates[0], 80)
lines = np.stack([laws.bayesian_rnd_error(net, X, points, time=t).var for t in moments])
some = slice(None, None, max(1, n_points // 4))
fig_time = figures.variance_against(
    "training time $t$",
    ("law at time $t$", moments, lines[:, some]),
    times,
    {"Bayesian RND": np.stack([np.mean(e**2, axis=0)[some] for e in errors_t.values()])},
    np.sqrt(2 / networks),
    r"Theorem 4.2: the variance of the error falls to the posterior's as $t \to \infty$",
    levels=("posterior", posterior.var[some]),
)
figures.save(fig_time, "fig_time")

# %% [markdown]
# Variances at four test points, in label units squared, against the training time, with bars of two standard errors.
# They fall along the law at time $t$ to the level of the posterior. How long is long enough? The law says when its
# variance comes within a tenth of the posterior's, at half of the test points and at all of them. The slowest rate
# $2\lambda$ decides:

# %% tags=["beside"]
excess = np.sort(lines / posterior.var - 1, axis=1)
half, every = (moments[np.argmax(part < 0.1)] for part in (excess[:, (n_points - 1) // 2], excess[:, -1]))
print(f"within a tenth of the posterior's variance at half of the points: t = {half:.0f}")
print(f"at all of them: t = {every:.0f}")
print(f"eigenvalues of Theta_XX: {rates[0]:.1g} to {rates[-1]:.2g}, so that 1 / (2 lambda_min) = {0.5 / rates[0]:.0f}")

# %% [markdown]
# At $t = 100$ the check above can no longer tell the law from the posterior at a margin of a tenth. The data set the
# pace: the smallest eigenvalue of $\Theta_{\mathcal{X}\mathcal{X}}$ decides, and it is small where training points are
# hard to tell apart. Gradient descent at a learning rate $\eta$ needs $t/\eta$ steps.
#
# ## B4: the same variance as a Bayesian ensemble
#
# He et al. (2020) applied the idea to ensembles. They train the sum of a network and the function of Proposition 4.1,
# $f(x; \theta_t) + \nabla_{\theta_0}f(x;\theta_0)^\top\psi^*$, on the labels. This sum starts as a draw from
# $\mathcal{GP}(0, \Theta)$. So by (1) with labels, every member is a draw from the posterior, mean included. The
# paper's experiment (notebook 05) compares Bayesian RND with such ensembles. Here the comparison needs no half:
#
# $$\mathbb{E}\bigl[\epsilon^2(x)\bigr] = \mathbb{V}\bigl[f(x)\bigr].$$
#
# Standard RND needs the half because its error carries the prior of two networks, and an ensemble member that of one.
# Here both start from $\Theta$, once. The ratio of the two sides is estimated at each test point, with a band that
# covers all ratios at once with 95 % confidence. Both sides have partners. The claim holds if the whole band is within
# $0.15$ of 1 on the log scale: the standard deviations that the two sides report then differ by less than 8 %, at every
# $x$. The negative control has standard ensembles. The near control is a slip in the variance of small ensembles, $1/M$
# for $1/(M - 1)$ with $M = 5$, which is off by a factor of $0.8$.

# %%
members = BayesianEnsemble(net, networks, seed=seed, solver=flow)
bayesian = members.fit(X, y).functions(points)
deep = DeepEnsemble(net, networks, seed=seed, solver=flow).fit(X, y).functions(points)
of_members = Untrained(members, X, points, untrained).trained(y, flow)


def ratio_to(functions, theirs, factor=1.0):
    """The squared errors, times a factor, over the variance of functions that have partners or none."""
    scale = np.sqrt(factor)
    both = partners.each(lambda values: scale * values), theirs
    return over_points(scale * errors, functions, half=False, partners=both)


ratio, wrong, near = ratio_to(bayesian, of_members), ratio_to(deep, None), ratio_to(bayesian, of_members, 5 / 4)
_ = ledger.record("B4", ratio.finding, wrong.finding, near.finding)
ledger

# %% tags=["beside"]
plain = over_points(errors, bayesian, half=False)
print(f"B4 with partners {ratio.finding.value:.2g}, without {plain.finding.value:.2g}")

# %% tags=["figure"]
places, margin = np.arange(1, n_points + 1), CLAIMS["B4"].tolerance
series = {
    name: np.stack([places, *np.exp([at.estimate, at.low, at.high])], axis=1)
    for name, at in (("Bayesian ensemble", ratio), ("control: standard ensemble", wrong))
}
fig_b4 = figures.ratios(
    {"mean squared error / variance": figures.Ratios(series, tuple(np.exp([-margin, margin])))},
    "test point",
    r"Section 4: for Bayesian RND and ensembles, $\mathbb{E}[\epsilon^2(x)] = \mathbb{V}[f(x)]$ at every $x$",
    xscale="linear",
)
figures.save(fig_b4, "fig_b4")

# %% [markdown]
# The ratio at each of the 16 test points, with its band at a joint level of 95 %. Bayesian RND, which saw no label, has
# the variance of ensembles that were trained on labels. Standard ensembles have between a half and a fifth of it here.
# So reading their spread as that of the posterior is overconfident.
#
# ## B5: observation noise
#
# For labels with independent noise of standard deviation $\sigma$, the posterior covariance is
#
# $$\Theta_{xx'} - \Theta_{x\mathcal{X}}\,(\Theta_{\mathcal{X}\mathcal{X}} + \sigma^2 I)^{-1}\,\Theta_{\mathcal{X}x'}.$$
#
# A footnote of the paper calls this extension straightforward, and does not say how to train for it. RND has no labels
# that could be noisy. The way taken here gives each training point one more parameter $\xi_i \sim \mathcal{N}(0, 1)$,
# an offset that exists on the training set only, and trains
#
# $$\tfrac12\,\bigl\|u(\mathcal{X}; \vartheta) + \sigma\,\xi - \tilde g(\mathcal{X})\bigr\|^2$$
#
# with respect to $\vartheta$ and $\xi$. This adds $\sigma^2 I$ twice: to the tangent kernel on $\mathcal{X}$ and to the
# prior of the error there. So the two kernels are still equal, and (1) gives the noisy posterior. For $\vartheta$, the
# offsets do two things. They jitter the targets, by $\sigma\,\xi(0)$. And since they also move no further than they
# must, they leave part of the jitter unfitted: at the end, $\vartheta$ minimises
#
# $$\bigl\|u(\mathcal{X};\vartheta) + \sigma\,\xi(0) - \tilde g(\mathcal{X})\bigr\|^2
# + \sigma^2\,\|\vartheta - \vartheta_0\|^2,$$
#
# a fit that is pulled back to its start. It is easy to forget this pull. Without it the predictor fits its jittered
# targets exactly, and $\sigma^2\,\Theta_{x\mathcal{X}}\Theta_{\mathcal{X}\mathcal{X}}^{-2}\Theta_{\mathcal{X}x'}$ is
# added to the noise-free posterior covariance. This is the negative control. The near control is the posterior for
# noise that is larger by a quarter. All are judged at the noise level where they do worst.

# %%
trainings = {s: BayesianRND(net, 1, networks, noise_std=s, seed=seed, solver=flow) for s in noise}
pulled = {s: training.fit(X).errors(points) for s, training in trainings.items()}
jittered = {s: NoiseWithoutPull(net, networks, jitter=s, seed=seed, solver=flow).fit(X).errors(points) for s in noise}
noisy_partners = {s: untrained_pairs.trained(solver=flow, noise_std=s) for s in noise}


def against_posterior(errors, partners, factor=1.0):
    """The statistic at each noise level, against the posterior for that noise times a factor."""
    laws_of = {s: laws.posterior(net, X, y, joint, noise_std=factor * s, full_cov=True) for s in noise}
    return [against(laws_of[s].cov, errors[s], partners.get(s)) for s in noise]


with_pull, without = against_posterior(pulled, noisy_partners), against_posterior(jittered, {})
more_noise = against_posterior(pulled, noisy_partners, 1.25)
_ = ledger.record("B5", *map(worst, (with_pull, without, more_noise)))
ledger

# %% tags=["beside"]
print(f"B5 with partners {worst(with_pull).value:.2g}, without {worst(against_posterior(pulled, {})).value:.2g}")
columns = (with_pull, without, more_noise)
body = [[f"{s:g}", *(f"{found.value:.2g}" for found in at)] for s, *at in zip(noise, *columns, strict=True)]
print(aligned(["noise", "with the pull", "without", "against noise times 1.25"], body))

# %% tags=["figure"]
levels = np.geomspace(noise[0] / 3, noise[-1] * 2, 60)
curves = np.stack([laws.posterior(net, X, y, points[some], noise_std=s).var for s in levels])
groups = {"Bayesian RND": pulled, "control: noise without the pull": jittered}
fig_b5 = figures.variance_against(
    "standard deviation of the observation noise (label units)",
    ("noisy posterior", levels, curves),
    noise,
    {name: np.stack([np.mean(e**2, axis=0)[some] for e in group.values()]) for name, group in groups.items()},
    np.sqrt(2 / networks),
    "With observation noise, the error has the variance of the noisy posterior",
)
figures.save(fig_b5, "fig_b5")

# %% [markdown]
# Variances at four test points, in label units squared, against the standard deviation of the noise, in label units,
# with bars of two standard errors. At every level the error follows the noisy posterior. At $\sigma = 0.1$, where
# $\sigma^2$ is about the smallest eigenvalue of $\Theta_{\mathcal{X}\mathcal{X}}$, the pull hardly matters, and the
# check does not tell that it is missing. At the higher levels it does. Without the pull, the variance grows without
# bound as the noise grows, while that of the posterior returns to the prior's.
#
# ## B-limit: the limit itself
#
# No network of finite width is exactly at its limit, so the verdicts above are about margins. But Theorem 4.2 is a
# statement about a limit, and this can be tested. To leading order, the error at width $n$ is a multiple of $1/n$. So a
# line through the errors at several widths must pass through zero at $1/n = 0$, though no error on it is zero. The
# error is that of the variance, relative to the posterior's and averaged over the test points. The farther end of the
# interval at infinite width is judged. The margin is 6 % of the variance, which is the sampling error of a variance
# from the $512$ heads of the paper's experiment, $\sqrt{2/512}$. The negative control takes the law of standard RND for
# that of Bayesian RND. The near control is the law of networks whose weights are scaled by 5 % more.

# %%
widths = [*narrow, width]
trained, beside = {width: errors}, {width: partners}
for k, n in enumerate(narrow, start=1):
    # Seeds of their own, as the line needs independent networks.
    model = BayesianRND(replace(net, width=n), 1, narrow_networks, seed=seed + 1000 * k, solver=flow)
    trained[n] = model.fit(X).errors(points)
    beside[n] = Untrained(model, X, points, untrained).trained(solver=flow)


def line(variance, partners):
    """The line through the errors of the variance at all widths, against a law's."""
    return limit(widths, [relative_variance(trained[n], variance, partners.get(n)) for n in widths])


variances = posterior.var, laws.rnd_error(net, X, points).var, laws.posterior(larger, X, y, points).var
found, wrong, near = (line(variance, beside) for variance in variances)
_ = ledger.record("B-limit", found.finding, wrong.finding, near.finding)
ledger

# %% tags=["beside"]
print(f"B-limit with partners {found.finding.value:.2g}, without {line(posterior.var, {}).finding.value:.2g}")

# %% tags=["figure"]
fig_limit = figures.extrapolated(
    widths,
    {"Bayesian RND": found, r"control: law for $1.05\,\sigma_w$": near},
    CLAIMS["B-limit"].tolerance,
    "error of the variance\n(relative to the posterior's)",
    "Theorem 4.2: on a line in $1/n$, the error vanishes at infinite width",
)
figures.save(fig_limit, "fig_limit")

# %% [markdown]
# Errors of the variance, averaged over test points, with 95 % intervals over networks (at infinite width 90 %, of which
# each end is judged at 95 %). At a finite width the variance is too small, and the line ends at zero within its
# interval. With the wrong law the line ends elsewhere. Narrower networks are no use here, because terms of order
# $1/n^2$ show in them: with seeds of their own, 2560 networks of each width had errors of $-5.7/n$ at 64 units,
# $-7.1/n$ at 128, $-9.6/n$ at 256 and at 512, and $-8.6/n$ at 1024. A line through all of these would end at $-0.01$,
# and two trials with 128 units in it had intervals that end below zero, by $0.004$ and $0.010$.
#
# ## Heads on one body
#
# So far every head had a body of its own. RND is cheap because many heads share one body, and the theorems allow this,
# since they let the width grow at a fixed number of heads. For standard RND, a finite width costs precision (notebook
# 02). For Bayesian RND it changes the variance itself. The paper takes one $\psi$ for all heads of a body, so that one
# Jacobian-vector product gives all targets. Then $K$ heads at $N$ points pose $NK$ equations for the same vector of $P$
# hidden parameters. Moving the body by $\psi$ would satisfy all heads at once, and at every $x$. With few equations
# $\psi$ remains hidden. With many, the body learns it, and the errors become smaller than the posterior's. What counts
# is the load $NK/P$.
#
# There are two remedies. `bodies` spreads the heads, so that each body has a small load. `directions="independent"`
# draws one $\psi$ per head. Then there is no common vector to learn, but each head needs a Jacobian-vector product of
# its own.
#
# The table has the mean square of the errors over the posterior variance, averaged over heads and test points. Its
# intervals are Student's 95 % intervals over bodies, which are the independent units here. The lines in the figure are
# a rule of thumb: $1/(1 + NK/P)$, but at least 0.8, for a shared $\psi$, and $1 + NK/4P$ for one $\psi$ per head. It is
# a fit to networks of two widths and two values of $\sigma_b$, and not a theorem. Every fit measures this ratio on its
# own networks, and warns with a `DepartureWarning` beyond a tenth.


# %% tags=["beside"]
def crowded(n, heads, directions):
    """The load, the ratio of variance to posterior variance with its interval, and the mean covariance."""
    at, bodies = replace(net, width=n), max(crowd // heads, crowd_bodies)
    if heads == 1 and n in trained:
        drawn = trained[n]  # for B-limit, and more closely
    else:
        solver = GradientFlow(rtol=crowd_rtol)
        model = BayesianRND(at, heads, bodies, directions=directions, seed=seed, solver=solver).fit(X)
        drawn = model.errors(points)
    load = n_train * heads / at.hidden_parameters
    by_body = np.mean(drawn.reshape(-1, heads, n_points) ** 2, axis=1)
    return load, *level(by_body, posterior.var), (drawn.T @ drawn / len(drawn))[:n_joint, :n_joint]


shared = {(n, k): crowded(n, k, "shared") for n in crowd_widths for k in crowd_heads}
independent = {(n, k): crowded(n, k, "independent") for n in crowd_widths for k in crowd_heads if k > 1}


def cell(found):
    """A ratio with its interval, as text."""
    return f"{found[1]:.2f} [{found[2]:.2f}, {found[3]:.2f}]" if found else ""


head = ["width", "heads", "NK/P", "one psi per body", "rule", "one psi per head", "rule"]
body = [
    [
        *(f"{n}", f"{k}", f"{found[0]:.2g}"),
        *(cell(found), f"{predicted_ratio(found[0], 'shared'):.2f}"),
        *(cell(independent.get((n, k))), f"{predicted_ratio(found[0], 'independent'):.2f}" if k > 1 else ""),
    ]
    for (n, k), found in shared.items()
]
print(aligned(head, body))

# %% tags=["figure"]
series = {}
for label, found in ((r"one $\psi$ per body", shared), (r"one $\psi$ per head", independent)):
    for n in crowd_widths:
        series[f"{label}, $n = {n}$"] = np.array([row[:4] for (at, _), row in found.items() if at == n])
loads = np.geomspace(min(row[0] for row in shared.values()), max(row[0] for row in shared.values()), 60)
rules = {
    rf"rule, one $\psi$ per {word}": (loads, np.array([predicted_ratio(load, kind) for load in loads]))
    for word, kind in (("body", "shared"), ("head", "independent"))
}
fig_heads = figures.ratios(
    {"variance / posterior variance": figures.Ratios(series, (1 - TOLERATED, 1 + TOLERATED), "within a tenth", rules)},
    "load $NK / P$ (equations per hidden parameter)",
    r"Rule of thumb: one $\psi$ per body lowers the variance, one per head raises it",
)
figures.save(fig_heads, "fig_heads")

# %% tags=["figure"]
n, k = crowd_widths[0], max(crowd_heads)
fig_crowded = figures.covariances(
    cov,
    {
        rf"{k} heads, one $\psi$": shared[n, k][-1],
        rf"{k} heads, {k} $\psi$": independent[n, k][-1],
        f"{min(crowd_heads)} per body": shared[n, min(crowd_heads)][-1],
    },
    f"Covariance of the errors of {k} heads on a body of width {n}, against the posterior's",
)
figures.save(fig_crowded, "fig_crowded")

# %% [markdown]
# The first figure shows that ratio against the load $NK/P$, in equations per hidden parameter, with 95 % intervals over
# bodies. With a shared $\psi$ the variance falls to about 0.8 of the posterior's at a load of 0.3, and stays there. (To
# reach $\psi$ the network would have to move so far that it is no longer linear in its parameters. That is a likely
# reason for the floor.) The two widths have the same ratio at the same load, so the load matters, and not the number of
# heads. In the paper's experiment, with 10 points and 512 heads, the load is $1280/n$. At a width of 4096 it is 0.31,
# and by the rule the departure is below a tenth from a width of about 11,500 on. With one $\psi$ per head the departure
# is smaller, and at large loads it has the other sign. With one head per body it vanishes, at the price of one body per
# head; the few per cent left come from the finite width, or are sampling error. No row is further from the rule than
# about a tenth, as the rule promises.
#
# The second figure shows covariances between test points, in the posterior's standard deviations. With a shared $\psi$
# the whole covariance shrinks nearly in proportion, and its correlations are kept. So a user would notice nothing odd
# about the samples except that they stay close to their mean.
#
# ## Limits
#
# This is one data set, one pair of scales and one architecture; all are parameters. All verdicts but B-limit are about
# margins, since no finite width is exactly at its limit. The posterior is that of an infinitely wide network, with a
# kernel that is fixed before any label is seen. No check here says how good a model of the labels that is. The rule for
# heads was fitted at convergence. At loads far above 1, networks leave the regime of the theorems, and neither the rule
# nor the law describes them.
#
# ## Ledger

# %%
ledger.close()
