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
# # In practice: real data, and the packages one would otherwise use
#
# > **Claim.** No statement of the paper is judged here. On real data, Bayesian RND is compared with the exact NTK-GP
# > posterior and with the packages one would otherwise use.\
# > **Picture.** One row per contender: its score minus that of Bayesian RND on the same splits, with a 95 % interval.\
# > **Verdict.** On a few hundred points the exact posterior does as well and costs less. The table at the end says what
# > to use when.
#
# The other notebooks show that the paper's statements hold. This one asks what they are good for. It needs only this
# from the others:
#
# * A **posterior** says, for every input, which outputs are still plausible given the training data: as a mean and a
#   standard deviation, or as whole functions to draw.
# * The **NTK-GP** is a Gaussian process whose prior is an infinitely wide network with random weights. Its posterior
#   has a formula. The formula needs a matrix with one row and one column per training point, and its time grows with
#   the cube of their number.
# * **Bayesian RND** is a network with $K$ outputs, the heads, trained by ordinary means. If the network is wide, each
#   head's error is a draw from that posterior, minus its mean. So the mean square of $K$ errors estimates the variance.
# * **RND** (random network distillation) is the older method that Bayesian RND changes. Its error says how different an
#   input is from the training inputs.
#
# Three tasks follow, on data that comes with scikit-learn: predict a number with an error bar, detect inputs unlike the
# training inputs, and decide where to look next. All intervals are at 95 %, and each is for one comparison, so on
# average one in twenty misses.

# %% tags=["parameters"]
splits: int = 5  # random splits of each data set into training and test points
test_fraction: float = 0.2  # fraction of the patients held out in each split
width: int = 256  # units in the hidden layer of the networks
heads: int = 32  # heads of Bayesian RND and RND, K
members: int = 5  # networks of an ensemble
epochs: int = 120  # most passes over the data in training by minibatches
n_images: int = 200  # training images
n_test_images: int = 50  # test images of each kind
held_out: int = 3  # classes of digits without training images
bandit_seeds: int = 16  # repeats of the search in the last section
rounds: int = 4  # rounds of each search
queries: int = 5  # queries in a round
seed: int = 0  # seed of the splits and the networks
activation: str = "silu"  # silu, relu, erf, gelu or tanh
depth: int = 2  # affine layers: 2 is one hidden layer
scales: list[float] = [0.35, 0.5, 0.7, 1.0, 1.4, 2.0]  # scales of the weights to choose among
rtol: float = 0.1  # relative error allowed to what gradient flow trains

# %%
import warnings
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from rndlib import MLP, BayesianRND, DeepEnsemble, GradientFlow, HeadsWarning, figures
from rndlib.evidence.estimate import Estimate
from rndlib.evidence.ledger import Ledger
from rndlib.evidence.statistics import t_interval
from rndlib.evidence.tables import aligned
from rndlib.practice import choose, data, detectors, regressors, scores, task, thompson

warnings.simplefilter("ignore", HeadsWarning)  # The heads are many for the width; what that does is measured below.
sizes = task.Sizes(heads=heads, members=members, rtol=rtol, epochs=epochs)
ours = "Bayesian RND"
each = range(seed, seed + splits)

# %% [markdown]
# ## Regression: the progression of a disease
#
# scikit-learn's diabetes data has 442 patients with ten measurements each, and a number for the progression of the
# disease one year later. A fifth of the patients are held out at random, several times. Inputs and labels are centred
# and scaled by the training patients, so errors are in standard deviations of the label.
#
# **Hyperparameters.** The scale of the weights $\sigma_w$ and the standard deviation of the noise are those that make
# the training labels most probable, by the exact *evidence* of the NTK-GP. This takes well below a second and needs no
# held-out points. It is done anew for each split:

# %%
patients = [data.diabetes(number, test_fraction) for number in each]
chosen = [choose.by_evidence(MLP(10, width, depth, activation), at.X, at.y, scales) for at in patients]
rows = [[str(number), f"{net.sigma_w:g}", f"{noise:.2f}"] for number, (net, noise) in zip(each, chosen, strict=True)]
print(aligned(["split", "sigma_w", "noise"], rows))

