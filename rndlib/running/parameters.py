"""The parameters of a notebook: read from its tagged cell, and checked against before anything runs.

A parameter is one line of that cell, `width: int = 64  # units in each hidden layer`: name, type, default, help.
"""

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from math import isnan
from typing import Any

Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]

_SCALARS = {
    "int": "a whole number, such as 64",
    "float": "a number, such as 0.5 or 1e-3",
    "str": "a text",
    "bool": "true or false",
}
_LISTS = {"int": "[32, 64]", "float": "[0.5, 1e-3]", "str": "[silu, relu]", "bool": "[true, false]"}
TYPES = [*_SCALARS, *(f"list[{scalar}]" for scalar in _SCALARS)]


class UsageError(ValueError):
    """What was asked for cannot be done; the message is one line that says what to ask for instead."""


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's parameters cell.

    Raises
    ------
    UsageError: `type` is not one of `TYPES`, or `default` is not of that type.
    """

    name: str
    type: str
    default: Any
    help: str

    def __post_init__(self):
        if self.type not in TYPES:
            raise UsageError(f"{self.name} is of type {self.type!r}: choose one of {', '.join(TYPES)}")
        object.__setattr__(self, "default", self.checked(self.default))

    def checked(self, value: Any) -> Value:
        """A Python value as this parameter's type: a whole number passes for a float, nothing else is converted.

        Raises
        ------
        UsageError: the value is of another type.
        """
        scalar = _item(self.type)
        if scalar is None:
            return self._scalar(self.type, value, value)
        if not isinstance(value, list):
            raise self._refused(value)
        return [self._scalar(scalar, item, value) for item in value]

    def parsed(self, text: str) -> Value:
        """A value written as on a command line: `64`, `1e-3`, `true`, `silu`, `[32, 64]`.

        Raises
        ------
        UsageError: the text is not a value of this parameter's type.
        """
        scalar = _item(self.type)
        if scalar is None:
            return self._scalar(self.type, _literal(self.type, text), text)
        inside = re.fullmatch(r"\s*\[(.*)\]\s*", text, flags=re.DOTALL)
        if inside is None:
            raise self._refused(text)
        items = inside[1].split(",") if inside[1].strip() else []
        return [self._scalar(scalar, _literal(scalar, item), text) for item in items]

    def text(self, value: Value) -> str:
        """The value as `parsed` reads it, for a command line.

        Raises
        ------
        UsageError: it cannot be written there, such as a list of texts with commas in them.
        """
        text = value if self.type == "str" and isinstance(value, str) else repr(value)
        if text.startswith("-"):
            text = f" {text}"  # Or it would be taken for an option.
        if self.parsed(text) != value:
            raise UsageError(f"{self.name} = {value!r} cannot be put on a command line: leave out quotes and commas")
        return text

    def _scalar(self, scalar: str, value: Any, whole: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = {
            "int": number and isinstance(value, int),
            "float": number and not isnan(value),
            "str": isinstance(value, str),
            "bool": isinstance(value, bool),
        }
        if not fits[scalar]:
            raise self._refused(whole)
        return float(value) if scalar == "float" else value

    def _refused(self, value: Any) -> UsageError:
        scalar = _item(self.type)
        wanted = _SCALARS[self.type] if scalar is None else f"values in brackets, such as {_LISTS[scalar]}"
        return UsageError(f"{self.name} = {value!r} is not of type {self.type}: give {wanted}")


def read(source: str) -> tuple[Parameter, ...]:
    """The parameters that a tagged cell declares.

    Raises
    ------
    UsageError: a line of the cell is not of the form `name: type = value  # help`.
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise UsageError(f"line {error.lineno} of the parameters cell: {error.msg}") from error
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    return tuple(_declared(statement, comments) for statement in statements)


def _declared(statement: ast.stmt, comments: dict[int, str]) -> Parameter:
    line = statement.end_lineno or statement.lineno
    form = f"line {line} of the parameters cell: write `name: type = value  # help`"
    if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value):
        raise UsageError(form)
    if not comments.get(line):
        raise UsageError(f"{form}; {statement.target.id} has no help")
    try:
        default = ast.literal_eval(statement.value)
    except ValueError as error:
        raise UsageError(f"{form}; the value of {statement.target.id} must be written out") from error
    return Parameter(statement.target.id, ast.unparse(statement.annotation), default, comments[line])


def _item(type_: str) -> str | None:
    """The type of a list's items; None for a type that is no list."""
    return type_[len("list[") : -1] if type_.startswith("list[") else None


def _literal(scalar: str, text: str) -> Any:
    """The text as a Python value of the wanted scalar type, or the text itself where it is none."""
    text = text.strip()
    if scalar == "str":
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    if scalar == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text) if scalar == "int" else float(text)
    except ValueError:
        return text
