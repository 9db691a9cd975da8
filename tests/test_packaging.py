"""What is installed where: pins, the wheel, the set-up, and what importing rndlib brings along."""

import shutil
import subprocess
import sys
import threading
import time
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace

import environments
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rndlib

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parent.parent
PINS = environments.pins(".venv")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
in_venv = pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="about the environment that make sets up")


def requirements(environment=".venv"):
    """What pyproject.toml asks for by name, with its extras: all that may share an environment with this one."""
    apart = environments.EXTRAS[".venv-workflow"]
    extras = {name for name in PROJECT["optional-dependencies"] if (name == apart) == (environment == ".venv-workflow")}
    texts = [*PROJECT["dependencies"], *(text for name in extras for text in PROJECT["optional-dependencies"][name])]
    return {canonicalize_name(r.name): r for r in map(Requirement, texts) if r.name != "rndlib"}


def test_the_library_alone_needs_only_arrays_and_estimators():
    needed = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert needed == {"numpy", "scipy", "scikit-learn", "jaxtyping"}
    assert {"jax", "torch", "notebooks", "dev"} <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("environment", environments.EXTRAS)
def test_pins_are_exact_and_fit_the_bounds(environment):
    pins = environments.pins(environment)
    for name, requirement in requirements(environment).items():
        assert requirement.specifier.contains(pins[name]), name
    lines = [line for line in environments.PINS.read_text(encoding="utf-8").splitlines() if line]
    assert all(line.startswith("#") or line.count("==") == 1 for line in lines)


def test_conda_states_the_same_pins():
    import yaml

    packages = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"][-1]["pip"]
    options = [line for line in packages if line.startswith("--")]
    assert options == ["--constraint ci/pins.txt", "--editable ."]
    stated = {canonicalize_name(r.name): r for r in map(Requirement, (p for p in packages if not p.startswith("--")))}
    wanted = requirements()
    assert {name: str(r.specifier) for name, r in stated.items()} == {name: f"=={PINS[name]}" for name in wanted}
    assert {name: r.extras for name, r in stated.items()} == {name: r.extras for name, r in wanted.items()}


@in_venv
def test_everything_installed_is_pinned():
    installed = {canonicalize_name(d.name): d.version.split("+")[0] for d in distributions()}
    for ours in ("pip", "rndlib"):  # pip comes with Python.
        installed.pop(canonicalize_name(ours))
    assert installed == {name: PINS.get(name) for name in installed}


@in_venv
def test_a_second_set_up_does_nothing():
    assert environments.up_to_date(".venv")  # Or this test would replace the environment that it runs in.
    done = subprocess.run([ROOT / "ci" / "bootstrap", ".venv"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """A checkout in which commands only pretend to run; the list of what was called."""
    called = []

    def run(command):
        called.append(command)
        (tmp_path / ".venv").mkdir(exist_ok=True)

    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "pins.txt").write_text("jax==1.0\n# newest: jax==2.0\n", encoding="utf-8")
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "PINS", tmp_path / "pins.txt")
    monkeypatch.setattr(environments, "run", run)
    monkeypatch.setattr(environments.shutil, "which", lambda name: None)
    return called


@pytest.mark.parametrize("able", [True, False])
def test_uv_installs_where_it_is_there_and_can_as_pip_is_set(pretended, monkeypatch, able):
    asked = []
    said = "global.extra-index-url='file:///a file:///b'\n:env:.find-links='/wheels'\nglobal.timeout='9'\n"
    monkeypatch.setattr(environments.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(environments.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=said))
    monkeypatch.setattr(environments, "attempt", lambda command: asked.append(command) or able)
    environments.set_up(".venv")
    assert all(command[:3] == ["/bin/uv", "pip", "install"] for command in asked)
    settings = ["--index", "file:///a", "--index", "file:///b", "--find-links", "/wheels"]
    assert [word for word in asked[0] if word in settings] == settings
    by_pip = [command for command in pretended if "install" in command]
    assert (len(asked), len(by_pip)) == ((2, 0) if able else (1, 2))
    assert environments.up_to_date(".venv")


