"""How a stored number was made: the commit, the versions and the machine."""

import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "rndlib", "numpy", "scipy", "scikit-learn", "jax", "torch", "neural-tangents", "laplace-torch", "gpytorch",
    "gymnasium", "minigrid",
)  # fmt: skip


def made(apart: tuple[str, ...] = ()) -> dict[str, Any]:
    """When, from which commit, with which versions and where this is run.

    apart: files whose changes do not make the checkout another one.
    """
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    changed = _git("status", "--porcelain", ":/", *(f":(exclude){path}" for path in apart))
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "--short=12", "HEAD") + " and changes" * bool(changed),
        "machine": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "versions": versions,
    }


def said(made: dict[str, Any]) -> str:
    """The same in a sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in made["versions"].items())
    return f"Measured on {made['date']} on {made['machine']}, at commit {made['commit']}, with {versions}."


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
