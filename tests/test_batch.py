"""Batches, and what may befall them: cells that fail or hang, kills at any moment, two at once, no Snakemake.

Most run cells without kernels (see `without_kernels`), at a tenth of the time; those that say so run kernels.
"""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from datetime import datetime, timedelta

import psutil
import pytest
import small

from rndlib.running import notebooks, provenance
from rndlib.running.batch import engine
from rndlib.running.cli import UNWRITABLE
from rndlib.running.parameters import UsageError

pytestmark = pytest.mark.tools

RUN = ("batch", "grid.yaml", "--jobs", "2")


def installed():
    """Whether Snakemake is there."""
    try:
        return bool(engine.snakemake())
    except UsageError:
        return False


needs_snakemake = pytest.mark.skipif(not installed(), reason="needs Snakemake: ci/bootstrap .venv-workflow")


@pytest.fixture
def place(tmp_path):
    """A project."""
    return small.project(tmp_path)


def grid(place, **run):
    """A grid of one run."""
    (place / "grid.yaml").write_text(json.dumps({"runs": [{"notebook": "01", **run}]}), encoding="utf-8")


def rows(batch):
    """What is on record of each cell."""
    return json.loads((batch / "batch.json").read_text(encoding="utf-8"))["cells"]


def kill(process, everything):
    """Kill a batch, with or without what it has started."""
    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(process.pid).children(recursive=True) if everything else []
        process.kill()
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.communicate()


@needs_snakemake
def test_a_failing_cell_does_not_stop_the_others_and_is_tried_again(place):
    grid(place, list=[{"width": 1}, {"mode": "raise"}, {"width": 200}, {"width": 2}])
    code, out, err = small.call(place, *RUN)
    assert (code, err) == (1, "")  # In a log, no progress.
    lines = out.splitlines()
    assert [line.split("|")[3].strip() for line in lines[2:6]] == ["PASS", "failed", "FAIL", "PASS"]
    assert "01_judge failed: a telling message" in lines[3]
    assert "Z1 fails: 2 is above the tolerance 1" in lines[4]
    assert lines[6] == "grid.yaml: 2 of 4 cells ran with every verdict as claimed; batches/grid/report.html"
    # What ran where is on record of both.
    ran, failed, *_ = rows(place / "batches" / "grid")
    for row in (ran, failed):
        assert row["versions"] == provenance.versions()
        assert row["hardware"] == provenance.hardware()
        assert datetime.fromisoformat(row["started"]).utcoffset() == timedelta(0)
        assert row["seconds"] >= 0
        assert row["checkout"] is None
    assert ran["peak_memory"] > 0
    declared = notebooks.read(place / "notebooks" / "01_judge.ipynb").settings("paper", [])
    assert ran["parameters"] == {**declared, "width": 1}
    assert failed["message"] == "01_judge failed: a telling message"
    # Only the one that failed is run again, and what made it fail has gone.
    begun = small.begun(place)
    (place / "mended").touch()
    assert small.call(place, *RUN)[0] == 1
    assert small.begun(place) == [*begun, "begun 64 0.001 0", "ended 64 0.001 0"]
    assert [row["status"] for row in rows(place / "batches" / "grid")] == ["PASS", "PASS", "FAIL", "PASS"]
    assert not list(place.glob("batches/grid/cells/*/failure.json"))


@needs_snakemake
def test_a_batch_that_holds_exits_with_0_and_makes_again_only_what_is_damaged(place):
    grid(place, product={"width": [1, 2, 3, 4]})
    first = small.call(place, *RUN)
    assert first[0] == 0
    assert len(small.begun(place)) == 8
    folder = place / "batches" / "grid"
    page, whole = (folder / "report.html").read_bytes(), small.contents(folder)
    assert small.call(place, *RUN) == first
    assert (folder / "report.html").read_bytes() == page
    assert len(small.begun(place)) == 8
    cut, edited, gone, _ = sorted(folder.glob("cells/*/01_judge"))
    (cut / "claims.json").write_bytes((cut / "claims.json").read_bytes()[:-5])
    (edited / "01_judge.ipynb").write_bytes(b" " + (edited / "01_judge.ipynb").read_bytes()[1:])
    (gone / "run.json").unlink()
    assert small.call(place, *RUN)[0] == 0
    assert len(small.begun(place)) == 8 + 6
    assert small.contents(folder) == whole


def test_the_commands_for_another_scheduler_do_what_the_batch_does(place):
    grid(place, product={"width": [1, 2]}, seeds=[0, 7])
    code, out, _ = small.call(place, "batch", "grid.yaml", "--commands")
    assert code == 0
    assert not (place / "batches").exists()
    for line in out.splitlines():
        words = line.split()
        assert words[0] == "rndlib"
        assert small.call(place, *words[1:])[0] == 0
    assert small.call(place, "batch", "grid.yaml")[0] == 0
    assert len(small.begun(place)) == 8


