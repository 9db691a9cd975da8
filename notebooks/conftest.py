"""nbval speaks to a kernel through files, as a run does.

By itself it chooses network ports before the kernel takes them, and of two notebooks checked at once, one may find a
port taken.
"""

from functools import partial
from tempfile import TemporaryDirectory

import nbval.kernel
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Make nbval start its kernels in this way, for which it has no option."""
    folder = TemporaryDirectory(prefix="rndlib-")
    manager = partial(nbval.kernel.KernelManager, transport="ipc", ip=f"{folder.name}/k", transport_encryption="auto")
    patch = pytest.MonkeyPatch()
    patch.setattr(nbval.kernel, "KernelManager", manager)
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(patch.undo)
