"""The report of a batch: links that move with the folder, heat maps that read in grey, and what went wrong."""

import html
import json
import re
from urllib.parse import unquote

import numpy as np
import pytest
import small
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from rndlib.paper.figures.grids import Shares, verdicts_over
from rndlib.running.batch import batch, grid, heatmaps, report
from rndlib.running.batch.cell import Outcome, outcome

pytestmark = pytest.mark.tools


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project, in which the test runs."""
    monkeypatch.chdir(small.project(tmp_path))
    return tmp_path


def made(place, value=lambda cell: 0.5, **run):
    """The report on a grid of one run whose results are there, and its records."""
    (place / "a grid.yaml").write_text(json.dumps({"runs": [{"notebook": "01", **run}]}), encoding="utf-8")
    small.prepare(place / "a grid.yaml", place / "out", value)
    batch.run(place / "a grid.yaml", place / "out")
    page = (place / "out" / report.PAGE).read_text(encoding="utf-8")
    return page, json.loads((place / "out" / report.RECORD).read_text(encoding="utf-8"))["cells"]


def outcomes(place):
    """What the report was made of."""
    return [outcome(cell, place / "out") for cell in grid.read(place / "a grid.yaml")]


def test_all_links_lead_somewhere_after_the_folder_has_moved(place):
    page, records = made(place, product={"width": [1, 2]}, seeds=2)
    moved = place / "else where"
    (place / "out").rename(moved)
    links = [html.unescape(link) for link in re.findall(r'(?:href|src)="([^"]*)"', page)]
    notebooks = [link for link in links if link.endswith(".ipynb")]
    assert notebooks == [record["executed"] for record in records]
    assert len(notebooks) == 4
    for link in links:
        if link.startswith("#"):
            assert f'id="{link[1:]}"' in page
        elif not link.startswith("data:image/png;base64,"):
            assert (moved / unquote(link)).is_file()
    assert not re.search(r"https?://|file:", page)
    assert str(place) not in page


def test_the_page_shows_verdicts_failures_and_machines(place):
    page, records = made(place, lambda cell: 0.01 * cell.values["width"], product={"width": [99, 101]})
    assert "1 of 2 cells ran with every verdict as claimed" in page
    assert page.count('<span class="wrong">fails</span>') == 1
    assert "Z1 fails: 1.01 is above the tolerance 1" in html.unescape(page)
    assert records[0]["hardware"]["cpu"] in html.unescape(page)
    assert "python 3" in page
    assert page.count("data:image/png") == 1
    first, second = outcomes(place)
    failed = Outcome(second.cell, None, "a first line\nrndlib: <b>its kernel died</b> & gone")
    page = report.write("a title", [first, failed], place / "out").read_text(encoding="utf-8")
    assert "<h1>a title</h1>" in page
    assert page.count("no result") == 2  # in the table, and where it says what is wrong
    assert "<pre>a first line\nrndlib: &lt;b&gt;its kernel died&lt;/b&gt; &amp; gone</pre>" in page
    assert "<b>" not in page
    assert "rndlib: <b>its kernel died</b> & gone" in report.table([first, failed])


def test_a_heat_map_has_the_share_of_verdicts_and_the_median_over_seeds(place):
    values = {(1, 0): 0.5, (1, 1): 0.7, (1, 2): 3.0, (2, 0): 1.5, (2, 1): 2.5, (2, 2): 1.1}
    made(
        place,
        lambda cell: values[cell.values["width"], cell.values["seed"]],
        product={"width": [2, 1]},
        seeds=3,
    )
    cells = outcomes(place)
    shares = heatmaps._shares(cells, "width", None, "Z1")
    np.testing.assert_allclose(shares.share, [[2 / 3, 0]])  # In the order of the numbers.
    np.testing.assert_allclose(shares.value, [[0.7, 1.5]])
    ((title, _),) = heatmaps.figures(cells)
    assert title == "width"


def test_every_pair_of_varied_parameters_has_a_heat_map_and_a_gap_where_nothing_ran(place):
    made(place, list=[{"width": 1, "rate": 1}, {"width": 2, "rate": 2}, {"width": 2, "rate": 1, "mode": "raise"}])
    cells = outcomes(place)
    assert [title for title, _ in heatmaps.figures(cells)] == [
        "rate against width",
        "mode against width",
        "mode against rate",
    ]
    shares = heatmaps._shares(cells, "width", "rate", "Z1")
    np.testing.assert_array_equal(shares.share, [[1, 1], [np.nan, 1]])
    assert list(heatmaps.figures(cells[:1])) == []


def test_heat_maps_read_in_grey():
    share = np.array([[0.0, 0.25, 0.5, 0.75, 1.0, np.nan]])
    shares = Shares(share, np.full((1, 6), 0.1))
    figure = verdicts_over(("width", list("abcdef")), None, {"Z1": shares, "Z2": shares})
    assert figure._repr_png_().startswith(b"\x89PNG")
    ax = figure.axes[0]
    (image,) = [child for child in ax.get_children() if isinstance(child, AxesImage)]
    # Relative luminance (ITU-R BT.709) of the colours shown, from dark to light.
    grey = image.to_rgba(share[0, :5])[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(grey) > 0.1).all()
    texts = {text.get_position()[0]: text for text in ax.texts}
    assert sorted(texts) == [0, 1, 2, 3, 4]
    for place, background in enumerate(grey):
        written = 1.0 if texts[place].get_color() == "white" else 0.0
        assert abs(written - background) > 0.4
    (hatched,) = ax.patches
    assert isinstance(hatched, Rectangle)
    assert hatched.get_hatch()
    assert (hatched.get_x(), hatched.get_width()) == (4.5, 1)