@needs_snakemake
def test_a_batch_killed_at_any_moment_and_resumed_is_as_if_never_killed(place):
    grid(place, product={"width": [1, 2, 3, 4]}, seeds=2, set={"pause": 0.1})
    before = time.monotonic()
    assert small.call(place, *RUN, "--results", "whole")[0] == 0
    length = time.monotonic() - before
    (place / "log").unlink()
    moments = random.Random(2)
    folder, kept, kills, ended = place / "batches" / "grid", {}, 0, False
    while kills < 6 and not ended:
        started = small.start(place, *RUN)
        try:
            started.communicate(timeout=moments.uniform(0, 0.5) * length)
            ended = True
        except subprocess.TimeoutExpired:
            kill(started, everything=kills % 3 < 2)
            kills += 1
        # What was whole stays: the same files, not ones made anew.
        now = {path.parent.parent.name: path.stat().st_ino for path in folder.glob("cells/*/01_judge/SHA256SUMS")}
        assert kept.items() <= now.items()
        kept = now
    assert kills >= 3
    assert small.call(place, *RUN)[0] == 0
    assert small.contents(folder) == small.contents(place / "whole")
    assert len(small.contents(folder)) == len(rows(folder)) == 8
    assert not list(folder.glob("cells/*/.01_judge*"))
    # Each ran to its end once, but for those killed between that and the name of the result: two a kill at most.
    ends = [line for line in small.begun(place) if line.startswith("ended")]
    assert len(set(ends)) == 8
    assert len(ends) <= 8 + 2 * kills


@needs_snakemake
def test_a_batch_of_kernels_killed_and_resumed_is_as_if_never_killed(place):
    grid(place, seeds=2)
    assert small.call(place, *RUN, "--results", "whole", kernels=True)[0] == 0
    (place / "log").unlink()
    started = small.start(place, *RUN, kernels=True)
    small.until(lambda: small.begun(place), started)
    kill(started, everything=True)
    assert small.call(place, *RUN, kernels=True)[0] == 0
    assert small.contents(place / "batches" / "grid") == small.contents(place / "whole")
    assert len(rows(place / "batches" / "grid")) == 2


@needs_snakemake
def test_after_only_the_command_is_killed_the_next_waits_for_snakemake(place):
    grid(place, product={"width": [1, 2]}, set={"pause": 2})
    started = small.start(place, *RUN)
    small.until(lambda: small.begun(place), started)
    kill(started, everything=False)
    code, out, err = small.call(place, *RUN)
    assert (code, err) == (0, "rndlib: batches/grid is in use by another process: waiting for it to end\n")
    assert "2 of 2 cells" in out
    assert len(small.begun(place)) == 4


@needs_snakemake
def test_runs_that_are_killed_are_on_record_and_made_again(place):
    grid(place, product={"width": [1, 2, 3]}, set={"pause": 2})
    started = small.start(place, *RUN)
    small.until(lambda: small.begun(place), started)
    (first, *_) = [
        process
        for process in psutil.Process(started.pid).children(recursive=True)
        if "without_kernels" in " ".join(process.cmdline()) and not process.cmdline()[0].endswith("bash")
    ]
    first.kill()
    assert started.wait(120) == 1
    started.communicate()
    statuses = [row["status"] for row in rows(place / "batches" / "grid")]
    assert sorted(statuses) == ["PASS", "PASS", "killed"]
    assert small.call(place, *RUN)[0] == 0
    assert len([line for line in small.begun(place) if line.startswith("ended")]) == 3


@needs_snakemake
def test_kernels_that_die_or_take_too_long_are_on_record_as_such(place):
    grid(place, list=[{"mode": "die"}, {"mode": "hang"}, {"width": 1}], timeout=10)
    code, out, _ = small.call(place, *RUN, kernels=True)
    assert code == 1
    assert [row["status"] for row in rows(place / "batches" / "grid")] == ["kernel died", "timed out", "PASS"]
    assert "its kernel died" in out
    assert "took longer than its time limit" in out
    small.until(lambda: not small.alive(int((place / "child").read_text())))


@needs_snakemake
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_an_interrupted_batch_ends_its_runs_and_leaves_neither_results_nor_failures(place, number):
    grid(place, product={"width": [1, 2, 3]}, set={"pause": 600})
    started = small.start(place, *RUN)
    small.until(lambda: len(small.begun(place)) == 2, started)
    children = psutil.Process(started.pid).children(recursive=True)
    started.send_signal(number)
    out, err = started.communicate(timeout=50)
    assert (started.returncode, out, err) == (128 + number, "", "rndlib: stopped\n")
    small.until(lambda: not any(small.alive(child.pid) for child in children))
    left = {path.name for path in place.glob("batches/grid/cells/*/*")}
    assert left == {".lock", "01_judge.log"}


@needs_snakemake
def test_two_batches_at_once_run_each_cell_once_and_end_alike(place):
    grid(place, product={"width": [1, 2, 3]}, set={"pause": 0.5})
    both = [small.start(place, *RUN) for _ in range(2)]
    ends = [(*one.communicate(timeout=120), one.returncode) for one in both]
    assert [end[2] for end in ends] == [0, 0]
    assert ends[0][0] == ends[1][0]
    told = "rndlib: batches/grid is in use by another process: waiting for it to end\n"
    assert sorted(end[1] for end in ends) == ["", told]
    assert len(small.begun(place)) == 6


