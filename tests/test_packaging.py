"""What is installed where: pins, the wheel, and what importing rndlib brings along."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parent.parent
PINNED = (ROOT / "ci" / "pins.txt").read_text(encoding="utf-8")
PINS = dict(re.findall(r"^([\w-]+)==(\S+)$", PINNED, flags=re.MULTILINE))
NEWEST = dict(re.findall(r"^# newest: ([\w-]+)==(\S+)$", PINNED, flags=re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WANTED = {
    canonicalize_name(r.name): r
    for texts in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for r in map(Requirement, texts)
    if r.name != "rndlib"
}


def test_pins_are_exact_and_fit_the_bounds():
    for name, requirement in WANTED.items():
        assert requirement.specifier.contains(PINS[name]), name
        assert requirement.specifier.contains((PINS | NEWEST)[name]), name
    lines = [line for line in PINNED.splitlines() if line]
    assert all(line.startswith("#") or line.count("==") == 1 for line in lines)


def test_the_makefile_leaves_out_what_the_newest_jax_replaces():
    (left_out,) = re.findall(r"/\^\(([\w|]+)\)==/d", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert set(left_out.split("|")) == set(NEWEST) <= set(PINS)


def test_conda_states_the_same_pins():
    import yaml

    packages = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"][-1]["pip"]
    assert [line for line in packages if line.startswith("--")] == ["--constraint ci/pins.txt", "--editable ."]
    stated = {r.name: str(r) for r in map(Requirement, (line for line in packages if not line.startswith("--")))}
    extras = {name: f"[{','.join(r.extras)}]" if r.extras else "" for name, r in WANTED.items()}
    assert stated == {name: f"{name}{extras[name]}=={PINS[name]}" for name in WANTED}


@pytest.mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="about the environment that make sets up")
def test_everything_installed_is_pinned():
    installed = {canonicalize_name(d.name): d.version.split("+")[0] for d in distributions()}
    for ours in ("pip", "rndlib"):  # pip comes with Python.
        installed.pop(canonicalize_name(ours))
    assert installed == {name: PINS.get(name) for name in installed}


def test_a_wheel_works_without_extras_and_anywhere(tmp_path):
    """With the packages of this environment, of which those of extras cannot be imported."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", ROOT], check=True)
    extras = {"jax", "torch", "matplotlib", "papermill", "jupytext", "yaml", "tqdm"}
    use = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(extras)}))
import numpy as np, rndlib
assert rndlib.__file__.startswith({str(tmp_path)!r}), rndlib.__file__
assert not {{"scipy", "sklearn"}} & set(sys.modules)
from rndlib.paper import verify
assert np.isfinite(rndlib.kernels.kernel(rndlib.MLP(in_dim=2), np.eye(2)).ntk).all()
sys.exit(verify.main([]))
"""
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", use], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")  # No notebook has run, and it says so.
    assert "no result: run its notebook" in done.stdout
