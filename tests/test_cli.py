"""The command line, on small notebooks in a folder of their own: real runs, with papermill and a kernel."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import small

import rndlib.running
from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS
from rndlib.running import checksums, provenance, runs

pytestmark = pytest.mark.tools

PARAMETERS = """\
width: int = 64  # units
rate: float = 1e-3  # step size
widths: list[int] = [1, 2]  # one network each, for k = 1, 2
"""
# Judges width against 100, and keeps a figure; what it prints is for the tests to find in the executed notebook.
JUDGE = """\
import json, os, sys
from pathlib import Path
folder = Path(os.environ["RNDLIB_OUTPUT"])
claim = dict(id="Z1", statement="width is at most 100", notebook="01_judge", source="here", statistic="width over 100",
             unit="none", kind="rate", value=width / 100, interval=None, tolerance=1.0, passed=width <= 100,
             control="1000", control_value=10.0, control_rejected=True, near="120", near_value=1.2, near_rejected=True)
(folder / "claims.json").write_text(json.dumps({"claims": [claim]}))
(folder / "fig1.png").write_bytes(b"a figure")
print("ran", width, rate, widths, sys.executable, folder.is_absolute())
print("BLAS threads:", os.environ["OPENBLAS_NUM_THREADS"], os.environ["MKL_NUM_THREADS"])
"""
MEMORY = "held = bytearray(200_000_000)\nheld[::4096] = b'x' * len(held[::4096])\ndel held\n"
# Says that it has started, so that a test can stop it midway, and would leave a ledger if it came that far.
SLOW = "import time\nfrom pathlib import Path\nPath('started').touch()\nfor _ in range(3000): time.sleep(0.1)\n"


@pytest.fixture
def project(tmp_path):
    """A folder with notebooks; each names a kernel that does not exist, as after a move to another machine."""
    import nbformat.v4 as nb

    def notebook(name, *cells):
        parameters = nb.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
        cells = [
            nb.new_markdown_cell("Some words.\n\n# What it shows\nMore."),
            parameters,
            *map(nb.new_code_cell, cells),
        ]
        node = nb.new_notebook(
            cells=cells, metadata={"kernelspec": {"name": "gone", "display_name": "Gone", "language": "python"}}
        )
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text(nb.writes(node), encoding="utf-8")

    (tmp_path / "notebooks").mkdir()
    notebook("01_judge", MEMORY, JUDGE)
    notebook("02_broken", JUDGE, "raise ValueError('a telling message')")
    notebook("03_slow", SLOW, JUDGE)
    notebook("03_silent", "width")
    notebook("04_garbled", JUDGE, "(folder / 'claims.json').write_text('{')")
    profiles = (
        '["01_judge".smoke]\nwidth = 8\nrate = 1\n["03_slow".smoke]\nwidht = 8\n["03_silent".smoke]\nwidth = 0.5\n'
    )
    (tmp_path / "notebooks" / "profiles.toml").write_text(profiles, encoding="utf-8")
    return tmp_path


def call(project, *arguments):
    return small.call(project, *arguments, kernels=True)


def leftovers(project):
    """What lies under results/, hidden or not, except locks."""
    return sorted(path.name for path in (project / "results").glob("*") if path.suffix != ".lock")


def store(project, name="01_judge", claims=(), **changes):
    """A result as a run leaves it, with `claims` for its ledger."""
    folder = project / "results" / name
    folder.mkdir(parents=True)
    run = runs.Run(
        key="0",
        notebook=name,
        profile="paper",
        parameters={},
        versions={},
        checkout={"commit": "0123456789abcdef", "changed": True},
        hardware={"cpu": "abacus", "cores": 2, "memory_gib": 4.0, "gpu": ["a GPU"]},
        started="2026-01-01T00:00:00+00:00",
        seconds=61.2,
        peak_memory=300 * 2**20,
    )
    (folder / "run.json").write_text(json.dumps(asdict(run) | changes), encoding="utf-8")
    (folder / "claims.json").write_text(json.dumps({"claims": list(claims)}), encoding="utf-8")
    checksums.seal(folder)
    return folder


def claim(id_="Z1", value=0.5, control_value=2.0, near_value=2.0):
    return {
        "id": id_, "statement": "a statement", "notebook": "01_judge", "source": "here", "statistic": "a number",
        "unit": "none", "kind": "rate", "value": value, "interval": [0.4, 0.6], "tolerance": 1.0,
        "passed": value <= 1, "control": "a wrong variant", "control_value": control_value,
        "control_rejected": control_value > 1,
        "near": "a slip", "near_value": near_value, "near_rejected": near_value > 1,
    }  # fmt: skip


def test_list_shows_titles_parameters_and_help(project):
    code, out, _ = call(project, "list")
    assert code == 0
    assert "01_judge: What it shows\n    width: int = 64  # units\n    rate: float = 0.001  # step size\n" in out
    assert out.count("What it shows") == 5


def test_a_reader_that_ends_first_is_no_error(project):
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*small.command(kernels=True), "list"], cwd=project, stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    os.close(reading)  # before anything is written: importing takes longer
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (141, "")


def test_run_keeps_a_whole_result_and_shows_its_progress_on_a_terminal(project, monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    # In a process of its own, whose largest child is the kernel.
    arguments = ["run", "01", "-p", "width", "10", "--profile", "smoke", "-p", "widths", "[3]"]
    code, out, shown = small.on_a_terminal(project, [*small.command(kernels=True), *arguments])
    assert code == 0
    assert "01_judge: 100%" in shown
    result = project / "results" / "01_judge"
    assert leftovers(project) == ["01_judge"]
    assert sorted(path.name for path in result.iterdir()) == [
        "01_judge.ipynb",
        "SHA256SUMS",
        "claims.json",
        "fig1.png",
        "run.json",
    ]

    executed = (result / "01_judge.ipynb").read_text(encoding="utf-8")
    # The option wins over the profile, the profile over the notebook; the kernel is this interpreter.
    assert f"ran 10 1.0 [3] {sys.executable} True" in executed
    assert "BLAS threads: 1 3" in executed  # What the user has set stays.

    run = runs.read(result).run
    assert (run.notebook, run.profile) == ("01_judge", "smoke")
    assert run.parameters == {"width": 10, "rate": 1.0, "widths": [3]}
    assert run.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"rndlib", "numpy", "scipy"} <= set(run.versions)
    assert run.checkout is None
    assert run.hardware["cores"] >= 1
    assert run.seconds > 0
    # 200 MB are held for a moment; an idle kernel takes less than 100 MB, and nothing else here that much.
    assert 2e8 < run.peak_memory < 4e8

    assert "| Z1 | width is at most 100 |" in out
    assert f"{run.seconds:.0f} s, peak memory {run.peak_memory / 2**20:.0f} MiB" in out


def test_a_run_without_changes_executes_the_notebook_as_it_is_and_records_the_commit(project):
    commit = committed(project)
    assert call(project, "run", "01_judge")[0] == 0
    executed = json.loads((project / "results" / "01_judge" / "01_judge.ipynb").read_text(encoding="utf-8"))
    written = json.loads((project / "notebooks" / "01_judge.ipynb").read_text(encoding="utf-8"))
    assert [cell["source"] for cell in executed["cells"]] == [cell["source"] for cell in written["cells"]]
    assert runs.read(project / "results" / "01_judge").run.checkout == {"commit": commit, "changed": False}


def test_a_run_whose_claim_fails_is_kept_and_exits_with_1(project):
    code, out, err = call(project, "run", "01", "-p", "width", "200", "--results", "elsewhere")
    assert code == 1
    assert "FAIL" in out
    assert "Z1 fails: 2 is above the tolerance 1" in err
    assert (project / "elsewhere" / "01_judge" / "run.json").exists()


def committed(project) -> str:
    """The commit that everything in the folder but its results is now in."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (project / ".gitignore").write_text("results\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "m"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], cwd=project, check=True, capture_output=True, text=True)
    return head.stdout.strip()


