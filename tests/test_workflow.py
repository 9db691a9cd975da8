"""The Snakemake workflow: on the cores of this machine, and on a Slurm that `ci/slurm.py` starts."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import slurm
import small

from rndlib import cores

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parent.parent
SNAKEMAKE = ROOT / ".venv-workflow" / "bin" / "snakemake"
snakemake = pytest.mark.skipif(not SNAKEMAKE.exists(), reason="needs Snakemake: ci/bootstrap .venv-workflow")
on_slurm = pytest.mark.skipif(slurm.missing() is not None, reason=f"Slurm {slurm.missing()}")


@pytest.fixture
def place(tmp_path):
    """A project with the workflow."""
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow")
    return small.project(tmp_path)


def grid(place, *others, **run):
    """A grid of a run, and of others, as `grid.yaml`."""
    runs = [{"notebook": "01", **each} for each in (run, *others)]
    (place / "grid.yaml").write_text(json.dumps({"runs": runs}), encoding="utf-8")


def words(*options, kernels=False):
    """The command line of Snakemake on that grid."""
    rndlib = " ".join(small.command(kernels))
    return [str(SNAKEMAKE), *options, "--config", "grid=grid.yaml", f"rndlib={rndlib}"]


def flow(place, *options, kernels=False, **config):
    """Run it: the exit code, and all that is said."""
    more = [f"{name}={value}" for name, value in config.items()]
    done = subprocess.run(
        [*words(*options, kernels=kernels), *more], cwd=place, capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def ends(place):
    """Which cells the notebook ran to its end in, once for each time."""
    return sorted(line for line in small.begun(place) if line.startswith("ended"))


def statuses(folder):
    """How each cell ended."""
    return [row["status"] for row in json.loads((folder / "batch.json").read_text(encoding="utf-8"))["cells"]]


def failures(folder):
    """How cells failed: status and last line said, by the key of the cell."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("cells/*/failure.json")]
    return {record["key"]: (record["status"], record["message"].splitlines()[-1]) for record in records}


@snakemake
def test_the_workflow_leaves_what_a_batch_leaves(place):
    grid(place, product={"width": [1, 2]}, seeds=2)
    assert small.call(place, "batch", "grid.yaml", "--results", "local")[0] == 0
    (place / "log").unlink()
    code, said = flow(place)
    assert code == 0
    assert "grid.yaml: 4 of 4 cells ran with every verdict as claimed; batches/grid/report.html" in said
    assert small.contents(place / "batches" / "grid") == small.contents(place / "local")
    assert len(ends(place)) == 4
    # Neither a batch nor the workflow has anything left to run.
    assert small.call(place, "batch", "grid.yaml")[0] == 0
    assert flow(place)[0] == 0
    assert len(small.begun(place)) == 8


@snakemake
def test_a_cell_that_fails_is_run_again_and_one_whose_verdict_does_is_not(place):
    grid(place, list=[{"mode": "raise"}, {"width": 200}, {"width": 2}])
    code, said = flow(place, results="out")
    assert code == 1
    assert "rndlib: 01_judge failed: a telling message" in said
    assert len(ends(place)) == 2
    (place / "mended").touch()
    code, said = flow(place, results="out")
    assert code == 1
    assert "grid.yaml: 2 of 3 cells ran with every verdict as claimed; out/report.html" in said
    assert statuses(place / "out") == ["PASS", "FAIL", "PASS"]
    assert len(ends(place)) == 3


@snakemake
def test_a_cell_that_fails_leaves_the_record_that_a_batch_leaves(place):
    """But for the session, of which a workflow has none, and for times; and only until there is a result."""
    hang = {"list": [{"mode": "hang"}], "timeout": 12}
    grid(place, hang, list=[{"mode": "raise"}, {"mode": "die"}, {"width": 2}])
    assert small.call(place, "batch", "grid.yaml", "--results", "local", kernels=True)[0] == 1
    (place / "child").unlink()
    assert flow(place, "--keep-going", kernels=True)[0] == 1
    found = failures(place / "batches" / "grid")
    assert found == failures(place / "local")
    assert len(found) == 3
    for expected, told in zip(
        [("failed", "a telling message"), ("kernel died", "its kernel died"), ("timed out", "longer than its time")],
        sorted(found.values()),
        strict=True,
    ):
        assert told[0] == expected[0]
        assert expected[1] in told[1]
    small.until(lambda: not small.alive(int((place / "child").read_text())))
    (place / "mended").touch()
    assert flow(place, "--keep-going", kernels=True)[0] == 1
    assert sorted(status for status, _ in failures(place / "batches" / "grid").values()) == ["kernel died", "timed out"]


@snakemake
def test_a_workflow_killed_and_started_again_is_as_if_never_killed(place):
    grid(place, product={"width": [1, 2, 3]}, set={"pause": 1})
    assert small.call(place, "batch", "grid.yaml", "--results", "local")[0] == 0
    (place / "log").unlink()
    started = subprocess.Popen(
        words("--cores", "1"), cwd=place, stderr=subprocess.DEVNULL, start_new_session=True, text=True
    )
    small.until(lambda: len(small.begun(place)) == 3, started)  # One has ended, and the next has begun.
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    assert flow(place, "--unlock")[0] == 0
    assert flow(place)[0] == 0
    assert small.contents(place / "batches" / "grid") == small.contents(place / "local")
    assert len(ends(place)) == len(set(ends(place))) == 3


@snakemake
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"grid": "none.yaml"}, "none.yaml: No such file or directory: name a grid that can be read"),
        ({"rndlib": "nothing-there"}, "nothing-there: No such file or directory: name the command"),
    ],
)
def test_what_cannot_be_run_gets_one_line(place, config, told):
    grid(place)
    code, said = flow(place, **config)
    assert code == 1
    assert told in said
    assert "Traceback" not in said


@pytest.mark.slurm
@snakemake
@on_slurm
def test_jobs_killed_on_a_cluster_are_made_again_and_no_others(place):
    """Of three cells on two nodes, one job is cancelled and the processes of another are killed, kernels and all."""
    grid(place, product={"width": [1, 2, 3]}, set={"pause": 2})
    assert small.call(place, "batch", "grid.yaml", "--results", "local", kernels=True)[0] == 0
    (place / "log").unlink()
    script = """
"$@" > first 2>&1 &
while [ "$(grep -c begun log)" != 2 ]; do sleep 0.1; kill -0 $! || exit 1; done
scancel 1
scancel --signal=KILL 2
wait $!; echo "code $?"
ls -d batches/grid/cells/*/01_judge/SHA256SUMS | wc -l
"$@" 2>&1; echo "code $?"
"""
    profile = ["--workflow-profile", "workflow/profiles/slurm", "--slurm-status-command", "squeue"]
    quick = ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
    asked = ["bash", "-c", script, "bash", *words(*profile, *quick, kernels=True)]
    done = subprocess.run(slurm.command(asked), cwd=place, capture_output=True, text=True, timeout=600)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["code 1", "1"], done.stderr
    assert lines[-1] == "code 0"
    assert "grid.yaml: 3 of 3 cells ran with every verdict as claimed; batches/grid/report.html" in lines
    folder = place / "batches" / "grid"
    assert small.contents(folder) == small.contents(place / "local")
    assert len(ends(place)) == len(set(ends(place))) == 3
    assert len(small.begun(place)) == 5 + 3
    rows = json.loads((folder / "batch.json").read_text(encoding="utf-8"))["cells"]
    assert {row["hardware"]["host"] for row in rows} == set(slurm.NODES)
    page = (folder / "report.html").read_bytes()
    assert small.call(place, "batch", "grid.yaml", kernels=True)[0] == 0
    assert (folder / "report.html").read_bytes() == page
    assert len(small.begun(place)) == 5 + 3


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
