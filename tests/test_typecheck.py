"""Annotations are checked while the tests run, also those of functions inside functions, whose checkers are kept."""

from typing import Any

import jaxtyping
import numpy as np
import pytest
import typecheck
from jaxtyping import Float, jaxtyped

from rndlib.training import weights

checked = jaxtyped(typechecker=typecheck.check)


def inner(returned):
    @checked
    def twice(x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"]) -> returned:  # pyright: ignore[reportInvalidTypeForm]
        return x + y

    return twice


def test_an_inner_function_is_checked_whenever_it_is_made_by_a_checker_that_is_kept(monkeypatch):
    one, two = np.ones(1), np.ones(2)
    monkeypatch.setattr(typecheck, "checkers", {})
    for _ in range(3):
        np.testing.assert_array_equal(inner(Float[np.ndarray, "n"])(two, two), [2, 2])
    assert len(typecheck.checkers) == 2  # One for what goes in, one with what comes out.
    with pytest.raises(jaxtyping.TypeCheckError, match="twice"):
        inner(Float[np.ndarray, "n"])(one, two)
    # Of the same name, and of another annotation.
    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        inner(Float[np.ndarray, "n n"])(two, two)


def test_rndlib_is_checked():
    seed: Any = "0"
    with pytest.raises(jaxtyping.TypeCheckError, match="stream"):
        weights.stream(seed, weights.Role.MEMBER)
