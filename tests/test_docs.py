"""Every public name of the library says what it is in its docstring, with an example, and the example runs."""

import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module

import pytest

import rndlib

MODULES = [
    "training.backends", "datasets", "estimators",
    "estimators.departure", "theory.crowding", "training.initial", "theory.kernels", "theory.laws", "theory.mismatch",
    "theory.gaussian", "theory.streams", "theory.values",
    "network", "prior", "advice", "training.report", "training.solvers",
]  # fmt: skip

SEAM = {"Backend", "LinearMLP", "Linearised", "Solver", "apply", "chunked", "train", "run"}
SEAM |= {"of", "measure", "probes", "table", "words", "verdict", "doubled"}
"""What the library's parts do for each other: a user meets it in the examples of the estimators and the laws."""

PARSER = doctest.DocTestParser()


def public(module) -> Iterator[tuple[str, object]]:
    """Classes, functions and, of classes, methods and properties, by their full names. What a module defines itself,
    or a package has in its parts."""
    for name, found in vars(module).items():
        own = getattr(found, "__module__", "").startswith(module.__name__)
        if name.startswith("_") or name in SEAM or not own or not (inspect.isclass(found) or inspect.isfunction(found)):
            continue
        full = f"{module.__name__}.{name}"
        yield full, found
        if inspect.isclass(found):
            members = inspect.getmembers(found, lambda m: inspect.isfunction(m) or isinstance(m, property))
            for member, value in members:
                ours = not getattr(value, "__module__", "rndlib").startswith("sklearn")
                if ours and not member.startswith("_") and member not in SEAM:
                    yield f"{full}.{member}", value


NAMES = dict(found for name in MODULES for found in public(import_module(f"rndlib.{name}")))


def test_the_names_are_those_of_the_package():
    for name in rndlib.__all__:
        found = getattr(rndlib, name)
        assert inspect.ismodule(found) or found in NAMES.values()
    assert {"rndlib.theory.laws.posterior", "rndlib.estimators.BayesianRND.sample_y"} <= set(NAMES)


@pytest.mark.parametrize("name", ["rndlib", *NAMES])
# A hundred heads on a body would do without; an example is as small as it can be.
@pytest.mark.filterwarnings("ignore::rndlib.theory.crowding.HeadsWarning")
@pytest.mark.filterwarnings("ignore::rndlib.checks.ScaleWarning")  # labels far off are an example of DivergenceError
def test_an_example_that_runs(name):
    check(name, NAMES.get(name, rndlib))


@pytest.mark.torch
def test_examples_of_the_modules_for_torch():
    torch = import_module("rndlib.torch")
    for name in torch.__all__:
        documented = getattr(torch, name)
        check(name, documented)
        for method, value in inspect.getmembers(documented, inspect.isfunction) if inspect.isclass(documented) else []:
            if not method.startswith("_") and value.__module__.startswith("rndlib"):
                assert inspect.getdoc(value), f"{name}.{method} has no docstring"


def check(name, documented):
    text = inspect.getdoc(documented)
    assert text, f"{name} has no docstring"
    test = PARSER.get_doctest(text, {}, name, None, None)
    assert test.examples, f"{name} has no example"
    shown: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=shown.append)
    assert not results.failed, "".join(shown)


def test_help_is_enough_to_start():
    """Help on the package shows a fit, a prediction with its uncertainty, and where to read on."""
    text = inspect.getdoc(rndlib)
    assert text is not None
    for word in (".fit(", "return_std=True", "sample_y", *rndlib.__all__):
        assert word in text
