"""What mkdocs calls while it builds the site, see ``mkdocs.yml``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # mkdocs loads this file by its path

from scripts.documentation import records, reference
from scripts.documentation.docstrings import DocstringExtension
from scripts.documentation.links import (
    AS_THEY_ARE,
    ATTRIBUTE,
    ELSEWHERE,
    PAGES,
    ROOT,
    as_page,
    file_path,
    for_the_site,
    from_outside,
    site_path,
)

MEASURED = "benchmarks/results"
AT_THE_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md")
LISTS = ("choosing.md", "theorems.md")


def on_config(config: Any) -> Any:
    """Docstrings are read as they are written here."""
    config.markdown_extensions.append(DocstringExtension())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what is made and what lies elsewhere in the checkout, and write folders of the navigation out."""
    from mkdocs.structure.files import File

    made = _made()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    for path in _from_the_checkout(made):
        as_it_is = path.endswith((*PAGES, *AS_THEY_ARE))
        shown = {"abs_src_path": str(ROOT / path)} if as_it_is else {"content": as_page(path)}
        files.append(File.generated(config, site_path(path), **shown))
    config.nav = written_out(config.nav, sorted(file.src_uri for file in files))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links lead to pages of the site, and names of constructions to theirs where these are listed."""
    if page.file.src_uri in LISTS:
        markdown = records.with_links(markdown)
    return for_the_site(markdown, file_path(page.file.src_uri) or f"docs/{page.file.src_uri}")


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Notebooks come as HTML, with the links that their authors wrote."""
    return notebook_links(html, f"docs/{page.file.src_uri}") if page.file.src_uri.endswith(".ipynb") else html


def notebook_links(html: str, path: str) -> str:
    """A notebook, the file ``path``, whose links lead to pages of the site as they are built."""
    moved = for_the_site(html, path, ATTRIBUTE)
    return ATTRIBUTE.sub(lambda found: f"{found[1]}{_as_html(found[2])}{found[3] or ''}{found[4]}", moved)


def _as_html(link: str) -> str:
    page = link.endswith(PAGES) and not ELSEWHERE.match(link)
    return link.rpartition(".")[0] + ".html" if page else link


def _made() -> dict[str, str | bytes]:
    """Pages and figures that are no files, by their paths in the site."""
    made: dict[str, str | bytes] = dict(reference.pages())
    for page in records.pages():
        made |= {page.path: page.text, **page.figures}
    return made


def _from_the_checkout(made: Mapping[str, str | bytes]) -> list[str]:
    """Files outside ``docs/`` to which pages lead."""
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / MEASURED).glob("*.md"), *(ROOT / name for name in AT_THE_ROOT)]
    pages = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    return from_outside(pages | {f"docs/{path}": text for path, text in made.items() if isinstance(text, str)})


def written_out(nav: list[Any], paths: list[str]) -> list[Any]:
    """Navigation in which a folder, ``name/``, is the pages it holds, and ``*`` those beside it that nothing names.

    A section without pages is left out.
    """
    pages = [path for path in paths if path.endswith(PAGES)]
    rest = [path for path in pages if "/" not in path and path not in AT_THE_ROOT and path not in _named(nav)]

    def filled(items: list[Any]) -> list[Any]:
        done: list[Any] = []
        for item in items:
            title, value = next(iter(item.items())) if isinstance(item, dict) else (None, item)
            if isinstance(value, list):
                held = filled(value)
            elif value == "*":
                held = rest
            elif value.endswith("/"):
                held = [path for path in pages if path.startswith(value)]
            else:
                done.append(item)
                continue
            done += [{title: held}] if title and held else held
        return done

    return filled(nav)


def _named(nav: list[Any]) -> set[str]:
    """The pages that a navigation names."""
    values = [value for item in nav for value in (item.values() if isinstance(item, dict) else [item])]
    return {name for value in values for name in (_named(value) if isinstance(value, list) else [value])}
