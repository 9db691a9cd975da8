"""How docstrings become the pages of the reference: every parameter described, formulas typeset, code left alone."""

import inspect
import re
from importlib import import_module

import docstrings
import pytest
import site_build
import site_notebooks
import site_pages

pytestmark = [pytest.mark.tools, pytest.mark.torch]


def test_no_line_is_taken_for_a_comment():
    assert site_notebooks.kept("a\n% b\n50 % c") == "a\n\\% b\n50 % c"
    for path in site_build.ROOT.glob("docs/**/*.md"):
        assert not re.findall("^%", path.read_text(encoding="utf-8"), flags=re.MULTILINE), path


def documented():
    """Every function and class of the reference with its full name, and the methods that the classes define."""
    for module, names in site_pages.names().items():
        for name in names:
            found = getattr(import_module(module), name)
            yield f"{module}.{name}", found
            for key, value in inspect.getmembers(found, inspect.isfunction) if inspect.isclass(found) else []:
                if key[0] != "_" and key not in site_pages.SEAM and value.__module__.startswith("rndlib"):
                    yield f"{module}.{name}.{key}", value


def test_every_parameter_is_described():
    missing = []
    for name, found in documented():
        lines = docstrings.as_numpydoc((inspect.getdoc(found) or "").splitlines(), found)
        told = {told.strip("* ") for line in lines if not line.startswith(" ") for told in line.split(",")}
        missing += [f"{name}: {parameter}" for parameter in docstrings.parameters(found) if parameter not in told]
    assert not missing, "describe them in their docstrings, or in docs/parameters.toml"


DOCSTRING = """Says *what*, of `RND` and x_ | y, with Theta_xX and `kappa^1`.

Note: a sentence.

    kappa^l = sigma_w^2 E[phi(u)]

one: the first.
two: the second.

Parameters
----------
heads, bodies: outputs of one body,
    and bodies.
X : array
    Points.

>>> 1 + 1
2"""


def test_docstrings_are_plain_text_with_formulas():
    assert docstrings.as_numpydoc(DOCSTRING.splitlines(), lambda heads, seed: None) == [
        r"Says \*what\*, of `RND` and x\_ \| y, with \ :math:`\Theta _{xX}`\  and :math:`\kappa ^{1}`.",
        "", "Note: a sentence.", "", ".. math::", "", r"    \kappa ^{l} = \sigma _{w}^{2} \mathbb{E}[\phi (u)]", "",
        "one", "    the first.", "two", "    the second.", "",
        "Parameters", "----------", "heads, bodies", "    outputs of one body,", "    and bodies.", "X : array",
        "    Points.", "seed", f"    {docstrings.COMMON['seed']}", "",
        "Examples", "--------", "", ">>> 1 + 1", "2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Theta_XX^-1 Theta_Xx", r"\Theta _{XX}^{-1} \Theta _{Xx}"),
        ("1/2 ||f(X) - y||^2", r"1/2 \|f(X) - y\|^{2}"),
        ("sigma_w / sqrt(n_{l-1}) w^l", r"\sigma _{w} / \sqrt {n_{l-1}} w^{l}"),
        ("g~(x) = J u(x) psi*", r"\tilde g(x) = J u(x) \psi ^*"),
        ("f ~ GP(0, Theta)", r"f \sim GP(0, \Theta )"),
    ],
)
def test_formulas_are_typeset(typed, meant):
    assert docstrings.is_formula(typed)
    assert docstrings.tex(typed) == meant


@pytest.mark.parametrize("code", ["noise_std**2", "sigma_w", "laws.posterior", "bonus(obs)", 'get=("nngp", "ntk")'])
def test_code_is_no_formula(code):
    assert not docstrings.is_formula(code)
