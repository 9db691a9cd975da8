"""Shapes and types of rndlib's annotations are checked while the tests run, and hypothesis repeats its examples."""

from hypothesis import settings
from jaxtyping import install_import_hook

# Before anything imports rndlib: a module that is loaded already is not checked.
install_import_hook("rndlib", "typecheck.check")

settings.register_profile("rndlib", deadline=None, derandomize=True)
settings.load_profile("rndlib")
