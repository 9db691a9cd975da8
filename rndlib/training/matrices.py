"""Whether N x N matrices fit in memory, and what to say if they do not."""

HELD, FACTORISED = 6, 2
"""N x N matrices of float64 that one body's training holds at the same time: with Theta, and if it is factorised in
place."""


def needed(n: int, held: int = HELD) -> int:
    """Bytes of the matrices over n training points."""
    return 8 * held * n**2


def size(n_bytes: int) -> str:
    """A number of bytes in the unit that fits.

    >>> from rndlib.training import matrices
    >>> matrices.size(1), matrices.size(4800), matrices.size(2**32)
    ('1 byte', '4.7 KiB', '4.0 GiB')
    """
    if n_bytes < 2**10:
        return f"{n_bytes} byte{'s' * (n_bytes != 1)}"
    power = min((n_bytes.bit_length() - 1) // 10, 3)
    return f"{n_bytes / 2 ** (10 * power):,.1f} {' KMG'[power]}iB"


def refusal(n: int, memory: int) -> str:
    """What is too small, and the first two remedies."""
    return (
        f"solver: matrices over the {n} rows of X take {size(needed(n))}, and memory = {memory} is {size(memory)}: "
        f"give GradientFlow(memory={needed(n)}), fewer rows"
    )
