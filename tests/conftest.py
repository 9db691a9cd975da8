"""Shapes and types of rndlib's annotations are checked while the tests run, and hypothesis repeats its examples."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook

# Before anything imports rndlib: a module that is loaded already is not checked.
install_import_hook("rndlib", "typecheck.check")

settings.register_profile("rndlib", deadline=None, derandomize=True)
settings.load_profile("rndlib")


def pytest_configure(config: pytest.Config) -> None:
    """The networks of most tests are small, and far from the theorems; tests/test_departure.py is about the warning.

    In the settings of pytest its name would import rndlib before the hook.
    """
    config.addinivalue_line("filterwarnings", "ignore::rndlib.DepartureWarning")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site, built once for all tests that look at it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    build = Path(__file__).parent.parent / "ci" / "site_build.py"
    done = subprocess.run([sys.executable, build, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def many_heads_by_products(monkeypatch):
    """PyTorch solves for many heads by products with the kernel from as few of them as JAX."""
    from rndlib.training import backends

    with suppress(ImportError):  # which some environments are without
        monkeypatch.setattr(backends.load("torch"), "dense_many", backends.load("jax").dense_many)


@pytest.fixture
def as_a_user():
    """Without the tests' own check of annotations, which would speak up first."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