@needs_snakemake
@small.can_mount
def test_on_a_full_disk_cells_say_so_and_are_made_once_there_is_room(place):
    grid(place, product={"width": list(range(1, 13))})
    assert small.call(place, *RUN, "--results", "whole")[0] == 0
    # Room for some of the twelve; then for all.
    script = """
mkdir results && mount -t tmpfs -o size=300k none results
"$@" > first 2>&1; test $? != 0 && ! grep Traceback first || exit 1
ls -d results/cells/*/01_judge/SHA256SUMS | wc -l
mount -o remount,size=20m results
"$@"; echo "code $?"
cp -r results kept
"""
    command = [*small.command(kernels=False), *RUN, "--results", "results"]
    done = subprocess.run([*small.MOUNT, script, "sh", *command], cwd=place, capture_output=True, text=True)
    assert 1 <= int(done.stdout.splitlines()[0]) < 12
    assert done.stdout.splitlines()[-1] == "code 0"
    assert "No space left on device: free some space, then start again" in (place / "first").read_text()
    assert small.contents(place / "kept") == small.contents(place / "whole")


@small.can_mount
def test_in_a_read_only_folder_a_batch_says_so_once(place):
    grid(place)
    script = """
mkdir results && mount -t tmpfs none results && mount -o remount,ro results
"$@"; echo "code $?"
"""
    command = [*small.command(kernels=False), *RUN, "--results", "results"]
    done = subprocess.run([*small.MOUNT, script, "sh", *command], cwd=place, capture_output=True, text=True)
    assert done.stdout == f"code {UNWRITABLE}\n"
    assert done.stderr.count("\n") == 1
    assert "Read-only file system: choose a folder that can be written" in done.stderr


@needs_snakemake
def test_a_terminal_gets_a_bar(place):
    grid(place, list=[{"width": 1}, {"mode": "raise"}], set={"pause": 0.8})
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    started = subprocess.Popen(
        [*small.command(kernels=False), "batch", "grid.yaml", "--jobs", "1"],
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Linux reports the end of a terminal so.
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    assert started.wait(60) == 1
    text = shown.decode()
    assert "0/2" in text
    assert "1/2" in text
    assert "2/2" in text
    assert "1 failed" in text


def test_without_what_it_needs_the_message_says_what_to_install(place, monkeypatch):
    grid(place)
    program = (
        "import sys; sys.modules['jinja2'] = None; from rndlib.running.cli import main; "
        "sys.exit(main(['batch', 'grid.yaml']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'rndlib[notebooks]'" in done.stderr
    monkeypatch.setenv("RNDLIB_SNAKEMAKE", "nowhere")
    code, out, err = small.call(place, *RUN)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nowhere was not found: pip install 'rndlib[batch]'" in err
    assert "ci/bootstrap .venv-workflow" in err


def script(place, text):
    """A program in place of Snakemake."""
    (place / "snakemake").write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (place / "snakemake").chmod(0o755)
    return str(place / "snakemake")


def test_snakemake_is_looked_for_in_its_own_environment_and_on_path(place, monkeypatch):
    monkeypatch.delenv("RNDLIB_SNAKEMAKE", raising=False)
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr(sys, "executable", str(place / "bin" / "python"))
    monkeypatch.setattr(engine, "HERE", place / "rndlib" / "running" / "batch")
    with pytest.raises(UsageError, match="snakemake was not found"):
        engine.snakemake()
    on_path = script(place, "")
    assert engine.snakemake() == on_path
    for folder in (place / ".venv-workflow" / "bin", place / "bin"):
        folder.mkdir(parents=True)
        there = script(folder, "")
        assert engine.snakemake() == there
    monkeypatch.setenv("RNDLIB_SNAKEMAKE", on_path)
    assert engine.snakemake() == on_path


def test_where_snakemake_runs_nothing_its_last_line_is_shown(place, monkeypatch):
    grid(place)
    monkeypatch.setenv("RNDLIB_SNAKEMAKE", script(place, "echo first; echo invalid choice: slurm >&2; exit 1"))
    code, out, err = small.call(place, *RUN)
    assert (code, out) == (2, "")
    assert err == "rndlib: Snakemake ran no cell: invalid choice: slurm; look into batches/grid/snakemake.log\n"
    assert (
        "has no config.yaml: name slurm, or a folder with one" in small.call(place, *RUN, "--workflow-profile", ".")[2]
    )


def test_a_snakemake_that_does_not_stop_is_killed_with_its_children(place, monkeypatch):
    monkeypatch.setattr(engine, "GRACE", 0.5)
    command = [script(place, "trap '' INT; sleep 600 & echo $! > child; while true; do sleep 0.1; done")]
    monkeypatch.chdir(place)
    with (place / "lock").open("w") as lock:
        process = engine._started(command, lock.fileno(), lock.fileno())
        small.until(lambda: (place / "child").exists() and (place / "child").read_text())
        engine._stop(process)
    assert process.returncode == -signal.SIGKILL
    small.until(lambda: not small.alive(int((place / "child").read_text())))
