"""neural-tangents, the reference for kernels and laws that shares no code with this library."""

import sys
import warnings
from types import ModuleType
from typing import Any

EXPERIMENTAL = "neural_tangents.experimental"


def neural_tangents() -> Any:
    """The package without its experimental part, which imports TensorFlow: that takes seconds, and prints.

    Raises ImportError if it is not installed, or does not work with the JAX that is.
    """
    given = EXPERIMENTAL in sys.modules
    if not given:
        sys.modules[EXPERIMENTAL] = ModuleType(EXPERIMENTAL)
    try:
        with warnings.catch_warnings():  # of its own dependencies
            warnings.simplefilter("ignore")
            import neural_tangents as package
    finally:
        if not given:
            del sys.modules[EXPERIMENTAL]
    if not given and hasattr(package, "experimental"):
        delattr(package, "experimental")  # so that it can still be imported
    return package
