"""What a result was made with: versions, the library's source, the state of the checkout, the machine."""

import hashlib
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = [
    "rndlib", "numpy", "scipy", "jaxtyping", "jax", "jaxlib", "neural-tangents", "torch", "matplotlib", "papermill",
]  # fmt: skip


def versions() -> dict[str, str]:
    """Python's version and that of every package in `PACKAGES` that is installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def code() -> str:
    """A digest of the code that decides a result, beside the notebook: rndlib's source, and `versions`."""
    digest = hashlib.sha256(json.dumps(versions()).encode())
    package = Path(__file__).resolve().parent.parent
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def checkout(place: Path, *apart: str) -> dict[str, Any] | None:
    """The git commit that `place` is in, and whether anything differs from it; None outside of a checkout.

    apart: files whose difference does not count, by their paths from `place`.
    """
    commit = _output("git", "-C", str(place), "rev-parse", "HEAD")
    if not commit:
        return None
    others = [f":(exclude){path}" for path in apart]
    return {"commit": commit, "changed": _output("git", "-C", str(place), "status", "--porcelain", ":/", *others) != ""}


def hardware() -> dict[str, Any]:
    """The machine: its name, processor, cores that this process may use, memory in GiB, and GPUs if any."""
    affinity = getattr(os, "sched_getaffinity", None)  # Not on macOS.
    return {
        "host": platform.node(),
        "cpu": _cpu(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpu": (_output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "").splitlines(),
    }


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
