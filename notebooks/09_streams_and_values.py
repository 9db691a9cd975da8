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
# # Streams and values: what RND measures where the data move
#
# > **Claim.** Half the squared RND error is the variance of an ensemble after every stage of any stream of data, and of
# > an ensemble of value functions if the predictor is trained by temporal differences.\
# > **Picture.** The ratio of the two is 1 after every stage. For an ensemble that has missed a stage, it is not.\
# > **Verdict.** The margins are those of notebooks 01 and 02; the table at the end has the verdicts.
#
# An agent does not train on a fixed data set. Its buffer grows, slides and forgets, and what it wants to know is often
# the uncertainty of a *value*, not of a label. The paper leaves this open: its analysis has one training set, and it
# calls "distribution shifts" an important question (Appendix A). In the limit of width the answer is simple.
#
# | id | statement | in the paper |
# |---|---|---|
# | T1 | $\tfrac12\,\mathbb{E}[\epsilon^2] = \mathbb{V}[f]$ after every stage of a stream | Theorem 3.1, each stage |
# | T2 | half the mean squared error of $K$ heads is then $\Sigma/K$ times $\chi^2_K$ | Theorem 3.4, likewise |
# | T3 | Bayesian RND has the posterior given all points after nested stages | Theorem 4.2, likewise |
# | T3-window | with a sliding window it has not; the theory says how much is remembered | the same map |
# | V1 | half the squared error of value RND is the variance of value functions | Theorem 3.1, for TD learning |
#
# ## Why it is true: training is a linear map
#
# Take one stage, with points $S$, from *any* weights. In the limit of width the tangent kernel $\Theta$ is fixed, so
# gradient flow to the end changes an error $e = f - y$ (of RND, $e = u - g$) at every $z$ by
#
# $$e(z) \;\leftarrow\; e(z) - \Theta_{zS}\,\Theta_{SS}^{-1}\,e(S). \tag{1}$$
#
# Eq. 6 of the paper is this map with the weights at their start, but the derivation never uses that: $\Theta$ is the
# same at all times. (Stopped at time $t$, $\Theta_{SS}^{-1}$ becomes $\Theta_{SS}^{-1}(I - e^{-t\,\Theta_{SS}})$.) Let
# $\mathcal{U}$ be the union of the points of all stages. After the stages $S_1, \dots, S_k$, with $L_s$ the matrix of
# (1) on $\mathcal{U}$ and the test points,
#
# $$e_k = L_k \cdots L_2\,L_1\,e_0 .$$
#
# The product depends on the points, their order and the training times, and on nothing else. It is the same for a
# predictor and for a member of an ensemble. Labels add to the mean alone. So an ensemble has the covariance
# $L\kappa L^\top$, RND has $2\,L\kappa L^\top$, and the half of Corollary 3.2 remains, stage after stage. Bayesian RND
# starts with $\Theta$ in place of $\kappa$, and has $L\,\Theta L^\top$. `laws.stream` multiplies these matrices, and
# `partial_fit` trains networks in the same order.

# %% tags=["parameters", "hide-input"] jupyter={"source_hidden": true}
width: int = 2048  # units in the hidden layer
networks: int = 320  # networks of each kind in T1, each with weights of its own
untrained: int = 512  # further networks of 32 heads of each kind, for the control variates
n_points: int = 6  # test points
chi_networks: int = 2048  # networks of two heads in T2
bayesian_networks: int = 384  # networks of 16 heads in T3
value_networks: int = 512  # networks of each kind in V1
gamma: float = 0.7  # discount factor of V1
data_seed: int = 2  # seed of the points
seed: int = 0  # seed of the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
sigma_w: float = 1.5  # scale of the weights
sigma_b: float = 0.5  # scale of the biases
rtol: float = 0.03  # relative error allowed to each trained function in each stage

# %% tags=["hide-input"] jupyter={"source_hidden": true}
import warnings
from math import inf

import numpy as np

from rndlib import MLP, RND, BayesianRND, DeepEnsemble, DepartureWarning, GradientFlow, datasets, kernels, laws
from rndlib.paper import figures, parameters
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.paper.evidence.control_variates import Sample, joined
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.evidence.statistics import distance_to_law, over_points, to_law
from rndlib.paper.evidence.tables import aligned
from rndlib.theory.dynamics import carried, fixed_point, gain

parameters.check(globals())
warnings.simplefilter("ignore", DepartureWarning)  # of the first stage

data = datasets.toy(data_seed, n_train=10, n_test=n_points)
X, y, points = data.X, data.y, data.X_test
net = MLP(3, width=width, activation=activation, sigma_w=sigma_w, sigma_b=sigma_b)
ledger = Ledger("09_streams_and_values")

