"""Set up the virtual environments named as arguments, with the versions pinned in ci/pins.txt.

An environment carries a stamp, written last, of everything that decides its content: the pins, the packages that
pyproject.toml asks for, the Python and the place. One whose stamp still matches is left alone; any other (another
Python, changed pins, an interrupted set-up) is made anew. Several are set up
at the same time, as pip waits for half of it. Called by ci/bootstrap, with the standard library only.
"""

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "ci" / "pins.txt"
# The interpreter underneath, since the one that runs this may be a link in an environment that is cleared.
PYTHON = Path(sys.executable).resolve()
# Snakemake has one of its own, as it needs versions of packages that the others do not have.
EXTRAS = {".venv": "dev", ".venv-newest": "figures,jax,test", ".venv-workflow": "batch"}

SPACE = 5  # GiB that must be free before `.venv` is made
# Settings of pip to options of uv that mean the same.
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
}
LEFT = 2**24  # bytes: a disk with less has filled up, which venv does not say
FULL = "the disk is full: free some space, of which .venv takes 4 GB"
# Words of an error to what to do about it. Of a pinned package of which it finds no version at all, pip says that there
# are none or, under constraints, that it cannot be installed.
REMEDIES = {
    "No space left on device|Disk quota exceeded": FULL,
    "Permission denied|Read-only file system": "this folder cannot be written: clone the project as the user who works "
    "in it",
    "NewConnectionError|NameResolutionError|Timeout|ProxyError|SSLError|Connection (refused|aborted)|versions: none|"
    "Cannot install flit_core because": "pip cannot reach its index: look at the network and, behind a proxy or a "
    "mirror, at the variables HTTPS_PROXY and PIP_INDEX_URL ('pip config list' shows what is set)",
    "No matching distribution found": "the index has not the version that ci/pins.txt names for this machine: look "
    "whether it is a mirror that lags behind",
    "command '.*(cc|clang)' failed|No such file or directory: '.*(cc|clang)'|"
    "[Uu]nable to find .*compiler": "a package has no wheel for this machine and no "
    "compiler to build it with: install one (on Debian and Ubuntu, apt-get install build-essential), or take Linux on "
    "x86-64, where all have wheels",
}


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

    uv installs them where it is there and can, and pip elsewhere. Modules are compiled when they are first imported:
    most of the 20,000 never are, and pip would compile them one by one. `.venv` also keeps the wheels of the library's
    own dependencies, with which a test installs rndlib into an empty environment without asking a registry.
    """
    place = ROOT / environment
    run([str(PYTHON), "-m", "venv", "--clear", str(place)])
    constraints = place / "pins.txt"
    constraints.write_text("".join(f"{name}=={pin}\n" for name, pin in pins(environment).items()), encoding="utf-8")
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet"]
    constrained = ["--constraint", str(constraints)]
    # What builds rndlib, and what builds those that come as source, first, and no build isolation: an isolated build
    # would take whichever version is newest.
    ours = ["--no-build-isolation", "--editable", f".[{EXTRAS[environment]}]"]
    packages = [["flit_core", "setuptools"], ours]
    uv = shutil.which("uv")
    install = [*as_pip_would(uv, place), *constrained] if uv else []
    if not (uv and all(attempt([*install, *some]) for some in packages)):
        for some in packages:
            run([*pip, "install", "--no-compile", *constrained, *some])
    run([*pip, "check"])
    if environment == ".venv":
        core = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
        run([*pip, "download", *constrained, "--dest", str(place / "wheels"), *core])
    (place / "stamp").write_text(stamp(environment), encoding="utf-8")


def as_pip_would(uv: str, place: Path) -> list[str]:
    """uv's command to install into an environment, from the indexes and by the constraints that pip is set to."""
    python = str(place / "bin" / "python")
    command = [uv, "pip", "install", "--quiet", "--python", python, "--index-strategy", "unsafe-best-match"]
    said = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    for name, value in re.findall(r"^\S*\.([\w-]+)='(.*)'$", said, flags=re.MULTILINE):
        if name in OPTIONS:
            command += [word for each in value.split() for word in (OPTIONS[name], each)]
    return command


def attempt(command: list[str]) -> bool:
    """Run a command in the checkout, and say whether it did what it should."""
    return subprocess.run(command, cwd=ROOT).returncode == 0


def run(command: list[str]) -> None:
    """Run a command in the checkout, its output shown; stop with one line if it fails, which says why if it can."""
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, errors="replace")
    said: list[str] = []
    with process:
        for line in process.stderr or ():
            sys.stderr.write(line)
            said.append(line)
    if process.returncode != 0:
        why = remedy("".join(said), shutil.disk_usage(ROOT).free)
        sys.exit(
            f"set-up stopped: {why}; the next call starts anew"
            if why
            else f"set-up stopped: '{shlex.join(command)}' failed with exit code {process.returncode}; the next call "
            "starts anew"
        )


def remedy(said: str, free: int) -> str | None:
    """What to do about a failure, by what pip said of it and the bytes that are free; None where that is not known."""
    if free < LEFT:
        return FULL
    return next((what for words, what in REMEDIES.items() if re.search(words, said)), None)


def check_space() -> None:
    """Stop with one line where the disk has no room for the environments."""
    free = shutil.disk_usage(ROOT).free / 2**30
    if free < SPACE:
        sys.exit(f"set-up stopped: {ROOT} has {free:.1f} GiB free, and needs {SPACE}: free some space, then call again")


def up_to_date(environment: str) -> bool:
    """Whether `environment` is there, complete, with the content that the checkout asks for."""
    written = ROOT / environment / "stamp"
    return written.is_file() and written.read_text(encoding="utf-8") == stamp(environment)


def set_up_where_needed(environments: list[str]) -> None:
    """Set up those that are not up to date, at the same time; what one fails with is raised when all have ended."""
    needed = [environment for environment in environments if not up_to_date(environment)]
    if ".venv" in needed:
        check_space()
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    for environment in needed:
        print(f"{environment}: installing the pinned packages for {python}; this takes some minutes", flush=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(set_up, needed))


if __name__ == "__main__":
    try:
        set_up_where_needed(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("\nset-up interrupted; the next call starts anew")