# %% [markdown]
# The noise is large: the ten measurements leave most of the variation between patients unexplained. This decides much
# of what follows, since every sensible contender has to give nearly the same error bars.
#
# **Contenders**, each with a few lines in `rndlib/practice/regressors.py`. From rndlib, with these hyperparameters:
#
# * the exact NTK-GP;
# * Bayesian RND, trained to convergence by the library's default solver, which works with a matrix of all pairs of
#   points;
# * Bayesian RND, trained by Adam in *minibatches*, which needs no such matrix;
# * a *Bayesian ensemble*, each of whose networks is a draw from the same posterior;
# * a *deep ensemble* of plain networks, stopped early.
#
# From scikit-learn, `GaussianProcessRegressor` with the usual squared-exponential kernel, and `BayesianRidge`, a linear
# model. And laplace-torch, which adds error bars to one PyTorch network. These last three find their own
# hyperparameters, also by evidence.
#
# **Scores** are means over the test patients. The *negative log likelihood* (NLL) says how improbable the label was
# under the prediction, error bar included. The *continuous ranked probability score* (CRPS) extends the mean absolute
# error to predictions with error bars. Lower is better for both. Of the 90 % intervals, 90 % should hold the label
# (*coverage*), and narrower ones say more.
#
# **Intervals.** The unit is a split. Splits share patients, so the usual interval would be far too narrow; these
# intervals have the correction of Nadeau and Bengio (2003).

# %%
tasks = [
    task.Task(at.X, at.y, at.X_test, *choice, sizes, number)
    for number, at, choice in zip(each, patients, chosen, strict=True)
]
regression, seconds = task.run(regressors.REGRESSORS, tasks)


def scored_splits(predictions):
    """Every score of a contender on each split, (splits,) each."""
    rows = [scores.of_predictions(at.y_test, p.mean, p.std) for at, p in zip(patients, predictions, strict=True)]
    return {score: np.array([row[score] for row in rows]) for score in rows[0]}


def over_patients(values):
    """The mean over splits of the patients, with its interval."""
    return scores.over_splits(values, len(patients[0].y), len(patients[0].y_test))


scored = {name: scored_splits(predictions) for name, predictions in regression.items()}


head = ["contender", "NLL (nats)", "CRPS", "coverage of 90 %", "width of interval", "RMSE"]
rows = [[name, *(over_patients(values).rounded() for values in of.values())] for name, of in scored.items()]
print(aligned(head, rows))

# %% [markdown]
# The intervals of this table overlap, since a split with difficult patients is difficult for every contender. The
# difference on the same split tells more. The next cells take each contender's score minus that of Bayesian RND:

# %% tags=["figure"]
others = [name for name in scored if name != ours]
differences = {
    f"{score} minus that of {ours}": {name: over_patients(scored[name][score] - scored[ours][score]) for name in others}
    for score in ("NLL", "CRPS")
}
apart = [name for name in others if any(not of[name].low <= 0 <= of[name].high for of in differences.values())]
title = f"{len(apart)} of {len(others)} contenders differ from {ours} by more than chance in a score"
line = {"no difference; to the left the contender is better": 0.0}
figures.save(figures.intervals(differences, title, line), "fig_regression")

# %% [markdown]
# Differences in NLL (nats) and CRPS (standard deviations of the label), with 95 % intervals over splits. To the left of
# the line a contender is better than Bayesian RND. All differences are small.

# %%
rows = [[name, *(of[name].rounded(3) for of in differences.values())] for name in others]
print(aligned(["contender minus Bayesian RND", "NLL", "CRPS"], rows))
print("differences whose interval leaves out 0:", ", ".join(apart) or "none")

# %% [markdown]
# Bayesian RND and the exact NTK-GP should agree, since one estimates the other. A finite network would show in the
# variance. The cell below takes the variance of the function, without the noise, over that of the exact posterior, and
# averages over test patients. Its standard deviation over patients comes from the finite number of heads: for
# independent draws it is $\sqrt{2/K}$.

# %%
ratios = []
for asked, mine, exact in zip(tasks, regression[ours], regression["exact NTK-GP"], strict=True):
    ratios.append((mine.std**2 - asked.noise_std**2) / (exact.std**2 - asked.noise_std**2))
print(f"variance over the exact one: {over_patients([of.mean() for of in ratios]).rounded()}")
scatter = np.mean([of.std() for of in ratios])
print(f"its standard deviation over patients: {scatter:.2f}; sqrt(2/K): {(2 / heads) ** 0.5:.2f}")

# %% tags=["figure"]
half = norm.ppf(0.95)
panels = {
    name: (regression[name][0].mean, half * regression[name][0].std) for name in (ours, "exact NTK-GP", "BayesianRidge")
}
covered = ", ".join(f"{100 * scored[name]['coverage'][0]:.0f} %" for name in panels)
title = f"Intervals at 90 % hold {covered} of the labels"
figures.save(figures.predictions(panels, patients[0].y_test, title), "fig_predictions")

