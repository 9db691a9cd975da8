"""What a section of the bench is: a table, and the cases that its rows come from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rndlib.running.costs import Row


@dataclass(frozen=True)
class Asked:
    """What a run of the bench was asked for.

    quick: small sizes, for a look of some three minutes.
    widths: of the networks, where a section goes through several; None for the section's own.
    keep: whether quick tables become those that later ones are compared with.
    """

    quick: bool = False
    widths: tuple[int, ...] | None = None
    keep: bool = False


Case = Callable[[], list[Row]]
"""Measures one part of a section."""


@dataclass(frozen=True)
class Section:
    """A table of the bench.

    name: by which the command line calls it. title, note: its heading, and what a reader of the table must know.
    cases: the cases of a run, in the order of the table; making them measures nothing.
    missed: a paragraph for each goal that the stored table misses, with what it is that binds.
    """

    name: str
    title: str
    note: str
    cases: Callable[[Asked], Iterator[Case]]
    missed: tuple[str, ...] = ()
