"""Sharing the machine's cores among processes that run side by side."""

import os
from collections.abc import Sequence
from contextlib import suppress

COUNT = "PYTHON_CPU_COUNT"
"""How many cores Python is to count; its own `os.process_cpu_count` reads it from 3.13 on."""

# Read by OpenMP, by the BLAS libraries, by numexpr and by XLA when they are loaded, and by `count`.
THREADS = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "PJRT_NPROC",
    COUNT,
]

BLAS = ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"]


def usable() -> list[int]:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Not on macOS.
    return sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))


def count() -> int:
    """How many threads of this process should compute at once: as many as it has cores, or as the environment says."""
    asked = os.environ.get(COUNT, "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else len(usable())


def pin(cores: Sequence[int]) -> None:
    """Keep the thread that calls this, and the processes that it starts, to these cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # Some containers forbid it.
            os.sched_setaffinity(0, cores)


def threads(count: int) -> dict[str, str]:
    """Environment variables for a process that is to use so many threads; those that are set already stay."""
    return {name: os.environ.get(name, str(count)) for name in THREADS}


def one_blas_thread() -> dict[str, str]:
    """Environment variables for one BLAS thread, unless they are set.

    BLAS's own threads wait by spinning, on cores that the threads of `rndlib.blocks.parallel` and of XLA compute on:
    they made notebook 05 a fifth slower.
    """
    return {name: os.environ.get(name, "1") for name in BLAS}
