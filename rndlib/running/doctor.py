"""What this machine and environment lack for rndlib's commands, and the remedy: one line per check.

Anything that takes seconds to load or may crash is tried in a process of its own.
"""

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from rndlib.running import locks, notebooks, provenance
from rndlib.running.parameters import UsageError

OK, MISSING, ABSENT = "ok", "missing", "absent"
EXTRAS = {"": MISSING, "jax": MISSING, "figures": MISSING, "notebooks": MISSING, "torch": ABSENT, "practice": ABSENT}
"""The extras of `pyproject.toml` that users install ("" is the library alone), and what it means to lack one."""
DISK = 0.5  # GiB: the results of all notebooks, and room to make them
PATIENCE = 120.0  # seconds for a backend to load or a kernel to start
TRIALS = {
    "jax": ("import jax; print(*jax.devices())", MISSING, "pip install --force-reinstall 'rndlib[jax]'"),
    "torch": (
        "import torch; print('cuda' if torch.cuda.is_available() else 'cpu')",
        ABSENT,
        "pip install --force-reinstall 'rndlib[torch]'",
    ),
    "kernel": (
        "from rndlib.running import execution; execution.try_kernel(); print('starts and answers')",
        MISSING,
        "it needs the extra notebooks, and to write to a home folder or JUPYTER_RUNTIME_DIR and to TMPDIR or /tmp",
    ),
}
"""Code to try in a process of its own: what it prints is shown; with the status and remedy where it fails."""


@dataclass(frozen=True)
class Check:
    """One line.

    `status` is ok, missing where a command would fail, or absent where the commands can do without. `detail` says what
    is there or what is wrong, `remedy` what to do about it.
    """

    name: str
    status: str
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.status:8}{self.name:14}{self.detail}{f': {self.remedy}' if self.remedy else ''}"


def checks(results: Path) -> Iterator[Check]:
    """Every check, in the order in which to mend things; `results` is the folder for results."""
    trials = {name: start(name) for name in TRIALS}  # All at once, while the rest is looked at.
    yield python()
    yield from packages()
    for name, process in trials.items():
        yield trial(name, process)
    yield books()
    yield from folder(results)
    yield git()


def python() -> Check:
    """The interpreter: the versions that the pinned packages are for."""
    name = f"{platform.python_version()} in {sys.prefix}"
    if (3, 11) <= sys.version_info[:2] < (3, 14):
        return Check("python", OK, name)
    return Check("python", ABSENT, name, "the pinned packages are for Python 3.11, 3.12 and 3.13: take one of these")


def packages() -> Iterator[Check]:
    """The packages of the library and of each extra, against the bounds of pyproject.toml."""
    requirements = [Requirement(line) for line in metadata.requires("rndlib") or []]
    for extra, status in EXTRAS.items():
        right, wrong = [], []
        for requirement in requirements:
            marker, name = requirement.marker, requirement.name
            if name == "rndlib" or not (marker.evaluate({"extra": extra}) if marker else not extra):
                continue
            try:
                version = metadata.version(name)
            except metadata.PackageNotFoundError:
                wrong.append(f"{name} is not installed")
                continue
            if requirement.specifier.contains(version, prereleases=True):
                right.append(f"{name} {version}")
            else:
                wrong.append(f"{name} {version} is not {requirement.specifier}")
        suffix = f"[{extra}]" if extra else ""
        if wrong:
            yield Check(suffix or "library", status, ", ".join(wrong), f"pip install 'rndlib{suffix}'")
        else:
            yield Check(suffix or "library", OK, ", ".join(right))


def start(name: str) -> subprocess.Popen[bytes]:
    """A trial in a process of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", TRIALS[name][0]], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)


def trial(name: str, process: subprocess.Popen[bytes]) -> Check:
    """Whether a backend loads, or a notebook's kernel starts and answers: what came of a trial."""
    _, status, remedy = TRIALS[name]
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Check(name, status, f"no answer within {PATIENCE:.0f} s", remedy)
    if process.returncode == 0:
        return Check(name, OK, out.decode().strip())
    last = (err.decode().strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    return Check(name, status, f"does not work ({last})", remedy)


def books() -> Check:
    """Whether there are notebooks to run."""
    try:
        return Check("notebooks", OK, f"{len(notebooks.names())} in {notebooks.folder()}")
    except UsageError as error:
        detail, _, remedy = str(error).rpartition(": ")
        return Check("notebooks", MISSING, detail, remedy)


def folder(results: Path) -> Iterator[Check]:
    """Whether results can be written and locked, and whether there is room for them."""
    place = results.absolute()
    above = next(path for path in (place, *place.parents) if path.is_dir())
    try:
        with tempfile.TemporaryDirectory(dir=above) as name, locks.held(Path(name) / "lock"):
            (Path(name) / "file").write_bytes(b"content")
        yield Check("results", OK, f"{place} can be written")
    except OSError as error:
        yield Check("results", MISSING, f"{place}: {error.strerror}", "name another folder with --results")
    free = shutil.disk_usage(above).free / 2**30
    enough = free >= DISK
    remedy = "" if enough else f"all results take {DISK} GiB: free some space"
    yield Check("disk", OK if enough else MISSING, f"{free:.2f} GiB free", remedy)


def git() -> Check:
    """Whether the commit that results are made from can be recorded."""
    if shutil.which("git") is None:
        return Check("git", ABSENT, "not installed", "install it, or results do not say which commit made them")
    made = provenance.checkout(provenance.PACKAGE)
    if made is None:
        return Check("git", ABSENT, "rndlib is not in a checkout that git reads", "clone it as the user who runs it")
    return Check("git", OK, f"commit {made['commit'][:12]}{', with changes' if made['changed'] else ''}")
