"""Run a command once for each of several names, its last argument: some at a time, each on its share of the cores.

    several.py [--jobs N] NAME... -- COMMAND...

A notebook keeps a second core busy for part of the time only, and its threads wait for each other: two at a time, each
with one thread, take two thirds of the time of one after the other with two. What a command prints is shown when it
has ended; all run, whatever the others say, and the exit code is 0 only if all ended with 0.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from rndlib import cores


def run(command: Sequence[str], names: Sequence[str], jobs: int) -> int:
    """The largest exit code of `command` with each of `names`, of which `jobs` run at once."""
    threads = max(1, len(cores.usable()) // jobs)
    lines: SimpleQueue[int] = SimpleQueue()
    for line in range(jobs):
        lines.put(line)

    def one(name: str) -> int:
        line = lines.get()
        # Each has a line of its own on a terminal for its progress bar.
        environment = {**os.environ, **cores.threads(threads), "TQDM_POSITION": str(line)}
        try:
            done = subprocess.run([*command, name], env=environment, stdout=subprocess.PIPE)
        finally:
            lines.put(line)
        sys.stdout.buffer.write(done.stdout)
        sys.stdout.flush()
        return done.returncode

    with ThreadPoolExecutor(jobs) as pool:
        return max(map(abs, pool.map(one, names)), default=0)


def main(given: Sequence[str]) -> int:
    """Run the command line on the arguments `given`; returns the exit code."""
    parser = argparse.ArgumentParser(usage="several.py [--jobs N] NAME... -- COMMAND...")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("names", nargs="+")
    at = given.index("--") if "--" in given else len(given)
    asked, command = parser.parse_args(given[:at]), given[at + 1 :]
    if not command:
        parser.error("no COMMAND")
    return run(command, asked.names, asked.jobs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
