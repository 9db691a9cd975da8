"""The floor: the time that matrix products and SiLUs take on this machine at best, and how near rndlib comes to it."""

from collections.abc import Iterator
from functools import partial

from benchmarks import rates, step
from benchmarks.section import Asked, Case, Section
from benchmarks.timing import side_by_side
from rndlib import MLP, DeepEnsemble, GradientDescent, datasets
from rndlib.running.costs import Row

WIDTHS, QUICK_WIDTHS = (512, 4096), (512,)
MEMBERS, QUICK_MEMBERS = 513, 33
POINTS, QUICK_POINTS = 5000, 1000
STEPS, QUICK_STEPS = 256, 64


def _cases(asked: Asked) -> Iterator[Case]:
    side = rates.QUICK_SIDE if asked.quick else rates.SIDE
    members, points = (QUICK_MEMBERS, QUICK_POINTS) if asked.quick else (MEMBERS, POINTS)
    steps = QUICK_STEPS if asked.quick else STEPS
    for dtype in rates.DTYPES:
        yield partial(rates.rows, dtype, side)
    for width in asked.widths or (QUICK_WIDTHS if asked.quick else WIDTHS):
        for dtype in rates.DTYPES:
            yield partial(_rows, width, dtype, side, members, points)
        yield partial(step.rows, width, side, steps)


SECTION = Section(
    "floor",
    "The floor: what the machine allows",
    "Matrix products and SiLUs are run on every core at once, as fast as XLA makes them here: products of square "
    "matrices, and the fastest of two forms of the nonlinearity over matrices of three shapes that stay in cache. "
    "*bound* is the time that a task's products and SiLUs take at these rates, one after the other, and *share* is the "
    f"bound over the time. {step.NOTE}",
    _cases,
    (
        "Half of the roofline for steps of the solver: 0.14 at width 512 and 0.25 at width 4,096. The arrays of ten "
        "points are too thin for the rates of large matrices. At width 512 the eigenproblem of the kernel binds, with "
        "39 % of the step: it is a chain of operations on ten numbers each, and has no product in it. At width "
        "4,096 memory traffic binds: the rest of the step, 41 %, reads and writes parameters once for a few "
        "operations each, and Gram products use every activation for ten.",
    ),
)


def _rows(width: int, dtype: str, side: int, members: int, points: int) -> list[Row]:
    net, data = MLP(3, width=width), datasets.toy(seed=0, n_test=points)
    model = DeepEnsemble(net, members, solver=GradientDescent(1e-3, 1), dtype=dtype).fit(data.X, data.y)
    (time,) = side_by_side({"": lambda: model.functions(data.X_test)}).values()
    products = sum(2 * rows * columns for rows, columns in net.layer_shapes(1))
    bound = rates.bound(dtype, side, float(products) * members * points, float(width) * members * points)
    return [
        {
            "task": f"evaluation of {members} members on {points} points",
            "dtype": dtype,
            "width": width,
            "seconds": time.spread,
            "bound": bound,
            "share": bound / time.spread.value,
        }
    ]
