"""The notebooks that can be run: where they are, what they are called, what their parameters and profiles are.

Every function raises a `UsageError` for a name, value or file that does not fit.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rndlib.running import parameters
from rndlib.running.parameters import Parameter, UsageError, Value

PROFILES = "profiles.toml"
PAPER = "paper"  # the profile of every notebook's own defaults


class NotebookFailed(RuntimeError):
    """A run of a notebook gave no result; the message ends with what went wrong."""


@dataclass(frozen=True)
class Notebook:
    """A notebook file: its name (without `.ipynb`), its first heading, and the parameters it declares.

    `text` is a digest of its cells without their outputs.
    """

    name: str
    path: Path
    title: str
    parameters: tuple[Parameter, ...]
    text: str

    def settings(self, profile: str, overrides: Iterable[Sequence[str]]) -> dict[str, Value]:
        """The value of every parameter: that of the profile, unless a pair of name and text overrides it."""
        values = {parameter.name: parameter.default for parameter in self.parameters}
        declared = {PAPER: {}} | profiles(self.path.parent).get(self.name, {})
        try:
            if profile not in declared:
                raise UsageError(f"no profile {profile!r}: choose one of {', '.join(declared)}")
            for name, value in declared[profile].items():
                values[name] = self.parameter(name).checked(value)
            for name, text in overrides:
                values[name] = self.parameter(name).parsed(text)
        except UsageError as error:
            raise UsageError(f"{self.name}: {error}") from error
        return values

    def repeated(self, values: Mapping[str, Value], repeat: int) -> dict[str, Any]:
        """`values` with seeds that no other repeat shares; repeat 0 keeps them as they are.

        A parameter `seed` goes up by `repeat`, and each of `seeds` by `repeat` times the number of seeds.
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
        """The parameter of this name."""
        declared = {parameter.name: parameter for parameter in self.parameters}
        if name not in declared:
            raise UsageError(f"no parameter {name!r}: choose one of {', '.join(declared)}")
        return declared[name]


def folder() -> Path:
    """Where the notebooks are: `notebooks/` here, or that of the checkout which rndlib is installed from."""
    places = [Path.cwd() / "notebooks", Path(__file__).resolve().parents[2] / "notebooks"]
    for place in places:
        if any(place.glob("*.ipynb")):
            return place
    raise UsageError(f"no notebooks in {' or '.join(map(str, places))}: call rndlib in a checkout of the project")


def names() -> list[str]:
    """The names of all notebooks, in order."""
    return sorted(path.stem for path in folder().glob("*.ipynb"))


def find(name: str) -> Notebook:
    """The notebook of this name, or the only one whose name begins so."""
    known = names()
    fitting = [name] if name in known else [stem for stem in known if stem.startswith(name)]
    if len(fitting) != 1:
        count = "several notebooks" if fitting else "no notebook"
        raise UsageError(f"{count} called {name!r}: choose one of {', '.join(fitting or known)}")
    return read(folder() / f"{fitting[0]}.ipynb")


def read(path: Path) -> Notebook:
    """A notebook's title and parameters; it must have one cell tagged `parameters`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError) as error:
        raise UsageError(f"{path} is not a notebook ({error}): restore it") from error
    cells = [(cell["cell_type"], "".join(cell["source"]), cell["metadata"].get("tags", [])) for cell in content]
    tagged = [source for _, source, tags in cells if "parameters" in tags]
    if len(tagged) != 1:
        raise UsageError(f"{path.stem} has {len(tagged)} cells tagged 'parameters': tag exactly one")
    try:
        declared = parameters.read(tagged[0])
    except UsageError as error:
        raise UsageError(f"{path.stem}, {error}") from error
    lines = [line for kind, source, _ in cells if kind == "markdown" for line in source.splitlines()]
    title = next((line.lstrip("# ") for line in lines if line.startswith("#")), path.stem)
    text = json.dumps([(kind, source) for kind, source, _ in cells])
    return Notebook(path.stem, path, title, declared, hashlib.sha256(text.encode()).hexdigest())


def profiles(place: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The profiles declared beside the notebooks: notebook name to profile name to parameter values."""
    path = place / PROFILES
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML ({error}): mend that line") from error
