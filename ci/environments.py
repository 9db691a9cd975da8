"""Set up the virtual environments named as arguments, with the versions pinned in ci/pins.txt.

An environment carries a stamp, written last, of everything that decides its content: the pins, the packages that
pyproject.toml asks for, the Python and the place. One whose stamp still matches is left alone; any other (another
Python, changed pins, an interrupted set-up) is made anew. Called by ci/bootstrap, with the standard library only.
"""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "ci" / "pins.txt"
# Snakemake has one of its own, as it needs versions of packages that the others do not have.
EXTRAS = {".venv": "dev", ".venv-newest": "figures,jax,test", ".venv-workflow": "workflow"}


def pins(environment: str) -> dict[str, str]:
    """Package name to pinned version in `.venv`, `.venv-newest` or `.venv-workflow`."""
    text = PINS.read_text(encoding="utf-8")
    lines = re.findall(r"^([\w-]+)==(\S+)$", text, flags=re.MULTILINE)
    kind = environment.removeprefix(".venv").removeprefix("-") or "none"
    own = re.findall(rf"^# {kind}: ([\w-]+)==(\S+)$", text, flags=re.MULTILINE)
    return dict(lines + own)


def stamp(environment: str) -> str:
    """What decides the content of an environment, as a digest."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    decides = [
        pins(environment),
        EXTRAS[environment],
        pyproject["project"],
        pyproject["build-system"],
        sys.version_info[:2],
        str(ROOT),  # Scripts in an environment name their interpreter by its full path.
        Path(__file__).read_text(encoding="utf-8"),
    ]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def set_up(environment: str) -> None:
    """Make `environment` anew: its packages, rndlib itself from this checkout, and the stamp.

    `.venv` also keeps the wheels of the library's own dependencies, with which a test installs rndlib into an empty
    environment without asking a registry.
    """
    place = ROOT / environment
    version = ".".join(map(str, sys.version_info[:2]))
    print(f"{environment}: installing the pinned packages for Python {version}; this takes some minutes", flush=True)
    # The interpreter underneath, since the one that runs this may be a link in the environment that is cleared.
    run([str(Path(sys.executable).resolve()), "-m", "venv", "--clear", str(place)])
    constraints = place / "pins.txt"
    constraints.write_text("".join(f"{name}=={pin}\n" for name, pin in pins(environment).items()), encoding="utf-8")
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet"]
    constrained = ["--constraint", str(constraints)]
    # What builds rndlib, and what builds those that come as source, first, and no build isolation: an isolated build
    # would take whichever version is newest.
    run([*pip, "install", *constrained, "flit_core", "setuptools"])
    run([*pip, "install", *constrained, "--no-build-isolation", "--editable", f".[{EXTRAS[environment]}]"])
    run([*pip, "check"])
    if environment == ".venv":
        core = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
        run([*pip, "download", *constrained, "--dest", str(place / "wheels"), *core])
    (place / "stamp").write_text(stamp(environment), encoding="utf-8")


def run(command: list[str]) -> None:
    """Run a command in the checkout, its output shown; stop with one line if it fails."""
    status = subprocess.run(command, cwd=ROOT).returncode
    if status != 0:
        sys.exit(f"set-up stopped: '{' '.join(command)}' failed with exit code {status}; the next call starts anew")


def up_to_date(environment: str) -> bool:
    """Whether `environment` is there, complete, with the content that the checkout asks for."""
    written = ROOT / environment / "stamp"
    return written.is_file() and written.read_text(encoding="utf-8") == stamp(environment)


if __name__ == "__main__":
    try:
        for name in sys.argv[1:]:
            if not up_to_date(name):
                set_up(name)
    except KeyboardInterrupt:
        sys.exit("\nset-up interrupted; the next call starts anew")