# %% [markdown]
# ## T1: the equality after every stage
#
# The points are the ten of the toy problem, in three streams of three stages: *growing*, as a buffer that keeps all;
# *sliding*, a window that forgets; and *batches*, one after the other. Every stage is trained to the end, from the
# weights of the one before. The predictor's target never changes; the ensemble is trained on $y$.

# %%
growing = [range(4), range(7), range(10)]
sliding = [range(4), range(3, 7), range(6, 10)]
batches = [range(4), range(4, 8), [8, 9, 0, 1]]
streams = {"growing": growing, "sliding": sliding, "batches": batches}


def stages(rows):
    """What `laws` calls a stream."""
    return [laws.Stage(X[list(own)], y[list(own)]) for own in rows]


# %% [markdown]
# The Monte-Carlo error is reduced by the control variates of notebook 01: for each network, (1) with the kernel of
# infinite width is applied to its own initial function, stage by stage, and likewise to the heads of networks that are
# never trained. A stage is two lines:

# %%
places = np.vstack([X, points])
theta = kernels.kernel(net, places).ntk


def stage_of(starts, own, labels):
    """Eq. 1, for functions (..., points) at X and the test points."""
    G = gain(theta[np.ix_(own, own)], theta[own], inf, None)
    return [carried(G, start[..., own] - labels, start) for start in starts]


def before(model, at):
    """Functions, or errors of RND, before training: of the model's networks, and of the heads of further networks."""
    rnd, apart = isinstance(model, RND), seed + 10**6
    further = RND(net, 32, untrained, seed=apart) if rnd else DeepEnsemble(net, untrained, seed=apart)
    own = np.subtract(*model.initial(at)) if rnd else model.initial(at)
    others = np.subtract(*further.initial(at)) if rnd else further.initial(at, heads=32)
    return [own, others.reshape(untrained, 32, -1)]


def streamed(kind, rows, labels):
    """A sample of networks, with control variates, at the test points after each stage."""
    rnd, size = kind is RND, {"bodies": networks, "heads": 1} if kind is RND else {"members": networks}
    model = kind(net, **size, seed=seed, solver=GradientFlow(rtol=rtol))
    starts, samples = before(model, places), []
    for some in map(list, rows):
        model.partial_fit(X[some], labels[some])
        starts = stage_of(starts, some, 0 if rnd else labels[some])
        values = model.errors(points) if rnd else model.functions(points)
        samples.append(Sample(values, *(start[..., 10:] for start in starts)))
    return samples


# %%
errors = {name: streamed(RND, rows, y) for name, rows in streams.items()}
functions = {name: streamed(DeepEnsemble, rows, y) for name, rows in streams.items()}
last_only = {name: [streamed(DeepEnsemble, [own], y)[0] for own in rows] for name, rows in streams.items()}
without_first = {name: [*functions[name][:1], *streamed(DeepEnsemble, rows[1:], y)] for name, rows in streams.items()}


def everywhere(samples):
    """After all stages of all streams, one after the other."""
    return joined([sample for each in samples.values() for sample in each])


ratio, *wrong = (over_points(everywhere(errors), everywhere(of)) for of in (functions, last_only, without_first))
_ = ledger.record("T1", ratio, *wrong)
ledger.last(1)

# %% tags=["figure", "hide-input"] jupyter={"source_hidden": true}
margin = CLAIMS["T1"].tolerance
fig_t1 = figures.ratios(
    {
        "half the squared error / variance": figures.Ratios(
            {"the same stream": ratio.ratios, "wrong: only the last stage": wrong[0].ratios},
            tuple(np.exp([-margin, margin])),
        )
    },
    f"{n_points} test points after each of three stages: growing, sliding, batches",
    r"After every stage, $\frac{1}{2}\,\mathbb{E}[\epsilon^2(x)] = \mathbb{V}[f(x)]$",
    xscale="linear",
)
figures.save(fig_t1, "fig_t1")

# %% [markdown]
# The ratio at each test point after each stage, with a band at a joint level of 95 %. RND has the variance of the
# ensemble that has seen the same stream, and not that of one that has seen the last stage alone.
#
# The statistic is that of E3 in notebook 01, over all stages, streams and test points at once, with its margin.
#
# ## T2: K heads after a stream
#
# All heads go through the same map, and in the limit their errors are independent. So Theorem 3.4 needs no change: half
# the mean squared error of $K$ heads is $\Sigma/K$ times $\chi^2_K$, with the $\Sigma$ of the stream. Two heads are
# linearised at the start of each network, so that they are independent at this width, and trained on the sliding
# window. The statistic is that of M2 in notebook 02.

