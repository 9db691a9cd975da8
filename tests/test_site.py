"""What the site is made of: every notebook, claim, figure and public name, once, and linked to where it comes from."""

import json
import re
import shutil

import browsing
import nbformat
import pytest
import site_docstrings
import site_notebooks
import site_pages

from rndlib.paper.evidence.claims import CLAIMS, NO_CLAIMS
from rndlib.running import costs, notebooks

pytestmark = [pytest.mark.tools, pytest.mark.torch]


@pytest.fixture(scope="module")
def soup(site):
    """A page of the site, read."""
    return lambda name: browsing.parsed(site / name)


def test_all_links_lead_somewhere(site):
    assert not browsing.broken_links(site)


@pytest.mark.parametrize(
    "link",
    ["gone.html", "page.html#gone", "#gone", "http://plain.example", "https://", "https://no host", "file:///root"],
)
def test_a_broken_link_is_found(tmp_path, link):
    good = '<a href="page.html#here">x</a><a href="https://example.org/x">x</a><a href="#">x</a>'
    (tmp_path / "page.html").write_text(f'<p id="here">{good}</p>')
    assert not browsing.broken_links(tmp_path)
    (tmp_path / "planted.html").write_text(f'<p id="there"><a href="{link}">x</a></p>')
    assert browsing.broken_links(tmp_path) == [f"planted.html: a to {link}"]


def test_every_claim_leads_to_its_verdict(soup):
    rows = soup("index.html").find("table").find("tbody").find_all("tr")
    assert [row.find("td").get_text() for row in rows] == list(CLAIMS)
    for row, claim in zip(rows, CLAIMS.values(), strict=True):
        page, anchor = row.find("a")["href"].split("#")
        assert page == f"notebooks/{claim.notebook}.html"
        reached = soup(page).find(id=anchor).find_parent("tr").get_text(" ", strip=True)
        assert reached.startswith(f"{claim.id} {claim.statement}")
        assert reached.endswith("PASS") == row.get_text(" ", strip=True).endswith("PASS")


def test_every_figure_leads_to_its_notebook_and_parameters(soup):
    shown = soup("report.html").find_all("figure")
    for name in notebooks.names():
        page = soup(f"notebooks/{name}.html")
        label = f"parameters-{name[:2]}"
        assert page.find(id=label).find_next("pre").get_text().split(":")[0] == notebooks.find(name).parameters[0].name
        cells = nbformat.read(notebooks.folder() / f"{name}.ipynb", as_version=4).cells
        drawn = [o for c in cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})]
        figures = page.find_all("figure")
        assert len(figures) == len(drawn) > 0
        for figure in figures:
            assert figure.find("figcaption").find("a", href=f"#{label}")
            links = [f"notebooks/{name}.html#{figure['id']}", f"notebooks/{name}.html#{label}"]
            found = [[a["href"] for a in other.find_all("a") if "notebooks/" in a["href"]] for other in shown]
            assert links in found
    fig1 = [a["href"] for a in soup("index.html").find("figcaption").find_all("a", class_="internal")]
    assert fig1 == [f"notebooks/05_numerical_analysis.html#{label}" for label in ("figure-05-fig1", "parameters-05")]


def test_every_figure_says_what_it_shows(soup):
    """In the words of the function that draws it and under the heading where it stands, on both pages alike."""
    told = [image["alt"] for image in soup("report.html").find("article").find_all("img")]
    for name in notebooks.names():
        figures = soup(f"notebooks/{name}.html").find_all("figure")
        for figure in figures:
            alt = figure.find("img")["alt"]
            assert alt in told
            heading = figure.find_previous(["h1", "h2", "h3", "h4"]).get_text().removesuffix("¶").strip()
            heading = re.sub(r"\\[()]?", "", heading)  # mathematics as plain text
            assert alt.endswith(f"In notebook {name[:2]}, under: {heading}")
    first = soup("notebooks/01_ensemble_equivalence.html").find(id="figure-01-fig-e4").find("img")["alt"]
    assert first.startswith("Variance at several test points against training time or noise")


