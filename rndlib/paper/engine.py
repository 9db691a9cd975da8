"""papermill's own engine for the notebooks of rndlib, with two additions that no option of papermill gives.

The notebook is told where its output goes, so that it can leave `claims.json` and its figures beside it. And its kernel
is spoken to through files: network ports are chosen before a kernel takes them, so that of two kernels that start at
once, one may find its port taken.

papermill imports this module where rndlib is installed, by the entry point `papermill.engine`. It then takes the place
of the default engine, so that plain `papermill IN.ipynb OUT.ipynb` uses it. Other notebooks run as ever.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from papermill.engines import NBClientEngine, papermill_engines
from traitlets.config import Config

from rndlib.paper import output

LONGEST = 80  # characters of a folder for sockets; systems allow about 104 for the whole path


class Engine(NBClientEngine):
    """Runs a notebook of rndlib with its output folder in the environment of its kernel, and sockets that are files."""

    @classmethod
    def execute_managed_notebook(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, nb_man: Any, kernel_name: str, **options: Any
    ) -> Any:
        """Run the notebook of papermill's execution manager; `options` are those of `NBClientEngine`."""
        ours = any(cell.cell_type == "code" and "rndlib" in cell.source for cell in nb_man.nb.cells)
        if not ours or not nb_man.output_path or os.name != "posix":
            return super().execute_managed_notebook(nb_man, kernel_name, **options)
        if nb_man.pbar:
            nb_man.pbar.set_description(Path(options["input_path"]).stem)
        before = os.environ.get(output.VARIABLE)
        os.environ[output.VARIABLE] = str(Path(nb_man.output_path).resolve().parent)
        short = None if len(gettempdir()) < LONGEST else "/tmp"
        try:
            with TemporaryDirectory(prefix="rndlib-", dir=short) as sockets:
                # Without encryption, the kernel warns on stderr that other users of the machine could listen in.
                files = {"transport": "ipc", "ip": f"{sockets}/k", "transport_encryption": "auto"}
                options |= {"config": Config(KernelManager=files)}
                # A graceful shutdown interrupts the kernel first, which then reports the interrupt now and then.
                options |= {"shutdown_kernel": "immediate"}
                return super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            os.environ.pop(output.VARIABLE)
            os.environ.update({} if before is None else {output.VARIABLE: before})


papermill_engines.register(None, Engine)
