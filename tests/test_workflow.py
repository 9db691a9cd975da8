"""A batch on Slurm, on a cluster that `ci/slurm.py` starts; and what a cell of it computes with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import slurm
import small

from rndlib import cores
from rndlib.running.batch import engine

pytestmark = pytest.mark.tools

SNAKEMAKE = Path(__file__).parent.parent / ".venv-workflow" / "bin" / "snakemake"
on_slurm = pytest.mark.skipif(slurm.missing() is not None, reason=f"Slurm {slurm.missing()}")

QUICK = {
    "slurm-status-command": "squeue",
    "slurm-init-seconds-before-status-checks": 2,
    "seconds-between-status-checks": 2,
}


@pytest.fixture
def place(tmp_path):
    """A project."""
    return small.project(tmp_path)


@pytest.mark.slurm
@pytest.mark.skipif(not SNAKEMAKE.exists(), reason="needs Snakemake: ci/bootstrap .venv-workflow")
@on_slurm
def test_jobs_killed_on_a_cluster_are_made_again_and_no_others(place):
    """Of three cells on two nodes, one job is cancelled and the processes of another are killed, kernels and all."""
    run = {"notebook": "01", "product": {"width": [1, 2, 3]}, "set": {"pause": 2}}
    (place / "grid.yaml").write_text(json.dumps({"runs": [run]}), encoding="utf-8")
    batch = ["batch", "grid.yaml"]
    assert small.call(place, *batch, "--results", "local", kernels=True)[0] == 0
    (place / "log").unlink()
    # That of rndlib, but quick, and on a Slurm without a database.
    (place / "quick").mkdir()
    options = (engine.HERE / "slurm" / "config.yaml").read_text(encoding="utf-8")
    for option, value in QUICK.items():
        options += f"{option}: {value}\n"
    (place / "quick" / "config.yaml").write_text(options, encoding="utf-8")
    script = """
"$@" > first 2>&1 &
while [ "$(grep -c begun log)" != 2 ]; do sleep 0.1; kill -0 $! || exit 1; done
scancel 1
scancel --signal=KILL 2
wait $!; echo "code $?"
ls -d batches/grid/cells/*/01_judge/SHA256SUMS | wc -l
grep -c killed first
"$@" 2>&1; echo "code $?"
"""
    asked = ["bash", "-c", script, "bash", *small.command(kernels=True), *batch, "--workflow-profile", "quick"]
    done = subprocess.run(slurm.command(asked), cwd=place, capture_output=True, text=True, timeout=600)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["code 1", "1", "2"], done.stderr
    assert lines[-1] == "code 0"
    assert "grid.yaml: 3 of 3 cells ran with every verdict as claimed; batches/grid/report.html" in lines
    folder = place / "batches" / "grid"
    assert small.contents(folder) == small.contents(place / "local")
    ends = [line for line in small.begun(place) if line.startswith("ended")]
    assert len(ends) == len(set(ends)) == 3
    assert len(small.begun(place)) == 5 + 3
    rows = json.loads((folder / "batch.json").read_text(encoding="utf-8"))["cells"]
    assert {row["hardware"]["host"] for row in rows} == set(slurm.NODES)
    page = (folder / "report.html").read_bytes()
    assert small.call(place, *batch, kernels=True)[0] == 0
    assert (folder / "report.html").read_bytes() == page
    assert len(small.begun(place)) == 5 + 3


@pytest.mark.slurm
@on_slurm
def test_an_interrupted_batch_cancels_its_jobs_on_the_cluster(place):
    run = {"notebook": "01", "set": {"pause": 600}}
    (place / "grid.yaml").write_text(json.dumps({"runs": [run]}), encoding="utf-8")
    script = """
"$@" & while [ ! -e log ]; do sleep 0.1; kill -0 $! || exit 1; done
kill -TERM $!; wait $!; echo "code $?"
for i in $(seq 100); do [ -z "$(squeue --noheader --states=RUNNING,COMPLETING,PENDING)" ] && break; sleep 0.2; done
squeue --noheader --states=RUNNING,COMPLETING,PENDING
"""
    asked = ["bash", "-c", script, "bash", *small.command(kernels=False), "batch", "grid.yaml"]
    done = subprocess.run(
        slurm.command([*asked, "--workflow-profile", "slurm"]), cwd=place, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "code 143\n", done.stderr


@pytest.mark.slurm
@on_slurm
def test_a_cluster_ends_with_its_command_and_is_seen_by_nothing_else():
    # What is left running writes to the cluster's folder for as long as it is let.
    left = "folder=$(dirname $(scontrol show config | awk '/^SlurmdSpoolDir/ {print $3}')); "
    left += 'while :; do : > "$folder/$((i = i + 1))"; done &'
    script = f"sinfo --noheader --format=%D; srun --nodes=2 hostname | sort; {left} exit 7"
    done = subprocess.run(slurm.command(["bash", "-c", script]), capture_output=True, text=True, timeout=120)
    assert done.returncode == 7
    assert done.stdout.splitlines() == ["2", *slurm.NODES]
    assert "slurm" not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    assert subprocess.run(["sinfo"], capture_output=True).returncode != 0


def test_outside_of_a_namespace_nothing_is_mounted_or_ended(monkeypatch):
    done = []
    monkeypatch.setattr(slurm, "_mount", done.append)
    monkeypatch.setattr(os, "kill", lambda *arguments: done.append(arguments))
    monkeypatch.setattr(os, "getpid", lambda: 2)
    with pytest.raises(SystemExit, match="leave it out"):
        slurm._inside(["true"])
    assert done == []


def test_without_slurm_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm.missing() == (
        "needs slurmctld, slurmd, sbatch, munged, unshare, ip: "
        "apt-get install slurmctld slurmd slurm-client munge iproute2"
    )


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
