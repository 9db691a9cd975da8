"""One result: whole or not there, found if damaged, made once; on a full disk and in a read-only folder."""

import errno
import json
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

from rndlib import output
from rndlib.running import checksums, failures, locks, runs
from rndlib.running.cli import UNWRITABLE
from rndlib.running.failures import TOO_LONG
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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the state of a process is read from /proc")
def test_what_a_process_left_that_nobody_has_asked_about_goes_with_the_next_run(place):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # It has ended, and keeps its number.
    left = place / "results" / f".{small.NAME}.{ended.pid}.partial"
    running = place / "results" / f".{small.NAME}.{os.getppid()}.partial"
    for folder in (left, running):
        folder.mkdir(parents=True)
    assert small.call(place, "run", "01")[0] == 0
    assert not left.exists()
    assert running.exists()
    ended.wait()


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
        with pytest.raises(UsageError, match="SHA256SUMS does not name"):
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
    with pytest.raises(ValueError, match=r"deep/er/a b\.txt was changed"):
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
    assert small.call(place, *arguments, "--results", "whole")[0] == 0
    length = time.monotonic() - before
    moments = random.Random(0)
    results, kills = place / "results" / small.NAME, 0
    for _ in range(16):
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
    assert kills > 5
    assert small.call(place, *arguments)[0] == 0
    assert small.content(results) == small.content(place / "whole" / small.NAME)
    assert sorted(path.name for path in results.parent.iterdir()) == [".lock", small.NAME]


def test_a_run_with_a_kernel_killed_at_any_moment_then_made_again_is_the_same(place):
    assert small.call(place, "run", "01", "--once", "--results", "whole", kernels=True)[0] == 0
    moments = random.Random(1)
    for _ in range(3):
        process = small.start(place, "run", "01", "--once", kernels=True)
        try:
            process.communicate(timeout=moments.uniform(1, 4))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    assert small.call(place, "run", "01", "--once", kernels=True)[0] == 0
    assert small.content(place / "results" / small.NAME) == small.content(place / "whole" / small.NAME)


def test_a_kernel_that_dies_is_said_to_have_died(place):
    code, out, err = small.call(place, "run", "01", "-p", "mode", "die", kernels=True)
    assert (code, out) == (1, "")
    assert "01_judge failed: its kernel died" in err
    assert list((place / "results").iterdir()) == []


def test_a_run_over_its_time_limit_ends_with_all_that_it_started(place):
    code, out, err = small.call(place, "run", "01", "-p", "mode", "hang", "--timeout", "5", kernels=True)
    assert (code, out, err) == (TOO_LONG, "", "rndlib: took longer than its time limit, and was stopped\n")
    assert list((place / "results").iterdir()) == []
    child = int((place / "child").read_text())
    small.until(lambda: not small.alive(child))


def test_a_run_over_its_time_limit_that_does_not_end_by_itself_is_killed(place):
    program = """
import sys, time
from rndlib.running import cli, runs
import without_kernels
without_kernels.install()
cli.SPARE = 0.5
def run(*_):
    try:
        time.sleep(600)
    finally:
        time.sleep(600)
runs.run = run
sys.exit(cli.main(["run", "01", "--once", "--timeout", "0.5"]))
"""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], cwd=place, env=environment, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGALRM


def test_how_a_run_failed_is_on_record_until_there_is_a_result(place):
    run = ("run", "01", "--once", "-p", "mode", "raise")
    assert small.call(place, *run)[0] == 1
    record = json.loads((place / "results" / failures.FILE).read_text(encoding="utf-8"))
    assert record["status"] == "failed"
    assert record["message"] == "01_judge failed: a telling message"
    (place / "mended").touch()
    assert small.call(place, *run)[0] == 0
    assert not (place / "results" / failures.FILE).exists()


def test_a_disk_that_fills_up_at_any_write_leaves_no_result(place, monkeypatch, tmp_path):
    # Each result is waited for on the disk, file by file: the n-th such wait fails, as on a full disk, for every n.
    program = """
import errno, os, sys
left, real = int(sys.argv.pop()), os.fsync
def fsync(handle):
    global left
    left -= 1
    if left == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "here")
    real(handle)
os.fsync = fsync
import without_kernels
from rndlib.running.cli import main
without_kernels.install()
code = main(sys.argv[1:])
print(left)
sys.exit(code)
"""
    results = place / "results" / small.NAME
    count = 0
    while True:
        count += 1
        command = [sys.executable, "-c", program, "run", "01", "--once", str(count)]
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        if done.returncode == 0:
            break
        assert (done.returncode, done.stderr) == (
            UNWRITABLE,
            "rndlib: here: No space left on device: free some space, then start again; whole results are kept\n",
        )
        if results.exists():  # The very last wait is for the name of a result that is whole already.
            runs.read(results)
            shutil.rmtree(results)
    assert count > 8
    runs.read(results)
    assert sorted(path.name for path in results.parent.iterdir()) == [".lock", small.NAME]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_refusal_says_where_why_and_what_to_do(number):
    line = output.refusal(OSError(number, os.strerror(number), "/place"))
    assert line is not None
    assert line.startswith(f"/place: {os.strerror(number)}: ")
    assert "start again" in line


def test_other_errors_are_no_refusals():
    assert output.refusal(FileNotFoundError(errno.ENOENT, "no such file")) is None


@small.can_mount
def test_on_a_full_disk_a_kernels_run_says_so_once_and_can_be_made_again(place):
    script = """
mkdir results && mount -t tmpfs -o size=1m none results
"$@"; echo "code $?"; ls -A results
mount -o remount,size=100m results
"$@"; echo "code $?"; ls -A results
"""
    command = [*small.command(kernels=True), "run", "01", "-p", "mode", "fill"]
    done = subprocess.run([*small.MOUNT, script, "sh", *command], cwd=place, capture_output=True, text=True)
    assert done.stdout.startswith(f"code {UNWRITABLE}\n| id ")  # Between the two, no file.
    assert done.stdout.splitlines()[-2:] == ["code 0", small.NAME]
    assert done.stderr.count("\n") == 1
    assert "No space left on device: free some space, then start again" in done.stderr
