"""Links of the documentation, which lead from file to file of the checkout, as links of the site.

A page of ``docs/`` keeps its path in the site; a file from elsewhere keeps that in the checkout. What a page links to
is shown: Markdown as a page, text as a page of code, figures and tables of numbers as they are.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from scripts.documentation.fences import FENCE, outside_code

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
PAGES = (".md", ".ipynb")
AS_THEY_ARE = (".csv", ".json", ".png", ".svg", ".pdf")
LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".cff": "yaml", ".yml": "yaml"}

LINK = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?(\))")
ATTRIBUTE = re.compile(r'((?:href|src)=")([^"#]*)(#[^"]*)?(")')
ELSEWHERE = re.compile(r"[a-z]+:|/|$")


def site_path(path: str) -> str:
    """Where a file of the checkout is in the sources of the site."""
    if path == "README.md":
        return "index.md"  # the site's first page says the same
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return path if path.endswith((*PAGES, *AS_THEY_ARE)) else f"{path}.md"


def file_path(uri: str) -> str | None:
    """The file of the checkout that a source of the site shows; None where it is made."""
    for path in (DOCS + uri, uri, uri.removesuffix(".md")):
        if (ROOT / path).is_file():
            return path
    return None


def for_the_site(text: str, path: str, link: re.Pattern[str] = LINK) -> str:
    """A page, the file ``path`` of the checkout, with links as they are in the site; code is left alone."""
    here = posixpath.dirname(site_path(path))

    def moved(found: re.Match[str]) -> str:
        if ELSEWHERE.match(found[2]) or (target := _resolved(path, found[2])) is None:
            return found[0]
        return f"{found[1]}{posixpath.relpath(site_path(target), here or '.')}{found[3] or ''}{found[4]}"

    return outside_code(text, lambda part: link.sub(moved, part))


def linked(text: str, path: str) -> list[str]:
    """The files of the checkout that a page, itself the file ``path``, links to."""
    links = [found[2] for found in LINK.finditer(FENCE.sub("", text)) if not ELSEWHERE.match(found[2])]
    return [target for link in links if (target := _resolved(path, link)) is not None]


def from_outside(pages: Mapping[str, str]) -> list[str]:
    """The files outside ``docs/`` that pages link to, those that these link to, and so on; pages by path and text."""
    reached = set(pages)
    waiting = [target for path, text in pages.items() for target in linked(text, path)]
    while waiting:
        path = waiting.pop()
        if path not in reached and path.endswith(".md"):
            waiting += linked((ROOT / path).read_text(encoding="utf-8"), path)
        reached.add(path)
    return sorted(path for path in reached if not path.startswith(DOCS) and path != "README.md")


def as_page(path: str) -> str:
    """A text file of the checkout as a page of code."""
    fence = "`" * 4  # docstrings may hold three
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"# `{path}`\n\n{fence}{language}\n{(ROOT / path).read_text(encoding='utf-8')}{fence}\n"


def _resolved(path: str, link: str) -> str | None:
    """The file of the checkout that a link of the file ``path`` leads to."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target if (ROOT / target).is_file() else None
