"""What every figure is held to, whatever it shows."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest

from rndlib import figures, output


def assert_the_same_every_time(
    draw: Callable[[], figures.Figure], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure is saved as PNG and PDF, drawn anew it is the same files, and drawing leaves the settings alone."""
    monkeypatch.setenv(output.VARIABLE, str(folder))
    before = dict(mpl.rcParams)
    figures.save(draw(), "first")
    figures.save(draw(), "second")
    assert dict(mpl.rcParams) == before
    assert sorted(path.name for path in folder.iterdir()) == ["first.pdf", "first.png", "second.pdf", "second.png"]
    for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        first, second = ((folder / f"{name}.{kind}").read_bytes() for name in ("first", "second"))
        assert first.startswith(magic)
        assert first == second
