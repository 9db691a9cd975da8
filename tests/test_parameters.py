"""Parameters of a notebook: how they are declared, and what is accepted as a value of which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rndlib.running import parameters
from rndlib.running.parameters import Parameter, UsageError

pytestmark = pytest.mark.tools

CELL = """\
# What can be changed.
width: int = 64  # units in each hidden layer
rate: float = 1e-3  # step # size
widths: list[int] = [32, 64]  # one network each

activation: str = "silu"  # nonlinearity
biased: bool = False  # whether there are biases
scales: list[float] = [1, 1.5]  # of the weights
time: float = 3  # whole numbers are numbers
"""


def declared(type_):
    default = [] if type_.startswith("list") else {"int": 1, "float": 1.0, "str": "a", "bool": True}[type_]
    return Parameter("p", type_, default, "help")


def test_a_cell_declares_name_type_default_and_help():
    assert parameters.read(CELL) == (
        Parameter("width", "int", 64, "units in each hidden layer"),
        Parameter("rate", "float", 1e-3, "step # size"),
        Parameter("widths", "list[int]", [32, 64], "one network each"),
        Parameter("activation", "str", "silu", "nonlinearity"),
        Parameter("biased", "bool", False, "whether there are biases"),
        Parameter("scales", "list[float]", [1.0, 1.5], "of the weights"),
        Parameter("time", "float", 3.0, "whole numbers are numbers"),
    )


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("width = 64  # units", "name: type = value"),
        ("import numpy", "name: type = value"),
        ("width: int  # units", "name: type = value"),
        ("width: int = 64", "name: type = value"),
        ('mode: str = "#"  # units', "the value of mode must be written out"),
        ("a: int = 1  # fine\nwidth: int = 64  #", "line 2"),
        ("width: complex = 1  # units", "'complex'"),
        ("width: list[list[int]] = [[1]]  # units", "choose one of"),
        ("width: int = 2 ** 6  # units", "written out"),
        ("width: int = 6.4  # units", "width = 6.4 is not of type int"),
        ("width: int = True  # units", "width = True is not of type int"),
        ("widths: list[int] = (1, 2)  # units", "widths"),
        ("width: int = (", "line 1"),
    ],
)
def test_a_cell_that_is_not_of_that_form_is_refused(cell, words):
    with pytest.raises(UsageError) as refusal:
        parameters.read(cell)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("int", "64", 64),
        ("int", "-3", -3),
        ("float", "1e-3", 1e-3),
        ("float", "1E5", 1e5),
        ("float", "64", 64.0),
        ("float", "inf", float("inf")),
        ("bool", "true", True),
        ("bool", "False", False),
        ("str", "silu", "silu"),
        ("str", "'silu'", "silu"),
        ("str", "3", "3"),
        ("str", "true", "true"),
        ("list[int]", "[32, 64]", [32, 64]),
        ("list[int]", "[]", []),
        ("list[float]", "[1e-3,2]", [1e-3, 2.0]),
        ("list[str]", "[relu, 'silu']", ["relu", "silu"]),
        ("list[bool]", "[true]", [True]),
    ],
)
def test_text_becomes_a_value_of_the_declared_type(type_, text, value):
    parsed = declared(type_).parsed(text)
    assert parsed == value
    assert type(parsed) is type(value)
    if isinstance(value, list) and isinstance(parsed, list):
        assert list(map(type, parsed)) == list(map(type, value))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int", "1e3"),
        ("int", "3.0"),
        ("int", "true"),
        ("int", "[64]"),
        ("int", ""),
        ("float", "fast"),
        ("float", "nan"),
        ("float", "true"),
        ("float", "1e-3x"),
        ("bool", "1"),
        ("bool", "yes"),
        ("list[int]", "32"),
        ("list[int]", "32, 64"),
        ("list[int]", "[32, x]"),
        ("list[int]", "[32,]"),
        ("list[int]", "[[32]]"),
        ("list[float]", "[nan]"),
    ],
)
def test_text_of_another_type_is_refused_with_value_type_and_remedy(type_, text):
    with pytest.raises(UsageError) as refusal:
        declared(type_).parsed(text)
    message = str(refusal.value)
    assert f"p = {text!r} is not of type {type_}: give " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", 1.0),
        ("int", True),
        ("float", False),
        ("float", "1e-3"),
        ("float", float("nan")),
        ("str", 3),
        ("bool", 1),
        ("list[int]", 3),
        ("list[int]", [1, "2"]),
        ("list[int]", [1.5]),
        ("list[float]", [True]),
    ],
)
def test_a_profile_value_of_another_type_is_refused(type_, value):
    with pytest.raises(UsageError, match="is not of type"):
        declared(type_).checked(value)


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans()))
def test_what_python_prints_of_a_scalar_is_read_back(value):
    assert declared(type(value).__name__).parsed(repr(value)) == value


@given(st.lists(st.floats(allow_nan=False)))
def test_what_python_prints_of_a_list_is_read_back(values):
    assert declared("list[float]").parsed(repr(values)) == values
