"""rndlib leaves the process it is imported into as it found it."""

import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest

from rndlib import MLP, RND, GradientFlow

QUIET = "import warnings; warnings.simplefilter('ignore')"
HEAVY = {"jax", "torch", "matplotlib", "tensorflow", "sklearn", "pandas", "tqdm"}


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stderr == ""
    return set(run.stdout.split())


def test_importing_rndlib_loads_no_array_library_but_numpy():
    assert not loaded_after("import rndlib") & {*HEAVY, "scipy"}


def test_descriptions_kernels_laws_and_estimators_load_no_backend():
    assert not loaded_after("from rndlib import MLP, GradientFlow, kernels, laws") & HEAVY
    everything = "import rndlib; [getattr(rndlib, name) for name in rndlib.__all__]; import rndlib.training.backends"
    assert not loaded_after(everything) & (HEAVY - {"sklearn", "pandas"})  # the estimators are of scikit-learn


@pytest.mark.tools
def test_verdicts_are_read_without_what_takes_seconds_to_import():
    assert not loaded_after("import rndlib.paper.verify") & {"scipy", "papermill", "nbformat"}


@pytest.mark.check
@pytest.mark.torch
def test_one_backend_does_without_the_other():
    fit = "RND(MLP(2, width=8), solver=GradientFlow(0.1, rtol=0.1), backend='{}').fit([[0, 1]]).errors([[1, 1]])"
    for one, other in (("jax", "torch"), ("torch", "jax")):
        loaded = loaded_after(f"from rndlib import MLP, RND, GradientFlow; {QUIET}; {fit.format(one)}")
        assert one in loaded
        assert other not in loaded


@pytest.mark.torch
def test_the_bonus_needs_pytorch_alone():
    loaded = loaded_after(f"{QUIET}; import rndlib.torch")
    assert "torch" in loaded
    assert not loaded & {"jax", "gymnasium", "matplotlib", "tensorflow"}


def test_training_leaves_precision_and_the_global_generator_alone():
    before, state = jax.config.read("jax_enable_x64"), pickle.dumps(np.random.get_state())  # noqa: NPY002
    X = np.random.default_rng(0).standard_normal((4, 3))
    errors = RND(MLP(3, width=16), 2, solver=GradientFlow(time=1.0)).fit(X).errors(X)
    assert errors.dtype == np.float64
    assert jax.config.read("jax_enable_x64") == before is False
    assert jax.numpy.ones(1).dtype == jax.numpy.float32
    assert pickle.dumps(np.random.get_state()) == state  # noqa: NPY002
