"""neural-tangents is imported without TensorFlow. Notebook 00 and test_practice_convolutions.py compare with it."""

import subprocess
import sys

import pytest


@pytest.mark.check
@pytest.mark.neural_tangents
def test_it_is_imported_without_tensorflow():
    code = """
import sys
from rndlib.paper.practice.references import EXPERIMENTAL, neural_tangents
assert neural_tangents().stax.Gelu and neural_tangents().predict
assert "tensorflow" not in sys.modules
assert EXPERIMENTAL not in sys.modules and not hasattr(neural_tangents(), "experimental")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
