"""Batches, and what may befall them: cells that fail, kills at any moment, two at once, full and read-only disks.

Most run cells without kernels (see `without_kernels`), which is what makes kills by the dozen and cells by the thousand
affordable; those that say so run kernels.
"""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import termios
import threading
import time
from datetime import datetime, timedelta

import psutil
import pytest
import small

from rndlib import cores
from rndlib.running import notebooks, provenance
from rndlib.running.batch import batch, pool, process
from rndlib.running.exit_codes import UNWRITABLE

pytestmark = pytest.mark.tools


@pytest.fixture
def place(tmp_path):
    """A project."""
    return small.project(tmp_path)


def grid(place, name="grid", **run):
    """A grid of one run."""
    content = {"runs": [{"notebook": "01", **run}]}
    (place / f"{name}.yaml").write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML.


def rows(batch_folder):
    """What is on record of each cell."""
    return json.loads((batch_folder / "batch.json").read_text(encoding="utf-8"))["cells"]


def test_a_failing_cell_does_not_stop_the_rest_and_is_tried_again(place):
    grid(place, list=[{"width": 1}, {"mode": "raise"}, {"width": 200}, {"width": 2}])
    code, out, err = small.call(place, "batch", "grid.yaml", "--jobs", "2")
    assert code == 1
    lines = out.splitlines()
    assert [line.split("|")[3].strip() for line in lines[2:6]] == ["PASS", "failed", "FAIL", "PASS"]
    assert "01_judge failed: a telling message" in lines[3]
    assert "Z1 fails: 2 is above the tolerance 1" in lines[4]
    assert lines[6] == "grid.yaml: 2 of 4 cells ran with every verdict as claimed; batches/grid/report.html"
    assert err.count("\n") == 4  # A line a cell, and no table.
    assert "\x1b" not in err
    assert [line.split("]")[0] for line in err.splitlines()] == ["[1/4", "[2/4", "[3/4", "[4/4"]
    # Only the one that failed is run again, and what holds it up has gone.
    begun = small.begun(place)
    (place / "mended").touch()
    assert small.call(place, "batch", "grid.yaml")[0] == 1
    assert small.begun(place) == [*begun, "begun 64 0.001 0", "ended 64 0.001 0"]
    assert [row["status"] for row in rows(place / "batches" / "grid")] == ["PASS", "PASS", "FAIL", "PASS"]
    assert not list(place.glob("batches/grid/cells/*/failure.json"))


def test_a_batch_that_holds_exits_with_0_and_runs_nothing_twice(place):
    grid(place, product={"width": [1, 2], "rate": [1e-3, 1]}, seeds=2)
    first = small.call(place, "batch", "grid.yaml")
    assert first[0] == 0
    assert len(small.begun(place)) == 16
    page = (place / "batches" / "grid" / "report.html").read_bytes()
    assert small.call(place, "batch", "grid.yaml")[:2] == first[:2]
    assert len(small.begun(place)) == 16
    assert (place / "batches" / "grid" / "report.html").read_bytes() == page


def test_the_commands_for_a_scheduler_do_what_the_batch_does(place):
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


@pytest.mark.parametrize(
    ("damaged", "damage"), [("claims.json", "cut"), ("01_judge.ipynb", "edited"), ("run.json", "gone")]
)
def test_a_damaged_result_is_made_again_and_no_other(place, damaged, damage):
    grid(place, product={"width": [1, 2]})
    assert small.call(place, "batch", "grid.yaml")[0] == 0
    folder = place / "batches" / "grid"
    whole = small.contents(folder)
    file = next(folder.glob("cells/*/01_judge")) / damaged
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-5] if damage == "cut" else b" " + content[1:])
    begun = len(small.begun(place))
    assert small.call(place, "batch", "grid.yaml")[0] == 0
    assert len(small.begun(place)) == begun + 2
    assert small.contents(folder) == whole


