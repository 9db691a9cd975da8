"""rndlib: random network distillation, deep ensembles and Bayesian inference in the NTK limit.

An executable edition of "On the Equivalence of Random Network Distillation, Deep Ensembles, and Bayesian
Inference". A prediction with its uncertainty, in a few lines:

>>> from sklearn.datasets import load_diabetes
>>> from rndlib import BayesianRND
>>> X, y = load_diabetes(return_X_y=True)  # columns and labels in any units
>>> model = BayesianRND().fit(X[:350], y[:350])
>>> mean, std = model.predict(X[350:], return_std=True)  # of the function
>>> low, high = model.interval(X[350:], level=0.9)  # for new labels, noise included
>>> samples = model.sample_y(X[350:], n_samples=3)  # (92, 3): three functions of the posterior

Without a network, an estimator is automatic: it standardises, chooses network, scales and noise by evidence, and trains
exactly, in seconds for some thousand points. With a network, nothing is scaled or chosen.

`RND` needs no labels: its `variance` is a novelty score. `DeepEnsemble` and `BayesianEnsemble` estimate mean and
variance by many networks. All four are scikit-learn estimators. They train by `GradientFlow`
or `GradientDescent`, on large data by `StochasticGradient`, with `backend="jax"` or `"torch"`. Failed training raises
`DivergenceError`. After training by a solver, `report.departure` says how far the networks deviate from the theorem;
beyond 10 %, a `DepartureWarning` says so. Too many heads for the width give a `HeadsWarning`. `MLP` describes the
network, and `Prior` a prior other than its NTK-GP; `kernels` and `laws` have the exact infinite-width limits. Every
name has an example in its help.

For PyTorch, `rndlib.torch` has `RNDBonus`, an exploration bonus, and `explain`, which says what the error between two
modules of your own means. `mismatch.factor` is for RND whose predictor and target differ. `explain_setting` says
whether both equalities hold at your width, labels, optimiser or training time, from networks trained in similar
settings.

An argument of the wrong type, shape or range raises a ValueError that names the argument, its value and the remedy;
`Raises` sections list other errors only. Nothing here imports jax or torch before it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rndlib import datasets as datasets
    from rndlib.advice import explain_setting as explain_setting
    from rndlib.estimators import RND as RND
    from rndlib.estimators import BayesianEnsemble as BayesianEnsemble
    from rndlib.estimators import BayesianRND as BayesianRND
    from rndlib.estimators import DeepEnsemble as DeepEnsemble
    from rndlib.estimators.departure import DepartureWarning as DepartureWarning
    from rndlib.network import MLP as MLP
    from rndlib.prior import Prior as Prior
    from rndlib.theory import kernels as kernels
    from rndlib.theory import laws as laws
    from rndlib.theory import mismatch as mismatch
    from rndlib.theory.crowding import HeadsWarning as HeadsWarning
    from rndlib.training import initial as initial
    from rndlib.training.report import DivergenceError as DivergenceError
    from rndlib.training.solvers import GradientDescent as GradientDescent
    from rndlib.training.solvers import GradientFlow as GradientFlow
    from rndlib.training.solvers import StochasticGradient as StochasticGradient

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(("DeepEnsemble", "BayesianEnsemble", "RND", "BayesianRND"), "estimators"),
    **dict.fromkeys(("GradientFlow", "GradientDescent", "StochasticGradient"), "training.solvers"),
    "MLP": "network",
    "Prior": "prior",
    "DepartureWarning": "estimators.departure",
    "DivergenceError": "training.report",
    "HeadsWarning": "theory.crowding",
    "explain_setting": "advice",
    "kernels": "theory.kernels",
    "laws": "theory.laws",
    "mismatch": "theory.mismatch",
    "initial": "training.initial",
    "datasets": "datasets",
}
"""Where each name is found; a module is its own home."""

__all__ = ["RND", "BayesianEnsemble", "BayesianRND", "DeepEnsemble", "GradientDescent", "GradientFlow", "MLP"]
__all__ += [
    "StochasticGradient",
    "DepartureWarning",
    "DivergenceError",
    "HeadsWarning",
    "Prior",
    "explain_setting",
    "kernels",
    "laws",
]


def __getattr__(name: str) -> Any:
    # Lazily, so that `import rndlib` costs no SciPy.
    if name not in _HOMES:
        raise AttributeError(f"module 'rndlib' has no attribute {name!r}")
    home = import_module(f"rndlib.{_HOMES[name]}")
    globals()[name] = getattr(home, name, home)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
