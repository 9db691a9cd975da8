"""Docstrings of this project as reStructuredText: plain text, in which `name` is code and a section lists `name: text`.

They are written to be read by `help`, so nothing in them is markup but backquotes: all other signs that mean something
to docutils are escaped here. What stands indented by itself is shown as it stands.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

SECTIONS = {"Parameters", "Attributes", "Raises", "Returns", "Warns", "Examples", "Accuracy"}
_ENTRY = re.compile(r"((?:[\w.]+)(?:, [\w.]+)*): (.*)")


def converted(lines: Sequence[str], targets: Mapping[str, str]) -> list[str]:
    """The lines of a docstring as lines of reStructuredText; `targets` has the full names of what can be linked to."""
    lines = [line.rstrip() for line in lines]
    out: list[str] = []
    for block in _blocks(lines):
        listed = False  # whether a section begins here that lists entries
        if len(block) > 1 and block[0] in SECTIONS and set(block[1]) == {"-"}:
            listed = block[0] in {"Parameters", "Attributes", "Raises", "Warns"}
            out += [f".. rubric:: {block[0]}", ""]
            block = block[2:]
        if not block:
            continue
        if block[0].startswith(">>>"):
            out += [*block, ""]
        elif block[0].startswith(" "):
            out += ["::", "", *block, ""]
        elif _ENTRY.fullmatch(block[0]) and (listed or _is_list(block)):
            out += [*_definitions(block, targets), ""]
        else:
            out += [_text(" ".join(map(str.strip, block)), targets), ""]  # on one line, as code may go over its end
    return out


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """What stands between empty lines; indented blocks that follow each other are one."""
    rest = list(lines)
    while rest:
        if not rest[0]:
            rest.pop(0)
            continue
        if rest[0].startswith(" "):
            block = list(takewhile(lambda line: not line or line.startswith(" "), rest))
            while not block[-1]:
                block.pop()
        else:
            block = list(takewhile(bool, rest))
        del rest[: len(block)]
        yield block


def _is_list(block: Sequence[str]) -> bool:
    """Whether every line is an entry or goes on with one, and there are several: a sentence with a colon is no list."""
    starts = [line for line in block if not line.startswith(" ")]
    return len(starts) > 1 and all(_ENTRY.fullmatch(line) for line in starts)


def _definitions(block: Sequence[str], targets: Mapping[str, str]) -> Iterator[str]:
    entry: list[str] = []
    for line in [*block, None]:
        if (line is None or not line.startswith(" ")) and entry:
            match = _ENTRY.fullmatch(" ".join(map(str.strip, entry)))
            assert match is not None
            yield ", ".join(_code(name, targets) for name in match[1].split(", "))
            yield f"    {_text(match[2], targets)}"
            entry = []
        if line is not None:
            entry.append(line)


def _text(text: str, targets: Mapping[str, str]) -> str:
    parts = re.split(r"`([^`]+)`", text)
    parts[::2] = (re.sub(r"([\\*|]|_(?!\w))", r"\\\1", part) for part in parts[::2])
    parts[1::2] = (_code(part, targets) for part in parts[1::2])
    # A role or a literal ends only before a space or a sign: an empty escape separates it from a letter.
    return "".join(
        part + "\\ " * (i % 2 == 1 and i + 1 < len(parts) and parts[i + 1][:1].isalnum())
        for i, part in enumerate(parts)
    )


def _code(text: str, targets: Mapping[str, str]) -> str:
    return f":py:obj:`{text} <{targets[text]}>`" if text in targets else f"``{text}``"
