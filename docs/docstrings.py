"""An extension of Sphinx: docstrings on their way to napoleon, which reads numpydoc. They are plain text, for `help`.

A list may have `name: text` on one line, examples may go without their heading, and a formula is written as one types
it. Signs that mean something to docutils, except backquotes, mean nothing. Parameters that a docstring leaves out are
described as in `docs/parameters.toml`, where every name means the same wherever it stands.
"""

import inspect
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LISTS = {"Parameters", "Attributes", "Returns", "Raises", "Warns"}
COMMON: dict[str, str] = tomllib.loads(Path(__file__).with_name("parameters.toml").read_text(encoding="utf-8"))
"""What parameters are that docstrings do not describe, by name."""

GREEK = "kdot|kappa|Theta|theta|Sigma|sigma|psi|phi|lambda|epsilon|chi"
WORDS = {word: f"\\{word}" for word in (*GREEK.split("|"), "sqrt", "exp", "log", "max", "min")}
WORDS |= {"kdot": r"\dot\kappa", "grad": r"\nabla", "inf": r"\infty"}

_ENTRY = re.compile(r"([\w.*]+(?:, [\w.*]+)*): (.*)")
_MARKUP = re.compile(r"[\\*|]|_(?!\w)")
_SYMBOL = re.compile(rf"\b(?:{GREEK})(?:[_^](?:-?\w+|\{{[^}}]*\}}))*(?![\w=])")
_FORMULA = re.compile(rf"\^|\|\||\b(?:{GREEK})\b|\b(?:kappa|Theta|Sigma)_")
_CODE = re.compile(r"\*\*|[\"#]|\w\w\.\w|^\w+$")


def as_numpydoc(lines: Sequence[str], found: object = None) -> list[str]:
    """The lines of a docstring as numpydoc, with every parameter of what it documents."""
    out: list[str] = []
    section, block, listed = "", "", False
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if after and set(after) == {"-"}:
            section = line
        if line.startswith(">>>") and section != "Examples":
            section = "Examples"
            out += [section, "-" * len(section), ""]
        indented = line.startswith(" ")
        if not block and indented and not before and section not in {*LISTS, "Examples"}:
            block = ".. math::" if is_formula(line.strip()) else "::"
            out += [block, ""]
        block = block if indented or not line else ""
        entry = _ENTRY.fullmatch(line)
        if not line:
            listed = False
        elif entry and not listed:  # A single sentence with a colon is no list.
            listed = section in LISTS or after.startswith(" ") or _ENTRY.fullmatch(after) is not None
        if block == ".. math::" and line:
            typeset = r" \qquad ".join(map(tex, re.split(r" {3,}", line.strip())))
            if before or after:  # Several lines are aligned.
                typeset = typeset.replace("=", "&=", 1) + (r" \\" if after else "")
            out.append(f"    {typeset}")
        elif section == "Examples" or block:
            out.append(line)
        elif entry and listed:
            out += [entry[1], f"    {_text(entry[2])}"]
        else:
            out.append(_text(line))
    return _with_parameters(out, found)


def parameters(found: Any) -> list[str]:
    """The names of the parameters that a function or class takes."""
    try:
        names = list(inspect.signature(found).parameters)
    except (TypeError, ValueError):  # A property, or an exception of Python's own.
        return []
    return [name for name in names if name not in ("self", "cls", "args", "kwargs")]


def is_formula(text: str) -> bool:
    """Whether a text in backquotes, or by itself, is mathematics rather than code."""
    return (_FORMULA.search(text) is not None and _CODE.search(text) is None) or re.fullmatch(
        f"(?!sigma){_SYMBOL.pattern}", text
    ) is not None


def tex(text: str) -> str:
    """A formula as one types it, in TeX."""
    text = re.sub(r"sqrt\(([^()]*)\)", r"sqrt{\1}", text)
    text = re.sub(r"([_^])(-?\w+)", r"\1{\2}", text)
    text = re.sub(r"(?<![A-Za-z])[A-Za-z]{3,}", lambda word: WORDS.get(word[0], rf"\mathrm{{{word[0]}}}") + " ", text)
    text = re.sub(r"\b([EV])\[", r"\\mathbb{\1}[", text)
    text = re.sub(r"\b(\w)\.\1\b", r"\1 \\cdot \1", text)
    text = re.sub(r"(\w)~", r"\\tilde \1", text)
    text = re.sub(r"(\w ?)\*(?! )", r"\1^*", text)
    for typed, meant in {
        " * ": r" \cdot ",
        " ~ ": r" \sim ",
        "||": r"\|",
        "<=": r"\le ",
        ">=": r"\ge ",
        "^{T}": r"^\top",
    }.items():
        text = text.replace(typed, meant)
    return text.strip()


def _text(text: str) -> str:
    """A line outside of lists and blocks: formulas in backquotes and symbols in prose are typeset."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = (_prose(part) for part in parts[::2])
    parts[1::2] = (f":math:`{tex(part[1:-1])}`" if is_formula(part[1:-1]) else part for part in parts[1::2])
    return "".join(parts)


def _prose(text: str) -> str:
    parts = re.split(f"({_SYMBOL.pattern})", text)
    parts[::2] = (_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2])
    parts[1::2] = (rf"\ :math:`{tex(part)}`\ " for part in parts[1::2])
    return "".join(parts)


def _with_parameters(lines: list[str], found: object) -> list[str]:
    """The same with the parameters that the docstring leaves out."""
    told = {name.strip("* ") for line in lines if not line.startswith(" ") for name in line.split(",")}
    left = [name for name in parameters(found) if name not in told and name in COMMON]
    more = [line for name in left for line in (name, f"    {_text(COMMON[name])}")]
    if not more:
        return lines
    if "Parameters" in lines:
        start = lines.index("Parameters") + 2
        end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
        return [*lines[:end], *more, *lines[end:]]
    heads = [i for i, after in enumerate(lines[1:]) if after and set(after) == {"-"}]
    at = heads[0] if heads else len(lines)
    return [*lines[:at], "", "Parameters", "----------", *more, "", *lines[at:]]


def _numpydoc(app: Any, what: str, name: str, found: object, options: Any, lines: list[str]) -> None:
    lines[:] = as_numpydoc(lines, found)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _numpydoc, priority=100)
