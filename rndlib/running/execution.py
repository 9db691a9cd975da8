"""Execute one notebook with papermill, in a kernel of the Python that runs this.

The only module that imports papermill and Jupyter; the rest of the command line works without them.
"""

import asyncio
import errno
import logging
import os
import re
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rndlib import cores, output
from rndlib.running.hidden import hidden
from rndlib.running.notebooks import Notebook
from rndlib.running.parameters import Value

# jsonschema, which nbformat imports, compiles a grammar of addresses where this is installed, for checks that the
# schema of notebooks has no use for: 1.7 of the 2.3 seconds that these imports take.
with hidden("rfc3987_syntax"):
    import papermill
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient.exceptions import CellControlSignal, DeadKernelError
    from traitlets import default


START = 60  # seconds until a kernel must have answered

# As `ipykernel_launcher` does. Python goes through all that the imports brought, in search of cycles, again and again:
# up to a tenth of a short run. Less often, it takes hardly anything, and no more memory.
_LAUNCH = "import gc; gc.set_threshold(20_000, 50, 50); from ipykernel.kernelapp import launch_new_instance as go; go()"


class NotebookFailed(RuntimeError):
    """The notebook did not run to its end; the message ends with what the cell reported."""


class KernelDied(NotebookFailed):
    """The kernel ended within a cell: it crashed, or was killed."""


def execute(
    notebook: Notebook, values: dict[str, Value], folder: Path, cell_timeout: int | None, progress: bool
) -> None:
    """Run every cell, and store the notebook with its outputs in `folder`.

    The notebook finds `folder` in the environment variable `RNDLIB_OUTPUT` and runs where its file is, as in
    Jupyter.

    Parameters
    ----------
    notebook: what to run.
    values: the value of every parameter.
    folder: existing folder that takes the executed notebook and what the notebook itself writes.
    cell_timeout: seconds that one cell may take; None for no limit.
    progress: whether to show a bar with the number of cells done, on stderr.

    Raises
    ------
    KernelDied: the kernel ended within a cell.
    NotebookFailed: a cell raised an error or took too long.
    OSError: the disk is full or cannot be written, as found here or by a cell.
    """
    # It has a pattern of its own for parameters, and warns of lines that this does not fit. They are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    # Only these, so that a notebook run as it is written gets no extra cell.
    changed = {p.name: values[p.name] for p in notebook.parameters if values[p.name] != p.default}
    options: dict[str, Any] = {
        "resources": {"metadata": {"path": str(notebook.path.parent)}},
        # A graceful shutdown interrupts the kernel first, which then reports the interrupt on stderr now and then.
        "shutdown_kernel": "immediate",
        "progress_bar": {"desc": notebook.name} if progress else False,
    }
    try:
        with TemporaryDirectory(prefix="rndlib-") as sockets:
            papermill.execute_notebook(
                notebook.path,
                folder / notebook.path.name,
                parameters=changed,
                kernel_name="python3",
                language="python",
                execution_timeout=cell_timeout,
                start_timeout=START,
                kernel_manager_class=_manager(folder, sockets),
                **options,
            )
    except DeadKernelError as error:
        raise KernelDied(
            f"{notebook.name} failed: its kernel died; if it was killed for want of memory, give it smaller values, or "
            "run fewer at once"
        ) from error
    except (papermill.PapermillExecutionError, CellControlSignal, RuntimeError) as error:
        if number := _no_room(error):
            raise OSError(number, os.strerror(number), str(folder)) from error
        said = str(error).strip()
        if said.startswith("Kernel didn't respond"):
            said = f"its kernel did not answer within {START} s: look whether `rndlib doctor` starts one"
        raise NotebookFailed(f"{notebook.name} failed: {said}") from error


def try_kernel(patience: float) -> None:
    """Start a kernel as a run does, and end it.

    Raises
    ------
    RuntimeError: it did not answer within so many seconds, or ended.
    OSError: it could not be started.
    """

    async def start(sockets: str) -> None:
        manager = _manager(Path(), sockets)()
        await manager.start_kernel()
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=patience)
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(now=True)

    with TemporaryDirectory(prefix="rndlib-") as sockets:
        asyncio.run(start(sockets))


def _manager(folder: Path, sockets: str) -> type[AsyncKernelManager]:
    """What starts this interpreter, whatever kernels are installed for the user or named in a notebook.

    It is spoken to through files in `sockets`: network ports are chosen before the kernel takes them, and of two that
    start at once, one may find a port taken.
    """
    spec = KernelSpec(
        argv=[sys.executable, "-P", "-c", _LAUNCH, "-f", "{connection_file}"],
        display_name="Python 3",
        language="python",
        # Even an immediate shutdown interrupts first. By a signal, a kernel that is not up yet dies with a traceback.
        interrupt_mode="message",
        env={output.VARIABLE: str(folder.resolve()), **cores.one_blas_thread()},
        metadata={"supported_encryption": ["curve"]},
    )

    class ThisPython(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return spec

        @default("transport")
        def _local(self) -> str:
            return "ipc"

        @default("ip")
        def _files(self) -> str:
            return f"{sockets}/k"

        @default("transport_encryption")
        def _encrypted(self) -> str:
            return "auto"  # Without, the kernel warns on stderr that other users of the machine could listen in.

    return ThisPython


def _no_room(error: BaseException) -> int | None:
    """The error number with which a cell failed to write a file; None where it failed in another way."""
    if not isinstance(error, papermill.PapermillExecutionError) or error.ename != "OSError":
        return None
    said = re.match(r"\[Errno (\d+)\]", error.evalue)
    number = int(said[1]) if said else None
    return number if number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else None


def peak_memory() -> int:
    """Bytes that the largest child process so far has held at once: the kernel, in a process that ran one notebook."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Kilobytes everywhere else.
