"""The command line, with cells executed in the process that would start the kernel.

What is tested so is everything around a kernel, many times, at a tenth of the time.
"""

import contextlib
import io
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

from rndlib import output
from rndlib.running.batch import engine
from rndlib.running.cli import main


def install() -> None:
    """From now on, this process runs notebooks so, and so do those that it starts as a batch."""

    class NotebookFailed(RuntimeError):
        pass

    def execute(notebook: Any, values: dict[str, Any], folder: Path, *_: Any) -> None:
        os.environ[output.VARIABLE] = str(folder.resolve())
        node = json.loads(notebook.path.read_text(encoding="utf-8"))
        scope, said = dict(values), io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                exec("".join(node["cells"][2]["source"]), scope)
        except OSError:
            raise
        except Exception as error:
            raise NotebookFailed(f"{notebook.name} failed: {error}") from error
        node["cells"][2]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": said.getvalue()}]
        (folder / notebook.path.name).write_text(json.dumps(node), encoding="utf-8")

    fake: Any = types.ModuleType("rndlib.running.execution")
    fake.NotebookFailed, fake.KernelDied = NotebookFailed, type("KernelDied", (NotebookFailed,), {})
    fake.execute, fake.peak_memory = execute, lambda: 1
    sys.modules["rndlib.running.execution"] = fake
    engine.rndlib = lambda: [sys.executable, __file__]
    # Nor are figures drawn, which takes longer than all else that is left; tests of the report have them.
    undrawn: Any = types.ModuleType("rndlib.running.batch.heatmaps")
    undrawn.figures = lambda outcomes: []
    sys.modules["rndlib.running.batch.heatmaps"] = undrawn


if __name__ == "__main__":
    install()
    sys.exit(main())
