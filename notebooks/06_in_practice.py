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
# > **Claim.** No statement of the paper is tested here. On real data, the automatic `BayesianRND()` is compared with
# > the exact NTK-GP posterior and with other packages.\
# > **Picture.** One row per method: its negative log likelihood minus that of the automatic estimator, on the same
# > splits.\
# > **Verdict.** On small tables it predicts about as well as a tuned Gaussian process. Where the noise differs from
# > point to point, other methods are better.
#
# Bayesian RND is a network with many outputs (heads). The error of each head is a draw from the posterior of the
# NTK-GP, the Gaussian process of an infinitely wide network, minus its mean. `BayesianRND()` without a network
# standardises the columns, and chooses depth, scales and noise by the evidence. One live fit, on columns and labels in
# their own units: ten measurements of 354 patients, and the progression of their diabetes a year later.

# %% jupyter={"source_hidden": true} tags=["parameters", "hide-input"]
heads: int = 64  # heads of the live fit
seed: int = 0  # seed of the live split and fit

# %% jupyter={"source_hidden": true} tags=["hide-input"]
import numpy as np

from rndlib import BayesianRND
from rndlib.paper import figures, parameters
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.practice import data, stored

parameters.check(globals())
tables = [name for name in stored.SPLITS if name != "digits"]

# %%
patients = data.split("diabetes", seed)
model = BayesianRND(heads=heads, seed=seed).fit(patients.X, patients.y)
low, high = model.interval(patients.X_test, level=0.9)
inside = np.mean((low < patients.y_test) & (patients.y_test < high))
error = np.sqrt(np.mean((model.predict(patients.X_test) - patients.y_test) ** 2))
print(f"90 % intervals contain {100 * inside:.0f} % of {len(low)} new labels")
print(f"RMSE {error:.0f}, standard deviation of the labels {patients.y.std():.0f}")

# %% [markdown]
# ## Protocol
#
# The results below were computed once by `ci/practice.py`. They are stored in `notebooks/practice.json`, with the
# commit, the versions and the machine. Diabetes comes with scikit-learn. Concrete (824 training points, 8 columns),
# airfoil (1,203, 5 columns) and hourly bike sharing (10,000, 12 columns) come with the package sklearn-contrib-bde. A
# fifth of the points, at most 2,000, are for testing. There are three splits with the seeds 0, 1 and 2, and two for
# bike sharing. So intervals are wide, and those of bike sharing mean nothing. Each fit runs in its own process with one
# BLAS thread.
#
# * *rndlib automatic* is the call above. *exact NTK-GP* is the posterior of the same kernel in closed form. *rndlib
#   trained* is a network of 512 units with the same scales, trained by Adam on minibatches for 100 epochs.
# * *scikit-learn GPR* and *GPyTorch GPR* have a Matérn kernel with one length scale per column, fitted by evidence.
# * *laplace-torch* linearises one network, fitted by its evidence (Immer et al., 2021). *deep ensemble* is five
#   networks that predict mean and variance (Lakshminarayanan et al., 2017).
# * *boosted quantiles* takes its standard deviation from two quantiles of scikit-learn's gradient boosting, *boosting,
#   residuals* from residuals in cross-validation. *Bayesian ridge* is linear.
#
# Scores are for new labels, in standard deviations of the training labels. Lower is better for the root-mean-square
# error (RMSE), the negative log likelihood (NLL, in nats) and the continuous ranked probability score (CRPS). 90 % of
# the labels should be inside the 90 % intervals (coverage), whose mean width is *width*. After ± is half the 95 %
# interval over splits, with the correction of Nadeau and Bengio (2003) for points that splits share.

# %%
for name in tables:
    print(stored.table(name, ("NLL", "RMSE", "CRPS", "coverage", "width")), end="\n\n")
    for reason in stored.absent(name):
        print(" left out,", reason)

# %% [markdown]
# Some splits are difficult for every method, so the difference on the same split says more. To the right of 0, the
# automatic estimator is better:

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
ours, apart = "rndlib automatic", ("rndlib automatic", "boosted quantiles", "Bayesian ridge")
shared = [name for name in stored.complete("airfoil") if name not in apart]
panels = {of: {name: stored.estimate(of, name, "NLL", ours) for name in shared} for of in tables[:3]}
title = "NLL minus that of rndlib automatic (nats), 95 % intervals over splits"
figures.save(figures.intervals(panels, title, {"left: the other is better": 0.0}), "fig_nll")

# %% [markdown]
# Boosted quantiles and the linear model are not shown: their losses would set the scale. On airfoil and concrete, the
# trained finite network has a higher NLL than the exact posterior of the same kernel; its width was not varied, so this
# may be the width or the training. The exact posterior and the automatic estimator agree, as they should: they are two
# implementations of one formula.
#
# ## Costs

# %% jupyter={"source_hidden": true} tags=["figure", "hide-input"]
fig_costs = figures.against_cost(
    {
        name: {of: (stored.seconds(name, of), stored.estimate(name, of, "NLL")) for of in (ours, *shared)}
        for name in tables[:3]
    },
    "CPU seconds of fitting and predicting",
    "NLL (nats)",
    "What a prediction costs, and how good it is (lower is better)",
)
figures.save(fig_costs, "fig_costs")

# %% [markdown]
# CPU seconds (user and system; medians over splits, on a shared machine) against NLL with its 95 % interval over
# splits. Compilation is included and imports are not. On bike sharing, most of the Gaussian processes and the trained
# network were left out because of their cost (see the reasons above).
#
# ## Joint predictions
#
# Decisions need to know which predictions are wrong together. The joint score is the log density of ten test labels at
# once, in nats per point; **higher is better** (Wen et al., 2022; Osband et al., 2022). *joint* takes ten points at
# random. *nearby* takes each test point with its nine nearest ones, and *nearby alone* scores the same points by the
# product of their single predictions. The difference of the last two is what a method gains by predicting jointly. An
# ensemble is a mixture of its five networks; boosting predicts labels as independent.

# %%
for name in tables:
    print(stored.table(name, ("joint", "nearby", "nearby alone")), end="\n\n")

# %% [markdown]
# Where the draws of a finite network have a lower *nearby* score than the exact posterior of the same kernel, they
# reproduce the almost perfect correlations of neighbours only approximately. Neither width nor training was varied,
# so their parts in this are not separated.
#
# ## Out-of-distribution detection
#
# The training set has 1,000 images of handwritten digits, of seven classes drawn at random. New images are digits of
# the other three classes, which is hard, and patches of photographs, which is easy. No method has labels. The area
# under the ROC curve is the probability that a new image has a higher score than one of the seven classes; 0.5 is
# guessing.

# %%
print(stored.table("digits", ("held-out digits", "photographs"), digits=3))
Ledger("06_in_practice").write()  # no claim of the paper is tested here

# %% [markdown]
# The distance to the nearest training image needs no training. Where it is better in this table, use it first.
#
# ## Limits
#
# Four tables, splits that share points, and one choice of settings per method. The labels of bike sharing are counts
# whose spread grows with their mean. Methods with one noise level for all points cannot express this, and `BayesianRND`
# is one of them.
