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
# # In practice: real data, and the packages that one would otherwise use
#
# > **Claim.** No statement of the paper is judged here. On real data, Bayesian RND is compared with the exact NTK-GP
# > posterior and with the packages that one would otherwise use.\
# > **Picture.** Each row is the score of one contender less that of Bayesian RND on the same splits, with its
# > interval.\
# > **Verdict.** On a few hundred points the exact posterior does as well and costs less; the table at the end says
# > what to use when.
#
# The other notebooks show that the paper's statements hold. This one asks what they are good for. It needs nothing from
# the others but this:
#
# * A **posterior** says, for every input, which outputs are still plausible after the training data: a mean and a
#   standard deviation, or whole functions to draw.
# * There is a Gaussian process, the **NTK-GP**, whose posterior can be written down: it is what a Bayesian believes who
#   takes an infinitely wide network, with all its weights random, for a prior. Its formula needs a matrix with a row
#   and a column for each training point, and the time grows with the cube of their number.
# * **Bayesian RND** is a network with $K$ outputs, the heads, trained by ordinary means. Each head's error is a draw
#   from that posterior less its mean, if the network is wide. The mean square of $K$ errors is then an estimate of the
#   variance.
# * **RND** (random network distillation) is the older method that Bayesian RND changes: its error says how unlike the
#   training inputs an input is.
#
# Three tasks follow, on data that ships with scikit-learn: predict a number with an error bar, tell inputs that are
# unlike those seen in training, and decide where to look next. No claim of the paper is judged here; contenders are
# compared. All intervals are at 95 %, and each is for one comparison: of twenty, one misses on average.

# %% tags=["parameters"]
splits: int = 5  # random splits of each data set into training and test points
test_fraction: float = 0.2  # patients held out of each split
width: int = 256  # units in the hidden layer of the networks
heads: int = 32  # heads of Bayesian RND and RND, K
members: int = 5  # networks of an ensemble
epochs: int = 120  # passes over the data, at most, of what is trained by minibatches
n_images: int = 200  # training images
n_test_images: int = 50  # test images of each kind
held_out: int = 3  # classes of digits without training images
bandit_seeds: int = 16  # repeats of the search in the last section
rounds: int = 5  # rounds of each search
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
from rndlib.evidence.statistics.seeds import t_interval
from rndlib.evidence.tables import aligned
from rndlib.practice import choose, data, detectors, regressors, scores, task, thompson

warnings.simplefilter("ignore", HeadsWarning)  # The heads are many for the width; what that does is measured below.
sizes = task.Sizes(heads=heads, members=members, rtol=rtol, epochs=epochs)
ours = "Bayesian RND"
each = range(seed, seed + splits)

# %% [markdown]
# ## Regression: how far a disease went on
#
# scikit-learn's diabetes data has 442 patients with ten measurements each, and a number that says how far the disease
# went on within a year. A fifth of the patients are held out, at random, several times over. Inputs and labels are
# centred and scaled by the training patients, so that errors are in standard deviations of the label.
#
# **Hyperparameters.** The scale of the weights $\sigma_w$ and the standard deviation of the noise are those under which
# the training labels are most probable, by the NTK-GP's exact *evidence*. That takes well below a second, needs no
# held-out points, and is done anew for each split:

# %%
patients = [data.diabetes(number, test_fraction) for number in each]
chosen = [choose.by_evidence(MLP(10, width, depth, activation), at.X, at.y, scales) for at in patients]
rows = [[str(number), f"{net.sigma_w:g}", f"{noise:.2f}"] for number, (net, noise) in zip(each, chosen, strict=True)]
print(aligned(["split", "sigma_w", "noise"], rows))

# %% [markdown]
# The noise is large: most of what is to be known about a patient is not in the ten measurements. This decides much of
# what follows, as every sensible contender has to make nearly the same error bars.
#
# **Contenders**, each with a few lines in `rndlib/practice/regressors.py`. From rndlib, at this $\sigma_w$ and this
# noise: the exact NTK-GP; Bayesian RND, once trained to convergence by the library's default solver, which works with a
# matrix of all pairs of points, and once by Adam in *minibatches*, which does without; a *Bayesian ensemble*, each of
# whose networks is a draw from the same posterior; and a *deep ensemble* of plain networks. From scikit-learn:
# `GaussianProcessRegressor` with the usual squared-exponential kernel, and `BayesianRidge`, a linear model. And
# laplace-torch, which adds error bars to one PyTorch network. The last three find their own hyperparameters, also by
# evidence.
#
# **Scores**, means over the test patients. The *negative log likelihood* (NLL) asks how improbable the label was under
# the prediction, error bar included. The *continuous ranked probability score* (CRPS) is the mean absolute error made
# fair to predictions with error bars. Lower is better for both. Of 90 % intervals, 90 % should hold the label
# (*coverage*), and narrower ones say more.
#
# **Intervals.** The unit is a split. As splits share patients, the usual interval would be far too narrow; these have
# the correction of Nadeau and Bengio (2003).

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
# The intervals of this table overlap, as a split with difficult patients is difficult for all. What counts is the
# difference on the same split. Each contender less Bayesian RND:

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

