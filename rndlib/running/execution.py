"""Execute one notebook with papermill, in a kernel of the Python that runs this.

The only module that imports papermill and Jupyter, which takes seconds.
"""

import logging
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import nbformat.v4
import papermill
import zmq
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from traitlets.config import Config

from rndlib import cores, output
from rndlib.running.notebooks import Notebook, NotebookFailed
from rndlib.running.parameters import Value

START = 60  # seconds until a kernel must have answered
SOCKET = "/rndlib-12345678/k-5"  # the last of a kernel's sockets, in a folder of `TemporaryDirectory`


def execute(notebook: Notebook, values: dict[str, Value], folder: Path) -> None:
    """Run every cell with these values of its parameters, and store the notebook with its outputs in `folder`.

    The notebook finds `folder` in the environment variable `RNDLIB_OUTPUT`. It runs where its file is, as in Jupyter.
    On a terminal, a bar on stderr shows the number of cells done. Raises NotebookFailed if a cell raised an error, or
    the kernel ended or did not start.
    """
    # papermill warns of parameters that its own pattern does not find. They are checked already.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    # A notebook that runs as it is written gets no cell with parameters.
    changed = {p.name: values[p.name] for p in notebook.parameters if values[p.name] != p.default}
    try:
        with _kernels(folder) as options:
            papermill.execute_notebook(
                notebook.path,
                folder / notebook.path.name,
                parameters=changed,
                kernel_name="python3",
                language="python",
                start_timeout=START,
                progress_bar={"desc": notebook.name, "disable": None},  # pyright: ignore[reportArgumentType]
                resources={"metadata": {"path": str(notebook.path.parent)}},
                **options,
            )
    except DeadKernelError as error:
        remedy = "if it ran out of memory, give it smaller values, or run fewer at once"
        raise NotebookFailed(f"{notebook.name} failed: its kernel died; {remedy}") from error
    except (papermill.PapermillExecutionError, RuntimeError) as error:
        raise NotebookFailed(f"{notebook.name} failed: {str(error).strip()}") from error


def try_kernel() -> None:
    """Start a kernel as a run does, have it execute a cell, and end it; a RuntimeError where that fails."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
    with _kernels(Path()) as options:
        NotebookClient(notebook, startup_timeout=START, **options).execute()


@contextmanager
def _kernels(folder: Path) -> Iterator[dict[str, Any]]:
    """Options of nbclient for kernels of this interpreter, whatever kernels are installed or named in a notebook."""
    kernel = get_kernel_dict() | {
        "env": {output.VARIABLE: str(folder.resolve()), **cores.one_blas_thread()},
        # Even an immediate shutdown interrupts first. A signal makes a kernel that is not up yet print a traceback.
        "interrupt_mode": "message",
    }

    class ThisPython(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(**kernel)

    with TemporaryDirectory(prefix="rndlib-", dir=_short_folder()) as sockets:
        # Kernels are spoken to through files. Network ports are chosen before a kernel takes them, so that of two
        # kernels that start at once, one may find its port taken. Without encryption, the kernel warns on stderr that
        # other users of the machine could listen in.
        files = {"transport": "ipc", "ip": f"{sockets}/k", "transport_encryption": "auto"}
        yield {
            "kernel_manager_class": ThisPython,
            "config": Config(KernelManager=files),
            # A graceful shutdown interrupts the kernel first, which then reports the interrupt on stderr now and then.
            "shutdown_kernel": "immediate",
        }


def _short_folder() -> str:
    """The folder for temporary files, or /tmp if sockets there would have longer paths than the system allows."""
    folder = gettempdir()
    return folder if len(os.fsencode(folder + SOCKET)) <= zmq.IPC_PATH_MAX_LEN else "/tmp"


def peak_memory() -> int:
    """Bytes that the largest child process so far has held at once: the kernel, in a process that ran one notebook."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Kilobytes everywhere else.
