"""What this machine and environment lack for rndlib's commands, and the remedy: a line a check.

What takes seconds to load, or may crash, is tried in a process of its own.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rndlib import cores, output
from rndlib.running import locks, notebooks, provenance, requirements
from rndlib.running.parameters import UsageError

CHECKOUT = Path(__file__).resolve().parent.parent.parent
OK, MISSING, ABSENT = "ok", "missing", "absent"
WORKFLOW = "batch"  # an extra that may have an environment of its own
NEEDED = {"jax", "figures", "notebooks"}  # the extras of `run`, `verify`, `report` and `batch`
MEMORY = 3.0  # GiB: the largest notebook at the paper's size, with its kernel and what started it
DISK = 0.5  # GiB: the results of all notebooks, and room to make them
PATIENCE = 120.0  # seconds for a backend to load or a kernel to start
TRIALS = {
    "jax": "import jax; print(*jax.devices())",
    "torch": "import torch; print('cuda' if torch.cuda.is_available() else 'cpu')",
    "kernel": f"from rndlib.running import execution; execution.try_kernel({PATIENCE})",
}


@dataclass(frozen=True)
class Check:
    """One line.

    `status` is ok, missing where a command would fail, or absent where the commands can do without; `found` says
    what is there or what is wrong, `remedy` what to do about it.
    """

    name: str
    status: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.status:8}{self.name:14}{self.found}{f': {self.remedy}' if self.remedy else ''}"


def checks(results: Path) -> Iterator[Check]:
    """Every check, in the order in which to mend things.

    Parameters
    ----------
    results: the folder that results are to be written to.
    """
    trials = {name: _trial(code) for name, code in TRIALS.items()}  # All at once, while the rest is looked at.
    yield python()
    yield from packages()
    yield snakemake(CHECKOUT)
    yield from pins(CHECKOUT / "ci" / "pins.txt")
    for name in ("jax", "torch"):
        yield backend(name, trials[name])
    yield kernel(trials["kernel"])
    yield books()
    yield machine()
    yield from folder(results)
    yield fonts()
    yield git()


def python() -> Check:
    """The interpreter: the versions that the pinned packages are for."""
    name = f"{platform.python_version()} in {sys.prefix}"
    if (3, 11) <= sys.version_info[:2] < (3, 14):
        return Check("python", OK, name)
    return Check("python", ABSENT, name, "the pinned packages are for Python 3.11, 3.12 and 3.13: take one of these")


def packages() -> Iterator[Check]:
    """The packages of the library and of each extra, against the bounds of pyproject.toml."""
    try:
        extras = requirements.extras()
    except metadata.PackageNotFoundError:
        yield Check("packages", MISSING, "rndlib is not installed", "pip install . in its checkout")
        return
    for extra, wanted in extras.items():
        if extra == WORKFLOW:
            continue
        lacking = requirements.lacking(wanted)
        name = f"[{extra}]" if extra else "library"
        if not lacking:
            yield Check(name, OK, ", ".join(f"{package} {metadata.version(package)}" for package in sorted(wanted)))
            continue
        status = MISSING if extra is None or extra in NEEDED else ABSENT
        install = f"pip install 'rndlib[{extra}]'" if extra else "pip install rndlib"
        yield Check(name, status, ", ".join(lacking), install)


def snakemake(checkout: Path) -> Check:
    """Whether grids can be run."""
    for there in (shutil.which("snakemake"), checkout / ".venv-workflow" / "bin" / "snakemake"):
        if there and Path(there).exists():
            return Check("snakemake", OK, str(there))
    return Check("snakemake", ABSENT, "not installed", "for grids of runs, ci/bootstrap .venv-workflow")


def pins(path: Path) -> Iterator[Check]:
    """Whether what is asked for by name has the versions that a checkout pins; no line outside of one."""
    with suppress(OSError, metadata.PackageNotFoundError):
        pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
        installed = requirements.installed({name for wanted in requirements.extras().values() for name in wanted})
        others = {name: version for name, version in installed.items() if pinned.get(name, version) != version}
        if others:
            found = ", ".join(f"{name} {version} and not {pinned[name]}" for name, version in others.items())
            yield Check(
                "pins", ABSENT, found, "make environment has the pinned versions, which give the stored numbers"
            )
        else:
            yield Check("pins", OK, f"{len(installed)} packages in the versions of {path.name}")


def backend(name: str, trial: subprocess.Popen[str]) -> Check:
    """Whether a backend loads, and on which devices."""
    said, wrong = _end(trial)
    if wrong is None:
        return Check(name, OK, f"loads, on {said}")
    status = MISSING if name == "jax" else ABSENT
    return Check(name, status, f"does not load ({wrong})", f"pip install --force-reinstall 'rndlib[{name}]'")


def kernel(trial: subprocess.Popen[str]) -> Check:
    """Whether a notebook's kernel starts and answers."""
    _, wrong = _end(trial)
    if wrong is None:
        return Check("kernel", OK, "starts and answers")
    remedy = "it needs the extra notebooks, and to write to a home folder or JUPYTER_RUNTIME_DIR and to TMPDIR or /tmp"
    return Check("kernel", MISSING, f"does not start ({wrong})", remedy)


