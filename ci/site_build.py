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

from rndlib.paper.evidence import studies

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"


def stage(source: Path) -> None:
    """Put all that Sphinx reads into `source`."""
    shutil.copytree(ROOT / "docs", source)
    shutil.copy(ROOT / "README.md", source)
    for folder in ("notebooks", "downloads", "_generated"):
        (source / folder).mkdir()
    figures: dict[str, dict[str, site_notebooks.Drawn]] = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        page, figures[path.stem] = site_notebooks.page(path, source / "figures")
        nbformat.write(page, source / "notebooks" / path.name)
        for file in (path, path.with_suffix(".py")):
            shutil.copy(file, source / "downloads")
    verdicts = site_pages.stored(NOTEBOOKS)
    generated = {
        "claims": f"{site_pages.summary(verdicts)}\n\n{site_pages.claims(verdicts)}\n",
        "notebooks": site_pages.contents(list(figures)),
        "settings": studies.other_settings(studies.read(NOTEBOOKS, studies.OTHER_SETTINGS)),
    }
    for name, text in generated.items():
        (source / "_generated" / f"{name}.md").write_text(text, encoding="utf-8")
    (source / "report.md").write_text(site_pages.report(verdicts, figures, NOTEBOOKS), encoding="utf-8")
    for name, text in site_pages.reference().items():
        (source / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    shutil.copy(mathjax(), source / "_static" / "mathjax.js")


def mathjax() -> Path:
    """MathJax in one file, drawing SVG: it needs no fonts, which browsers may refuse to a page from a folder."""
    (found,) = (f for f in files("sphinx-mathjax-offline") or () if f.name == "tex-svg-full.js")
    return Path(str(found.locate()))


def build(site: Path) -> int:
    """Make the site in `site`, anew; returns the exit code of Sphinx."""
    from sphinx.cmd.build import main  # Here, as it takes a second that the tests of the rest need not wait.

    shutil.rmtree(site, ignore_errors=True)
    with TemporaryDirectory() as folder:
        source, doctrees = Path(folder, "source"), Path(folder, "doctrees")
        stage(source)
        return main(["-b", "html", "-n", "-W", "--keep-going", "-q", "-d", str(doctrees), str(source), str(site)])


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    status = build(target.resolve())
    if status == 0:
        print(f"site: open {target / 'index.html'}")
    sys.exit(status)
