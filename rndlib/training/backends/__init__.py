"""Backends: the same few functions on one array library each (`rndlib.training.protocols`)."""

from functools import cache
from importlib import import_module

from rndlib import checks
from rndlib.any_network import AnyNetwork, Network
from rndlib.training.protocols import Backend

BACKENDS = ("jax", "torch", "torch:cuda")


def load(name: str) -> Backend:
    """The backend of that name; its array library is imported here and not before.

    Raises ImportError if its array library is not installed, or finds no GPU for "torch:cuda".

    >>> from rndlib.training import backends
    >>> type(backends.load("jax")).__name__
    'JaxBackend'
    """
    checks.choice("backend", name, BACKENDS)
    return _load(name)


def of(net: Network, name: str | None) -> Backend:
    """The backend of that name for a network; None is the library of a network of the user's own, and JAX for an `MLP`.

    Raises as `load`, and ValueError if the network is written for another library.

    >>> from rndlib import MLP
    >>> from rndlib.training import backends
    >>> type(backends.of(MLP(3), None)).__name__
    'JaxBackend'
    """
    library = net.library if isinstance(net, AnyNetwork) else None
    if library and name and name.partition(":")[0] != library:
        raise ValueError(f"backend = {name!r}: a {type(net).__name__} is trained on {library!r}: leave backend out")
    return load(name or library or "jax")


@cache
def _load(name: str) -> Backend:
    library, _, device = name.partition(":")
    try:
        module = import_module(f"rndlib.training.backends.{library}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "rndlib":
            raise
        raise ImportError(f"backend {name!r} needs {error.name}: pip install 'rndlib[{library}]'") from error
    return module.JaxBackend() if library == "jax" else module.TorchBackend(device or "cpu")