def test_a_batch_killed_at_any_moment_and_resumed_is_as_if_never_killed(place):
    grid(place, product={"width": [1, 2, 3, 4], "rate": [1, 2]}, seeds=2, set={"pause": 0.1})
    before = time.monotonic()
    assert small.call(place, "batch", "grid.yaml", "--jobs", "2", "--results", "whole")[0] == 0
    length = time.monotonic() - before
    (place / "log").unlink()
    moments = random.Random(2)
    folder, kept, kills, ended = place / "batches" / "grid", {}, 0, False
    while kills < 20 and not ended:
        started = small.start(place, "batch", "grid.yaml", "--jobs", "2")
        try:
            started.communicate(timeout=moments.uniform(0, 0.2) * length)
            ended = True
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()
            kills += 1
        # What was whole stays: the same files, not ones made anew.
        now = {path.parent.parent.name: path.stat().st_ino for path in folder.glob("cells/*/01_judge/run.json")}
        assert kept.items() <= now.items()
        kept = now
    assert kills >= 5
    assert small.call(place, "batch", "grid.yaml", "--jobs", "2")[0] == 0
    assert small.contents(folder) == small.contents(place / "whole")
    assert len(small.contents(folder)) == 16
    assert len(rows(folder)) == len({row["key"] for row in rows(folder)}) == 16
    assert not list(folder.glob("cells/*/.01_judge*"))
    # Each ran to its end once, but for those killed between that and the name of the result: two a kill at most.
    ends = [line for line in small.begun(place) if line.startswith("ended")]
    assert len(set(ends)) == 16
    assert len(ends) <= 16 + 2 * kills


def test_runs_killed_at_any_moment_are_on_record_and_made_again(place):
    grid(place, product={"width": list(range(1, 9))}, set={"pause": 0.3})
    assert small.call(place, "batch", "grid.yaml", "--results", "whole")[0] == 0
    moments, killed = random.Random(3), set()
    started = small.start(place, "batch", "grid.yaml", "--jobs", "2")
    while started.poll() is None:
        time.sleep(moments.uniform(0, 0.4))
        try:
            children = psutil.Process(started.pid).children()
        except psutil.NoSuchProcess:
            break
        if children and len(killed) < 4:
            child = moments.choice(children)
            child.kill()
            killed.add(child.pid)
    out, _ = started.communicate()
    statuses = [row["status"] for row in rows(place / "batches" / "grid")]
    assert started.returncode == 1
    assert 1 <= statuses.count("killed") <= len(killed)
    assert statuses.count("killed") + statuses.count("PASS") == 8
    assert out.count("killed") == statuses.count("killed")
    assert small.call(place, "batch", "grid.yaml")[0] == 0
    assert small.contents(place / "batches" / "grid") == small.contents(place / "whole")


def test_a_batch_of_kernels_killed_at_any_moment_and_resumed_is_as_if_never_killed(place):
    grid(place, seeds=2)
    assert small.call(place, "batch", "grid.yaml", "--results", "whole", kernels=True)[0] == 0
    moments = random.Random(4)
    for _ in range(2):
        started = small.start(place, "batch", "grid.yaml", kernels=True)
        try:
            started.communicate(timeout=moments.uniform(1.5, 5))
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()
    assert small.call(place, "batch", "grid.yaml", kernels=True)[0] == 0
    assert small.contents(place / "batches" / "grid") == small.contents(place / "whole")
    assert len(rows(place / "batches" / "grid")) == 2


def test_kernels_that_die_or_take_too_long_are_on_record_as_such(place):
    grid(place, list=[{"mode": "die"}, {"mode": "hang"}, {"width": 1}], timeout=8)
    code, out, _ = small.call(place, "batch", "grid.yaml", kernels=True)
    assert code == 1
    assert [row["status"] for row in rows(place / "batches" / "grid")] == ["kernel died", "timed out", "PASS"]
    assert "its kernel died" in out
    assert "took longer than its time limit" in out
    small.until(lambda: not small.alive(int((place / "child").read_text())))


