"""What a process has loaded once it imports rndlib: nothing that takes seconds, until it is needed."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

QUIET = "import warnings; warnings.simplefilter('ignore')"
SLOW = {"jax", "torch", "matplotlib", "scipy"}
HEAVY = {"jax", "torch", "matplotlib", "tensorflow", "sklearn", "pandas", "tqdm"}
RUNNER = pytest.mark.skipif(find_spec("papermill") is None, reason="papermill is not installed")
EVERYTHING = "import rndlib; [getattr(rndlib, name) for name in rndlib.__all__]; import rndlib.training.backends"


def loaded_after(statement: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stderr == ""
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import rndlib", {*HEAVY, "scipy"}),
        ("from rndlib import MLP, GradientFlow, kernels, laws", HEAVY),
        (EVERYTHING, HEAVY - {"sklearn", "pandas"}),  # the estimators are of scikit-learn
        # A verdict should not wait for SciPy, and papermill loads the engine whenever it starts.
        pytest.param("import rndlib.paper.verify", {"scipy", "papermill", "nbformat"}, marks=pytest.mark.tools),
        pytest.param("import papermill.engines, rndlib.paper.engine", SLOW, marks=[pytest.mark.tools, RUNNER]),
        # Figures leave the state of pyplot alone.
        pytest.param("import rndlib.paper.figures", {"matplotlib.pyplot"}, marks=pytest.mark.check),
    ],
)
def test_an_import_loads_nothing_that_takes_seconds(statement, absent):
    assert not loaded_after(statement) & absent


@pytest.mark.torch
def test_the_bonus_needs_pytorch_alone():
    loaded = loaded_after(f"{QUIET}; import rndlib.torch")
    assert "torch" in loaded
    assert not loaded & {"jax", "gymnasium", "matplotlib", "tensorflow"}


@pytest.mark.check
@pytest.mark.torch
def test_one_backend_does_without_the_other():
    fit = "RND(MLP(2, width=8), solver=GradientFlow(0.1, rtol=0.1), backend='{}').fit([[0, 1]]).errors([[1, 1]])"
    for one, other in (("jax", "torch"), ("torch", "jax")):
        loaded = loaded_after(f"from rndlib import MLP, RND, GradientFlow; {QUIET}; {fit.format(one)}")
        assert one in loaded
        assert other not in loaded
