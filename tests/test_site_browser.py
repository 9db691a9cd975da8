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
    """Every page of the site, looked at once on a phone."""
    page = chromium.new_page(viewport=PHONE)
    found = {str(file.relative_to(site)): browsing.look(page, file, site) for file in sorted(site.rglob("*.html"))}
    page.close()
    assert {"index.html", "search.html", "errata.html", "report.html", "notebooks/00_preliminaries.html"} <= set(found)
    return found


@pytest.fixture
def page(chromium):
    opened = chromium.new_page(viewport=DESK)
    yield opened
    opened.close()


def wrong(seen, of):
    return {name: of(page) for name, page in seen.items() if of(page)}


def test_no_page_complains(seen):
    assert not wrong(seen, lambda page: page.console)


def test_no_page_asks_for_anything_outside_its_folder(seen):
    assert not wrong(seen, lambda page: page.outside)


def test_formulas_are_drawn(seen):
    assert not wrong(seen, lambda page: page.formulas)


def test_images_are_there(seen):
    assert not wrong(seen, lambda page: page.images)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_on_a_phone(seen, scheme):
    assert not wrong(seen, lambda page: page.overflow[scheme])


def test_light_is_light_and_dark_is_dark(seen):
    def lightness(colour):
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(", "))) / 3

    for name, page in seen.items():
        assert lightness(page.backgrounds["dark"]) < 60 < 200 < lightness(page.backgrounds["light"]), name


PLANTED = {
    "console": ("<script>console.error('planted')</script>", lambda page: page.console),
    "exception": ("<script>throw new Error('planted')</script>", lambda page: page.console),
    "outside": ('<img alt="" src="../elsewhere.png">', lambda page: page.outside),
    "image": ('<img alt="" src="missing.png">', lambda page: page.images),
    "formula": ('<span class="math">\\(x^2\\)</span>', lambda page: page.formulas),
    "overflow": ('<div style="width: 391px">x</div>', lambda page: page.overflow["light"]),
    "scrolled": ('<p style="width: 999px">x</p>', lambda page: page.overflow["light"]),
    "clipped": (
        '<div style="overflow: hidden"><p style="width: 999px">x</p></div>',
        lambda page: page.overflow["dark"],
    ),
}


@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_planted_is_found(chromium, tmp_path, plant):
    text, of = PLANTED[plant]
    head = '<!doctype html><meta name="viewport" content="width=device-width"><style>body { overflow-x: auto }</style>'
    (tmp_path / "planted.html").write_text(f"{head}<main>{text}</main>")
    scrolling = '<main><div style="overflow-x: auto"><p style="width: 999px">x</p></div></main>'
    (tmp_path / "clean.html").write_text(head + scrolling)
    page = chromium.new_page(viewport=PHONE)
    assert of(browsing.look(page, tmp_path / "planted.html", tmp_path))
    assert not of(browsing.look(page, tmp_path / "clean.html", tmp_path))
    page.close()


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


def test_search_finds_nothing_where_there_is_nothing(page, site):
    page.goto(f"{(site / 'search.html').as_uri()}?q=zygomorphic")
    page.wait_for_function("() => /did not match any/.test(document.querySelector('#search-results').textContent)")
    assert page.locator("#search-results li").count() == 0


FOCUSED = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect(), look = getComputedStyle(e);
  const inside = box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight && box.width > 0;
  return {class: e.className, name: e.name || '', href: e.getAttribute('href') || '', inside,
          ring: look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) > 0};
}"""


def tabbed(page, stops=60):
    """What has the focus after each press of the tab key."""
    for _ in range(stops):
        page.keyboard.press("Tab")
        page.wait_for_timeout(20)
        yield page.evaluate(FOCUSED)


def test_the_first_stop_skips_to_the_content(page, site):
    page.goto((site / "index.html").as_uri())
    first = next(tabbed(page))
    assert first["href"] == "#furo-main-content"
    page.wait_for_timeout(400)  # It slides in.
    assert page.evaluate(FOCUSED)["inside"]
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.querySelector(':target')?.id") == "furo-main-content"
    after = next(tabbed(page))
    assert page.evaluate("() => document.activeElement.closest('#furo-main-content') !== null"), after


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_keyboard_reaches_search_and_navigation_in_sight(chromium, site, size):
    page = chromium.new_page(viewport=size, reduced_motion="reduce")
    page.goto((site / "index.html").as_uri())
    stops = []
    for stop in tabbed(page):
        stops.append(stop)
        if "notebooks/" in stop["href"]:
            break
    page.wait_for_timeout(400)  # A drawer slides in.
    search = next(stop for stop in stops if stop["name"] == "q")
    notebook = page.evaluate(FOCUSED)
    assert "notebooks/00_preliminaries.html" in notebook["href"]
    assert notebook["inside"]
    assert notebook["ring"]
    assert stops.index(search) < len(stops) - 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/notebooks/00_preliminaries.html")
    page.close()


def test_every_stop_has_a_ring(page, site):
    page.goto((site / "index.html").as_uri())
    without = [stop for stop in tabbed(page, 30) if not stop["ring"]]
    assert not without