# %%
law = laws.stream(net, stages(sliding), points)
fewer = laws.stream(net, stages(sliding[1:]), points)
model = RND(net, heads=2, bodies=chi_networks, linearised=True, seed=seed)
for own in sliding:
    model.partial_fit(X[own])
halves = np.mean(model.errors(points).reshape(chi_networks, 2, n_points) ** 2, axis=1) / 2
expected = laws.mean_square(law.var, 2), laws.mean_square(law.var, 1), laws.mean_square(fewer.var, 2)
_ = ledger.record("T2", *(distance_to_law(halves, each) for each in expected))
ledger.last(1)

# %% [markdown]
# ## T3: a posterior, if nothing is forgotten
#
# Bayesian RND starts with $\Theta$, so one stage to the end is the projection that conditions on $S$. If each stage
# contains the one before, the last projection contains all others, $L_k \cdots L_1 = L_k$, and the errors are draws
# from the posterior given all points. With a window that slides, a later stage moves the function at the points that
# have left it, and the product is no projection:
#
# $$L\,\Theta L^\top \ne
# \Theta - \Theta_{\cdot\,\mathcal{U}}\Theta_{\mathcal{U}\mathcal{U}}^{-1}\Theta_{\mathcal{U}\,\cdot}.$$
#
# **T3** compares the squared errors after the growing stream with the posterior of all ten points. The wrong variant is
# the sliding stream, which has seen the same points. **T3-window** compares the errors *at the forgotten points* with
# `laws.stream`; the wrong variant is the posterior of the last window alone, as if all else were lost.

# %%
forgotten = X[:6]


def squares(rows, at):
    """Mean squared errors of each network, (networks, points)."""
    model = BayesianRND(net, heads=16, bodies=bayesian_networks, linearised=True, seed=seed)
    for own in rows:
        model.partial_fit(X[own])
    return np.mean(model.errors(at).reshape(bayesian_networks, 16, len(at)) ** 2, axis=1)


posterior = laws.posterior(net, X, y, points).var
nine = laws.posterior(net, X[:-1], y[:-1], points).var
_ = ledger.record(
    "T3", to_law(squares(growing, points), posterior), to_law(squares(sliding, points), posterior),
    to_law(squares(growing, points), nine),
)  # fmt: skip
left = squares(sliding, forgotten)
memory = laws.stream(net, stages(sliding), forgotten, "bayesian_rnd").var
alone = laws.posterior(net, X[6:], y[6:], forgotten).var
without = laws.stream(net, stages([sliding[0], sliding[2]]), forgotten, "bayesian_rnd").var
_ = ledger.record("T3-window", *(to_law(left, variance) for variance in (memory, alone, without)))
ledger.last(2)

# %%
prior = kernels.diagonal(net, forgotten).ntk
rows = zip(*(np.asarray(v) / prior for v in (left.mean(axis=0), memory, alone)), strict=True)
head = ["forgotten point", "networks", "theory", "as if never seen"]
print(aligned(head, [[str(k), *(f"{v:.3f}" for v in row)] for k, row in enumerate(rows)]))

# %% [markdown]
# The share of the prior variance that is left at the points that have left the window. Zero is full memory; the last
# column is none. A bonus that is trained on the newest data alone keeps a part of what it knew, and the theory says
# which.
#
# ## V1: the uncertainty of a value
#
# A transition leads from $x$ to $x'$ with a reward $r$. A value function should satisfy $f(x) = r + \gamma f(x')$, and
# semi-gradient training moves $f(x)$ alone. With the temporal difference
# $\delta = f(\mathcal{X}) - \gamma f(\mathcal{X}') - r$,
#
# $$\dot f(z) = -\Theta_{z\mathcal{X}}\,\delta, \qquad \dot\delta = -A\,\delta, \qquad
# A = \Theta_{\mathcal{X}\mathcal{X}} - \gamma\,\Theta_{\mathcal{X}'\mathcal{X}}, \qquad
# f_\infty(z) = f_0(z) - \Theta_{z\mathcal{X}}\,A^{-1}\delta_0 .$$
#
# $A$ is not symmetric. Training ends there if all eigenvalues of $A$ have positive real parts; otherwise it diverges,
# and `laws` says so. Now train a predictor on the rewards $g(x) - \gamma g(x')$ of a random target $g$. The fixed point
# of these rewards is $g$ itself, and for $\epsilon = u - g$ we have
# $\delta = \epsilon(\mathcal{X}) - \gamma\,\epsilon(\mathcal{X}')$: the same linear map of the error at the start. So
# half the squared error is the variance of an ensemble of value functions, whatever its rewards. (Universal
# value-function uncertainties, arXiv 2505.21119, use such targets.)
#
# Plain RND measures something else: its error is zero at every visited state. The value there is uncertain as long as
# the states that follow are. Networks are linearised at their start and trained to the fixed point; the statistic is
# that of T1, at the visited states and at the test points. The wrong variant is plain RND on the same states, at the
# test points; the sensitivity check has a tenth less discount for the predictor. Each state leads towards the next one,
# shrunk by 0.6.