def test_a_process_that_does_not_stop_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE", 0.5)
    script = "trap '' TERM; sleep 600 & echo $! > child; echo said; while true; do sleep 0.1; done"
    with (tmp_path / "lock").open("w") as lock:
        monkeypatch.chdir(tmp_path)
        ended = process.run(["sh", "-c", script], dict(os.environ), lock.fileno(), 1.2, threading.Event())
    assert ended == process.Ended(-signal.SIGKILL, "said", late=True)
    small.until(lambda: not small.alive(int((tmp_path / "child").read_text())))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_an_interrupted_batch_ends_its_runs_and_resumes(place, number):
    grid(place, product={"width": [1, 2, 3]}, set={"pause": 600})
    started = small.start(place, "batch", "grid.yaml", "--jobs", "2")
    small.until(lambda: len(small.begun(place)) == 2, started)
    started.send_signal(number)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out, err) == (128 + number, "", "rndlib: stopped\n")
    # Neither a result nor a failure is there, nor what a run was at.
    left = {path.name for path in place.glob("batches/grid/cells/*/*")}
    assert left == {".lock"}


def test_two_batches_at_once_run_each_cell_once_and_end_alike(place):
    grid(place, product={"width": list(range(1, 9))}, list=[{"pause": 0.1}, {"mode": "raise"}])
    both = [small.start(place, "batch", "grid.yaml", "--jobs", "2") for _ in range(2)]
    ends = [(*one.communicate(timeout=120), one.returncode) for one in both]
    assert [end[2] for end in ends] == [1, 1]
    assert ends[0][0] == ends[1][0]
    assert len(ends[0][0].splitlines()) == 2 + 16 + 1
    begun = [line for line in small.begun(place) if line.startswith("begun")]
    assert sorted(begun) == sorted(f"begun {width} 0.001 0" for width in range(1, 9) for _ in range(2))
    statuses = [row["status"] for row in rows(place / "batches" / "grid")]
    assert statuses == ["PASS"] * 8 + ["failed"] * 8


def test_a_thousand_cells(place, monkeypatch, capsys):
    """With a process a cell that only puts a result in its place, made here beforehand."""
    monkeypatch.chdir(place)
    grid(place, product={"width": list(range(1, 26)), "rate": list(range(1, 9))}, seeds=5)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)  # They need not outlive a power cut.
        assert len(small.prepare(place, place / "grid.yaml")) == 1000
    monkeypatch.setattr(process, "rndlib", lambda: ["sh", "move"])
    assert batch.run(place / "grid.yaml", place / "out", 2)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2 + 1000 + 1
    assert err.splitlines()[-1].startswith("[1000/1000] ")
    found = rows(place / "out")
    assert [row["parameters"]["seed"] for row in found[:5]] == [0, 1, 2, 3, 4]
    assert len({row["key"] for row in found}) == 1000
    # All of them are there now: a second batch starts no process at all.
    monkeypatch.setattr(process, "rndlib", lambda: ["false"])
    assert batch.run(place / "grid.yaml", place / "out", 2)
    assert capsys.readouterr().out == out


@small.can_mount
def test_on_a_full_disk_a_batch_says_so_once_and_resumes(place):
    grid(place, product={"width": list(range(1, 13))})
    assert small.call(place, "batch", "grid.yaml", "--results", "whole")[0] == 0
    # Room for some of the twelve; then for all.
    script = """
mkdir results && mount -t tmpfs -o size=200k none results
"$@"; echo "code $?"
mount -o remount,size=20m results
ls -d results/cells/*/01_judge | wc -l
"$@"; echo "code $?"
cp -r results kept
"""
    command = [*small.command(kernels=False), "batch", "grid.yaml", "--results", "results", "--jobs", "2"]
    done = subprocess.run([*small.MOUNT, script, "sh", *command], cwd=place, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0] == f"code {UNWRITABLE}"
    assert 1 <= int(lines[1]) < 12
    assert lines[-1] == "code 0"
    assert done.stderr.count("No space left on device: free some space, then start again") == 1
    assert "Traceback" not in done.stderr
    assert small.contents(place / "kept") == small.contents(place / "whole")


