"""Batches, and what may befall them: cells that fail or hang, kills at any moment, two at once, no Snakemake.

Cells run without kernels (see `without_kernels`), at a tenth of the time, except in the one test that says so.
"""

import json
import random
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta

import psutil
import pytest
import small

import rndlib.running.batch
from rndlib.running import notebooks, provenance
from rndlib.running.batch import engine
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


def alone(place, folder):
    """The cells of the grid one by one, without Snakemake, as another scheduler would run them."""
    code, out, _ = small.call(place, "batch", "grid.yaml", "--commands", "--results", folder)
    assert code == 0
    assert not (place / folder).exists()
    for line in out.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "rndlib"
        assert small.call(place, *arguments)[0] == 0


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
def test_failing_hanging_and_killed_cells_stop_no_others_and_are_made_again_with_what_is_damaged(place):
    ways = [{"width": 1}, {"mode": "raise"}, {"width": 200}, {"width": 2}, {"width": 3}]
    grid(place, list=[*ways, {"mode": "die"}, {"pause": 600}], timeout=15)
    code, out, err = small.call(place, *RUN)
    assert (code, err) == (1, "")  # Progress is shown on a terminal only.
    lines = out.splitlines()
    statuses = ["PASS", "no result", "FAIL", "PASS", "PASS", "no result", "no result"]
    assert [line.split("|")[3].strip() for line in lines[2:9]] == statuses
    assert "01_judge failed: a telling message" in lines[3]
    assert "Z1 fails: 2 is above the tolerance 1" in lines[4]
    assert "killed" in lines[7].lower()
    assert "took longer than its time limit" in lines[8]
    assert lines[9] == "grid.yaml: 3 of 7 cells ran with every verdict as claimed; batches/grid/report.html"
    # What ran where is on record.
    folder = place / "batches" / "grid"
    first, failed, *_ = rows(folder)
    assert first["versions"] == provenance.versions()
    assert first["hardware"] == provenance.hardware()
    assert datetime.fromisoformat(first["started"]).utcoffset() == timedelta(0)
    assert first["seconds"] >= 0
    assert first["checkout"] is None
    assert first["peak_memory"] > 0
    declared = notebooks.read(place / "notebooks" / "01_judge.ipynb").settings("paper", [])
    assert first["parameters"] == {**declared, "width": 1}
    assert "rndlib: 01_judge failed: a telling message" in failed["log"]
    # Those that failed or are damaged are made again, and no others.
    whole, begun = small.contents(folder), small.begun(place)
    cut, edited, gone = ((folder / rows(folder)[number]["executed"]).parent for number in (0, 3, 4))
    (cut / "claims.json").write_bytes((cut / "claims.json").read_bytes()[:-5])
    (edited / "01_judge.ipynb").write_bytes(b" " + (edited / "01_judge.ipynb").read_bytes()[1:])
    (gone / "run.json").unlink()
    (place / "mended").touch()
    grid(place, list=ways, timeout=15)
    again = small.call(place, *RUN)
    assert again[0] == 1
    assert [row["status"] for row in rows(folder)] == ["PASS", "PASS", "FAIL", "PASS", "PASS"]
    assert sorted(small.begun(place)[len(begun) :]) == sorted(
        f"{word} {width} 0.001 0" for word in ("begun", "ended") for width in (1, 2, 3, 64)
    )
    assert whole.items() <= small.contents(folder).items()
    # Where nothing is missing, nothing runs, and the report is the same.
    page, begun = (folder / "report.html").read_bytes(), small.begun(place)
    assert small.call(place, *RUN) == again
    assert (folder / "report.html").read_bytes() == page
    assert small.begun(place) == begun


def test_the_commands_for_another_scheduler_do_what_the_batch_does(place):
    grid(place, product={"width": [1, 2]}, seeds=[0, 7])
    alone(place, "batches/grid")
    assert small.call(place, "batch", "grid.yaml")[0] == 0
    assert len(small.begun(place)) == 8


@needs_snakemake
def test_a_batch_killed_at_any_moment_and_resumed_is_as_if_never_killed(place):
    grid(place, product={"width": [1, 2, 3]}, seeds=2, set={"pause": 0.1})
    before = time.monotonic()
    assert small.call(place, *RUN, "--results", "whole")[0] == 0
    length = time.monotonic() - before
    (place / "log").unlink()
    moments = random.Random(2)
    folder, kept, kills, ended = place / "batches" / "grid", {}, 0, False
    while kills < 5 and not ended:
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
    assert len(small.contents(folder)) == len(rows(folder)) == 6
    assert not list(folder.glob("cells/*/.01_judge.*.partial"))
    # Each ran to its end once, except those killed between that and the name of the result: at most two per kill.
    ends = [line for line in small.begun(place) if line.startswith("ended")]
    assert len(set(ends)) == 6
    assert len(ends) <= 6 + 2 * kills


