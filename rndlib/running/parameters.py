"""The parameters of a notebook, read from its tagged cell; values are checked against them before anything runs.

A parameter is one line of that cell, `width: int = 64  # units in each hidden layer`: name, type, default, help.
Whatever does not fit is refused with a `UsageError`.
(`papermill.inspect_notebook` reads such lines too, but skips one whose help has an equals sign, without an error.)
"""

import ast
import re
from dataclasses import dataclass
from math import isnan
from typing import Any

Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]

WANTED = {
    "int": "a whole number, such as 64",
    "float": "a number, such as 0.5 or 1e-3",
    "str": "a text",
    "bool": "true or false",
    "list[int]": "values in brackets, such as [32, 64]",
    "list[float]": "values in brackets, such as [0.5, 1e-3]",
    "list[str]": "values in brackets, such as [relu, silu]",
    "list[bool]": "values in brackets, such as [true, false]",
}
"""The types that a parameter can have, and what to give for each."""
DECLARATION = re.compile(r"(\w+): (\S+) = (.+?) *# *(\S.*)")


class UsageError(ValueError):
    """The request cannot be met; the message is one line that says what to ask for instead."""


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's parameters cell; `type` is one of `WANTED`, and `default` of that type."""

    name: str
    type: str
    default: Any
    help: str

    def __post_init__(self):
        if self.type not in WANTED:
            raise UsageError(f"{self.name} is of type {self.type!r}: choose one of {', '.join(WANTED)}")
        object.__setattr__(self, "default", self.checked(self.default))

    @property
    def listed(self) -> bool:
        """Whether it takes a list."""
        return self.type.startswith("list[")

    def checked(self, value: Any) -> Value:
        """A Python value as this parameter's type: a whole number passes for a float, nothing else is converted."""
        if self.listed and not isinstance(value, list):
            raise self._refused(value)
        items: list[Any] = value if self.listed else [value]
        fits = {
            "int": lambda item: type(item) is int,
            "float": lambda item: type(item) in (int, float) and not isnan(item),
            "str": lambda item: type(item) is str,
            "bool": lambda item: type(item) is bool,
        }
        if not all(map(fits[self._scalar], items)):
            raise self._refused(value)
        typed: Any = list(map(float, items)) if self._scalar == "float" else items
        return typed if self.listed else typed[0]

    def parsed(self, text: str) -> Value:
        """A value written as on a command line: `64`, `1e-3`, `true`, `silu`, `[32, 64]`."""
        try:
            if not self.listed:
                return self.checked(_literal(self._scalar, text))
            inside = re.fullmatch(r"\s*\[(.*)\]\s*", text, flags=re.DOTALL)
            items = inside[1].split(",") if inside and inside[1].strip() else []
            return self.checked([_literal(self._scalar, item) for item in items] if inside else text)
        except UsageError:
            raise self._refused(text) from None

    def text(self, value: Value) -> str:
        """The value as `parsed` reads it, for a command line; a list of texts with commas in them cannot be written."""
        text = value if self.type == "str" and isinstance(value, str) else repr(value)
        if text.startswith("-"):
            text = f" {text}"  # Or it would be taken for an option.
        if self.parsed(text) != value:
            raise UsageError(f"{self.name} = {value!r} cannot be put on a command line: leave out quotes and commas")
        return text

    @property
    def _scalar(self) -> str:
        return self.type.removeprefix("list[").removesuffix("]")

    def _refused(self, value: Any) -> UsageError:
        return UsageError(f"{self.name} = {value!r} is not of type {self.type}: give {WANTED[self.type]}")


def read(source: str) -> tuple[Parameter, ...]:
    """The parameters that a tagged cell declares; every line must be of the form `name: type = value  # help`."""
    declared = []
    for number, line in enumerate(source.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        place = f"line {number} of the parameters cell"
        parts = DECLARATION.fullmatch(line.rstrip())
        if parts is None:
            raise UsageError(f"{place}: write `name: type = value  # help`")
        name, type_, value, words = parts.groups()
        try:
            default = ast.literal_eval(value)
        except (ValueError, SyntaxError) as error:
            raise UsageError(f"{place}: the value of {name} must be written out, without a # in it") from error
        declared.append(Parameter(name, type_, default, words))
    return tuple(declared)


def _literal(scalar: str, text: str) -> Any:
    """The text as a Python value of the wanted type, or the text itself where it is none."""
    text = text.strip()
    if scalar == "str":
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    if scalar == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if scalar == "int" else float(text)
    except ValueError:
        return text
