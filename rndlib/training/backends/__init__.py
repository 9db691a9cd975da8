"""Backends: the same few functions (functions, tangents, train) on one array library each."""

from importlib import import_module
from types import ModuleType

from rndlib import checks

BACKENDS = ("jax", "torch", "torch:cuda")


def load(name: str) -> ModuleType:
    """The backend of that name, imported now and not before.

    Raises
    ------
    ValueError: no such backend.
    ImportError: its array library is not installed, and the message says how to install it; or it finds no GPU.

    >>> from rndlib.training import backends
    >>> backends.load("jax").__name__
    'rndlib.training.backends.jax'
    """
    checks.choice("backend", name, BACKENDS)
    try:
        return import_module(f"rndlib.training.backends.{name.replace(':', '.')}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "rndlib":
            raise
        raise ImportError(f"backend {name!r} needs {error.name}: pip install 'rndlib[{name.split(':')[0]}]'") from error