# %%
rows = [[name, *(of[name].rounded(3) for of in differences.values())] for name in others]
print(aligned(["contender minus Bayesian RND", "NLL", "CRPS"], rows))
print("differences whose interval leaves out 0:", ", ".join(apart) or "none")

# %% [markdown]
# Bayesian RND and the exact NTK-GP should agree, as one estimates the other. The variance is where the finite network
# shows. Below is the mean over test patients of the variance of the function, without the noise, over that of the exact
# posterior. The standard deviation over patients comes from the finite number of heads: for independent draws it is
# $\sqrt{2/K}$.

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
# The patients of the first split. A grey bar is a 90 % interval around the prediction; what was seen should be in nine
# of ten. The bars are nearly of one length everywhere, which is the noise.
#
# ### What it costs
#
# Seconds to fit and to predict on the machine that ran this notebook, one contender after another (the median over
# splits), and the numbers that were fitted. The figure has them against the NLL. Seconds differ between machines; their
# order hardly does.

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
# **All predict nearly equally well. What differs is the cost, and there Bayesian RND loses.** No difference in NLL is
# above 0.02 nats; of so many intervals at 95 %, one that just leaves out 0 is to be expected. With a few hundred points
# the exact posterior takes a fraction of a second and has no Monte-Carlo error. A linear model with error bars is
# cheaper still. What speaks for networks is the row of minibatches: the quality is that of the exact posterior, and
# neither memory nor the time for a pass over the data grows faster than the number of points.
#
# ## Inputs unlike those seen in training
#
# The second task has no labels to predict. Given images of handwritten digits, of some classes only, say of a new image
# whether it is of the same kind. Two kinds are not: digits of the classes held out, which is hard, and patches of the
# two photographs that ship with scikit-learn, grey and as bright as digits can be, which should be easy. For each
# split, three classes are drawn and held out, and training and test images are drawn from the rest.

# %%
shifts = [data.digits(number, n_images, n_test_images, held_out) for number in each]
kinds = dict.fromkeys(shifts[0].outside, n_test_images)

# %% tags=["figure"]
first = {"trained on": shifts[0].X, **shifts[0].outside}
shown = {name: found[:10] + shifts[0].centre for name, found in first.items()}
title = "Inside are the classes trained on; outside, other digits and patches of photographs"
figures.save(figures.images(shown, title), "fig_images")

# %% [markdown]
# A contender gives each image a score that should be higher outside. The **AUROC** is the chance that an image from
# outside has a higher score than one from inside: 0.5 is guessing, 1 is perfect. The scores are
#
# * the posterior variance, of Bayesian RND, the exact NTK-GP, the Bayesian ensemble and `GaussianProcessRegressor`;
# * the error of RND, as the theorems have it (predictor and target alike, trained to convergence), and as agents have
#   it (PyTorch's initial weights, a predictor deeper than its target, Adam);
# * the disagreement of a deep ensemble of plain networks, stopped early;
# * the entropy of a classifier's prediction: an ensemble of scikit-learn's `MLPClassifier`, and laplace-torch;
# * the distance to the nearest training image, which has nothing to train.
#
# Only the classifiers are told which digit an image shows. What needs a number as a label is told whether it is odd;
# the evidence that chooses $\sigma_w$ and the noise has these labels, too.

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
# Again the difference to Bayesian RND on the same splits tells more. Above 0 the contender is better:


# %%
rows = [
    [name, *(over_images(of[kind] - areas[ours][kind]).rounded() for kind in kinds)]
    for name, of in areas.items()
    if name != ours
]
print(aligned(["AUROC minus that of Bayesian RND", *kinds], rows))

# %% [markdown]
# **Where Bayesian RND loses, and why.** The exact posteriors and the nearest neighbour are better on the digits held
# out, by more than their intervals leave open. Bayesian RND estimates the exact posterior's variance from $K$ squared
# errors, and such an estimate scatters: by a factor of $1 \pm \sqrt{2/K}$ from image to image. The scatter mixes up
# images whose variances are not far apart. The variance over a handful of networks scatters more, and both ensembles of
# regressors are worse. More heads are the remedy, and the scores of the first few heads of the same fits show how many
# it takes. Thin lines are the exact posterior, for infinitely many heads.

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
# The costs, as before:

