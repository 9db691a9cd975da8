"""Some commands at a time, each with its share of the cores; all run, and one that fails is not forgotten."""

import json
import sys
from pathlib import Path

import pytest
import several

from rndlib import cores

pytestmark = pytest.mark.tools

# Waits until as many as are to run at once have begun, then says what it was given.
PROGRAM = """
import json, os, sys, time
from pathlib import Path
place, together, name = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
(place / name).touch()
give_up = time.monotonic() + 60
while len(list(place.iterdir())) < together and time.monotonic() < give_up:
    time.sleep(0.01)
print(json.dumps([name, time.monotonic() < give_up, os.environ["OMP_NUM_THREADS"], os.environ["TQDM_POSITION"]]))
sys.exit(3 if name == "b" else 0)
"""


def test_all_run_some_at_a_time(tmp_path: Path, capfdbinary, monkeypatch):
    monkeypatch.setattr(cores, "usable", lambda: [0, 1, 2, 3])
    for name in cores.THREADS:
        monkeypatch.delenv(name, raising=False)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), "2"]
    assert several.main(["--jobs", "2", "a", "b", "c", "d", "--", *command]) == 3
    found = sorted(map(json.loads, capfdbinary.readouterr().out.splitlines()))
    assert [line[:3] for line in found] == [[name, True, "2"] for name in "abcd"]
    assert {line[3] for line in found} == {"0", "1"}


@pytest.mark.parametrize(("program", "code"), [("pass", 0), ("raise SystemExit(1)", 1)])
def test_the_exit_code(program, code):
    assert several.main(["x", "--", sys.executable, "-c", program]) == code


def test_no_command_and_no_names():
    with pytest.raises(SystemExit, match="2"):
        several.main(["--", "true"])
    with pytest.raises(SystemExit, match="2"):
        several.main(["a"])
