"""A notebook's parameters: what stops it in its first code cell, and what papermill sees of them."""

import ast
from typing import Any

import pytest

from rndlib.paper import parameters, sources

pytestmark = pytest.mark.tools

DECLARED = """
width: int = 64
rate: float = 0.5
name: str = "silu"
shown: bool = True
widths: list[int] = [32, 64]
rates: list[float] = [0.5, 1]
"""


def scope(**values: Any) -> dict[str, Any]:
    """What `globals()` is in a notebook that got these values."""
    found: dict[str, Any] = {}
    exec(DECLARED, found)
    return found | values


@pytest.mark.parametrize("values", [{}, {"rate": 2, "widths": []}, {"rates": [1, 2.5]}, {"width": -3, "name": ""}])
def test_values_of_the_declared_types_pass(values):
    parameters.check(scope(**values), "width <= 64", "len(widths) < 3")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"width": "abc"}, "width = 'abc' is not of type int: give a whole number, such as 64"),
        ({"width": 0.5}, "width = 0.5 is not of type int"),
        ({"width": True}, "width = True is not of type int"),
        ({"rate": "1e-3"}, r"rate = '1e-3' is not of type float: .*YAML takes 1e-3 for a text: write 0.001"),
        ({"rate": float("nan")}, "rate = nan is not of type float"),
        ({"name": 3}, "name = 3 is not of type str"),
        ({"shown": 1}, "shown = 1 is not of type bool: give true or false"),
        ({"widths": 32}, r"widths = 32 is not of type list\[int\]: give a list, with papermill as in -y 'widths:"),
        ({"widths": "[32, 64]"}, r"widths = '\[32, 64\]' is not of type list\[int\]"),
        ({"widths": [32, "64"]}, r"widths = \[32, '64'\] is not of type list\[int\]"),
        ({"width": 65}, "^width = 65: give values with width <= 64$"),
        ({"widths": [1, 2, 65], "width": 3}, r"^width = 3, widths = \[1, 2, 65\]: give values with all\(n <= width"),
    ],
)
def test_what_does_not_fit_gets_one_sentence(values, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        parameters.check(scope(**values), "width <= 64", "all(n <= width for n in widths)")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("notebook", sorted(path.stem for path in sources.NOTEBOOKS.glob("*.ipynb")))
def test_papermill_knows_every_parameter_and_the_first_cell_checks_them(notebook):
    """papermill skips a declaration with an equals sign in its help, and would call its name unknown."""
    import papermill

    first, second = ["".join(cell["source"]) for cell in sources.cells(notebook)[:2]]
    declared = [line.target.id for line in ast.parse(first).body]  # pyright: ignore
    assert list(papermill.inspect_notebook(str(sources.NOTEBOOKS / f"{notebook}.ipynb"))) == declared
    values: dict[str, Any] = {}
    exec(first, values)
    check = next(line for line in ast.parse(second).body if "parameters.check" in ast.unparse(line))
    exec(ast.unparse(check), values | {"parameters": parameters})
    with pytest.raises(ValueError, match="is not of type"):
        exec(ast.unparse(check), values | {"parameters": parameters, declared[0]: None})