def test_a_figure_that_nothing_here_draws_is_refused(tmp_path):
    notebook = nbformat.read(notebooks.folder() / "05_numerical_analysis.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("figures.discrepancy_against_width(", "drawn_by_hand(")
    nbformat.write(notebook, tmp_path / "05_numerical_analysis.ipynb")
    with pytest.raises(
        ValueError, match=r"shows a figure under 'Fig\. 1: .*' that no function of rndlib\.figures draws"
    ):
        site_notebooks.page(tmp_path / "05_numerical_analysis.ipynb", tmp_path / "figures")


def test_every_notebook_can_be_downloaded_as_it_is_stored(site, soup):
    for name in notebooks.names():
        about = soup(f"notebooks/{name}.html").find("h1").find_next("p")
        for link, suffix in zip(about.find_all("a", download=True), (".ipynb", ".py"), strict=True):
            stored = notebooks.folder() / f"{name}{suffix}"
            assert (site / "notebooks" / link["href"]).read_bytes() == stored.read_bytes()
        assert "as stored" in about.get_text()


def test_the_report_has_what_the_bench_measured(tmp_path):
    machine = {"cpu": "Z80", "cores": 1, "memory_gib": 0.1, "gpu": []}
    about = {"title": "Sorting", "note": "By hand.", "missed": ["Twice as fast."], "quick": False, "checkout": None}
    section = {**about, "hardware": machine, "versions": {"python": "3"}, "rows": [{"seconds": [2.0, 1.0, 3.0]}]}
    assert "Costs" not in site_pages.report([], {}, tmp_path)
    (tmp_path / costs.FILE).write_text(json.dumps({"sections": [section]}), encoding="utf-8")
    text = site_pages.report([], {}, tmp_path)
    assert "\n## Costs\n" in text
    assert "\n### Sorting\n" in text
    assert "| 2 (1 to 3) |" in text


def test_every_public_name_is_in_the_reference(soup):
    for module, names in site_pages.names().items():
        entries = {entry["id"]: entry for entry in soup(f"reference/{module}.html").find_all("dt", id=True)}
        for name in names:
            entry = entries.get(f"{module}.{name}")
            assert entry, f"{module}.{name}"
            assert entry.find_next("dd").get_text(strip=True), f"{module}.{name} says nothing"
    import rndlib
    import rndlib.torch

    documented = site_pages.names()
    assert {*documented["rndlib"], "kernels", "laws"} == set(rndlib.__all__)
    assert documented["rndlib.torch"] == rndlib.torch.__all__
    assert {"kernel", "diagonal"} <= set(documented["rndlib.theory.kernels"])


def test_what_is_printed_wrong_is_in_the_errata(soup):
    linked = {a["href"].split("#")[-1] for a in soup("errata.html").find("article").find_all("a", href=True)}
    printed = {site_notebooks.verdict(claim.id) for claim in CLAIMS.values() if "as printed" in claim.control}
    assert len(printed) >= 5
    assert printed <= linked


def test_the_report_has_every_number(soup):
    (table, *_) = soup("report.html").find_all("table")
    assert [row.find("td").get_text() for row in table.find("tbody").find_all("tr")] == list(CLAIMS)
    for verdict in site_pages.stored(notebooks.folder()):
        assert verdict.claim.statistic in table.get_text()


def test_the_site_is_small(site):
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < 25 * 2**20


def test_a_claim_without_a_stored_verdict_is_refused(tmp_path):
    content = json.loads((notebooks.folder() / "ledger.json").read_text(encoding="utf-8"))
    del content["05_numerical_analysis"]["N3"]
    (tmp_path / "ledger.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match="differ in N3: make reproduce, make store"):
        site_pages.stored(tmp_path)


def test_a_claim_that_fails_is_said_to_fail(tmp_path):
    content = json.loads((notebooks.folder() / "ledger.json").read_text(encoding="utf-8"))
    content["05_numerical_analysis"]["N3"]["value"] = 0.3
    (tmp_path / "ledger.json").write_text(json.dumps(content), encoding="utf-8")
    verdicts = site_pages.stored(tmp_path)
    assert site_pages.summary(verdicts) == f"Of {len(CLAIMS)} claims, 1 do not hold: N3."
    assert site_pages.claims(verdicts).count("FAIL") == 1


def test_a_notebook_without_verdicts_or_names_is_refused(tmp_path):
    stored = notebooks.folder() / "05_numerical_analysis.ipynb"
    shutil.copy(stored, tmp_path)
    notebook = nbformat.read(stored, as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output["data"]["text/plain"] = "<Figure size 700x320 with 2 Axes>"
    nbformat.write(notebook, tmp_path / "unnamed.ipynb")
    with pytest.raises(ValueError, match="without a name"):
        site_notebooks.page(tmp_path / "unnamed.ipynb", tmp_path / "figures")
    for cell in notebook.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell["outputs"] = []
    nbformat.write(notebook, tmp_path / "silent.ipynb")
    with pytest.raises(ValueError, match="no verdict"):
        site_notebooks.page(tmp_path / "silent.ipynb", tmp_path / "figures")
    comparing = tmp_path / f"{next(iter(NO_CLAIMS))}.ipynb"
    shutil.copy(tmp_path / "silent.ipynb", comparing)
    assert site_notebooks.page(comparing, tmp_path / "figures")[1] == {}


DOCSTRING = """Says *what*, of `RND` and x_ | y.

Note: a sentence.

    kappa = 1 * 1

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


def test_docstrings_are_plain_text():
    assert site_docstrings.as_numpydoc(DOCSTRING.splitlines()) == [
        r"Says \*what\*, of `RND` and x\_ \| y.",
        "",
        "Note: a sentence.",
        "",
        "::",
        "",
        "    kappa = 1 * 1",
        "",
        "one",
        "    the first.",
        "two",
        "    the second.",
        "",
        "Parameters",
        "----------",
        "heads, bodies",
        "    outputs of one body,",
        "    and bodies.",
        "X : array",
        "    Points.",
        "",
        "Examples",
        "--------",
        "",
        ">>> 1 + 1",
        "2",
    ]
