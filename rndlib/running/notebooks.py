"""The notebooks that can be run: where they are, what they are called, what their parameters and profiles are."""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rndlib.running import parameters
from rndlib.running.parameters import Parameter, UsageError, Value

PROFILES = "profiles.toml"
PAPER = "paper"  # The profile of every notebook's own defaults.


@dataclass(frozen=True)
class Notebook:
    """A notebook file: its name (without `.ipynb`), its first heading, and the parameters it declares.

    `text` is a digest of its cells, outputs left out.
    """

    name: str
    path: Path
    title: str
    parameters: tuple[Parameter, ...]
    text: str

    def settings(self, profile: str, overrides: Iterable[tuple[str, str]]) -> dict[str, Value]:
        """The value of every parameter under a profile and, over it, `(name, text)` pairs of the command line.

        Raises
        ------
        UsageError: an unknown profile or parameter, or a value of the wrong type.
        """
        values = {parameter.name: parameter.default for parameter in self.parameters}
        try:
            for name, value in self._profile(profile).items():
                values[name] = self.parameter(name).checked(value)
            for name, text in overrides:
                values[name] = self.parameter(name).parsed(text)
        except UsageError as error:
            raise UsageError(f"{self.name}: {error}") from error
        return values

    def repeated(self, values: Mapping[str, Value], repeat: int) -> dict[str, Any]:
        """`values` with seeds that no other repeat shares; repeat 0 keeps its own.

        A parameter `seed` goes up by `repeat`; each of `seeds` by `repeat` times their number.

        Raises
        ------
        UsageError: the notebook has neither.
        """
        again: dict[str, Any] = dict(values)
        if "seeds" in again:
            again["seeds"] = [repeat * len(again["seeds"]) + seed for seed in again["seeds"]]
        elif "seed" in again:
            again["seed"] += repeat
        else:
            raise UsageError(f"{self.name}: declare a parameter seed or seeds, so that it can be repeated")
        return again

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name.

        Raises
        ------
        UsageError: there is none.
        """
        declared = {parameter.name: parameter for parameter in self.parameters}
        if name not in declared:
            raise UsageError(f"no parameter {name!r}: choose one of {', '.join(declared)}")
        return declared[name]

    def _profile(self, name: str) -> dict[str, Any]:
        if name == PAPER:
            return {}
        declared = profiles(self.path.parent).get(self.name, {})
        if name not in declared:
            raise UsageError(f"no profile {name!r}: choose one of {', '.join([PAPER, *declared])}")
        return declared[name]


def folder() -> Path:
    """Where the notebooks are: `notebooks/` here, or that of the checkout which rndlib is installed from.

    Raises
    ------
    UsageError: there are none in either.
    """
    places = [Path.cwd() / "notebooks", Path(__file__).resolve().parent.parent.parent / "notebooks"]
    for place in places:
        if any(place.glob("*.ipynb")):
            return place
    raise UsageError(f"no notebooks in {' or '.join(map(str, places))}: call rndlib in a checkout of the project")


def names() -> list[str]:
    """The names of all notebooks, in order."""
    return sorted(path.stem for path in folder().glob("*.ipynb"))


def find(name: str) -> Notebook:
    """The notebook of this name, or the only one whose name begins so.

    Raises
    ------
    UsageError: no such notebook, several, or one that cannot be run.
    """
    known = names()
    fitting = [name] if name in known else [stem for stem in known if stem.startswith(name)]
    if len(fitting) != 1:
        some = "several notebooks" if fitting else "no notebook"
        raise UsageError(f"{some} called {name!r}: choose one of {', '.join(fitting or known)}")
    return read(folder() / f"{fitting[0]}.ipynb")


def read(path: Path) -> Notebook:
    """A notebook's title and parameters.

    Raises
    ------
    UsageError: the file is not a notebook, or does not have exactly one parameters cell in the form that
        `rndlib.running.parameters` reads.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError) as error:
        raise UsageError(f"{path} is not a notebook ({error}): restore it") from error
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    if len(tagged) != 1:
        raise UsageError(f"{path.stem} has {len(tagged)} cells tagged 'parameters': tag exactly one")
    lines = (line for cell in cells if cell["cell_type"] == "markdown" for line in _source(cell).splitlines())
    title = next((line.lstrip("# ") for line in lines if line.startswith("#")), path.stem)
    try:
        declared = parameters.read(_source(tagged[0]))
    except UsageError as error:
        raise UsageError(f"{path.stem}, {error}") from error
    text = json.dumps([[cell["cell_type"], _source(cell)] for cell in cells])
    return Notebook(path.stem, path, title, declared, hashlib.sha256(text.encode()).hexdigest())


def profiles(place: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The profiles declared beside the notebooks: notebook name to profile name to parameter values.

    Raises
    ------
    UsageError: the file is not TOML.
    """
    path = place / PROFILES
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML ({error}): mend that line") from error


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])