@needs_snakemake
def test_a_batch_of_kernels_killed_and_resumed_is_as_if_never_killed(place):
    grid(place, set={"width": 8})
    assert small.call(place, "run", "01", "-p", "width", "8", "--threads", "1", kernels=True)[0] == 0
    (place / "log").unlink()
    started = small.start(place, *RUN, kernels=True)
    small.until(lambda: small.begun(place), started)
    kill(started, everything=True)
    assert small.call(place, *RUN, kernels=True)[0] == 0
    assert list(small.contents(place / "batches" / "grid").values()) == [small.content(place / "results" / small.NAME)]


@needs_snakemake
def test_a_second_batch_waits_for_the_first_and_for_what_the_first_has_started(place):
    grid(place, product={"width": [1, 2]}, set={"pause": 4})
    first = small.start(place, *RUN)
    small.until(lambda: small.begun(place), first)
    second = small.start(place, *RUN)
    assert second.stderr is not None
    told = "rndlib: batches/grid is in use by another process: waiting for it to end\n"
    assert second.stderr.readline() == told
    kill(first, everything=False)
    out, err = second.communicate(timeout=60)
    assert (second.returncode, err) == (0, "")
    assert "2 of 2 cells" in out
    assert len(small.begun(place)) == 4


@needs_snakemake
def test_an_interrupted_batch_ends_its_runs_and_leaves_no_results(place):
    grid(place, product={"width": [1, 2, 3]}, set={"pause": 600})
    started = small.start(place, *RUN)
    small.until(lambda: len(small.begun(place)) == 2, started)
    children = psutil.Process(started.pid).children(recursive=True)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=50)
    assert (started.returncode, out, err) == (130, "", "rndlib: stopped\n")
    small.until(lambda: not any(small.alive(child.pid) for child in children))
    assert {path.name for path in place.glob("batches/grid/cells/*/*")} == {".01_judge.lock", "01_judge.log"}


@needs_snakemake
@small.can_mount
def test_on_a_full_disk_cells_say_so_and_are_made_once_there_is_room(place):
    grid(place, product={"width": list(range(1, 9))})
    alone(place, "whole")
    # Room for some of the eight; then for all.
    script = """
mkdir results && mount -t tmpfs -o size=250k none results
"$@" > first 2>&1; test $? = 1 && ! grep Traceback first || exit 1
ls -d results/cells/*/01_judge/SHA256SUMS | wc -l
mount -o remount,size=20m results
"$@"; echo "code $?"
cp -r results kept
"""
    command = [*small.command(kernels=False), *RUN, "--results", "results"]
    done = subprocess.run([*small.MOUNT, script, "sh", *command], cwd=place, capture_output=True, text=True)
    assert 1 <= int(done.stdout.splitlines()[0]) < 8
    assert done.stdout.splitlines()[-1] == "code 0"
    assert "No space left on device" in (place / "first").read_text()
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
    assert done.stdout == "code 1\n"
    assert done.stderr == "rndlib: [Errno 30] Read-only file system: 'results/.lock'\n"


@needs_snakemake
def test_a_terminal_gets_a_bar(place):
    grid(place, list=[{"width": 1}, {"width": 2}], set={"pause": 0.8})
    command = [*small.command(kernels=False), "batch", "grid.yaml", "--jobs", "1"]
    code, _, shown = small.on_a_terminal(place, command)
    assert code == 0
    for count in ("0/2", "1/2", "2/2"):
        assert count in shown


def test_without_what_it_needs_the_message_says_what_to_install(place, monkeypatch):
    grid(place)
    monkeypatch.setenv("RNDLIB_SNAKEMAKE", "nowhere")
    code, out, err = small.call(place, *RUN)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nowhere was not found: pip install 'rndlib[batch]'" in err
    assert "ci/bootstrap .venv-workflow" in err
    for module in [name for name in sys.modules if name.startswith("rndlib.running.batch.")]:
        monkeypatch.delitem(sys.modules, module)
        monkeypatch.delattr(rndlib.running.batch, module.rpartition(".")[2])
    monkeypatch.setitem(sys.modules, "jinja2", None)  # What an import finds where a package is not installed.
    told = "rndlib: batch needs jinja2: pip install 'rndlib[notebooks]'\n"
    assert small.call(place, *RUN, kernels=True) == (2, "", told)


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
    process = subprocess.Popen(command, start_new_session=True)
    small.until(lambda: (place / "child").exists() and (place / "child").read_text())
    engine.stop(process)
    assert process.returncode == -signal.SIGKILL
    small.until(lambda: not small.alive(int((place / "child").read_text())))