# %% [markdown]
# The patients of the first split, in standard deviations of the label: what was observed against what was predicted,
# with 90 % intervals. Nine in ten patients should be inside theirs. The intervals have nearly one length everywhere,
# which is the noise.
#
# ### What it costs
#
# The table has the seconds to fit and to predict on the machine that ran this notebook, one contender after another
# (the median over splits), and the number of fitted parameters. The figure shows the seconds against the NLL. Seconds
# differ between machines; their order hardly does.

# %% tags=["nbval-ignore-output"]
rows = [[name, f"{seconds[name]:.2g}", f"{results[0].parameters}"] for name, results in regression.items()]
print(aligned(["contender", "seconds", "parameters"], rows))

# %% tags=["figure"]
score, cost = "NLL (nats), lower is better", "seconds to fit and predict"
panels = {
    score: {name: over_patients(of["NLL"]) for name, of in scored.items()},
    cost: {name: Estimate(at, at, at) for name, at in seconds.items()},
}
nlls, times = ([at.value for at in of.values()] for of in panels.values())
title = (
    f"The NLLs are within {max(nlls) - min(nlls):.2f} nats; costs differ by a factor of {max(times) / min(times):.0f}"
)
figures.save(figures.intervals(panels, title, logarithmic=[cost]), "fig_costs")

# %% [markdown]
# NLL in nats, with 95 % intervals over splits, against the seconds to fit and predict.
#
# **All predict nearly equally well. The cost differs, and there Bayesian RND loses.** No difference in NLL is above
# 0.02 nats; among so many intervals at 95 %, one that just excludes 0 is to be expected. With a few hundred points the
# exact posterior takes a fraction of a second and has no Monte-Carlo error. A linear model with error bars is cheaper
# still. The row of minibatches speaks for networks: its quality is that of the exact posterior, and neither its memory
# nor its time for one pass over the data grows faster than the number of points.
#
# ## Inputs unlike the training inputs
#
# The second task has no labels to predict. The training images are handwritten digits of some classes only. For a new
# image, say whether it is of the same kind. Two kinds of image are not: digits of the held-out classes, which is hard,
# and patches of the two photographs that come with scikit-learn, grey and as bright as digits can be, which should be
# easy. Each split draws three classes to hold out, and training and test images from the others.

# %%
shifts = [data.digits(number, n_images, n_test_images, held_out) for number in each]
kinds = dict.fromkeys(shifts[0].outside, n_test_images)

# %% tags=["figure"]
first = {"trained on": shifts[0].X, **shifts[0].outside}
shown = {name: found[:10] + shifts[0].centre for name, found in first.items()}
title = "Inside are the classes trained on; outside, other digits and patches of photographs"
figures.save(figures.images(shown, title), "fig_images")

# %% [markdown]
# Ten images of each kind: training images, digits of held-out classes, and patches of photographs.
#
# A contender gives each image a score that should be higher for images from outside. The **AUROC** is the probability
# that an image from outside has a higher score than one from inside: 0.5 is guessing, 1 is perfect. The scores are
#
# * the posterior variance, of Bayesian RND, the exact NTK-GP, the Bayesian ensemble and `GaussianProcessRegressor`;
# * the error of RND, once as in the theorems (predictor and target alike, trained to convergence), and once as in
#   agents (PyTorch's initial weights, a predictor deeper than its target, Adam);
# * the disagreement of a deep ensemble of plain networks, stopped early;
# * the entropy of a classifier's prediction: an ensemble of scikit-learn's `MLPClassifier`, and laplace-torch;
# * the distance to the nearest training image, which needs no training.
#
# Only the classifiers are told which digit an image shows. Contenders that need a number as a label are told whether
# the digit is odd. The evidence that chooses $\sigma_w$ and the noise uses these labels, too.

# %%
net = MLP(64, width, depth, activation)
searches = []
for number, at in zip(each, shifts, strict=True):
    choice = choose.by_evidence(net, at.X, detectors.odd(at.digits), scales)
    points = np.concatenate([at.inside, *at.outside.values()])
    searches.append(task.Task(at.X, at.digits.astype(float), points, *choice, sizes, number))
detection, seconds = task.run(detectors.DETECTORS, searches)


def by_kind(values):
    """AUROC of each kind from outside, on each split, from the values of all points on each split."""
    rows = [scores.aurocs(of_split, n_test_images, kinds) for of_split in values]
    return {kind: np.array([row[kind] for row in rows]) for kind in kinds}


def over_images(values):
    """The mean over splits of the images, with its interval."""
    return scores.over_splits(values, n_images, n_test_images)


