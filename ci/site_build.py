"""Build the site: `make site`, or

    python ci/site_build.py [FOLDER]

Sphinx renders docs/ together with the stored notebooks, which are not run, and what `site_pages` makes of the stored
numbers. All of that is put together in a temporary folder and rendered into FOLDER (build/site) from scratch: a page
that is gone is gone, and every warning is an error. The result needs no network.
"""

import shutil
import sys
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import site_notebooks
import site_pages
from made import ROOT

from rndlib.paper.evidence import studies
from rndlib.paper.evidence.claims import CLAIMS

NOTEBOOKS = ROOT / "notebooks"


def stage(source: Path) -> None:
    """Put all that Sphinx reads into `source`."""
    shutil.copytree(ROOT / "docs", source)
    shutil.copy(ROOT / "README.md", source)
    for folder in ("notebooks", "downloads", "_generated", "claims"):
        (source / folder).mkdir()
    titles = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        page = site_notebooks.page(path, [claim.id for claim in CLAIMS.values() if claim.notebook == path.stem])
        titles[path.stem] = page.cells[0].source.split("\n")[0].removeprefix("# ").split(":")[0]
        nbformat.write(page, source / "notebooks" / path.name)
        for file in (path, path.with_suffix(".py")):
            shutil.copy(file, source / "downloads")
    verdicts = site_pages.stored(NOTEBOOKS)
    families = site_pages.families(verdicts)
    overview = site_pages.overview(verdicts, titles)
    listed = [f"{name[:2]} {title} </notebooks/{name}>" for name, title in titles.items()]
    pages = {
        "_generated/claims": overview,
        "_generated/notebooks": site_pages.toctree(["/claims/index"])
        + site_pages.toctree(listed, ":caption: Notebooks"),
        "claims/index": f"# Every claim\n\n{overview}\n{site_pages.toctree(families)}",
        "_generated/settings": studies.other_settings(studies.read(NOTEBOOKS, studies.OTHER_SETTINGS)),
        "report": site_pages.report(NOTEBOOKS),
    }
    pages |= {f"claims/{name}": site_pages.claims(name, family, titles[name]) for name, family in families.items()}
    pages |= {f"reference/{name}": site_pages.reference(name, of) for name, of in site_pages.names().items()}
    for name, text in pages.items():
        (source / f"{name}.md").write_text(text, encoding="utf-8")
    # MathJax in one file, drawing SVG: it needs no fonts, which browsers may refuse to a page from a folder.
    (mathjax,) = (f for f in files("sphinx-mathjax-offline") or () if f.name == "tex-svg-full.js")
    shutil.copy(Path(str(mathjax.locate())), source / "_static" / "mathjax.js")


def build(site: Path) -> int:
    """Make the site in `site`, anew; returns the exit code of Sphinx."""
    from sphinx.cmd.build import main  # Here, as it takes a second that the tests of the rest need not wait.

    shutil.rmtree(site, ignore_errors=True)
    with TemporaryDirectory() as folder:
        source, doctrees = Path(folder, "source"), Path(folder, "doctrees")
        stage(source)
        return main(["-b", "html", "-n", "-W", "--keep-going", "-q", "-d", str(doctrees), str(source), str(site)])


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    status = build(target)
    if status == 0:
        print(f"site: open {target / 'index.html'}")
    sys.exit(status)
