"""Deep ensembles and random network distillation, standard and Bayesian, over any backend.

All four follow scikit-learn's GaussianProcessRegressor: `fit`, `predict(X, return_std)` and, where there is a
posterior to draw from, `sample_y(X, n_samples, random_state)`. Arrays are (n_samples, n_features), targets
(n_samples,); functions and errors are in the units of y, variances in their square.
"""

from rndlib.estimators.bayesian_rnd import BayesianRND as BayesianRND
from rndlib.estimators.ensembles import BayesianEnsemble as BayesianEnsemble
from rndlib.estimators.ensembles import DeepEnsemble as DeepEnsemble
from rndlib.estimators.rnd import RND as RND
from rndlib.estimators.unfitted import NotFittedError as NotFittedError
