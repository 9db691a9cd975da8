"""The site as a reader meets it, in Chromium, from the folder that it is built in."""

import browsing
import pytest
from browsing import DESK, PHONE

pytestmark = [
    pytest.mark.tools,
    pytest.mark.browser,
    pytest.mark.skipif(browsing.CHROMIUM is None, reason="no chromium: install it, as in apt-get install chromium"),
]


@pytest.fixture(scope="module")
def chromium():
    with browsing.browser() as started:
        yield started


@pytest.fixture(scope="module")
def seen(chromium, site):
    """Every page of the site but those of source, looked at once on a phone."""
    page = chromium.new_page(viewport=PHONE)
    files = [file for file in sorted(site.rglob("*.html")) if "_modules" not in file.parts]
    found = {str(file.relative_to(site)): browsing.look(page, file, site) for file in files}
    page.close()
    assert {"index.html", "search.html", "errata.html", "report.html", "notebooks/00_preliminaries.html"} <= set(found)
    return found


@pytest.fixture
def page(chromium):
    opened = chromium.new_page(viewport=DESK)
    yield opened
    opened.close()


OF = {
    "says nothing in the console": lambda page: page.console,
    "asks for nothing outside its folder": lambda page: page.outside,
    "draws its formulas": lambda page: page.formulas,
    "has its images": lambda page: page.images,
    "overflows nowhere in the light": lambda page: page.overflow["light"],
    "overflows nowhere in the dark": lambda page: page.overflow["dark"],
}


@pytest.mark.parametrize("expected", OF)
def test_every_page(seen, expected):
    assert not {name: OF[expected](page) for name, page in seen.items() if OF[expected](page)}


def test_light_is_light_and_dark_is_dark(seen):
    def lightness(colour):
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(", "))) / 3

    for name, page in seen.items():
        assert lightness(page.backgrounds["dark"]) < 60 < 200 < lightness(page.backgrounds["light"]), name


def test_a_verdict_is_on_the_screen_of_a_phone(page, site):
    page.set_viewport_size(PHONE)
    page.goto((site / "notebooks" / "01_ensemble_equivalence.html").as_uri())
    verdict = page.get_by_text("PASS", exact=True).first
    box = verdict.bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= PHONE["width"]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("Theorem 3.4", "02_multihead_chi_squared"),
        ("Corollary 4.3", "04_posterior_sampling"),
        ("RNDBonus", "rndlib.torch"),
    ],
)
def test_search_finds(page, site, words, where):
    page.goto((site / "index.html").as_uri())
    page.fill("input[name=q]", words)
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#search-results a[href*='{where}']")


FOCUSED = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect(), look = getComputedStyle(e);
  const inside = box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight && box.width > 0;
  return {name: e.name || '', href: e.getAttribute('href') || '', inside,
          ring: look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) > 0};
}"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_keyboard_reaches_search_and_navigation_in_sight(chromium, site, size):
    page = chromium.new_page(viewport=size, reduced_motion="reduce")
    page.goto((site / "index.html").as_uri())
    stops = []
    while not stops or ("notebooks/" not in stops[-1]["href"] and len(stops) < 60):
        page.keyboard.press("Tab")
        page.wait_for_timeout(20)
        stops.append(page.evaluate(FOCUSED))
    page.wait_for_timeout(400)  # A drawer slides in.
    assert stops[0]["href"] == "#furo-main-content"
    assert any(stop["name"] == "q" for stop in stops)
    assert not [stop for stop in stops if not stop["ring"]]
    notebook = page.evaluate(FOCUSED)
    assert "notebooks/00_preliminaries.html" in notebook["href"]
    assert notebook["inside"]
    page.keyboard.press("Enter")
    page.wait_for_url("**/notebooks/00_preliminaries.html")
    page.close()