def test_what_is_set_apart_does_not_change_a_checkout(project):
    commit = committed(project)
    (project / "notebooks" / "bench.json").write_text("{}")
    for apart, changed in {(): True, ("notebooks/bench.json",): False, ("bench.json",): True}.items():
        assert provenance.checkout(project, *apart) == {"commit": commit, "changed": changed}
    (project / "notebooks" / "profiles.toml").write_text("")
    found = provenance.checkout(project, "notebooks/bench.json")
    assert found is not None
    assert found["changed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nine"], ["no notebook", "'nine'", "01_judge"]),
        (["run", "03"], ["several", "03_silent, 03_slow"]),
        (["run", "01", "-p", "height", "3"], ["01_judge", "no parameter 'height'", "width, rate, widths"]),
        (["run", "01", "-p", "width", "1e3"], ["01_judge", "width = '1e3'", "int", "such as 64"]),
        (["run", "01", "-p", "rate", "fast"], ["01_judge", "rate = 'fast'", "float", "1e-3"]),
        (["run", "01", "-p", "widths", "3"], ["01_judge", "widths = '3'", "list[int]", "[32, 64]"]),
        (["run", "02", "--profile", "smoke"], ["02_broken", "no profile 'smoke'", "paper"]),
        (["run", "03_slow", "--profile", "smoke"], ["03_slow", "no parameter 'widht'"]),
        (["run", "03_silent", "--profile", "smoke"], ["03_silent", "width = 0.5", "int"]),
    ],
)
def test_a_wrong_request_is_one_line_and_nothing_runs(project, arguments, words):
    kept = store(project, claims=[claim()])
    code, out, err = call(project, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in err
    assert leftovers(project) == [kept.name]  # Not even the older result is touched.


def test_without_papermill_the_message_says_what_to_install(project, monkeypatch):
    monkeypatch.delitem(sys.modules, "rndlib.running.execution", raising=False)
    monkeypatch.delattr(rndlib.running, "execution", raising=False)
    monkeypatch.setitem(sys.modules, "papermill", None)  # What an import finds where a package is not installed.
    assert call(project, "run", "01") == (2, "", "rndlib: run needs papermill: pip install 'rndlib[notebooks]'\n")


def test_without_notebooks_the_message_says_where_they_were_looked_for(tmp_path, monkeypatch):
    from rndlib.running import notebooks

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "site-packages" / "rndlib" / "running" / "notebooks.py"))
    with pytest.raises(notebooks.UsageError, match=r"no notebooks in .*notebooks or .*site-packages.*checkout"):
        notebooks.folder()


