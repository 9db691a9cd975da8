"""Deep ensembles and random network distillation, standard and Bayesian, on any backend.

All four are scikit-learn estimators in the manner of its GaussianProcessRegressor: `fit`, `predict(X, return_std)`
and, if there is a posterior to draw from, `sample_y(X, n_samples, random_state)`. Arrays are (n_samples,
n_features), targets (n_samples,). Functions and errors are in the units of y, variances in their square. Methods that
need a fit raise NotFittedError before it.
"""

from sklearn.exceptions import NotFittedError as NotFittedError

from rndlib.estimators.bayesian_rnd import BayesianRND as BayesianRND
from rndlib.estimators.ensembles import BayesianEnsemble as BayesianEnsemble
from rndlib.estimators.ensembles import DeepEnsemble as DeepEnsemble
from rndlib.estimators.rnd import RND as RND