# %%
states, following = X[:8], 0.6 * X[1:9]
at = np.vstack([states[:3], points])
A = kernels.kernel(net, states).ntk - gamma * kernels.kernel(net, following, states).ntk
print("smallest real part of an eigenvalue:", f"{np.linalg.eigvals(A).real.min():.2g}")


def valued(kind, gamma, rewards):
    """A sample of values, or of errors of value RND, with control variates: the map above."""
    rnd, size = kind is RND, {"bodies": value_networks, "heads": 1} if kind is RND else {"members": value_networks}
    model = kind(net, gamma=gamma, linearised=True, seed=seed, **size).fit(states, rewards, X_next=following)
    to = kernels.kernel(net, states, np.vstack([following, at])).ntk
    G = fixed_point(kernels.kernel(net, states).ntk - gamma * to[:, :8].T, to[:, 8:], gamma)
    starts = before(model, np.vstack([states, following, at]))
    deltas = [start[..., :8] - gamma * start[..., 8:16] - (0 if rnd else rewards) for start in starts]
    ends = [carried(G, delta, start[..., 16:]) for delta, start in zip(deltas, starts, strict=True)]
    return Sample(model.errors(at) if rnd else model.functions(at), *ends)


value_errors, value_functions = valued(RND, gamma, None), valued(DeepEnsemble, gamma, y[:8])
plain, smaller = valued(RND, 0.0, None), valued(RND, 0.9 * gamma, None)
value_ratio = over_points(value_errors, value_functions)
wrong_plain = over_points(plain.at(slice(3, None)), value_functions.at(slice(3, None)))
_ = ledger.record("V1", value_ratio, wrong_plain, over_points(smaller, value_functions))
ledger.last(1)

# %% tags=["figure", "hide-input"] jupyter={"source_hidden": true}
fig_v1 = figures.ratios(
    {
        "half the squared error / variance of values": figures.Ratios(
            {"value RND": value_ratio.ratios}, tuple(np.exp([-margin, margin]))
        )
    },
    "three visited states, then test points",
    r"Value RND: $\frac{1}{2}\,\mathbb{E}[\epsilon^2(x)]$ is the variance of value functions",
    xscale="linear",
)
figures.save(fig_v1, "fig_v1")

# %%
theirs = laws.value_ensemble(net, states, following, y[:8], gamma, at).var
none = laws.rnd_error(net, states, at).var / 2
columns = zip(theirs, np.mean(value_errors.values**2, axis=0) / 2, none, strict=True)
kinds = ["visited"] * 3 + ["test"] * n_points
head = ["state", "variance of values", "value RND", "plain RND (theory)"]
print(aligned(head, [[kind, *(f"{v:.2f}" for v in row)] for kind, row in zip(kinds, columns, strict=True)]))
zero = laws.value_rnd_error(net, states, following, 0.0, at).var - laws.rnd_error(net, states, at).var
print("gamma = 0, largest difference from Theorem 3.1:", f"{np.abs(zero).max():.0e}")

# %% [markdown]
# Variances in squared units of the value. At visited states plain RND reports none, and the value's variance is not
# zero. At $\gamma = 0$ the formula is that of notebook 01, up to rounding.
#
# ## Where it breaks
#
# The map needs a fixed kernel and plain gradients. Adam rescales each parameter's gradient. With a fixed
# preconditioner $P$ the kernel would be $J P J^\top$, the same for predictor and member, and the equality would remain;
# but Adam's $P$ depends on the gradients of each network, so it differs between the two. Measured on drifting data at
# width 128, half the squared error under Adam is 1.2 to 1.7 times the variance, and with all heads on one network 2.5
# times. Moving normalisation changes the inputs of both functions between stages, for which (1) has no term.
#
# ## Limits
#
# The limits of notebook 00 apply. In T2, T3 and V1 networks are linearised at their start, so these test the map and
# the width of the kernel, not feature learning. No stage is noisy.
#
# ## All verdicts

# %%
ledger.close()