def test_a_failing_notebook_leaves_no_result_and_shows_its_traceback(project):
    store(project, "02_broken", [claim()])
    code, out, err = call(project, "run", "02")
    assert (code, out) == (1, "")
    assert "02_broken failed" in err
    assert "ValueError: a telling message" in err
    assert leftovers(project) == []


@pytest.mark.parametrize("name", ["03_silent", "04_garbled"])
def test_a_notebook_without_a_readable_ledger_leaves_no_result(project, name):
    code, _, err = call(project, "run", name)
    assert code == 1
    assert f"{name} ran, but left no ledger" in err
    assert leftovers(project) == []


def test_a_stopped_run_leaves_no_result(project):
    store(project, "03_slow", [claim()])
    process = small.start(project, "run", "03_slow", kernels=True)
    small.until((project / "notebooks" / "started").exists, process)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "rndlib: stopped\n")
    assert leftovers(project) == []


def test_verify_prints_one_row_per_claim(project):
    store(project, claims=[claim(), claim("Z2")])
    code, out, err = call(project, "verify")
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines()]
    row = dict(zip(rows[0], rows[2], strict=True))
    assert [row[key] for key in ("id", "statement", "statistic", "value", "tolerance", "negative controls")] == [
        "Z1",
        "a statement",
        "a number",
        "0.5",
        "1",
        "a wrong variant; a slip",
    ]
    assert row["their values"] == "2, rejected; 2, rejected"
    assert row["verdict"] == "PASS"
    assert [row[0] for row in rows[2:]] == ["Z1", "Z2"]


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([claim(), claim("Z2", value=1.5)], "Z2 fails"),
        ([claim(control_value=0.5)], "Z1 shows nothing"),
        ([claim(near_value=0.5)], "Z1 is too coarse: its near control passes too (a slip)"),
        ([], "has no verdict"),
    ],
)
def test_verify_exits_with_1_unless_all_holds(project, claims, words):
    store(project, claims=claims)
    store(project, "02_broken", [claim("Z9")])
    code, out, err = call(project, "verify")
    assert code == 1
    assert words in err
    assert "Z9" in out


