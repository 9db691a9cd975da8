"""Kernels start wherever the system keeps temporary files and the user's settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from rndlib.running import execution

pytestmark = pytest.mark.tools


def _started(**environment: str) -> subprocess.CompletedProcess[str]:
    code = "from rndlib.running import execution; execution.try_kernel()"
    env = os.environ | environment
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["long" * 30, "with a space", "ümlaut" * 15, "missing"])
def test_a_kernel_starts_whatever_the_temporary_folder(name, tmp_path):
    folder = tmp_path / name
    if name != "missing":
        folder.mkdir()
    done = _started(TMPDIR=str(folder))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("variable", ["HOME", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"])
def test_a_kernel_starts_where_settings_cannot_be_written(variable):
    assert _started(**{variable: f"{os.devnull}/below"}).returncode == 0  # no user can make a folder there


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_the_longest_path_that_the_system_allows_is_used(letter, monkeypatch):
    room = zmq.IPC_PATH_MAX_LEN - len("/rndlib-12345678/k-5") - len("/")
    fits = "/" + letter * (room // len(letter.encode()))
    for folder, expected in ((fits, fits), (fits + letter, "/tmp")):
        monkeypatch.setattr(execution, "gettempdir", lambda folder=folder: folder)
        assert execution._short_folder() == expected


def test_a_sockets_path_is_as_long_as_was_counted():
    with execution._kernels(Path()) as options:
        path = options["config"].KernelManager.ip + "-5"
    assert len(path) == len(f"{Path(path).parent.parent}{execution.SOCKET}")