def area(values):
    """The same of AUROCs, none of which is above 1."""
    return over_images(values).within(0, 1)


areas = {name: by_kind([result.values for result in results]) for name, results in detection.items()}
rows = [[name, *(area(of[kind]).rounded() for kind in kinds)] for name, of in areas.items()]
print(aligned(["AUROC", *kinds], rows))

# %% tags=["figure"]
panels = {f"AUROC, {kind}": {name: area(of[kind]) for name, of in areas.items()} for kind in kinds}
best = {kind: max(areas, key=lambda name: areas[name][kind].mean()) for kind in kinds}
title = "Highest AUROC: " + "; ".join(f"on {kind} {name}" for kind, name in best.items())
figures.save(figures.intervals(panels, title, {"guessing": 0.5}), "fig_detection")

# %% [markdown]
# AUROC of each contender for both kinds of image, with 95 % intervals over splits; the line is guessing. Again the
# difference from Bayesian RND on the same splits tells more. Above 0 the contender is better:


# %%
rows = [
    [name, *(over_images(of[kind] - areas[ours][kind]).rounded() for kind in kinds)]
    for name, of in areas.items()
    if name != ours
]
print(aligned(["AUROC minus that of Bayesian RND", *kinds], rows))

# %% [markdown]
# **Where Bayesian RND loses, and why.** The exact posteriors and the nearest neighbour are better on the held-out
# digits, and their intervals exclude 0. Bayesian RND estimates the exact posterior's variance from $K$ squared errors.
# From image to image this estimate scatters by a factor of $1 \pm \sqrt{2/K}$, which mixes up images whose variances
# are close. The variance over a handful of networks scatters more, and both ensembles of regressors are worse. The
# remedy is more heads. How many? The scores of the first few heads of the same fits show it:

# %% tags=["figure"]
counts = [2**power for power in range(heads.bit_length()) if 2**power <= heads]
by_heads = [by_kind([np.mean(result.errors[:count] ** 2, axis=0) for result in detection[ours]]) for count in counts]
found = {kind: tuple(np.array([area(of[kind]) for of in by_heads]).T) for kind in kinds}
limits = {f"{kind}, exact": areas["exact NTK-GP"][kind].mean() for kind in kinds}
ends = ", ".join(f"{found[kind][0][-1]:.2f} of {areas['exact NTK-GP'][kind].mean():.2f} on {kind}" for kind in kinds)
title = f"With {counts[-1]} heads the AUROC comes to {ends}"
figures.save(
    figures.against_size(counts, found, "heads, $K$", "AUROC", title, levels=limits, yscale="linear"), "fig_heads"
)

# %% [markdown]
# AUROC against the number of heads, with 95 % intervals over splits. The thin lines are the exact posterior, the limit
# of infinitely many heads. The costs, as before:

# %% tags=["nbval-ignore-output"]
rows = [[name, f"{seconds[name]:.2g}", f"{results[0].parameters}"] for name, results in detection.items()]
print(aligned(["contender", "seconds", "parameters"], rows))

# %% [markdown]
# The distance to the nearest training image costs nothing. It is hard to beat on images this small, where a pixel means
# the same in every image. A kernel is built on such distances, so the exact posteriors come close. Scores that come
# from labels see less, since they ignore what does not help to tell the known classes apart.
#
# ## Decisions: where to look next
#
# The third task uses whole functions. To find the maximum of an unknown function in few queries, *Thompson sampling*
# draws a function from the posterior, queries the point where it is largest, adds the observation to the training data,
# and repeats. Where little is known the draws differ, and it explores. Where the posterior is sure, it exploits. Each
# round draws one function per query.
#
# The function is Branin's, a test function of two inputs with three equal maxima, on 256 candidates, observed with
# noise. The *regret* of a query is how far its value is below the maximum, in standard deviations of the function over
# the candidates. Functions come from the exact NTK-GP, from Bayesian RND by `sample_y`, from deep ensembles trained for
# a finite time, and, as a control, from uniform chance. The noise level is known to all.

# %%
bandit = thompson.branin()
net = MLP(2, width, depth, activation)
flow = GradientFlow(rtol=rtol)
noise = bandit.noise_std
samplers = {
    "exact NTK-GP": thompson.exact(net, noise),
    "Bayesian RND": thompson.fitted(BayesianRND(net, heads=1, bodies=queries, noise_std=noise, solver=flow)),
    # As long as the noise lets directions of the kernel be learned: 1 / noise_std^2.
    "deep ensemble": thompson.fitted(DeepEnsemble(net, queries, solver=replace(flow, time=1 / noise**2))),
    "control: at random": thompson.uniform,
}
regrets = thompson.study(samplers, bandit, bandit_seeds, rounds, queries, seed=seed)


