"""Reading a grid: all of its cells, or what is wrong with it. Its form is in `rndlib.running.batch`."""

from collections.abc import Iterable
from itertools import product
from math import inf
from pathlib import Path
from reprlib import repr as short
from typing import Any

import yaml

from rndlib.running import notebooks, provenance, runs
from rndlib.running.batch.cell import Cell
from rndlib.running.notebooks import Notebook
from rndlib.running.parameters import UsageError, Value

SHARED = {"profile", "timeout"}
RUN = {"notebook", "set", "product", "list", "seeds"} | SHARED


class _Loader(yaml.BaseLoader):
    """Every value is text until its parameter's type is known, so YAML does not make 8 of `010` or False of `no`."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        content = super().construct_mapping(node, deep)
        if len(content) < len(node.value):
            raise UsageError(f"line {node.start_mark.line + 1}: a key is there twice: leave one out")
        return content


def read(path: Path) -> list[Cell]:
    """The cells of a grid, in its order.

    A UsageError says which file, key or value cannot be read, is not YAML or not of the form of a grid, and the remedy.
    """
    try:
        return _cells(yaml.load(path.read_text(encoding="utf-8"), _Loader))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: name a grid that can be read") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: is not YAML ({' '.join(str(error).split())}): mend that place") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _cells(content: Any) -> list[Cell]:
    top = _mapping(content, "the grid", {"runs"} | SHARED)
    shared = {key: value for key, value in top.items() if key in SHARED}
    code = provenance.code()
    cells: dict[str, Cell] = {}
    for index, entry in enumerate(_list(top.get("runs"), "runs")):
        try:
            for cell in _run(shared | _mapping(entry, "the run", RUN), code):
                if cell.key in cells:
                    raise UsageError(f"{cell.label!r} is there twice, here or with an earlier run: leave one out")
                cells[cell.key] = cell
        except UsageError as error:
            raise UsageError(f"runs[{index}]: {error}") from error
    return list(cells.values())


def _run(entry: dict[str, Any], code: str) -> Iterable[Cell]:
    notebook = notebooks.find(str(entry.get("notebook")))
    profile = str(entry.get("profile", notebooks.PAPER))
    start = notebook.settings(profile, [])
    timeout = _seconds(entry["timeout"]) if "timeout" in entry else None
    fixed = _values(notebook, entry.get("set", {}), "set")
    points = [_values(notebook, point, "list") for point in _list(entry.get("list", [{}]), "list")]
    axes = {
        name: [_value(notebook, name, value) for value in _list(values, f"product.{name}")]
        for name, values in _mapping(entry.get("product", {}), "product").items()
    }
    seeds = _seeds(entry["seeds"]) if "seeds" in entry else [None]
    named = [*fixed, *axes, *{name for point in points for name in point}]
    named += ["seed", "seeds"] if "seeds" in entry else []
    for name in named:
        if named.count(name) > 1:
            raise UsageError(f"{name} is set by more than one of set, product, list and seeds: leave it in one")
    for point, combination, repeat in product(points, product(*axes.values()), seeds):
        chosen = {**fixed, **point, **dict(zip(axes, combination, strict=True))}
        values = {**start, **chosen}
        if repeat is not None:
            values = notebook.repeated(values, repeat)
        yield Cell(notebook, profile, values, chosen, repeat, timeout, runs.key(notebook, values, code))


def _values(notebook: Notebook, given: Any, where: str) -> dict[str, Value]:
    return {name: _value(notebook, name, value) for name, value in _mapping(given, where).items()}


def _value(notebook: Notebook, name: str, given: Any) -> Value:
    """A value as its parameter's type, read as on the command line, where it must be possible to write it, too."""
    parameter = notebook.parameter(name)
    if parameter.listed and isinstance(given, list) and all(isinstance(i, str) and "," not in i for i in given):
        given = f"[{','.join(given)}]"
    value = parameter.parsed(given) if isinstance(given, str) else parameter.checked(given)
    parameter.text(value)
    return value


def _seeds(given: Any) -> list[int]:
    try:
        seeds = [int(seed) for seed in given] if isinstance(given, list) else list(range(int(given)))
    except (TypeError, ValueError):
        seeds = []
    if not seeds or min(seeds) < 0:
        raise UsageError(f"seeds = {short(given)}: give how many there are, as in 3, or a list of them, as in [0, 7]")
    return seeds


def _seconds(given: Any) -> float:
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < inf:
        raise UsageError(f"timeout = {short(given)}: is not a time: give seconds above 0, such as 600")
    return seconds


def _mapping(given: Any, where: str, known: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UsageError(f"{where} = {short(given)}: is not a mapping: give one, as in {{width: 64}}")
    for key in given:
        if known and key not in known:
            raise UsageError(f"{key} is no key of {where}: choose one of {', '.join(sorted(known))}")
    return given


def _list(given: Any, where: str) -> list[Any]:
    if not isinstance(given, list) or not given:
        raise UsageError(f"{where} = {short(given)}: is not a list, or is empty: give one, as in [64, 128]")
    return given
