"""What a newcomer's machine may lack: each is made to happen, and answered by one line that says what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import environments
import pytest
import small

from rndlib.running import execution, provenance

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parent.parent


@pytest.fixture
def checkout(tmp_path):
    """What the set-up reads of a checkout."""
    (tmp_path / "ci").mkdir()
    for name in ("ci/bootstrap", "ci/environments.py", "ci/pins.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def last(done):
    """The line that a failed set-up ends with."""
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("named", [True, False])
def test_a_python_without_venv(checkout, named):
    """As Debian's, before its package of that name is installed."""
    lacking = f'#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    (checkout / "bin").mkdir()
    (checkout / "bin" / "python3.12").write_text(lacking, encoding="utf-8")
    (checkout / "bin" / "python3.12").chmod(0o755)
    for tool in ("sh", "dirname", "basename"):
        (checkout / "bin" / tool).symlink_to(str(shutil.which(tool)))
    environment = {"PATH": str(checkout / "bin"), **({"PYTHON": "python3.12"} if named else {})}
    done = subprocess.run([checkout / "ci/bootstrap", ".venv"], env=environment, capture_output=True, text=True)
    assert last(done).startswith(
        "python3.12 has no venv: install it (on Debian and Ubuntu, apt-get install python3.12-venv)"
    )
    assert done.stderr.count("\n") == 1


def test_a_link_to_the_environment_of_another_checkout(checkout, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "ci").mkdir()
    shutil.copy(ROOT / "ci/bootstrap", other / "ci")
    (other / ".venv").mkdir()
    (other / ".venv" / "kept").touch()
    (checkout / ".venv").symlink_to(other / ".venv")
    done = subprocess.run([checkout / "ci/bootstrap", ".venv"], capture_output=True, text=True)
    assert last(done).startswith(".venv is a link to the environment of another checkout")
    assert (other / ".venv" / "kept").exists()


def test_no_network(checkout):
    """An index that nobody answers for."""
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, "ci/environments.py", ".venv-newest"],
        cwd=checkout,
        env={**kept, **settings},
        capture_output=True,
        text=True,
    )
    assert "set-up stopped: pip cannot reach its index: look at the network" in last(done)
    assert not (checkout / ".venv-newest" / "stamp").exists()


def on_a_disk_of(size, checkout, *command):
    """Run a command in a copy of the checkout on a file system of that size."""
    (checkout / "small").mkdir()
    script = f'mount -t tmpfs -o size={size} none small && cp -r ci pyproject.toml small && cd small && exec "$@"'
    return subprocess.run(
        [*small.MOUNT, script, "sh", sys.executable, *command], cwd=checkout, capture_output=True, text=True
    )


@small.can_mount
def test_no_space_for_the_environment(checkout):
    done = on_a_disk_of("20m", checkout, "ci/environments.py", ".venv")
    assert "0.0 GiB free, and needs 5: free some space, then call again" in last(done)


@small.can_mount
def test_a_disk_that_fills_up_meanwhile(checkout):
    done = on_a_disk_of("20m", checkout, "ci/environments.py", ".venv-newest")
    assert "set-up stopped: the disk is full: free some space" in last(done)


def test_no_compiler(tmp_path, monkeypatch, capsys):
    """A package that comes as source, with a part in C."""
    source = (
        'from setuptools import Extension, setup\nsetup(name="tiny", ext_modules=[Extension("tiny", ["tiny.c"])])\n'
    )
    (tmp_path / "setup.py").write_text(source, encoding="utf-8")
    (tmp_path / "tiny.c").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--quiet", "--no-deps", "--no-index"]
    with pytest.raises(SystemExit, match="no compiler to build it with: install one"):
        environments.run([*pip, "--no-build-isolation", "--wheel-dir", str(tmp_path), str(tmp_path)])
    assert "error" in capsys.readouterr().err  # What pip itself said is shown as well.


def test_a_failure_of_another_kind_shows_the_command():
    with pytest.raises(SystemExit, match=r"^set-up stopped: 'sh -c .exit 5.' failed with exit code 5;"):
        environments.run(["sh", "-c", "exit 5"])


def test_without_git_a_run_has_no_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.checkout(ROOT) is None


@small.can_have_a_network
def test_a_run_needs_no_network(tmp_path):
    """Not even the machine's own: in one whose loopback is down."""
    command = [*small.NETWORK, sys.executable, "-m", "rndlib", "run", "01"]
    done = subprocess.run(command, cwd=small.project(tmp_path), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_kernel_that_does_not_answer(tmp_path, monkeypatch):
    silent = {"argv": [sys.executable, "-c", "import time; time.sleep(60)"]}
    monkeypatch.setattr(execution, "START", 2)
    monkeypatch.setattr(execution, "get_kernel_dict", lambda: silent)
    code, out, err = small.call(small.project(tmp_path), "run", "01", kernels=True)
    assert (code, out) == (1, "")
    assert err == "rndlib: 01_judge failed: Kernel didn't respond in 2 seconds\n"
