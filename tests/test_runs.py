"""One result: whole or not there, found if damaged, made once, also where processes are killed and disks are full."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import small

from rndlib.running import checksums, locks, runs
from rndlib.running.cli import TOO_LONG
from rndlib.running.parameters import UsageError

pytestmark = pytest.mark.tools


@pytest.fixture
def place(tmp_path):
    """A project."""
    return small.project(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A result, to be copied."""
    place = small.project(tmp_path_factory.mktemp("made"))
    assert small.call(place, "run", "01")[0] == 0
    return place / "results" / small.NAME


FILES = ["01_judge.ipynb", "SHA256SUMS", "claims.json", "fig1.png", "run.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "empty", "edited", "gone"])
def test_a_damaged_file_is_found(made, tmp_path, name, damage):
    folder = tmp_path / small.NAME
    shutil.copytree(made, folder)
    assert runs.read(folder).verdicts
    file = folder / name
    content = file.read_bytes()
    at = random.Random(f"{name} {damage}").randrange(len(content))
    changed = {"cut": content[:at], "empty": b"", "edited": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]}
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(changed[damage])
    with pytest.raises(UsageError, match="not a whole result"):
        runs.read(folder)


def test_a_list_of_checksums_that_lost_lines_is_found(made, tmp_path):
    folder = tmp_path / small.NAME
    shutil.copytree(made, folder)
    lines = (folder / checksums.FILE).read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        (folder / checksums.FILE).write_text("".join(lines[:kept]))
        with pytest.raises(UsageError, match="differs from what SHA256SUMS says"):
            runs.read(folder)


def test_checksums_are_those_of_sha256sum_and_leave_jupyters_own_files_alone(made, tmp_path):
    folder = tmp_path / small.NAME
    shutil.copytree(made, folder)
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "01_judge-checkpoint.ipynb").write_text("{}")
    assert runs.read(folder)
    if tool := shutil.which("sha256sum"):
        subprocess.run([tool, "--check", "--strict", "--quiet", checksums.FILE], cwd=folder, check=True)


