"""The site as a reader meets it, in Chromium, from the folder that it is built in."""

import browsing
import pytest

pytestmark = [
    pytest.mark.tools,
    pytest.mark.browser,
    pytest.mark.skipif(browsing.CHROMIUM is None, reason="no chromium: install it, as in apt-get install chromium"),
]


@pytest.fixture(scope="module")
def page():
    """Of the size of a phone's."""
    with browsing.browser() as started:
        yield started.new_page(viewport=browsing.PHONE)


@pytest.fixture(scope="module")
def seen(page, site):
    """What is wrong with every page of the site but those of source."""
    files = [file for file in sorted(site.rglob("*.html")) if "_modules" not in file.parts]
    found = {str(file.relative_to(site)): browsing.look(page, file, site) for file in files}
    assert {"index.html", "search.html", "errata.html", "report.html", "notebooks/00_preliminaries.html"} <= set(found)
    return found


def test_no_page_has_a_fault(seen):
    assert not {name: faults for name, faults in seen.items() if any(faults.values())}


def test_a_verdict_is_on_the_screen_of_a_phone(page, site):
    page.goto((site / "notebooks" / "01_ensemble_equivalence.html").as_uri())
    box = page.get_by_text("PASS", exact=True).first.bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= browsing.PHONE["width"]