@small.can_mount
def test_in_a_read_only_folder_a_batch_says_so_once(place):
    grid(place, product={"width": [1, 2, 3]})
    script = """
mkdir results && mount -t tmpfs none results && mount -o remount,ro results
"$@"; echo "code $?"
mount -o remount,rw results && mkdir results/cells && mount -o remount,ro results
"$@"; echo "code $?"
mount -o remount,rw results
"$@"; echo "code $?"
"""
    command = [*small.command(kernels=False), "batch", "grid.yaml", "--results", "results"]
    done = subprocess.run([*small.MOUNT, script, "sh", *command], cwd=place, capture_output=True, text=True)
    assert done.stdout.splitlines()[:2] == [f"code {UNWRITABLE}"] * 2
    assert done.stdout.splitlines()[-1] == "code 0"
    refused = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert len(refused) == 2
    assert all("Read-only file system: choose a folder that can be written" in line for line in refused)


def test_a_terminal_gets_a_live_table(place):
    grid(place, product={"width": [1, 200]}, set={"pause": 0.8})
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
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # Linux reports the end of a terminal so.
        pass
    os.close(ours)
    assert started.wait(60) == 1
    text = shown.decode()
    assert "0 of 2 cells" in text
    assert "1 of 2 cells, 1 PASS" in text
    assert "01_judge pause=0.8 width=200: FAIL" in text


def test_cores_are_shared_without_overlap(monkeypatch):
    monkeypatch.setattr(cores, "usable", lambda: [0, 1, 2, 5, 6])
    assert cores.shared(2) == [[0, 1], [2, 5]]
    assert cores.shared(5) == [[0], [1], [2], [5], [6]]
    assert cores.shared(7) == [[0], [1], [2], [5], [6], [0], [1]]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "9")
    assert cores.threads(2)["OMP_NUM_THREADS"] == "2"
    assert cores.threads(2)["MKL_NUM_THREADS"] == "9"  # What the user has set stays.


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system pins no process")
def test_a_run_has_the_cores_of_its_slot(place):
    grid(place, product={"width": [1, 2]})
    assert small.call(place, "batch", "grid.yaml", "--jobs", str(len(cores.usable())))[0] == 0
    assert [row["hardware"]["cores"] for row in rows(place / "batches" / "grid")] == [1, 1]


def test_what_ran_where_is_on_record(place):
    grid(place, list=[{"width": 1}, {"mode": "raise"}])
    small.call(place, "batch", "grid.yaml")
    ran, failed = rows(place / "batches" / "grid")
    assert ran["versions"] == provenance.versions()
    assert ran["hardware"]["cpu"] == failed["hardware"]["cpu"] == provenance.hardware()["cpu"]
    assert {"host", "cores", "memory_gib"} <= set(ran["hardware"])
    assert all(datetime.fromisoformat(row["started"]).utcoffset() == timedelta(0) for row in (ran, failed))
    assert ran["seconds"] >= 0
    assert ran["peak_memory"] > 0
    assert ran["checkout"] is None
    assert ran["parameters"] == {
        **notebooks.read(place / "notebooks" / "01_judge.ipynb").settings("paper", []),
        "width": 1,
    }
    assert failed["message"].endswith("a telling message")


def test_without_what_it_needs_the_message_says_what_to_install(place):
    grid(place)
    program = (
        "import sys; sys.modules['rich'] = None; from rndlib.running.cli import main; "
        "sys.exit(main(['batch', 'grid.yaml']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'rndlib[notebooks]'" in done.stderr


@pytest.mark.parametrize(
    ("script", "status"),
    [("sleep 600", "timed out"), ("kill -9 $$", "killed"), ("echo why; exit 3", "failed"), ("exit 0", "failed")],
)
def test_whatever_a_run_does_it_is_on_record(place, monkeypatch, capsys, script, status):
    monkeypatch.chdir(place)
    monkeypatch.setattr(pool, "SPARE", 0.0)
    monkeypatch.setattr(process, "rndlib", lambda: ["sh", "-c", script])
    grid(place, timeout=0.5)
    assert not batch.run(place / "grid.yaml", place / "out", 1)
    (row,) = rows(place / "out")
    assert row["status"] == status
    wanted = {"echo why; exit 3": "why", "exit 0": pool.CHANGED}
    assert row["message"] == wanted.get(script, "")
    assert status in capsys.readouterr().out
