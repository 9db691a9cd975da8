"""What makes a stored result stale: what the library computes, and not what it says of itself."""

import pytest

from rndlib.running import provenance

pytestmark = pytest.mark.tools

SOURCE = '''"""A module."""

FACTOR = 2
"""What it multiplies by."""


def scaled(x):
    """x, scaled."""
    return FACTOR * x  # by the factor
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one module in one room, and the room apart."""
    for room in ("theory", provenance.APART):
        (tmp_path / room).mkdir()
        (tmp_path / room / "module.py").write_text(SOURCE)
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A module.", "A module, in other words."),
        ("What it multiplies by.", "The factor."),
        ('    """x, scaled."""\n', ""),
        ("  # by the factor", ""),
        ("FACTOR * x", "(FACTOR *  x)"),
    ],
)
def test_words_and_layout_do_not_count(package, old, new):
    before = provenance.code()
    (package / "theory" / "module.py").write_text(SOURCE.replace(old, new))
    assert provenance.code() == before


@pytest.mark.parametrize(("old", "new"), [("= 2", "= 3"), ("FACTOR * x", "FACTOR + x"), ("def scaled", "def times")])
def test_what_is_computed_counts(package, old, new):
    before = provenance.code()
    (package / "theory" / "module.py").write_text(SOURCE.replace(old, new))
    assert provenance.code() != before


def test_the_room_that_runs_notebooks_does_not_count(package):
    before = provenance.code()
    (package / provenance.APART / "module.py").write_text("FACTOR = 3")
    assert provenance.code() == before


def test_files_and_versions_count(package, monkeypatch):
    found = [provenance.code()]
    (package / "theory" / "other.py").write_text("")
    found.append(provenance.code())
    (package / "theory" / "other.py").write_text("not Python (")
    found.append(provenance.code())
    (package / "theory" / "table.toml").write_text("tolerance = 0.25")
    found.append(provenance.code())
    (package / "theory" / "table.toml").write_text("tolerance = 0.5")
    found.append(provenance.code())
    versions = provenance.versions()
    monkeypatch.setattr(provenance, "versions", lambda: {**versions, "numpy": "0"})
    found.append(provenance.code())
    assert len(set(found)) == len(found)
