"""`rndlib doctor`: each cause, made to happen or faked, is found, with what to do about it."""

import shutil
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest
import small

from rndlib.running import doctor, notebooks, provenance
from rndlib.running.cli import main
from rndlib.running.doctor import ABSENT, MISSING, OK, Check

pytestmark = pytest.mark.tools


def by_name(checks):
    """Checks by their name, which no two share."""
    checks = list(checks)
    assert len({check.name for check in checks}) == len(checks)
    return {check.name: check for check in checks}


def test_here_nothing_is_missing(tmp_path):
    checks = by_name(doctor.checks(tmp_path / "results" / "deep"))
    assert MISSING not in {check.status for check in checks.values()}
    for name in ("library", "[notebooks]", "jax", "torch", "kernel", "notebooks", "results", "disk"):
        assert checks[name].status == OK, checks[name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [(3, 10, 1), (3, 14, 0)])
def test_another_python(monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", version)
    assert doctor.python().status == ABSENT
    assert "3.11, 3.12 and 3.13" in doctor.python().remedy


def without(monkeypatch, **versions):
    """Other versions of some packages; None where there is none."""
    real = metadata.version

    def version(name):
        if name not in versions:
            return real(name)
        if versions[name] is None:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)


def test_packages_that_are_absent_or_old(monkeypatch):
    without(monkeypatch, papermill=None, jax="0.4.99", gymnasium=None)
    checks = by_name(doctor.packages())
    assert checks["library"].status == OK
    assert checks["[jax]"] == Check("[jax]", MISSING, "jax 0.4.99 is not >=0.5.3", "pip install 'rndlib[jax]'")
    assert checks["[notebooks]"].status == MISSING
    assert "papermill is not installed" in checks["[notebooks]"].detail
    assert checks["[practice]"].status == ABSENT  # The commands do without.
    without(monkeypatch, numpy=None)
    assert by_name(doctor.packages())["library"].status == MISSING


def test_versions_are_compared_as_numbers_and_local_or_early_ones_count(monkeypatch):
    without(monkeypatch, jax="0.10.2", torch="2.13.0+cpu", scipy="2.0rc1")
    checks = by_name(doctor.packages())
    assert {checks[name].status for name in ("library", "[jax]", "[torch]")} == {OK}


def test_rndlib_itself_not_installed(monkeypatch, capsys):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    monkeypatch.setattr(doctor, "TRIALS", {})
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == "rndlib: doctor needs rndlib: pip install 'rndlib[notebooks]'\n"


def trial(name, code, monkeypatch):
    """What comes of that code as a trial of that name."""
    monkeypatch.setitem(doctor.TRIALS, name, (code, *doctor.TRIALS[name][1:]))
    return doctor.trial(name, doctor.start(name))


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("import nothing_there", "does not work (ModuleNotFoundError: No module named 'nothing_there')"),
        ("import os; os.kill(os.getpid(), 11)", "does not work (exit code -11)"),
        ("raise SystemExit(3)", "does not work (exit code 3)"),
        ("import time; time.sleep(60)", "no answer within 1 s"),
    ],
)
def test_what_does_not_load_or_start(monkeypatch, code, wrong):
    monkeypatch.setattr(doctor, "PATIENCE", 1.0 if "sleep" in code else 60.0)
    check = trial("jax", code, monkeypatch)
    assert (check.status, check.detail) == (MISSING, wrong)
    if "sleep" not in code:
        assert trial("torch", code, monkeypatch).status == ABSENT
        assert "TMPDIR" in trial("kernel", code, monkeypatch).remedy


def test_no_notebooks(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "rndlib" / "running" / "notebooks.py"))
    assert doctor.books().status == MISSING
    assert doctor.books().remedy == "call rndlib in a checkout of the project"


def test_little_space(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**20))
    checks = by_name(doctor.folder(tmp_path))
    assert (checks["results"].status, checks["disk"].status) == (OK, MISSING)
    assert "free some space" in checks["disk"].remedy


@small.can_mount
@pytest.mark.parametrize(
    ("options", "told"),
    [("ro", "Read-only file system"), ("size=4k,nr_inodes=1", "No space left on device")],
)
def test_a_folder_that_takes_no_files(tmp_path, options, told):
    program = (
        "import sys; from pathlib import Path; from rndlib.running import doctor; print(*doctor.folder(Path('full')))"
    )
    script = f'mkdir full && mount -t tmpfs -o {options} none full && exec "$@"'
    command = [*small.MOUNT, script, "sh", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("missing results")
    assert f"{told}: name another folder with --results" in done.stdout


def test_no_git_and_no_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "checkout", lambda place: None)
    assert (doctor.git().status, doctor.git().remedy) == (ABSENT, "clone it as the user who runs it")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.git().detail == "not installed"


@pytest.mark.parametrize(("statuses", "code"), [([OK, ABSENT], 0), ([OK, MISSING, OK], 1)])
def test_the_command_fails_only_where_something_needed_is_missing(monkeypatch, capsys, statuses, code):
    checks = [Check(str(index), status, "found", "remedy") for index, status in enumerate(statuses)]
    monkeypatch.setattr(doctor, "checks", lambda results: iter(checks))
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.splitlines() == [str(check) for check in checks]


def test_it_loads_nothing_that_takes_seconds():
    program = "import sys, rndlib.running.doctor; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "rndlib" in loaded
    assert not loaded & {"jax", "torch", "scipy", "matplotlib", "papermill", "jupyter_client"}
