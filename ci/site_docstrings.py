"""Docstrings on their way to napoleon, which reads numpydoc: they are written for `help`, as plain text.

A list may have `name: text` on one line, examples may go without their heading, what stands indented by itself is shown
as it stands, and signs that mean something to docutils, except backquotes, mean nothing.
"""

import re
from collections.abc import Sequence

LISTS = {"Parameters", "Attributes", "Returns", "Raises", "Warns"}
_ENTRY = re.compile(r"([\w.]+(?:, [\w.]+)*): (.*)")
_MARKUP = re.compile(r"[\\*|]|_(?!\w)")
_CODE = re.compile(r"(`[^`]*`)")


def as_numpydoc(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring as numpydoc."""
    out: list[str] = []
    section, literal, listed = "", False, False
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if after and set(after) == {"-"}:
            section = line
        if line.startswith(">>>") and section != "Examples":
            section = "Examples"
            out += [section, "-" * len(section), ""]
        indented = line.startswith(" ")
        if indented and not before and section not in {*LISTS, "Examples"} and not literal:
            literal = True
            out += ["::", ""]
        literal = literal and (indented or not line)
        entry = _ENTRY.fullmatch(line)
        if not line:
            listed = False
        elif entry and not listed:  # A single sentence with a colon is no list.
            listed = section in LISTS or after.startswith(" ") or _ENTRY.fullmatch(after) is not None
        if section == "Examples" or literal:
            out.append(line)
        elif entry and listed:
            out += [entry[1], f"    {_plain(entry[2])}"]
        else:
            out.append(_plain(line))
    return out


def _plain(text: str) -> str:
    parts = _CODE.split(text)
    parts[::2] = (_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2])
    return "".join(parts)
