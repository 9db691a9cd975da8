"""The site: every notebook, claim, figure and public name, once, linked to where it comes from; and in Chromium."""

import re

import browsing
import nbformat
import pytest
import site_build
import site_notebooks
import site_pages

from rndlib.paper.evidence.claims import CLAIMS

pytestmark = [pytest.mark.tools, pytest.mark.torch, pytest.mark.check]
NOTEBOOKS = sorted(site_build.NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture(scope="module")
def soup(site):
    """A page of the site, read."""
    return lambda name: browsing.parsed(site / name)


def test_all_links_lead_somewhere(site):
    assert not browsing.broken_links(site)


def test_no_page_names_a_place_on_this_machine(site):
    assert not [page for page in site.rglob("*.html") if str(site_build.ROOT) in page.read_text(encoding="utf-8")]


def test_the_paper_is_linked_from_every_page(site, soup):
    for page in site.rglob("*.html"):
        assert soup(page.relative_to(site)).find("a", href="https://arxiv.org/abs/2602.19964"), page


def test_every_claim_has_its_numbers_and_leads_to_its_verdict(soup):
    listed = soup("claims/index.html").find_all("a", href=re.compile("#claim-"))
    assert [link.get_text() for link in listed] == list(CLAIMS)
    for link, claim in zip(listed, CLAIMS.values(), strict=True):
        page, anchor = link["href"].split("#")
        assert page == f"{claim.notebook}.html"
        section = soup(f"claims/{page}").find("section", id=anchor)
        for text in (claim.statement, claim.statistic, claim.source, claim.control, claim.near):
            assert text in section.get_text()
        verdict = section.find("a", href=re.compile("#verdict-"))
        page, anchor = verdict["href"].split("#")
        reached = soup(f"claims/{page}".replace("claims/../", "")).find(id=anchor).find_parent("tr").get_text()
        assert claim.id in reached
        assert verdict.get_text() in reached


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem[:2])
def test_a_notebook_is_there_with_its_figures_and_downloads(site, soup, path):
    page, label = soup(f"notebooks/{path.stem}.html"), f"parameters-{path.stem[:2]}"
    assert page.find(id=label).find_next("pre")
    drawn = [
        output
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    figures = page.find_all("figure")
    assert len(figures) == len(drawn) > 0
    for figure in figures:
        assert figure.find("figcaption").find("a", href=f"#{label}")
        assert figure.find("img")["alt"].startswith(f"Notebook {path.stem[:2]}, ")
    for link, suffix in zip(page.find_all("a", download=True), (".ipynb", ".py"), strict=True):
        assert (site / "notebooks" / link["href"]).read_bytes() == path.with_suffix(suffix).read_bytes()


def test_every_public_name_is_in_the_reference_with_its_source(soup):
    for module, names in site_pages.names().items():
        entries = {entry["id"]: entry for entry in soup(f"reference/{module}.html").find_all("dt", id=True)}
        for name in names:
            entry = entries.get(f"{module}.{name}")
            assert entry, f"{module}.{name}"
            assert entry.find("a", href=re.compile(r"_modules/rndlib")), f"{module}.{name} has no source"
            assert entry.find_next("dd").get_text(strip=True), f"{module}.{name} says nothing"


def test_what_is_printed_wrong_is_in_the_errata(soup):
    linked = {a["href"].split("#")[-1] for a in soup("errata.html").find("article").find_all("a", href=True)}
    printed = {site_notebooks.verdict(claim.id) for claim in CLAIMS.values() if "as printed" in claim.control}
    assert len(printed) >= 5
    assert printed <= linked


@pytest.fixture(scope="module")
def page():
    """Of the size of a phone's."""
    if browsing.CHROMIUM is None:
        pytest.skip("no chromium: install it, as in apt-get install chromium")
    with browsing.browser() as started:
        yield started.new_page(viewport=browsing.PHONE)


@pytest.mark.browser
def test_no_page_but_those_of_source_has_a_fault(page, site):
    files = [file for file in sorted(site.rglob("*.html")) if "_modules" not in file.parts]
    found = {str(file.relative_to(site)): browsing.look(page, file, site) for file in files}
    assert {"index.html", "search.html", "errata.html", "report.html", "notebooks/00_preliminaries.html"} <= set(found)
    assert not {name: faults for name, faults in found.items() if any(faults.values())}


@pytest.mark.browser
def test_a_verdict_is_on_the_screen_of_a_phone(page, site):
    page.goto((site / "notebooks" / "01_ensemble_equivalence.html").as_uri())
    box = page.get_by_text("PASS", exact=True).first.bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= browsing.PHONE["width"]
