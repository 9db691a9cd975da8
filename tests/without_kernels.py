"""The command line, with cells executed in the process that would start the kernel, and no figures drawn.

So all that is around a kernel is tested many times, at a tenth of the time.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import rndlib.running
import rndlib.running.batch
from rndlib import output
from rndlib.running.batch import engine
from rndlib.running.cli import main
from rndlib.running.notebooks import NotebookFailed


def execute(notebook: Any, values: dict[str, Any], folder: Path) -> None:
    """In place of `rndlib.running.execution.execute`, for the notebook of `small`."""
    os.environ[output.VARIABLE] = str(folder.resolve())
    node = json.loads(notebook.path.read_text(encoding="utf-8"))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec("".join(node["cells"][2]["source"]), dict(values))
    except OSError:
        raise
    except Exception as error:
        raise NotebookFailed(f"{notebook.name} failed: {error}") from error
    node["cells"][2]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": printed.getvalue()}]
    (folder / notebook.path.name).write_text(json.dumps(node), encoding="utf-8")


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Inside, this process runs notebooks so, and so do those that it starts as a batch."""
    execution = SimpleNamespace(execute=execute, peak_memory=lambda: 1)
    heatmaps = SimpleNamespace(figures=lambda outcomes: [])
    with (
        mock.patch.object(rndlib.running, "execution", execution, create=True),
        mock.patch.object(rndlib.running.batch, "heatmaps", heatmaps, create=True),
        mock.patch.object(engine, "RNDLIB", [sys.executable, __file__]),
        mock.patch.dict(os.environ),
    ):
        yield


if __name__ == "__main__":
    with installed():
        sys.exit(main())