def books() -> Check:
    """Whether there are notebooks to run."""
    try:
        return Check("notebooks", OK, f"{len(notebooks.names())} in {notebooks.folder()}")
    except UsageError as error:
        found, _, remedy = str(error).rpartition(": ")
        return Check("notebooks", MISSING, found, remedy)


def machine() -> Check:
    """Cores and memory that this process may use."""
    memory = provenance.hardware()["memory_gib"]
    for limit in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        with suppress(OSError, ValueError):  # Only in a container, and "max" where there is none.
            memory = min(memory, round(int(limit.read_text(encoding="utf-8")) / 2**30, 1))
    found = f"{len(cores.usable())} cores, {memory} GiB of memory"
    if memory >= MEMORY:
        return Check("machine", OK, found)
    return Check(
        "machine", ABSENT, found, f"notebooks at the paper's size take up to {MEMORY} GiB: use --profile smoke"
    )


def folder(results: Path) -> Iterator[Check]:
    """Whether results can be written and locked, and whether there is room for them."""
    place = results.absolute()
    there = next(path for path in (place, *place.parents) if path.is_dir())
    try:
        with tempfile.TemporaryDirectory(dir=there) as name:
            output.write(Path(name) / "file", b"content")
            with locks.held(Path(name) / "lock"):
                pass
        yield Check("results", OK, f"{place} can be written")
    except OSError as error:
        remedy = output.REFUSED.get(error.errno or 0, "choose another folder")
        yield Check("results", MISSING, f"{place}: {error.strerror}", f"{remedy}, or name another with --results")
    free = shutil.disk_usage(there).free / 2**30
    if free >= DISK:
        yield Check("disk", OK, f"{free:.1f} GiB free")
    else:
        yield Check("disk", MISSING, f"{free:.2f} GiB free", f"all results take {DISK} GiB: free some space")


def fonts() -> Check:
    """Whether matplotlib can keep its list of fonts, which it otherwise makes anew, with a warning, in every run."""
    cache = os.environ.get("MPLCONFIGDIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    there = next(path for path in (Path(cache), *Path(cache).absolute().parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK):
        return Check("fonts", OK, f"matplotlib keeps its list of fonts under {cache}")
    return Check("fonts", ABSENT, f"{there} cannot be written", "set MPLCONFIGDIR to a folder that you may write")


def git() -> Check:
    """Whether the commit that results are made from can be recorded."""
    if shutil.which("git") is None:
        return Check("git", ABSENT, "not installed", "install it, or results do not say which commit made them")
    made = provenance.checkout(CHECKOUT)
    if made is None:
        return Check("git", ABSENT, "rndlib is not in a checkout that git reads", "clone it as the user who runs it")
    return Check("git", OK, f"commit {made['commit'][:12]}{', with changes' if made['changed'] else ''}")


def _trial(code: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def _end(trial: subprocess.Popen[str]) -> tuple[str, str | None]:
    """What a trial said, and what was wrong with it, if anything."""
    try:
        out, err = trial.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        trial.kill()
        trial.communicate()
        return "", f"no answer within {PATIENCE:.0f} s"
    if trial.returncode == 0:
        return out.strip(), None
    if trial.returncode < 0:
        return "", f"killed by signal {-trial.returncode}"
    return "", (err.strip().splitlines() or ["no message"])[-1]