# %% tags=["nbval-ignore-output"]
rows = [[name, f"{seconds[name]:.2g}", f"{results[0].parameters}"] for name, results in detection.items()]
print(aligned(["contender", "seconds", "parameters"], rows))

# %% [markdown]
# The distance to the nearest training image costs nothing and is hard to beat on images this small, whose pixels mean
# the same everywhere. A kernel is built on such distances, so that the exact posteriors come close. Scores that come
# from labels see less: what does not help to tell the known classes apart, they ignore.
#
# ## Decisions: where to look next
#
# The third task uses what the others do not: whole functions. To find the maximum of an unknown function in few
# queries, *Thompson sampling* draws a function from the posterior, queries it where that function is largest, adds what
# was observed to the training data, and repeats. Where little is known the draws differ, and it explores; where the
# posterior is sure, it exploits. In each round as many functions are drawn as there are queries.
#
# The function is Branin's, a test function of two inputs with three equal maxima, on 256 candidates, observed with
# noise. *Regret* is how far below the maximum a query was, in standard deviations of the function over the candidates.
# Functions come from the exact NTK-GP, from Bayesian RND by `sample_y`, from deep ensembles trained for a finite time,
# and, as a control, from pure chance. The noise is known to all.

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
    return Estimate(float(values.mean()), *t_interval(values, 0.975))


rows = [
    [name, over_seeds(of.sum(axis=1)).rounded(1), over_seeds(of.min(axis=1)).rounded()] for name, of in regrets.items()
]
print(aligned(["functions from", "regret, all queries", "regret of the best query"], rows))

# %% tags=["figure"]
share = regrets[ours].sum(axis=1).mean() / regrets["control: at random"].sum(axis=1).mean()
title = f"{ours} has {share:.2f} of the cumulative regret of chance"
figures.save(figures.regret_against_queries(regrets, title, "sd of the function"), "fig_regret")

# %% [markdown]
# Seeds are independent here, so that the bands and intervals are Student's. Functions drawn from a posterior lead to
# less than half the regret of chance, and Bayesian RND does as well as the exact draws that it stands in for. Plain
# ensembles do no worse on this problem. But where only the best query counts, **chance wins**: queries spread over all
# candidates come nearer to one of the three maxima than those that soon gather around one. Thompson sampling is for
# problems in which every query has its price.
#
# ## What to use when
#
# The evidence in this table is computed above, from small data sets. Take it for a place to start.


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
        "error bars, more points than a matrix of pairs has room for",
        "Bayesian RND in minibatches, or a deep ensemble",
        f"NLL {nll(ours + ', minibatches')}, and {nll('deep ensemble, stopped early')}; exact {nll('exact NTK-GP')}",
    ],
    [
        "error bars for a PyTorch network that is there already",
        "laplace-torch",
        f"NLL {nll('laplace-torch')}; exact NTK-GP {nll('exact NTK-GP')}",
    ],
    [
        "unlike inputs, few and aligned",
        "distances and exact GPs first",
        f"AUROC {best_of('held-out digits')}, {ours} {held(ours)}",
    ],
    [
        "unlike inputs, many, without labels",
        "RND, with as many heads as one can afford",
        f"AUROC {held('RND')} RND, {held(ours)} Bayesian RND, {held('RND as agents have it')} as agents have it",
    ],
    [
        "unlike inputs, with a classifier at hand",
        "not its entropy alone",
        f"AUROC {held('ensemble of MLPClassifier')} ensemble, {held('laplace-torch')} laplace-torch",
    ],
    [
        "decisions each of which has its price",
        "exact draws, or sample_y where they are too slow",
        regret(np.sum),
    ],
    [
        "one good candidate, whatever the way there",
        "something that explores more",
        regret(np.min),
    ],
]
print(aligned(["you want", "use", "because, above"], rows))
Ledger().write()  # No claim of the paper is judged here.

# %% [markdown]
# **Limits.** Two data sets with a few hundred training points each, networks with one hidden layer, one choice of sizes
# for every contender, and no tuning beyond the evidence. None of this shows how the contenders compare on large data,
# where an exact posterior is out of reach and Bayesian RND is meant to be used; that minibatches do no harm at this
# size is all that was seen. The hyperparameters, too, would then come from the evidence of a part of the data. The
# scores of the early-stopped ensemble depend on when it is stopped. AUROC depends on which classes are held out, which
# the splits average over; its correction for shared images assumes what was derived for regression errors.
