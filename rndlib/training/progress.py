"""A bar for long training, on a terminal only: a log gets nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(total: int, unit: str, shown: bool) -> Iterator[Callable[[], None]]:
    """Inside, a function to call at each of `total` steps."""
    if not shown:
        yield lambda: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, leave=False, disable=None) as bar:  # None: where there is no terminal

        def tick() -> None:
            bar.update()

        yield tick
