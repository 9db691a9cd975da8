"""One problem, trained by rndlib and by every peer: the rows of a table."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.descent import ACCURACY, Found, Problem, trained
from benchmarks.peers import ONE_BY_ONE, OPTIMISERS, TOGETHER
from benchmarks.timing import REPEATS, Timing, ratio, side_by_side
from rndlib import MLP, GradientFlow
from rndlib.running.costs import Row
from rndlib.training.solvers.gradient_flow import PILOTS
from rndlib.training.weights import Params

SOLVER = GradientFlow(rtol=ACCURACY)
"""The solver of rndlib, at the accuracy that all are asked for. Its default is ten times as fine."""

CHECKED = 8
"""How many networks are compared with the flow's. A peer that trains one by one is timed on as many."""

JUDGED = 2 * PILOTS
"""How many of rndlib's networks are compared with the flow's: the pilots, which set the steps, and as many others."""

TRIED = (1e-3, 1e-2, 1e-1)
"""Adam's rates. The one that comes nearest counts."""

NOTE = (
    f"The time until the test function of half of the networks is within {ACCURACY:g} of the converged flow's, in the "
    "norm over test points and heads. The others are full-batch descent in float32, GD at 0.95 of 2 / lambda_max of "
    "the networks' own kernels; their seconds are those of *timed*, scaled to all networks and to *steps*. Steps of "
    f"GD are those of the linear model; *trained* is how many up to {CHECKED} networks themselves took, if they came "
    f"there within twice as many. Adam's rate is the best of {', '.join(f'{rate:g}' for rate in TRIED)}; where it "
    "does not come there within twice the steps of GD, its seconds are for these, and are no price of the accuracy. "
    f"rndlib is asked for the same, by `GradientFlow(rtol={ACCURACY:g})`. *distance* is the least that was found; for "
    f"rndlib, the largest over up to {JUDGED} networks. *goal* is the project's, for the fastest GD. *cores* is how "
    "many were busy."
)


def compare(
    shared: Row,
    problem: Problem,
    start: Params,
    targets: np.ndarray,
    fit: Callable[[], object],
    first: float,
    error: float,
    work: int,
    adam: bool,
    part: float = 1.0,
    repeats: int = REPEATS,
    goal: float | None = None,
) -> list[Row]:
    """The rows of rndlib and its peers.

    Parameters
    ----------
    shared: columns that all rows have.
    problem: the networks that are compared with the flow's, the first of all.
    start, targets: those of all networks.
    fit: rndlib's training, of this `part` of the networks. first: seconds of its first call. error: its distance.
    work: steps times numbers a step that a call to a peer is given, hence the part that is timed.
    adam: whether to try Adam, too. goal: the project's, for the ratio to GD.
    """
    steps, rate = problem.linear_steps(), problem.rate()
    bodies, checked, library = len(targets), len(problem.targets), "rndlib"
    calls: dict[str, Callable[[], object]] = {library: fit}
    parts = {}
    for optimiser in OPTIMISERS if adam else OPTIMISERS[:1]:
        for way, make in {**ONE_BY_ONE, **(TOGETHER if bodies > 1 else {})}.items():
            count = checked if way in ONE_BY_ONE else bodies
            timed = max(1, min(steps, work // (_numbers(problem.net, targets) * count)))
            some = [(w[:count], b[:count]) for w, b in start]
            step_size = rate if optimiser == "GD" else TRIED[0]
            peer = make(problem.net, some, problem.X, targets[:count], optimiser, step_size)
            name = f"{way}, {optimiser}"
            calls[name] = lambda peer=peer, timed=timed: peer.run(timed)
            parts[name] = optimiser, count, timed
    times = side_by_side(calls, repeats)
    times[library] = replace(times[library], first=first).scaled(1 / part)
    found = {"GD": _check(problem, "GD", rate, steps)}
    if adam:
        found["Adam"] = min((_check(problem, "Adam", each, steps) for each in TRIED), key=lambda f: f.nearest)
    rows: list[Row] = [
        {**shared, "by": library, **_timing(times[library]), "timed": _number(round(part * bodies)), "distance": error}
    ]
    for name, (optimiser, count, timed) in parts.items():
        taken = steps if optimiser == "GD" else found[optimiser].steps
        whole = times[name].scaled((taken or 2 * steps) / timed * bodies / count)
        rows.append(
            {
                **shared,
                "by": name,
                **_timing(whole),
                "times rndlib's": ratio(whole, times[library]),
                "goal": goal if optimiser == "GD" else None,
                "timed": f"{_number(count)}, {timed} steps",
                "steps": taken or f"over {2 * steps}",
                "trained": found[optimiser].steps,
                "distance": found[optimiser].nearest,
            }
        )
    return rows


def largest_distance(functions: np.ndarray, limit: np.ndarray) -> float:
    """Relative distance of functions (bodies, heads, T) from the limit, the largest over the bodies."""
    return float(np.max(np.linalg.norm(functions - limit, axis=(1, 2)) / np.linalg.norm(limit, axis=(1, 2))))


def _numbers(net: MLP, targets: np.ndarray) -> int:
    """How many numbers one step of one network goes through: its parameters, and its activations at all points."""
    _, heads, n_samples = targets.shape
    parameters = sum(rows * (columns + 1) for rows, columns in net.layer_shapes(heads))
    return parameters + n_samples * ((net.depth - 1) * net.width + heads)


def _number(networks: int) -> str:
    return f"{networks} network{'s' * (networks > 1)}"


def _timing(time: Timing) -> Row:
    return {"seconds": time.spread, "first call": time.first, "cores": time.cores}


def _check(problem: Problem, optimiser: str, rate: float, steps: int) -> Found:
    """Train the problem's networks until they are there, or for twice the steps, looking 20 times on the way there."""
    make = ONE_BY_ONE["JAX one by one"]
    peer = make(problem.net, problem.start, problem.X, problem.targets, optimiser, rate)
    every = max(1, steps // 20)
    return trained(problem, peer, every, 2 * steps)
