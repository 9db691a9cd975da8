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
# > **Claim.** No statement of the paper is judged here. On real data, the automatic `BayesianRND()` is compared with
# > the exact NTK-GP posterior and with the packages one would otherwise use.\
# > **Picture.** One row per method: its negative log likelihood minus that of the automatic estimator, same splits.\
# > **Verdict.** On small tables it predicts about as well as a tuned Gaussian process. Where the noise differs from
# > point to point, other methods win.
#
# Bayesian RND is a network with many outputs, the heads. Each head's error is a draw from the posterior of the NTK-GP,
# the Gaussian process of an infinitely wide network, minus its mean. `BayesianRND()` without a network standardises the
# columns and chooses depth, scales and noise by the evidence. First, one live fit, on columns and labels in their own
# units: ten measurements of 354 patients, and the progression of their diabetes a year later.

# %% tags=["parameters"]
heads: int = 64  # heads of the live fit
seed: int = 0  # seed of the live split and fit

# %%
import numpy as np

from rndlib import BayesianRND
from rndlib.paper import figures, parameters
from rndlib.paper.evidence.ledger import Ledger
from rndlib.paper.practice import data, stored

parameters.check(globals())
patients = data.split("diabetes", seed)
model = BayesianRND(heads=heads, seed=seed).fit(patients.X, patients.y)
low, high = model.interval(patients.X_test, level=0.9)
inside = np.mean((low < patients.y_test) & (patients.y_test < high))
error = np.sqrt(np.mean((model.predict(patients.X_test) - patients.y_test) ** 2))
print(f"90 % intervals hold {100 * inside:.0f} % of {len(low)} new labels")
print(f"root mean squared error {error:.0f}, standard deviation of the labels {patients.y.std():.0f}")

# %% [markdown]
# ## Protocol
#
# Everything below was run once by `ci/practice.py` and is stored in `notebooks/practice.json`, with the commit, the
# versions and the machine. Diabetes comes with scikit-learn. Concrete (824 training points of 8 columns), airfoil
# (1,203 of 5) and hourly bike sharing (10,000 of 12) come with the package sklearn-contrib-bde. A fifth of the points
# is for testing, 2,000 at most. There are three splits with the seeds 0, 1 and 2, and two of bike sharing, so intervals
# are wide, and those of bike sharing say nothing. Each fit has a process and one BLAS thread.
#
# * *rndlib automatic* is the call above. *exact NTK-GP* is the posterior of the same kernel in closed form. *rndlib
#   trained* is a network of 512 units with the same scales, trained by Adam in minibatches for 100 epochs.
# * *scikit-learn GPR* and *GPyTorch GPR* have a Matérn kernel with one length scale per column, fitted by evidence.
# * *laplace-torch* linearises one network, fitted by its evidence (Immer et al., 2021). *deep ensemble* is five
#   networks that predict mean and variance (Lakshminarayanan et al., 2017).
# * *boosted quantiles* takes its deviation from two quantiles of scikit-learn's gradient boosting, and *boosting,
#   residuals* from residuals in cross-validation. *Bayesian ridge* is linear.
#
# Scores are in standard deviations of the training labels, for new labels. Lower is better for the root mean squared
# error (RMSE), the negative log likelihood (NLL, nats) and the continuous ranked probability score (CRPS). Nine in ten
# labels should be inside the 90 % intervals (coverage). After ± is half the 95 % interval over splits, with Nadeau and
# Bengio's correction (2003) for the points that splits share.

# %%
tables = [name for name in stored.SPLITS if name != "digits"]
for name in tables:
    print(stored.table(name, ("NLL", "RMSE", "CRPS")), end="\n\n")
    for reason in stored.absent(name):
        print(" left out,", reason)

# %%
for name in tables:
    print(stored.table(name, ("coverage", "width")), end="\n\n")

# %% [markdown]
# Splits with difficult points are difficult for every method, so the difference on the same split says more. Above 0,
# the automatic estimator is better:

# %% tags=["figure"]
ours = "rndlib automatic"
small = tables[:3]
shared = [name for name in stored.complete("airfoil") if name not in (ours, "boosted quantiles", "Bayesian ridge")]
panels = {of: {name: stored.estimate(of, name, "NLL", ours) for name in shared} for of in small}
title = "NLL minus that of rndlib automatic (nats), 95 % intervals over splits"
figures.save(figures.intervals(panels, title, {"to the left the other is better": 0.0}), "fig_nll")

# %% [markdown]
# Boosted quantiles and the linear model are left out of the figure, as their losses would set its scale. The exact
# posterior and the automatic estimator agree, as they should: they are two implementations of one formula.
#
# ## Costs
#
# CPU seconds (user and system) of fitting and predicting, compilation included and imports not, and the peak memory of
# the process; medians over splits, on a machine shared with other work.

# %%
for name in tables:
    print(stored.costs(name), end="\n\n")

# %% [markdown]
# ## Joint predictions
#
# Decisions need to know which points go wrong together. The joint score is the log density of ten test labels at once,
# in nats per point; **higher is better** (Wen et al., 2022; Osband et al., 2022). *joint* takes ten points at random.
# *nearby* takes each test point with its nine nearest ones, and *nearby alone* scores the same points by the product of
# their single predictions. What *nearby* has above *nearby alone* is what a method gains by predicting jointly. The
# networks of an ensemble are a mixture with five parts; boosting predicts labels as independent.

# %%
for name in tables:
    print(stored.table(name, ("joint", "nearby", "nearby alone")), end="\n\n")

# %% [markdown]
# Where the draws of a finite network say less than the exact posterior of the same kernel, the difference in *nearby*
# is the price of the finite width: neighbours are almost perfectly correlated, and the draws have these correlations
# only approximately.
#
# ## Inputs unlike the training inputs
#
# The training set has 1,000 images of handwritten digits, of seven classes drawn at random. The area under the ROC
# curve is the probability that a new image has a higher score than one of the seven classes: 0.5 is guessing. New are
# digits of the other three classes, which is hard, and patches of photographs, which is easy. No method has labels.

# %%
print(stored.table("digits", ("held-out digits", "photographs"), digits=3))
Ledger("06_in_practice").write()  # No claim of the paper is judged here.

# %% [markdown]
# The distance to the nearest training image needs no training. Where it is the higher one in this table, use it first.
#
# **Limits.** Four tables, splits that share points, and one choice of settings per method. The labels of bike sharing
# are counts whose spread grows with their mean: methods with one noise for all points cannot say so, and `BayesianRND`
# is one of them.
