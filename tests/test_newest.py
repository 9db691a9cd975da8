"""The second leg of `make test` is what it says: the newest JAX, without neural-tangents."""

from importlib.metadata import version
from importlib.util import find_spec

import environments
import pytest

pytestmark = pytest.mark.newest


def test_jax_is_the_newest_pinned():
    pinned = environments.pins(".venv-newest")
    assert (version("jax"), version("jaxlib")) == (pinned["jax"], pinned["jaxlib"])
    assert pinned["jax"] != environments.pins(".venv")["jax"]


@pytest.mark.parametrize("package", ["neural_tangents", "tf2jax", "tensorflow", "torch"])
def test_nothing_else_is_there_to_lean_on(package):
    assert find_spec(package) is None
