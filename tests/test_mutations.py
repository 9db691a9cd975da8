"""Mistakes that a person makes, planted in the library one at a time: the ledger must see each.

A mistake replaces an object of the library (a constant, a function, a method) for the length of a test, in which the
cells of a notebook run at the small size of its `smoke` profile. Without a mistake the same claims hold.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import ledgers
import numpy as np
import pytest
from scipy import stats

from rndlib import prior
from rndlib.any_network import AnyNetwork
from rndlib.estimators import RND, BayesianEnsemble, BayesianRND, DeepEnsemble, functions
from rndlib.paper import sources
from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS
from rndlib.theory import kernels, laws, reference
from rndlib.training import integration, weights
from rndlib.training.backends import linearised
from rndlib.training.backends.jax import FUNCTIONS, JaxBackend
from rndlib.training.problem import Task
from rndlib.training.solvers import descent
from rndlib.training.weights import Role, draw

# Planted functions lack the annotations that the tests check of others.
pytestmark = [pytest.mark.check, pytest.mark.usefixtures("as_a_user")]

KERNELS, CHI2, ENSEMBLES, TARGET, SAMPLES, OWN, STREAMS, PRIORS = (
    "00_preliminaries",
    "02_multihead_chi_squared",
    "01_ensemble_equivalence",
    "03_bayesian_target",
    "04_posterior_sampling",
    "07_any_network",
    "09_streams_and_values",
    "10_priors",
)


@dataclass(frozen=True)
class Mistake:
    """What is wrong, how it is planted, in which notebook it must be seen, and by which claims.

    compiled: whether it is in code that JAX compiles, so that programs have to be compiled anew.
    """

    name: str
    plant: Callable[[pytest.MonkeyPatch], None]
    notebook: str
    claims: str
    compiled: bool = False


def wrapped(owner, name: str, wrong: Callable) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace a function or method: `wrong` is called with the right one first, then with the arguments."""
    right = getattr(owner, name)

    def planted(*args, **options):
        return wrong(right, *args, **options)

    return lambda patch: patch.setattr(owner, name, planted)


