"""Run a command on a Slurm cluster that lives on this machine, and only as long as the command:

    python ci/slurm.py .venv/bin/rndlib batch heads.yaml --workflow-profile slurm

It is a real one (munged, slurmctld, and a slurmd for each of two nodes with a core each), in namespaces of its own:
its ports, its configuration in /etc/slurm and its host names are seen by nothing else, and the kernel ends all of it
with the command. Needs root, as slurmd does, and `apt-get install slurmctld slurmd slurm-client munge`.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NODES = ["node1", "node2"]
NEEDED = ["slurmctld", "slurmd", "sbatch", "munged", "unshare", "ip"]
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
ADDRESS = "192.0.2.1"  # of a range that is kept for examples (RFC 5737)
START = 60.0  # seconds until both nodes must be idle

CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
# Jobs are asked about by squeue, since sacct would need a database.
MinJobAge=3600
KillWait=5
MpiDefault=none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
"""


def missing() -> str | None:
    """What a cluster would need and this machine does not have; None where it has all."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"needs {', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge iproute2"
    if subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode != 0:
        return "needs namespaces, which this container forbids"
    return None


def command(asked: Sequence[str]) -> list[str]:
    """The command that runs `asked` on a cluster."""
    return [*NAMESPACES, sys.executable, __file__, "--inside", *asked]


def _inside(asked: Sequence[str]) -> int:
    """As the first process of the namespaces: start the cluster, run the command, return its exit code."""
    if os.getpid() != 1:
        sys.exit("slurm.py: --inside is for namespaces; leave it out")
    with tempfile.TemporaryDirectory() as name, _alone_at_last():
        folder = Path(name)
        folder.chmod(0o755)  # munged wants none but its owner to write above its socket, and all to reach it.
        _mount(folder)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        # Slurm resolves no name on a host with loopback addresses only (AI_ADDRCONFIG).
        subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
        _start(folder, "munged", *_munge(folder))
        _start(folder, "slurmctld", "slurmctld", "-D")
        for node in NODES:
            _start(folder, node, "unshare", "--uts", "sh", "-c", f"hostname {node} && exec slurmd -D -N {node}")
        _wait_for_nodes(folder)
        return _status(subprocess.Popen(asked))


@contextmanager
def _alone_at_last() -> Iterator[None]:
    """At the end, end every other process of the namespace: daemons write to their folder while it is being removed."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError, ChildProcessError):  # There may be none, and at last there is none.
            os.kill(-1, signal.SIGKILL)
            while True:
                os.wait()


def _mount(folder: Path) -> None:
    """Its own /etc/slurm and /etc/hosts: jobs look for the configuration there, whatever SLURM_CONF says."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 // len(NODES)
    nodes = [
        f"NodeName={node} NodeAddr=127.0.0.1 Port={17001 + i} CPUs=1 RealMemory={memory}"
        for i, node in enumerate(NODES)
    ]
    configuration = CONFIGURATION.format(host=socket.gethostname(), folder=folder, nodes="\n".join(nodes))
    (folder / "etc").mkdir()
    (folder / "state").mkdir()
    (folder / "etc" / "slurm.conf").write_text(configuration, encoding="utf-8")
    (folder / "hosts").write_text(
        f"127.0.0.1 localhost {socket.gethostname()} {' '.join(NODES)}\n::1 localhost\n", encoding="utf-8"
    )
    Path("/etc/slurm").mkdir(exist_ok=True)
    for ours, theirs in (("etc", "/etc/slurm"), ("hosts", "/etc/hosts")):
        subprocess.run(["mount", "--bind", folder / ours, theirs], check=True)


def _munge(folder: Path) -> list[str]:
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    options = {"key-file": key, "socket": folder / "munge.socket"}
    options |= {f"{kind}-file": folder / f"munge.{kind}" for kind in ("pid", "log", "seed")}
    return ["munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in options.items())]


def _start(folder: Path, name: str, *daemon: str) -> None:
    with (folder / f"{name}.out").open("wb") as out:
        subprocess.Popen(daemon, stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def _wait_for_nodes(folder: Path) -> None:
    deadline, shown = time.monotonic() + START, ""
    while time.monotonic() < deadline:
        shown = subprocess.run(["sinfo", "--noheader", "--format=%T %D"], capture_output=True, text=True).stdout
        if shown.split() == ["idle", str(len(NODES))]:
            return
        time.sleep(0.2)
    for path in sorted(folder.glob("*.out")):
        print(f"{path.stem}:", *path.read_text(encoding="utf-8").splitlines()[-10:], sep="\n    ", file=sys.stderr)
    sys.exit(f"slurm.py: the nodes were not ready within {START:.0f} s: {shown.strip() or 'no answer'}")


def _status(process: subprocess.Popen[bytes]) -> int:
    """Wait for the command, and for every process that its parent has left to this one."""
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(_inside(sys.argv[2:]))
    if why := missing():
        sys.exit(f"slurm.py {why}")
    os.execvp(NAMESPACES[0], command(sys.argv[1:]))
