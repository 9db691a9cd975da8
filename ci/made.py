"""How a stored number was made: the commit, the versions and the machine."""

import json
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


def said(*ways: dict[str, Any]) -> str:
    """The same in a sentence for each machine and set of versions."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for way in ways:
        alike.setdefault(json.dumps([way["machine"], way["versions"]]), []).append(way)
    sentences = []
    for each in alike.values():
        dates, commits = (", ".join(dict.fromkeys(way[key] for way in each)) for key in ("date", "commit"))
        plural = "s" * (", " in commits)
        versions = ", ".join(f"{name} {number}" for name, number in each[0]["versions"].items())
        sentences.append(f"Measured on {dates} on {each[0]['machine']}, at commit{plural} {commits}, with {versions}.")
    return " ".join(sentences)


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
