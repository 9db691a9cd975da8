"""The arguments of the command line."""

import argparse
from pathlib import Path

import rndlib.running.batch
from rndlib.running import notebooks


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; `command` of its namespace is the name of the command."""
    whole = argparse.ArgumentParser(prog="rndlib", description="Run the paper's notebooks and show their verdicts.")
    commands = whole.add_subparsers(required=True, dest="command", metavar="COMMAND")

    listing = commands.add_parser("list", help="the notebooks, with their parameters")
    listing.add_argument("--claims", action="store_true", help="the claims instead, with tolerances and controls")

    running = commands.add_parser("run", help="execute a notebook into results/NAME/")
    running.add_argument("name", metavar="NAME", help="a notebook's name, or the beginning of it, such as 05")
    running.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        metavar=("KEY", "VALUE"),
        dest="overrides",
        help="give a parameter another value, as in -p width 64 or -p widths '[32, 64]'; may be repeated",
    )
    running.add_argument(
        "--profile",
        default=notebooks.PAPER,
        help="the values to start from: paper (the default; what the notebook itself says) or smoke (small and quick)",
    )
    running.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="stop, with exit code 124, after so long")
    running.add_argument(
        "--once",
        action="store_true",
        help="only if DIR does not have this result already: of the same notebook, parameters, library and versions",
    )

    batching = commands.add_parser(
        "batch",
        help="run a grid of notebooks, parameters and seeds",
        description=rndlib.running.batch.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    batching.add_argument("grid", type=Path, metavar="GRID.yaml", help="notebooks, with their parameters and seeds")
    batching.add_argument("--jobs", type=_count, metavar="N", help="cells at once (as many as there are cores for)")
    batching.add_argument(
        "--commands", action="store_true", help="run nothing, and print the command of each cell, for another scheduler"
    )
    batching.add_argument(
        "--workflow-profile",
        metavar="PROFILE",
        help="run on a cluster: slurm, or a folder with a config.yaml of your own, which holds options of Snakemake",
    )
    batching.add_argument("--results", type=Path, metavar="DIR", help="folder of the batch (batches/GRID)")

    for command, default in ((running, None), (batching, 1)):
        command.add_argument(
            "--threads",
            type=_count,
            default=default,
            metavar="N",
            help="compute each notebook with so many; the last bits of numbers depend on it",
        )

    verifying = commands.add_parser("verify", help="every claim that has run, with its verdict")
    reporting = commands.add_parser("report", help="write results/report.md: claims, runs and figures")
    examining = commands.add_parser("doctor", help="what is missing here for the other commands, and what to do")
    for command in (running, verifying, reporting, examining):
        command.add_argument(
            "--results", type=Path, default=Path("results"), metavar="DIR", help="folder of all results (results)"
        )
    return whole


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few: give 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a time: give a number of seconds above 0")
    return float(text)
