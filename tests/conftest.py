"""Shapes and types of rndlib's annotations are checked while the tests run, and hypothesis repeats its examples."""

import signal
from importlib.util import find_spec

from hypothesis import settings
from jaxtyping import install_import_hook

# Before anything imports rndlib: a module that is loaded already is not checked.
install_import_hook("rndlib", "typecheck.check")

# Batches need what the extra `notebooks` brings, which .venv-newest does without.
if not all(map(find_spec, ("jinja2", "psutil", "rich", "yaml"))):
    collect_ignore_glob = ["test_batch*.py", "test_runs.py"]

# A script that runs the tests in the background has them ignore interrupts, and what they start and interrupt, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("rndlib", deadline=None, derandomize=True)
settings.load_profile("rndlib")
