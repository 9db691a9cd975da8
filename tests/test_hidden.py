"""A hidden module is missing inside, and only there."""

import sys
from importlib import import_module

import pytest

from rndlib.running.hidden import hidden


def test_a_module_is_missing_inside_and_there_afterwards():
    sys.modules.pop("this", None)
    with hidden("this"), pytest.raises(ImportError):
        import_module("this")
    assert "this" not in sys.modules


def test_a_module_that_is_loaded_stays():
    with hidden("sys"):
        import sys as inside
    assert sys.modules["sys"] is inside
