"""`rndlib doctor`: each cause, made to happen or faked, is found, with what to do about it."""

import json
import shutil
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest
import small
from packaging.requirements import Requirement

from rndlib.running import doctor, notebooks, provenance, requirements
from rndlib.running.cli import main
from rndlib.running.doctor import ABSENT, MISSING, OK, Check

pytestmark = pytest.mark.tools


def by_name(found):
    """Checks by their name, which no two share."""
    found = list(found)
    assert len({check.name for check in found}) == len(found)
    return {check.name: check for check in found}


def ended(code):
    """A trial of that code."""
    return doctor._trial(code)


def test_here_nothing_is_missing(tmp_path):
    found = by_name(doctor.checks(tmp_path / "results" / "deep"))
    assert MISSING not in {check.status for check in found.values()}
    for name in ("library", "[notebooks]", "jax", "torch", "kernel", "notebooks", "results", "disk"):
        assert found[name].status == OK, found[name]
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
    found = by_name(doctor.packages())
    assert found["library"].status == OK
    assert found["[jax]"] == Check("[jax]", MISSING, "jax 0.4.99 is older than 0.5.3", "pip install 'rndlib[jax]'")
    assert found["[notebooks]"].status == MISSING
    assert "papermill is not installed" in found["[notebooks]"].found
    assert found["[practice]"].status == ABSENT  # The commands do without.
    without(monkeypatch, numpy=None)
    assert by_name(doctor.packages())["library"].status == MISSING


def test_rndlib_itself_not_installed(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert [check.status for check in doctor.packages()] == [MISSING]


def test_requirements_are_read_as_pip_reads_them():
    lines = [Requirement(line) for line in metadata.requires("rndlib") or []]
    for extra, packages in requirements.extras().items():
        for name, least in packages.items():
            assert any(line.name == name and f">={least}" in str(line.specifier).split(",") for line in lines)
        direct = [line for line in lines if (line.marker is None) == (extra is None)]
        for line in direct:
            if line.marker is None or line.marker.evaluate({"extra": extra or ""}):
                assert line.name == "rndlib" or line.name in packages
    assert requirements.extras()["figures"].items() <= requirements.extras()["notebooks"].items()


def test_versions_are_compared_as_numbers(monkeypatch):
    without(monkeypatch, one="2.10.0+cpu", two="2.9", three="3.0rc1")
    assert requirements.lacking({"one": "2.9", "two": "2.9", "three": "3"}) == []
    assert requirements.lacking({"two": "2.10"}) == ["two 2.9 is older than 2.10"]


def test_snakemake_is_looked_for_on_path_and_in_its_own_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert doctor.snakemake(tmp_path).status == ABSENT
    for place in (tmp_path / ".venv-workflow" / "bin", tmp_path / "bin"):
        place.mkdir(parents=True)
        (place / "snakemake").touch(mode=0o755)
        assert doctor.snakemake(tmp_path).found == str(place / "snakemake")


def test_other_versions_than_the_pinned_ones(monkeypatch, tmp_path):
    assert list(doctor.pins(tmp_path / "pins.txt")) == []  # Not in a checkout.
    without(monkeypatch, scipy="1.99", torch="2.0+cpu")
    (tmp_path / "pins.txt").write_text("# jax==1\nscipy==1.98\ntorch==2.0\n", encoding="utf-8")
    (check,) = doctor.pins(tmp_path / "pins.txt")
    assert (check.status, check.found) == (ABSENT, "scipy 1.99 and not 1.98")
    (tmp_path / "pins.txt").write_text("scipy==1.99\n", encoding="utf-8")
    (check,) = doctor.pins(tmp_path / "pins.txt")
    assert check.status == OK


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("import nothing_there", "ModuleNotFoundError: No module named 'nothing_there'"),
        ("import os; os.kill(os.getpid(), 11)", "killed by signal 11"),
        ("raise SystemExit(3)", "no message"),
        ("import time; time.sleep(60)", "no answer within 1 s"),
    ],
)
def test_a_backend_that_does_not_load(monkeypatch, code, wrong):
    monkeypatch.setattr(doctor, "PATIENCE", 1.0 if "sleep" in code else 60.0)
    check = doctor.backend("jax", ended(code))
    assert (check.status, check.found) == (MISSING, f"does not load ({wrong})")
    assert doctor.backend("torch", ended("import nothing_there")).status == ABSENT


def test_a_kernel_that_does_not_answer():
    code = doctor.TRIALS["kernel"].replace(str(doctor.PATIENCE), "2")
    code = code.replace("; ", "; execution._LAUNCH = 'import time; time.sleep(60)'; ", 1)
    pipe = subprocess.PIPE
    check = doctor.kernel(subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True))
    assert check.status == MISSING
    assert "TMPDIR" in check.remedy


def test_no_notebooks(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "rndlib" / "running" / "notebooks.py"))
    assert doctor.books().status == MISSING
    assert doctor.books().remedy == "call rndlib in a checkout of the project"


def test_little_memory(monkeypatch):
    monkeypatch.setattr(provenance, "hardware", lambda: {"memory_gib": 1.0})
    assert doctor.machine().status == ABSENT
    assert doctor.machine().remedy.endswith("--profile smoke")


def test_little_space(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**20))
    found = by_name(doctor.folder(tmp_path))
    assert (found["results"].status, found["disk"].status) == (OK, MISSING)
    assert "free some space" in found["disk"].remedy


@small.can_mount
@pytest.mark.parametrize(
    ("options", "told"),
    [("ro", "choose a folder that can be written"), ("size=4k,nr_inodes=1", "free some space")],
)
def test_a_folder_that_takes_no_files(tmp_path, options, told):
    program = (
        "import sys; from pathlib import Path; from rndlib.running import doctor; print(*doctor.folder(Path('full')))"
    )
    script = f'mkdir full && mount -t tmpfs -o {options} none full && exec "$@"'
    command = [*small.MOUNT, script, "sh", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("missing results")
    assert told in done.stdout


def test_no_place_for_the_fonts(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "file" / "matplotlib"))
    assert doctor.fonts().status == ABSENT
    assert doctor.fonts().remedy.startswith("set MPLCONFIGDIR")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "new"))
    assert doctor.fonts().status == OK


def test_no_git_and_no_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "checkout", lambda place: None)
    assert (doctor.git().status, doctor.git().remedy) == (ABSENT, "clone it as the user who runs it")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.git().found == "not installed"


@pytest.mark.parametrize(("statuses", "code"), [([OK, ABSENT], 0), ([OK, MISSING, OK], 1)])
def test_the_command_fails_only_where_something_needed_is_missing(monkeypatch, capsys, statuses, code):
    found = [Check(str(index), status, "found", "remedy") for index, status in enumerate(statuses)]
    monkeypatch.setattr(doctor, "checks", lambda results: iter(found))
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.splitlines() == [str(check) for check in found]
    assert main(["doctor", "--json"]) == code
    shown = json.loads(capsys.readouterr().out)
    assert [Check(**check) for check in shown] == found


def test_it_loads_nothing_that_takes_seconds():
    program = "import sys, rndlib.running.doctor; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "rndlib" in loaded
    assert not loaded & {"jax", "torch", "scipy", "matplotlib", "papermill", "jupyter_client"}