def test_files_in_folders_are_sealed_too(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a b.txt").write_text("a")
    checksums.seal(tmp_path)
    checksums.check(tmp_path)
    (tmp_path / "deep" / "er" / "a b.txt").write_text("b")
    with pytest.raises(ValueError, match=r"^deep/er/a b\.txt differs"):
        checksums.check(tmp_path)


def test_once_runs_once_and_again_after_damage_or_change(place):
    run = ("run", "01", "--once")
    first = small.call(place, *run)
    assert small.call(place, *run) == first
    assert small.begun(place) == ["begun 64 0.001 0", "ended 64 0.001 0"]
    kept = small.content(place / "results" / small.NAME)
    (place / "results" / small.NAME / "fig1.png").write_bytes(b"edited")
    assert small.call(place, *run)[0] == 0
    assert small.content(place / "results" / small.NAME) == kept
    assert len(small.begun(place)) == 4
    small.call(place, *run, "-p", "seed", "1")
    small.call(place, *run, "-p", "seed", "1")
    assert len(small.begun(place)) == 6
    notebook = place / "notebooks" / "01_judge.ipynb"
    notebook.write_text(notebook.read_text().replace("A judge", "Another judge"))
    small.call(place, *run, "-p", "seed", "1")
    assert len(small.begun(place)) == 8


def test_a_change_during_a_run_fails_it(place):
    process = small.start(place, "run", "01", "-p", "pause", "1")
    small.until(lambda: small.begun(place))
    notebook = place / "notebooks" / "01_judge.ipynb"
    notebook.write_text(notebook.read_text().replace("A judge", "Another judge"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "was changed during the run" in err
    assert not (place / "results" / small.NAME).exists()


def test_a_lock_is_for_one_process_and_dies_with_it_and_its_heirs(tmp_path):
    path = tmp_path / "lock"
    program = """
import subprocess, sys
from pathlib import Path
from rndlib.running import locks
with locks.held(Path(sys.argv[1])) as lock:
    heir = subprocess.Popen(["sleep", "600"], pass_fds=[lock])
    print(heir.pid, flush=True)
    heir.wait()
"""
    holder = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    heir = int(holder.stdout.readline())
    taken = threading.Event()

    def take():
        with locks.held(path):
            taken.set()

    waiting = threading.Thread(target=take)
    waiting.start()
    holder.kill()
    holder.wait()
    assert not taken.wait(0.5)  # The heir has it.
    os.kill(heir, signal.SIGKILL)
    assert taken.wait(10)
    waiting.join()
    holder.stdout.close()


def test_a_run_that_another_process_is_at_is_waited_for(place):
    process = small.start(place, "run", "01", "--once", "-p", "pause", "2")
    small.until(lambda: small.begun(place), process)
    code, out, err = small.call(place, "run", "01", "--once", "-p", "pause", "2")
    assert (code, err) == (0, "rndlib: results is in use by another process: waiting for it to end\n")
    first, _ = process.communicate(timeout=60)
    assert (process.returncode, first) == (0, out)
    assert len(small.begun(place)) == 2


def test_a_run_killed_at_any_moment_leaves_nothing_or_a_whole_result(place):
    arguments = ("run", "01", "--once", "-p", "pause", "0.15")
    before = time.monotonic()
    whole = small.start(place, *arguments, "--results", "whole")
    assert whole.communicate(timeout=60)[1] == ""
    length = time.monotonic() - before
    moments = random.Random(0)
    results, kills = place / "results" / small.NAME, 0
    for _ in range(10):
        process = small.start(place, *arguments)
        try:
            process.communicate(timeout=moments.uniform(0, 1.1 * length))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        if results.exists():
            assert small.content(results) == small.content(place / "whole" / small.NAME)
            shutil.rmtree(results)
    assert kills > 3
    assert small.call(place, *arguments)[0] == 0
    assert small.content(results) == small.content(place / "whole" / small.NAME)
    assert sorted(path.name for path in results.parent.iterdir()) == [f".{small.NAME}.lock", small.NAME]


def test_a_run_with_a_kernel_killed_at_any_moment_then_made_again_is_the_same(place):
    assert small.call(place, "run", "01", "--results", "whole", kernels=True)[0] == 0
    process = small.start(place, "run", "01", "-p", "pause", "600", kernels=True)
    small.until(lambda: small.begun(place)[2:], process)
    process.kill()
    process.communicate()
    (left,) = (place / "results").glob(".*.partial")
    assert small.call(place, "run", "01", kernels=True)[0] == 0
    assert not left.exists()
    assert small.content(place / "results" / small.NAME) == small.content(place / "whole" / small.NAME)


def test_a_kernel_that_dies_is_said_to_have_died(place):
    code, out, err = small.call(place, "run", "01", "-p", "mode", "die", kernels=True)
    assert (code, out) == (1, "")
    assert "01_judge failed: its kernel died" in err
    assert [path.name for path in (place / "results").iterdir()] == [f".{small.NAME}.lock"]


def test_a_run_over_its_time_limit_ends_with_all_that_it_started(place):
    process = small.start(place, "run", "01", "-p", "mode", "hang", "--timeout", "20", kernels=True)
    out, err = process.communicate(timeout=60)
    assert process.returncode == TOO_LONG
    assert (out, err) == ("", "rndlib: took longer than its time limit, and was stopped\n")
    assert [path.name for path in (place / "results").iterdir()] == [f".{small.NAME}.lock"]
    child = int((place / "child").read_text())
    small.until(lambda: not small.alive(child))


def test_a_run_over_its_time_limit_that_does_not_end_by_itself_is_killed(place):
    program = """
import sys, time
from rndlib.running import cli, runs
cli.SPARE = 0.5
def run(*_):
    try:
        time.sleep(600)
    finally:
        time.sleep(600)
runs.run = run
sys.exit(cli.main(["run", "01", "--timeout", "0.5"]))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGALRM


@pytest.mark.parametrize("operation", ["write_bytes", "rename"])
def test_a_disk_that_is_full_at_any_moment_leaves_no_result_or_a_whole_one(place, monkeypatch, operation):
    real, results = getattr(Path, operation), place / "results" / small.NAME
    code, failing = 1, 0
    while code:
        calls = iter(range(100))

        def full(path, *arguments, calls=calls, failing=failing):
            if next(calls) == failing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")
            return real(path, *arguments)

        monkeypatch.setattr(Path, operation, full)
        code, _, err = small.call(place, "run", "01")
        if code:
            assert (code, err) == (1, "rndlib: [Errno 28] No space left on device: 'somewhere'\n")
            assert [path.name for path in results.parent.iterdir()] == [f".{small.NAME}.lock"]
            failing += 1
    assert failing == {"write_bytes": 3, "rename": 1}[operation]
    assert runs.read(results)


@small.can_mount
def test_on_a_full_disk_a_kernels_run_says_so_and_leaves_nothing(place):
    script = 'mkdir results && mount -t tmpfs -o size=1m none results; "$@"; echo "code $?"; ls results'
    command = [*small.command(kernels=True), "run", "01", "-p", "mode", "fill"]
    done = subprocess.run([*small.MOUNT, script, "sh", *command], cwd=place, capture_output=True, text=True)
    assert done.stdout == "code 1\n"
    assert done.stderr.splitlines()[-1] == "OSError: [Errno 28] No space left on device"