def constant(owner, name: str, value) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace an attribute."""
    return lambda patch: patch.setattr(owner, name, value)


# ------------------------------------------------------------------------------------------------------------- kernels


def kdot_of_the_layer_below(right, net, kappa, steps):
    """As Proposition B.3 prints it."""
    found = []

    def shifted(step):
        def wrong(kappa):
            value, slope = step(kappa)
            found.append(slope)
            return value, found[max(len(found) - 2, 0)].copy()

        return wrong

    return right(net, kappa, [shifted(step) for step in steps])


def bias_not_squared(right, net, *args):
    return right(replace(net, sigma_b=net.sigma_b**0.5), *args)


# ---------------------------------------------------------------------------------------------------------------- laws


def in_laws_alone(kernel: Callable) -> Callable[[pytest.MonkeyPatch], None]:
    """Laws made of other kernels, where everybody else still has the right ones."""

    def planted(net, X1, X2=None, only=slice(2), **options):
        wrong = kernel(kernels.Kernel(*kernels.matrices(net, X1, X2, **options)), X2)
        return [wrong.nngp, wrong.ntk][only]

    return lambda patch: patch.setattr(reference, "kernels", SimpleNamespace(**{**vars(kernels), "matrices": planted}))


def halved(right, *args, **options):
    law = right(*args, **options)
    return replace(law, var=law.var / 2, cov=None if law.cov is None else law.cov / 2)


def one_dof_more(patch: pytest.MonkeyPatch) -> None:
    chi2 = SimpleNamespace(chi2=lambda dof, scale: stats.chi2(dof + 1, scale=scale))
    patch.setattr(laws, "stats", chi2)


# ------------------------------------------------------------------------------------------------------------- weights


def two_heads_alike(right, *args):
    layers = right(*args)
    w, _ = layers[-1]
    w[:, 1:2] = w[:, :1]
    return layers


def larger(right, *args):
    return [(1.2 * w, b) for w, b in right(*args)]


def all_larger(right, *args):
    return [tuple(1.2 * w for w in layer) for layer in right(*args)]


# ------------------------------------------------------------------------------------------------------------ training


def jitter_without_pull(right, task, blocks, one):
    def wrong(problem, bodies):
        targets = problem.targets - problem.noise_std * problem.offsets
        return one(replace(problem, targets=targets, noise_std=0.0), bodies)

    return right(task, blocks, wrong)


def pull_without_jitter(right, task, blocks, one):
    return right(task, blocks, lambda problem, bodies: one(replace(problem, offsets=0 * problem.offsets), bodies))


def half_the_time(right, eigenvalues, time, *args):
    return right(eigenvalues, 0.5 * time, *args)


def twice_the_rate(right, lib, net, shared, own):
    X, noise_std, rate, *more = shared
    return right(lib, net, (X, noise_std, 2 * rate, *more), own)


def bias_of_scale_one(right, lib, net, *args):
    return right(lib, replace(net, sigma_b=1.0), *args)


# ---------------------------------------------------------------------------------------------------------- estimators


def last_layer_of_psi(right, model, drawn, X):
    bodies = range(len(drawn.start[-1][0]))
    last = draw(model.net_, model.heads, model.seed, Role.TARGET, bodies)[-1]
    return right(model, drawn, X) + model._functions([*drawn.start[:-1], last], X)


def divided_by_members(right, model, values):
    return right(model, values) * (len(values) - 1) / len(values)


def target_added(right, model, X):
    fitted, X = model._fitted, np.asarray(X)

    def values(drawn, params):
        return fitted._functions(params, X) + fitted._target(drawn, X)

    return np.concatenate(fitted._trained.per_body(values))


def without_tangent(right, model, X):
    fitted, X = model._fitted, np.asarray(X)
    return np.concatenate(fitted._trained.per_body(lambda _, params: fitted._functions(params, X)))


def with_replacement(right, model, X, n_samples=1, random_state=0):
    X = np.asarray(X)
    errors = model.errors(X)
    chosen = np.random.default_rng(random_state).integers(len(errors), size=n_samples)
    return model._means(X).T + errors[chosen].T


def initial_function_kept(right, model, X):
    fitted, X = model._fitted, np.asarray(X)
    if fitted._fit.mean is None:
        return right(model, X)
    return np.concatenate(fitted._fit.mean.per_body(lambda _, params: fitted._functions(params, X)))


# -------------------------------------------------------------------------------------------------- priors and values


def features_that_start_at_zero(right, *args):
    """They train, but are not in the error at the start."""
    tensors, others = right(*args)
    last = list(tensors)[-1]
    return {**tensors, last: np.zeros_like(tensors[last])}, others


def without_what_follows(right, model, drawn, e, X):
    """The target's rewards are g(x), and not g(x) - gamma g(x')."""
    r = right(model, drawn, e, X)
    if drawn.target is None or model._following is None:
        return r
    after = model._following.discount * model._functions(drawn.target, model._following.X)
    return r - np.swapaxes(after, 1, 2)


MISTAKES = [
    Mistake("the half of Eq. 2 is missing", constant(RND, "_scale", 1.0), CHI2, "M2"),
    Mistake(
        "kappa-dot of the layer below", wrapped(kernels, "_recursion", kdot_of_the_layer_below), KERNELS, "P2 P2-slope"
    ),
    Mistake(
        "sigma_b is not squared in the kernel of all layers but the first",
        wrapped(kernels, "_recursion", bias_not_squared),
        KERNELS,
        "P1 P5",
    ),
    Mistake("the last layer of psi is kept", wrapped(BayesianRND, "_target", last_layer_of_psi), TARGET, "B1 B2 B3"),
    Mistake(
        "the Bayesian target is taken at its own psi",
        wrapped(
            JaxBackend, "tangents", lambda right, at, net, start, psi, *a: right(at, net, [*psi, start[-1]], psi, *a)
        ),
        TARGET,
        "B1 B2 B3",
    ),
    Mistake(
        "psi is the predictor's own parameters",
        wrapped(JaxBackend, "tangents", lambda right, at, net, start, psi, *a: right(at, net, start, start[:-1], *a)),
        TARGET,
        "B1 B2 B3",
    ),
    Mistake("K for K + 1", wrapped(DeepEnsemble, "_variance_of", divided_by_members), CHI2, "M2"),
    Mistake("noise without the pull to the start", wrapped(Task, "train", jitter_without_pull), TARGET, "B5"),
    Mistake("the pull to the start without noise", wrapped(Task, "train", pull_without_jitter), TARGET, "B5"),
    Mistake(
        "predictor and target share their seed",
        wrapped(
            weights,
            "stream",
            lambda right, seed, role, *i: right(seed, Role.PREDICTOR if role == Role.TARGET else role, *i),
        ),
        ENSEMBLES,
        "E2 E3",
    ),
    Mistake("the target is added", wrapped(RND, "errors", target_added), ENSEMBLES, "E2 E3"),
    Mistake("weights of another scale", wrapped(weights, "_normal", larger), KERNELS, "P1 P2 P5"),
    Mistake(
        "the RND error has one prior",
        wrapped(laws, "rnd_error", halved),
        ENSEMBLES,
        "E2",
    ),
    Mistake("the posterior of the NNGP", in_laws_alone(lambda k, _: replace(k, ntk=k.nngp)), TARGET, "B3"),
    Mistake(
        "a cross term once",
        in_laws_alone(lambda k, X2: k if X2 is None else replace(k, nngp=k.nngp / 2)),
        ENSEMBLES,
        "E1 E2",
    ),
    Mistake(
        "the mean with the printed sign",
        wrapped(laws, "mended", lambda right, mean, *args: right(-mean, *args)),
        ENSEMBLES,
        "E1",
    ),
    Mistake("flow stops half way", wrapped(integration, "clock", half_the_time), KERNELS, "P4"),
    Mistake(
        "gradient descent at twice its rate",
        wrapped(descent, "_descend", twice_the_rate),
        KERNELS,
        "P4",
    ),
    Mistake("degrees of freedom K + 1", one_dof_more, CHI2, "M2"),
    Mistake("two heads share their weights", wrapped(weights, "_normal", two_heads_alike), CHI2, "M1"),
    Mistake(
        "all bodies are the same",
        wrapped(weights, "stream", lambda right, seed, role, *index: right(seed, role, *index[1:])),
        ENSEMBLES,
        "E1 E2 E3",
    ),
    Mistake(
        "the Bayesian ensemble forgets its tangent",
        wrapped(BayesianEnsemble, "functions", without_tangent),
        TARGET,
        "B4",
    ),
    Mistake(
        "the posterior forgets a training point",
        wrapped(
            laws, "posterior", lambda right, net, X, y, *args, **options: right(net, X[1:], y[1:], *args, **options)
        ),
        TARGET,
        "B-limit",
    ),
    Mistake("samples with replacement", wrapped(BayesianRND, "sample_y", with_replacement), SAMPLES, "S2-draws"),
    Mistake(
        "samples without the mean",
        wrapped(BayesianRND, "sample_y", lambda right, model, X, *a, **k: right(model, X, *a, **k) - model._means(X).T),
        SAMPLES,
        "S1",
    ),
    Mistake(
        "the mean keeps its initial function", wrapped(BayesianRND, "_means", initial_function_kept), SAMPLES, "S-limit"
    ),
    Mistake("a user's weights are drawn 20 % larger", wrapped(AnyNetwork, "draw", all_larger), OWN, "A1"),
    Mistake(
        "psi of a user's network is drawn 20 % larger", wrapped(functions, "draw_directions", all_larger), OWN, "A3"
    ),
    Mistake(
        "the kernel of a prior forgets its scales",
        wrapped(prior._ScaledMLP, "_trained", lambda right, net, layer, kappa: kappa),
        PRIORS,
        "R1",
    ),
    Mistake(
        "features train without a prior of their own",
        wrapped(prior._WithPrior, "arrays", features_that_start_at_zero),
        PRIORS,
        "R2",
    ),
    Mistake("the law of an ensemble is halved", wrapped(laws, "ensemble", halved), PRIORS, "R3"),
    Mistake(
        "value RND leaves out what follows in its target's rewards",
        wrapped(functions.Networks, "_residual", without_what_follows),
        STREAMS,
        "V1",
    ),
    # Last, as programs have to be compiled anew.
    Mistake(
        "another activation in networks than in kernels",
        wrapped(FUNCTIONS, "sigmoid", lambda right, z: right(1.7 * z)),
        KERNELS,
        "P4",
        compiled=True,
    ),
    Mistake(
        "a prior's scales are squared once too often where networks train",
        wrapped(prior._WithPrior, "_rescaled", lambda right, net, layers, power: right(net, layers, 2 * power)),
        PRIORS,
        "R1",
        compiled=True,
    ),
    Mistake(
        "sigma_b is not applied", wrapped(linearised, "_affine", bias_of_scale_one), KERNELS, "P1 P5", compiled=True
    ),
]


def failed(notebook: str, claims: str) -> set[str]:
    """Of these claims, those that fail in a run of the notebook; it ends at the first."""
    found = ledgers.verdicts(notebook, ledgers.small(notebook), claims.split())
    return {verdict.id for verdict in found if not verdict.passed} & set(claims.split())


def test_without_a_mistake_the_claims_hold():
    """In the calibration on record, of which tests/test_studies.py holds the same repeat against a new run."""
    on_record = {row["id"]: row["first"][0] for row in studies.read(sources.NOTEBOOKS, studies.CALIBRATION)}
    for claim in {claim for mistake in MISTAKES for claim in mistake.claims.split()}:
        assert on_record[claim]["repeat"] == 0
        assert on_record[claim]["value"] <= CLAIMS[claim].tolerance < on_record[claim]["control"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_ledger_catches(mistake, monkeypatch):
    if mistake.compiled:
        jax.clear_caches()
    mistake.plant(monkeypatch)
    try:
        assert failed(mistake.notebook, mistake.claims)
    finally:
        monkeypatch.undo()
        if mistake.compiled:
            jax.clear_caches()
