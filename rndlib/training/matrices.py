"""Whether N x N matrices fit in memory, and what to say if they do not."""

HELD = 6
"""N x N matrices of float64 that one body's training holds at the same time."""


def fit(n: int, memory: int) -> bool:
    """Whether the matrices over n training points fit in this many bytes."""
    return 8 * HELD * n**2 <= memory


def refusal(n: int, memory: int) -> str:
    """What is too small, and the first two remedies."""
    needed, given = (f"{size / 2**30:,.1f} GiB" for size in (8 * HELD * n**2, memory))
    return (
        f"solver: matrices over the {n} rows of X take {needed}, and memory = {memory} is {given}: give "
        "GradientFlow(memory=...) that much, fewer rows"
    )
