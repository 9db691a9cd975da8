"""Shapes and types of rndlib's annotations are checked while the tests run, and hypothesis repeats its examples."""

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Before anything imports rndlib: a module that is loaded already is not checked.
install_import_hook("rndlib", "typecheck.check")

# Batches need what the extra `notebooks` brings, and the site what `site` does, which .venv-newest is without.
collect_ignore_glob: list[str] = []
if not all(map(find_spec, ("jinja2", "psutil", "yaml"))):
    collect_ignore_glob += ["test_batch*.py", "test_doctor.py", "test_first_contact.py"]
    collect_ignore_glob += ["test_repeats.py", "test_runs.py", "test_workflow.py"]
if not all(map(find_spec, ("bs4", "playwright", "sphinx", "torch"))):
    collect_ignore_glob += ["test_how_to.py", "test_site*.py"]

# A script that runs the tests in the background has them ignore interrupts, and what they start and interrupt, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("rndlib", deadline=None, derandomize=True)
settings.load_profile("rndlib")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site, built once for all tests that look at it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    build = Path(__file__).parent.parent / "ci" / "site_build.py"
    done = subprocess.run([sys.executable, build, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder
