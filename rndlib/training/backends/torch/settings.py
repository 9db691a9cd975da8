"""PyTorch's settings inside the backend's own calls, whatever those of the user's thread are."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def hosted(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function without gradients, but able to enable them, and in the precision of its arguments."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
            return function(*args, **kwargs)

    return wrapped
