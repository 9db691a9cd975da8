"""Silence is kept inside, and only there."""

import os
import warnings

import pytest

from rndlib.running.quiet import quiet


def test_nothing_is_heard_inside_and_everything_after(capfd):
    with quiet():
        os.write(2, b"compiled code\n")
        warnings.warn("a warning", stacklevel=1)
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "afterwards\n"
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)


def test_errors_pass_and_end_the_silence(capfd):
    with pytest.raises(ValueError, match="passed on"), quiet():
        raise ValueError("passed on")
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "afterwards\n"