@pytest.mark.parametrize("steps", range(1, 6))
def test_an_interrupted_set_up_is_not_taken_for_a_whole_one(pretended, monkeypatch, steps):
    whole = environments.run

    def interrupted(command):
        if len(pretended) == steps - 1:
            raise KeyboardInterrupt
        whole(command)

    environments.set_up(".venv")
    assert environments.up_to_date(".venv")
    pretended.clear()
    shutil.rmtree(environments.ROOT / ".venv")  # As `venv --clear` does first.
    (environments.ROOT / ".venv").mkdir()
    monkeypatch.setattr(environments, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        environments.set_up(".venv")
    assert not environments.up_to_date(".venv")


def test_changed_pins_or_packages_are_installed_and_other_settings_are_not(pretended):
    environments.set_up(".venv")
    assert "--clear" in pretended[0]
    pyproject = environments.ROOT / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    pyproject.write_text(text.replace("line-length = 120", "line-length = 100"), encoding="utf-8")
    assert environments.up_to_date(".venv")
    pyproject.write_text(text.replace("numpy>=2.0", "numpy>=2.1"), encoding="utf-8")
    assert not environments.up_to_date(".venv")
    pyproject.write_text(text, encoding="utf-8")
    assert environments.up_to_date(".venv")
    environments.PINS.write_text("jax==1.1\n# newest: jax==2.0\n", encoding="utf-8")
    assert not environments.up_to_date(".venv")


def test_environments_are_set_up_at_the_same_time_and_all_end_before_a_failure_is_told(pretended, monkeypatch):
    both, ended = threading.Barrier(2), []

    def set_up(environment):
        both.wait(timeout=60)  # One after the other would never pass here.
        if environment == ".venv-newest":
            sys.exit("set-up stopped: no")
        time.sleep(0.1)
        ended.append(environment)

    environments.set_up(".venv")
    monkeypatch.setattr(environments, "set_up", set_up)
    with pytest.raises(SystemExit, match="set-up stopped: no"):
        environments.set_up_where_needed([".venv", ".venv-newest", ".venv-workflow"])
    assert ended == [".venv-workflow"]


def bootstrap(tmp_path, **environment):
    """Call a copy of ci/bootstrap where no environment exists yet and PATH has no Python."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "ci" / "bootstrap", tmp_path / "ci")
    for tool in ("sh", "dirname"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    return subprocess.run(
        [tmp_path / "ci" / "bootstrap", ".venv"],
        env={"PATH": str(tmp_path / "bin"), **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("environment", [{}, {"PYTHON": "false"}, {"PYTHON": "python2"}], ids=str)
def test_another_python_or_none_gets_one_line(tmp_path, environment):
    done = bootstrap(tmp_path, **environment)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for word in ("3.11, 3.12 or 3.13", "make test PYTHON="):
        assert word in done.stderr


def test_the_python_asked_for_is_the_one_that_sets_up(tmp_path):
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "environments.py").write_text("import sys\nprint(sys.executable, sys.argv[1:])\n")
    shutil.copy(ROOT / "ci" / "bootstrap", tmp_path / "ci")
    done = subprocess.run(
        [tmp_path / "ci" / "bootstrap", ".venv", ".venv-newest"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{sys.executable} ['.venv', '.venv-newest']\n"


def test_importing_rndlib_is_light():
    shown = subprocess.run(
        [sys.executable, "-c", "import rndlib, sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout.split()
    assert "rndlib" in shown
    assert not {"jax", "torch", "scipy", "matplotlib", "papermill"} & set(shown)


def test_a_wheel_installs_into_an_empty_environment(tmp_path):
    # A copy, since a build may leave files beside the source.
    source = tmp_path / "source"
    shutil.copytree(ROOT / "rndlib", source / "rndlib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"rndlib-{rndlib.__version__}-py3-none-any.whl"

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    # The set-up keeps the wheels of the dependencies; elsewhere the registry has them.
    kept = Path(sys.prefix) / "wheels"
    local = ["--no-index", "--find-links", kept] if kept.is_dir() else []
    subprocess.run([*pip, "install", "--quiet", "--no-compile", *local, wheel], check=True)
    subprocess.run([*pip, "check"], check=True, capture_output=True)
    use = """
import numpy as np, rndlib, sys
k = rndlib.kernels.kernel(rndlib.MLP(in_dim=2), np.eye(2))
assert "site-packages" in rndlib.__file__ and np.isfinite(k.ntk).all() and "jax" not in sys.modules
"""
    subprocess.run([python, "-c", use], check=True, cwd=tmp_path)
    listed = subprocess.run(
        [tmp_path / "empty" / "bin" / "rndlib", "list"], capture_output=True, text=True, cwd=tmp_path
    )
    assert listed.returncode == 2  # There are no notebooks in a wheel, and it says so.
    assert "checkout of the project" in listed.stderr
