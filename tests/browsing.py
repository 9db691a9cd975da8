"""What a reader with a browser meets on pages in a folder: what they look like, what they ask for, where links lead."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# As root, in a container; and Chromium asks for nothing of its own.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
PHONE: Any = {"width": 390, "height": 800}

# Elements of the text that reach beyond the window, and that nothing within it lets scroll (a text that scrolls as a
# whole overflows). Formulas are looked at as a whole; what is there for screen readers only is out of sight.
_OVERFLOWING = """() => {
  const wide = e => e.getBoundingClientRect().right > innerWidth + 1 && e.getClientRects().length > 0;
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  const boxed = e => !e.matches('article, main') && (scrolls(e) || boxed(e.parentElement));
  const all = [...document.querySelectorAll('article *, main *')];
  const seen = all.filter(e => !e.closest('mjx-assistive-mml') && !(e.closest('svg') && e.tagName !== 'svg'));
  const found = seen.filter(e => wide(e) && !boxed(e)).map(e => e.outerHTML.slice(0, 120));
  const page = document.documentElement.scrollWidth;
  return page > innerWidth ? [`the page is ${page} wide`, ...found] : found;
}"""
_FORMULAS = """async () => {
  if (window.MathJax?.startup) await MathJax.startup.promise;
  return [...document.querySelectorAll('.math')]
    .filter(e => !e.querySelector('mjx-container svg') || e.querySelector('[data-mml-node=merror]'))
    .map(e => e.textContent.slice(0, 120));
}"""
_IMAGES = """async () => {
  const images = [...document.images];
  for (const image of images) image.loading = 'eager';
  await Promise.allSettled(images.map(image => image.decode()));
  return images.filter(image => !image.naturalWidth).map(image => image.src);
}"""


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield started
        finally:
            started.close()


def look(page: Any, file: Path, folder: Path) -> dict[str, list[str]]:
    """Open a file on a page; what is wrong with it, by kind."""
    console: list[str] = []
    asked: list[str] = []

    def said(message: Any) -> None:
        if message.type in ("error", "warning"):
            console.append(message.text)

    listeners = {
        "console": said,
        "pageerror": lambda error: console.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.goto(file.as_uri())
    found = {
        "messages in the console": console,
        "requests to places outside its folder": asked,
        "formulas not drawn": page.evaluate(_FORMULAS),
        "images missing": page.evaluate(_IMAGES),
        "parts wider than the window": page.evaluate(_OVERFLOWING),
    }
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    asked[:] = [url for url in asked if not url.startswith((folder.as_uri() + "/", "data:", "blob:"))]
    return found


@cache
def parsed(path: Path) -> BeautifulSoup:
    """A page as it lies there; read once."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def broken_links(folder: Path) -> list[str]:
    """Links of the pages in a folder that lead to no file, to no anchor, or are no addresses."""
    soups = {path: parsed(path) for path in folder.rglob("*.html")}
    anchors = {path: {str(tag["id"]) for tag in soup.select("[id]")} for path, soup in soups.items()}
    found = []
    for path, soup in soups.items():
        uses = [(tag, str(tag[name])) for name in ("href", "src") for tag in soup.select(f"[{name}]")]
        for tag, link in uses:
            if not _leads_somewhere(path, link, anchors):
                found.append(f"{path.relative_to(folder)}: {tag.name} to {link}")
    return found


def _leads_somewhere(path: Path, link: str, anchors: dict[Path, set[str]]) -> bool:
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    if parts.scheme or parts.netloc:
        host = re.fullmatch(r"[\w.-]+\.\w+", parts.netloc)
        return parts.scheme == "data" or (parts.scheme == "https" and host is not None)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    fragment = unquote(parts.fragment)
    return not fragment or target not in anchors or fragment in anchors[target]