def test_a_notebook_that_compares_needs_no_verdict(project):
    store(project, claims=[claim()])
    store(project, next(iter(NO_CLAIMS)), [])
    code, out, err = call(project, "verify")
    assert (code, err) == (0, "")
    assert "Z1" in out


def test_verify_misses_declared_claims_without_a_verdict(project):
    declared = next(iter(CLAIMS.values()))
    store(project, declared.notebook, [claim()])
    code, _, err = call(project, "verify")
    assert code == 1
    assert f"{declared.id} has no verdict" in err


def test_verify_refuses_an_empty_folder_and_a_damaged_result(project):
    code, _, err = call(project, "verify")
    assert code == 2
    assert "no results in results: run a notebook first" in err
    folder = store(project, claims=[claim()])
    (folder / "claims.json").write_text('{"claims": [{}]}')
    code, _, err = call(project, "verify")
    assert (code, err.count("\n")) == (2, 1)
    assert "claims.json differs from what SHA256SUMS says" in err
    checksums.seal(folder)
    assert "claims.json is not a ledger" in call(project, "verify")[2]
    (folder / "claims.json").unlink()
    assert call(project, "verify")[0] == 2


def test_report_has_claims_runs_and_figures(project):
    folder = store(project, claims=[claim()])
    later = "2026-01-01T00:01:02+00:00"
    store(project, "02_broken", [claim("Z2", value=3.0)], peak_memory=400 * 2**20, started=later)
    (folder / "fig1.png").write_bytes(b"a figure")
    checksums.seal(folder)
    code, out, _ = call(project, "report")
    assert code == 1  # As verify: one of the claims fails.
    assert "2 notebooks, 122 s, peak memory 400 MiB" in out
    text = (project / "results" / "report.md").read_text(encoding="utf-8")
    assert "| Z1 |" in text
    assert "- Z2 fails" in text
    assert "61 " in text

    assert "300 MiB" in text
    assert "abacus, 2 cores, 4.0 GiB, a GPU" in text
    assert "0123456789ab changed" in text
    assert "![fig1](01_judge/fig1.png)" in text
    assert (project / "results" / "01_judge/fig1.png").is_file()
    # The report is not taken for a result.
    assert "Every claim holds" not in text
    assert call(project, "verify")[0] == 1


def test_the_time_of_runs_side_by_side(project):
    for name, second in (("01_judge", 0), ("02_broken", 12), ("03_slow", 40)):
        store(project, name, started=f"2026-01-01T00:00:{second:02}+00:00")
    assert "3 notebooks, 184 s in 101, peak memory 300 MiB" in call(project, "report")[1]


def test_the_module_and_the_script_are_one_command(tmp_path):
    shown = [
        subprocess.run([*command, "--help"], capture_output=True, text=True, cwd=tmp_path, check=True).stdout
        for command in ([sys.executable, "-m", "rndlib"], [str(Path(sys.executable).parent / "rndlib")])
    ]
    assert shown[0] == shown[1]
    assert all(f"    {command} " in shown[0] for command in ("list", "run", "batch", "verify", "report"))
