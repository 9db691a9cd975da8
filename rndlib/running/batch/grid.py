"""Reading a grid: every cell that it asks for, or what is wrong with it. Its form is in `rndlib.running.batch`."""

from itertools import product
from math import prod
from pathlib import Path
from reprlib import repr as short
from typing import Any

from rndlib.running import notebooks, provenance, runs
from rndlib.running.batch import document
from rndlib.running.batch.cell import Cell
from rndlib.running.notebooks import Notebook
from rndlib.running.parameters import UsageError, Value

DEFAULTS = {"profile", "timeout"}
RUN = {"notebook", "set", "product", "list", "seeds"} | DEFAULTS
MOST = 100_000  # cells; more are a slip of the pen


def read(path: Path) -> list[Cell]:
    """The cells of a grid, in its order.

    Raises
    ------
    UsageError: the file cannot be read, is not YAML, or something in it is not of that form: the message names
        the file, the key, the value and what to give instead.
    """
    try:
        return _cells(document.read(path))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _cells(content: Any) -> list[Cell]:
    top = _mapping(content, "the grid", {"runs"} | DEFAULTS)
    entries = _filled(top.get("runs"), "runs", "runs, each with its notebook")
    cells: list[Cell] = []
    places: dict[str, str] = {}
    code = provenance.code()
    for index, entry in enumerate(entries):
        where = f"runs[{index}]"
        defaults = {key: top[key] for key in DEFAULTS if key in top}
        for cell in _run(defaults | _mapping(entry, where, RUN), where, code):
            if cell.key in places:
                raise UsageError(
                    f"{where} = {cell.label!r}: is in {places[cell.key]} with the same values: leave one out"
                )
            places[cell.key] = where
            cells.append(cell)
    return cells


def _run(entry: dict[str, Any], where: str, code: str) -> list[Cell]:
    name, profile = (_text(entry, key, where, default) for key, default in (("notebook", None), ("profile", "paper")))
    try:
        notebook = notebooks.find(name)
        start = notebook.settings(profile, [])
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    timeout = _time(entry.get("timeout"), f"{where}.timeout")
    fixed = _values(notebook, entry.get("set", {}), f"{where}.set")
    axes = _product(notebook, entry.get("product", {}), f"{where}.product")
    points = _list(notebook, entry.get("list"), f"{where}.list")
    seeds = _seeds(entry.get("seeds"), f"{where}.seeds")
    _apart(where, set=set(fixed), product=set(axes), list={name for point in points for name in point})
    count = prod(map(len, axes.values())) * len(points) * len(seeds or [0])
    if count > MOST:
        raise UsageError(f"{where} has {count} cells: ask for at most {MOST} in one run of the grid")
    cells = []
    for point, combination, repeat in product(points, product(*axes.values()), seeds or [None]):
        chosen = {**fixed, **point, **dict(zip(axes, combination, strict=True))}
        values = {**start, **chosen}
        if repeat is not None:
            values = _repeated(notebook, values, chosen, repeat, where)
        overrides = {
            name: notebook.parameter(name).text(value) for name, value in values.items() if value != start[name]
        }
        key = runs.key(notebook, values, code)
        cells.append(Cell(notebook, profile, values, chosen, repeat, overrides, timeout, key))
    return cells


def _values(notebook: Notebook, given: Any, where: str) -> dict[str, Value]:
    """Values by name, each of its parameter's type."""
    if not isinstance(given, dict):
        raise UsageError(f"{where} = {short(given)}: is not a mapping: give values by name, as in {{width: 64}}")
    return {name: _value(notebook, name, value, where) for name, value in given.items()}


def _value(notebook: Notebook, name: Any, value: Any, where: str) -> Value:
    try:
        parameter = notebook.parameter(name)
        checked = parameter.checked(value)
        parameter.text(checked)
    except UsageError as error:
        raise UsageError(f"{where}: {notebook.name}: {error}") from error
    return checked


def _product(notebook: Notebook, given: Any, where: str) -> dict[str, list[Value]]:
    axes: dict[str, list[Value]] = {}
    if not isinstance(given, dict):
        raise UsageError(f"{where} = {short(given)}: is not a mapping: give lists by name, as in {{width: [64, 128]}}")
    for name, values in given.items():
        here = f"{where}.{name}"
        axes[name] = [_value(notebook, name, value, where) for value in _filled(values, here, "values to combine")]
        _distinct(axes[name], here)
    return axes


def _list(notebook: Notebook, given: Any, where: str) -> list[dict[str, Value]]:
    if given is None:
        return [{}]
    entries = _filled(given, where, "mappings, as in [{width: 64}, {width: 128}]")
    points = [_values(notebook, entry, f"{where}[{index}]") for index, entry in enumerate(entries)]
    _distinct(points, where)
    for index, point in enumerate(points):
        if not point:
            raise UsageError(f"{where}[{index}] = {{}}: has no values: give some, as in {{width: 64}}, or leave it out")
    return points


def _seeds(given: Any, where: str) -> list[int] | None:
    if given is None:
        return None
    whole = isinstance(given, int) and not isinstance(given, bool)
    if whole and given > 0:
        return list(range(given))
    if whole or not isinstance(given, list):
        raise UsageError(
            f"{where} = {short(given)}: is no number of seeds: give 3 or more or less, or a list, as in [0, 7]"
        )
    for seed in _filled(given, where, "whole numbers"):
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise UsageError(f"{where} = {short(seed)}: is not the number of a repeat: give 0, 1, 2, ...")
    _distinct(given, where)
    return given


def _repeated(
    notebook: Notebook, values: dict[str, Value], chosen: dict[str, Value], repeat: int, where: str
) -> dict[str, Value]:
    for name in ("seed", "seeds"):
        if name in chosen:
            raise UsageError(f"{where}: {name} = {chosen[name]!r}: is set by seeds as well: leave one of them out")
    try:
        return notebook.repeated(values, repeat)
    except UsageError as error:
        raise UsageError(f"{where}.seeds: {error}") from error


def _time(given: Any, where: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise UsageError(f"{where} = {short(given)}: is not a time: give seconds above 0, such as 600")
    return float(given)


def _text(entry: dict[str, Any], key: str, where: str, default: str | None) -> str:
    given = entry.get(key, default)
    if given is None:
        raise UsageError(f"{where} has no {key}: give one, as in `{key}: {notebooks.names()[0]}`")
    if not isinstance(given, str):
        raise UsageError(f"{where}.{key} = {short(given)}: is not a text: put it in quotes, as in '05'")
    return given


def _mapping(given: Any, where: str, known: set[str]) -> dict[str, Any]:
    wanted = ", ".join(sorted(known))
    if not isinstance(given, dict):
        raise UsageError(f"{where} = {short(given)}: is not a mapping: give some of the keys {wanted}")
    for key in given:
        if key not in known:
            raise UsageError(f"{where}.{key} = {short(given[key])}: no such key: choose one of {wanted}")
    return given


def _filled(given: Any, where: str, wanted: str) -> list[Any]:
    if not isinstance(given, list) or not given:
        why = "is empty" if given == [] else "is not a list"
        raise UsageError(f"{where} = {short(given)}: {why}: give a list of {wanted}")
    return given


def _distinct(values: list[Any], where: str) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise UsageError(f"{where} = {short(value)}: is there twice: leave one out")


def _apart(where: str, **names: set[str]) -> None:
    seen: dict[str, str] = {}
    for key, found in names.items():
        for name in sorted(found):
            if name in seen:
                raise UsageError(f"{where}.{key}.{name}: is in {where}.{seen[name]} as well: leave one of them out")
            seen[name] = key
