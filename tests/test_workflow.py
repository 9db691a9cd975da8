"""A batch on Slurm, whose commands are stood in for; and what a cell of it computes with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small

from rndlib import cores
from rndlib.running.batch import engine

pytestmark = pytest.mark.tools

SNAKEMAKE = Path(__file__).parent.parent / ".venv-workflow" / "bin" / "snakemake"
on_slurm = pytest.mark.skipif(not SNAKEMAKE.exists(), reason="needs Snakemake: ci/bootstrap .venv-workflow")

# Under each name, what that command of Slurm does for Snakemake's plugin. A job is a process group of this machine, and
# on record in a folder.
SLURM = """\
#!/bin/bash
jobs=$(dirname "$0")/jobs
case $(basename "$0") in
sbatch)
    for option; do case $option in --wrap=*) program=${option#--wrap=} ;; esac; done
    id=1; until mkdir "$jobs/$id" 2> /dev/null; do id=$((id + 1)); done
    echo "$@" > "$jobs/$id/asked"
    echo RUNNING > "$jobs/$id/state"
    SLURM_JOB_ID=$id setsid bash -c '
        echo $$ > "$0/pid"
        bash -c "$1" && state=COMPLETED || state=FAILED
        echo $state > "$0/state"' "$jobs/$id" "$program" > "$jobs/$id/log" 2>&1 < /dev/null &
    echo $id ;;
squeue)
    for id in $(ls "$jobs"); do echo "$id|$(cat "$jobs/$id/state")"; done ;;
scancel)
    signal=TERM state=CANCELLED
    for id; do
        case $id in
        --signal=*) signal=${id#--signal=} state=FAILED ;;
        *) kill -$signal -- "-$(cat "$jobs/$id/pid")"; echo $state > "$jobs/$id/state" ;;
        esac
    done ;;
srun)
    while [[ $1 == -* ]]; do shift; done
    exec "$@" ;;
sinfo)
    echo "all*" ;;
scontrol)
    echo "MinJobAge = 3600 sec" ;;  # So long are jobs that have ended on record, and squeue can be asked.
*)  # There is no database to ask.
    exit 1 ;;
esac
"""
COMMANDS = ["sbatch", "squeue", "scancel", "srun", "sinfo", "sacct", "sacctmgr", "scontrol", "sshare"]
QUICK = {
    "slurm-status-command": "squeue",
    "slurm-init-seconds-before-status-checks": 2,
    "seconds-between-status-checks": 2,
}


@pytest.fixture
def place(tmp_path):
    """A project."""
    return small.project(tmp_path)


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Slurm on PATH, and the folder of its jobs."""
    folder = tmp_path / "slurm"
    (folder / "jobs").mkdir(parents=True)
    for name in COMMANDS:
        (folder / name).write_text(SLURM, encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "jobs"


def state(job):
    """What Slurm says of a job."""
    return (job / "state").read_text(encoding="utf-8").strip()


@on_slurm
def test_jobs_killed_on_a_cluster_are_made_again_and_no_others(place, jobs):
    """Of three cells, one job is cancelled and the processes of another are killed."""
    run = {"notebook": "01", "product": {"width": [1, 2, 3]}, "set": {"pause": 5}}
    (place / "grid.yaml").write_text(json.dumps({"runs": [run]}), encoding="utf-8")
    assert small.call(place, "batch", "grid.yaml", "--results", "local")[0] == 0
    (place / "log").unlink()
    # That of rndlib, but quick.
    (place / "quick").mkdir()
    options = (engine.HERE / "slurm" / "config.yaml").read_text(encoding="utf-8")
    options += "".join(f"{option}: {value}\n" for option, value in QUICK.items())
    (place / "quick" / "config.yaml").write_text(options, encoding="utf-8")
    on_the_cluster = ["batch", "grid.yaml", "--workflow-profile", "quick"]
    first = small.start(place, *on_the_cluster)
    small.until(lambda: len(small.begun(place)) == 3, first)
    subprocess.run(["scancel", "1"], check=True)
    subprocess.run(["scancel", "--signal=KILL", "2"], check=True)
    out, err = first.communicate(timeout=120)
    assert first.returncode == 1, err
    assert len([line for line in out.splitlines() if "no result" in line]) == 2
    assert len(list(place.glob("batches/grid/cells/*/01_judge/SHA256SUMS"))) == 1
    code, out, err = small.call(place, *on_the_cluster)
    assert code == 0, err
    assert "grid.yaml: 3 of 3 cells ran with every verdict as claimed; batches/grid/report.html" in out
    assert [state(jobs / str(job)) for job in range(1, 6)] == ["CANCELLED", "FAILED", *["COMPLETED"] * 3]
    assert all("--mem 4000" in (job / "asked").read_text(encoding="utf-8") for job in jobs.iterdir())
    folder = place / "batches" / "grid"
    assert small.contents(folder) == small.contents(place / "local")
    ends = [line for line in small.begun(place) if line.startswith("ended")]
    assert len(ends) == len(set(ends)) == 3
    page = (folder / "report.html").read_bytes()
    assert small.call(place, "batch", "grid.yaml")[0] == 0
    assert (folder / "report.html").read_bytes() == page
    assert len(small.begun(place)) == 5 + 3


@on_slurm
def test_an_interrupted_batch_cancels_its_jobs_on_the_cluster(place, jobs):
    run = {"notebook": "01", "set": {"pause": 600}}
    (place / "grid.yaml").write_text(json.dumps({"runs": [run]}), encoding="utf-8")
    started = small.start(place, "batch", "grid.yaml", "--workflow-profile", "slurm")
    small.until(lambda: small.begun(place), started)
    started.terminate()
    started.communicate(timeout=120)
    assert started.returncode == 143
    assert [state(job) for job in jobs.iterdir()] == ["CANCELLED"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list threads so")
def test_a_run_computes_with_the_threads_asked_for(place):
    """Those that XLA starts grow by as many as are asked for more; OpenMP and BLAS go by their variables."""
    program = """
import os, sys
from rndlib import cores
from rndlib.running import runs
from rndlib.running.cli import main
runs.run = lambda *arguments: sys.exit(0)
try:
    main(["run", "01", "--threads", sys.argv[1]])
except SystemExit:
    print(*{os.environ[name] for name in cores.THREADS})
import jax
jax.numpy.ones((8, 8)) @ jax.numpy.ones((8, 8))
print(len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if name not in cores.THREADS}
    counts = []
    for asked in (2, 5):
        command = [sys.executable, "-c", program, str(asked)]
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
        told, count = map(int, done.stdout.split())
        assert told == asked
        counts.append(count)
    few, many = counts
    assert many > few
    assert (many - few) % 3 == 0


def test_threads_that_the_user_has_set_stay(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "9")
    assert cores.threads(2)["OMP_NUM_THREADS"] == "2"
    assert cores.threads(2)["MKL_NUM_THREADS"] == "9"
