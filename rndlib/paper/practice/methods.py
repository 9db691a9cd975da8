"""What the methods of notebook 06 have in common, and one run of one of them."""

import importlib
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Method:
    """A function from a split and a seed to what it found, and the modules that it needs.

    `left_out` says why it is not run on 10,000 points; empty where it is.
    """

    run: Callable[[Any, int], Any]
    modules: tuple[str, ...]
    left_out: str = ""

    def measured(self, split: Any, seed: int) -> tuple[Any, dict[str, float]]:
        """What it found, and CPU seconds (user and system, of all threads) and peak memory of this process in MiB.

        Importing the modules is not counted in the seconds; compiling is.
        """
        for name in self.modules:
            importlib.import_module(name)
        start = _seconds()
        found = self.run(split, seed)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return found, {"cpu_seconds": _seconds() - start, "peak_mib": memory}


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
