"""How a result was made: the versions, the library's source, the state of the checkout, the machine."""

import ast
import hashlib
import json
import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rndlib import cores

PACKAGES = [
    "rndlib", "numpy", "scipy", "jaxtyping", "jax", "jaxlib", "neural-tangents", "torch", "matplotlib", "papermill",
]  # fmt: skip


def versions() -> dict[str, str]:
    """Python's version and that of every package in `PACKAGES` that is installed."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed


PACKAGE = Path(__file__).resolve().parent.parent
APART = "running"
"""The room that runs notebooks: no number in them depends on it."""


def code() -> str:
    """A digest of what decides a result beside the notebook: `versions`, and the code of rndlib.

    Comments, docstrings and layout do not count, nor does the room that runs notebooks: results stay valid where only
    these have changed.
    """
    digest = hashlib.sha256(json.dumps(versions()).encode())
    for file in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml")]):  # the claims are declared in TOML
        name = file.relative_to(PACKAGE)
        if name.parts[0] != APART:
            digest.update(name.as_posix().encode() + b"\0" + computed(file.read_bytes()).encode() + b"\0")
    return digest.hexdigest()


@cache
def computed(source: bytes) -> str:
    """The syntax tree of a module without its docstrings, as text; of what is not Python, the source itself."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return repr(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            docs = [line for line in body if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)]
            node.body = [line for line in body if line not in docs]  # pyright: ignore[reportAttributeAccessIssue]
    return ast.dump(tree)


def checkout(place: Path, *apart: str) -> dict[str, Any] | None:
    """The git commit that `place` is in, and whether anything differs from it; None outside of a checkout.

    Differences in the files `apart`, named by their paths from `place`, do not count.
    """
    head = _output("git", "-C", str(place), "rev-parse", "HEAD")
    if not head:
        return None
    others = [f":(exclude){path}" for path in apart]
    return {"commit": head, "changed": _output("git", "-C", str(place), "status", "--porcelain", ":/", *others) != ""}


def hardware() -> dict[str, Any]:
    """The machine: its name, processor, cores that this process may use, memory in GiB, and GPUs if any."""
    return {
        "host": platform.node(),
        "cpu": _cpu(),
        "cores": len(cores.usable()),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpu": (_output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "").splitlines(),
    }


def machine(hardware: dict[str, Any]) -> str:
    """The `hardware` of a result in one line."""
    gpus = "".join(f", {gpu}" for gpu in hardware["gpu"])
    return f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB{gpus}"


def commit(checkout: dict[str, Any] | None) -> str:
    """The `checkout` of a result in a word or two."""
    return "none" if checkout is None else checkout["commit"][:12] + " changed" * checkout["changed"]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # Not Linux.
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _output(*command: str) -> str | None:
    """What a command prints, stripped; None where it is not installed or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
