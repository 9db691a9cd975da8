"""What the site is made of: every notebook, claim, figure and public name, once, and linked to where it comes from."""

import inspect
import re
from importlib import import_module

import browsing
import docstrings
import nbformat
import pytest
import site_build
import site_notebooks
import site_pages

from rndlib.paper.evidence.claims import CLAIMS

pytestmark = [pytest.mark.tools, pytest.mark.torch]
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


def test_no_line_is_taken_for_a_comment(soup):
    assert site_notebooks.kept("a\n% b\n50 % c") == "a\n\\% b\n50 % c"
    for path in site_build.ROOT.glob("docs/**/*.md"):
        assert not re.findall("^%", path.read_text(encoding="utf-8"), flags=re.MULTILINE), path


def test_every_public_name_is_in_the_reference_with_its_source(soup):
    for module, names in site_pages.names().items():
        entries = {entry["id"]: entry for entry in soup(f"reference/{module}.html").find_all("dt", id=True)}
        for name in names:
            entry = entries.get(f"{module}.{name}")
            assert entry, f"{module}.{name}"
            assert entry.find("a", href=re.compile(r"_modules/rndlib")), f"{module}.{name} has no source"
            assert entry.find_next("dd").get_text(strip=True), f"{module}.{name} says nothing"


def documented():
    """Every function and class of the reference with its full name, and the methods that the classes define."""
    for module, names in site_pages.names().items():
        for name in names:
            found = getattr(import_module(module), name)
            yield f"{module}.{name}", found
            for key, value in inspect.getmembers(found, inspect.isfunction) if inspect.isclass(found) else []:
                if key[0] != "_" and key not in site_pages.SEAM and value.__module__.startswith("rndlib"):
                    yield f"{module}.{name}.{key}", value


def test_every_parameter_is_described():
    missing = []
    for name, found in documented():
        lines = docstrings.as_numpydoc((inspect.getdoc(found) or "").splitlines(), found)
        told = {told.strip("* ") for line in lines if not line.startswith(" ") for told in line.split(",")}
        missing += [f"{name}: {parameter}" for parameter in docstrings.parameters(found) if parameter not in told]
    assert not missing, "describe them in their docstrings, or in docs/parameters.toml"


def test_what_is_printed_wrong_is_in_the_errata(soup):
    linked = {a["href"].split("#")[-1] for a in soup("errata.html").find("article").find_all("a", href=True)}
    printed = {site_notebooks.verdict(claim.id) for claim in CLAIMS.values() if "as printed" in claim.control}
    assert len(printed) >= 5
    assert printed <= linked


DOCSTRING = """Says *what*, of `RND` and x_ | y, with Theta_xX and `kappa^1`.

Note: a sentence.

    kappa^l = sigma_w^2 E[phi(u)]

one: the first.
two: the second.

Parameters
----------
heads, bodies: outputs of one body,
    and bodies.
X : array
    Points.

>>> 1 + 1
2"""


def test_docstrings_are_plain_text_with_formulas():
    assert docstrings.as_numpydoc(DOCSTRING.splitlines(), lambda heads, seed: None) == [
        r"Says \*what\*, of `RND` and x\_ \| y, with \ :math:`\Theta _{xX}`\  and :math:`\kappa ^{1}`.",
        "", "Note: a sentence.", "", ".. math::", "", r"    \kappa ^{l} = \sigma _{w}^{2} \mathbb{E}[\phi (u)]", "",
        "one", "    the first.", "two", "    the second.", "",
        "Parameters", "----------", "heads, bodies", "    outputs of one body,", "    and bodies.", "X : array",
        "    Points.", "seed", f"    {docstrings.COMMON['seed']}", "",
        "Examples", "--------", "", ">>> 1 + 1", "2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Theta_XX^-1 Theta_Xx", r"\Theta _{XX}^{-1} \Theta _{Xx}"),
        ("1/2 ||f(X) - y||^2", r"1/2 \|f(X) - y\|^{2}"),
        ("sigma_w / sqrt(n_{l-1}) w^l", r"\sigma _{w} / \sqrt {n_{l-1}} w^{l}"),
        ("g~(x) = J u(x) psi*", r"\tilde g(x) = J u(x) \psi ^*"),
        ("f ~ GP(0, Theta)", r"f \sim GP(0, \Theta )"),
    ],
)
def test_formulas_are_typeset(typed, meant):
    assert docstrings.is_formula(typed)
    assert docstrings.tex(typed) == meant


@pytest.mark.parametrize("code", ["noise_std**2", "sigma_w", "laws.posterior", "bonus(obs)", 'get=("nngp", "ntk")'])
def test_code_is_no_formula(code):
    assert not docstrings.is_formula(code)