def over_seeds(values):
    """The mean over independent seeds, with Student's interval."""
    return t_interval(values, 0.95, sides=2)


rows = [
    [name, over_seeds(of.sum(axis=1)).rounded(1), over_seeds(of.min(axis=1)).rounded()] for name, of in regrets.items()
]
print(aligned(["functions from", "regret, all queries", "regret of the best query"], rows))

# %% tags=["figure"]
share = regrets[ours].sum(axis=1).mean() / regrets["control: at random"].sum(axis=1).mean()
title = f"{ours} has {share:.2f} of the cumulative regret of chance"
figures.save(figures.regret_against_queries(regrets, title, "sd of the function"), "fig_regret")

# %% [markdown]
# Regret against the number of queries, in standard deviations of the function: left its sum so far, right the smallest
# so far. Bars are 95 % intervals over seeds. Seeds are independent here, so these intervals are Student's. Functions
# drawn from a posterior lead to about half the regret of chance, and Bayesian RND does as well as the exact draws
# that it replaces. Plain ensembles do no worse on this problem. But where only the best query counts, **chance wins**:
# queries spread over all candidates come nearer to one of the three maxima than queries that soon gather around one.
# Thompson sampling is for problems in which every query has a cost.
#
# ## What to use when
#
# The numbers in this table are computed above, from small data sets. Take it as a starting point.


# %%
def best_of(kind):
    """The contender of highest AUROC, and its AUROC."""
    return f"{best[kind]} {areas[best[kind]][kind].mean():.2f}"


def nll(name):
    """The mean NLL."""
    return f"{scored[name]['NLL'].mean():.2f}"


def held(name):
    """AUROC of the digits held out."""
    return f"{areas[name]['held-out digits'].mean():.2f}"


def regret(of):
    """Mean regret of exact draws, Bayesian RND and chance: of all queries, or of the best one."""
    exact, rnd, chance = (of(regrets[name], axis=1).mean() for name in ("exact NTK-GP", ours, "control: at random"))
    return f"regret {exact:.2g} exact, {rnd:.2g} Bayesian RND, {chance:.2g} chance"


rows = [
    [
        "error bars, up to a few thousand points",
        "an exact GP, and a linear model beside it",
        f"NLL {nll('exact NTK-GP')} exact, {nll(ours)} Bayesian RND, {nll('BayesianRidge')} linear",
    ],
    [
        "error bars, too many points for an N x N matrix",
        "Bayesian RND in minibatches, or a deep ensemble",
        f"NLL {nll(ours + ', minibatches')}, and {nll('deep ensemble, stopped early')}; exact {nll('exact NTK-GP')}",
    ],
    [
        "error bars for an existing PyTorch network",
        "laplace-torch",
        f"NLL {nll('laplace-torch')}; exact NTK-GP {nll('exact NTK-GP')}",
    ],
    [
        "detecting unlike inputs, few and aligned",
        "distances and exact GPs first",
        f"AUROC {best_of('held-out digits')}, {ours} {held(ours)}",
    ],
    [
        "detecting unlike inputs, many, without labels",
        "RND with many heads",
        f"AUROC {held('RND')} RND, {held(ours)} Bayesian RND, {held('RND as agents have it')} as agents have it",
    ],
    [
        "detecting unlike inputs, with a classifier at hand",
        "not its entropy alone",
        f"AUROC {held('ensemble of MLPClassifier')} ensemble, {held('laplace-torch')} laplace-torch",
    ],
    [
        "decisions that each have a cost",
        "exact draws, or sample_y where they are too slow",
        regret(np.sum),
    ],
    [
        "one good candidate, at any cost on the way",
        "something that explores more",
        regret(np.min),
    ],
]
print(aligned(["you want", "use", "because, above"], rows))
Ledger().write()  # No claim of the paper is judged here.

# %% [markdown]
# **Limits.** There are two data sets with a few hundred training points each, networks with one hidden layer, one
# choice of sizes for every contender, and no tuning beyond the evidence. None of this shows how the contenders compare
# on large data, where an exact posterior is out of reach and Bayesian RND is meant to be used. It shows only that
# minibatches do no harm at this size. On large data the hyperparameters, too, would come from the evidence of a part of
# the data. The scores of the early-stopped ensemble depend on when it is stopped. AUROC depends on the held-out
# classes, which the splits average over. Its correction for shared images was derived for regression errors, and is
# assumed to hold here.
