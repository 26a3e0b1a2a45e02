"""The site builds without a warning, is complete, and asks nobody else for anything; what makes its pages, in small."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnforge as af
from scripts import tables
from scripts.documentation import hooks, links
from scripts.documentation.__main__ import quiet

CODE, MATHS = r"<(pre|code|script|style)\b.*?</\1>", r"<(?:span|div) class=\"arithmatex\">.*?</(?:span|div)>"
COPIED = r"<div class=[\"']clipboard-copy-txt[\"'].*?</div>"  # a notebook's code, for the button that copies it
TEXT = re.compile(f"{CODE}|{MATHS}|{COPIED}", re.DOTALL)
FETCHED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(?!data:)([^\"]+)\"|<link[^>]*\shref=\"([^\"]+)\"")
STYLED = re.compile(r"(?:url\(|@import )[\"']?([^\"')]+)")
ELSEWHERE = re.compile(r"(?:https?:)?//")


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    """Built once, as ``./run docs --build`` does, into a folder of its own; then looked at."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=links.ROOT, env=quiet(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    constructions_have_pages_with_figures(pages, tmp_path)
    public_names_are_in_the_reference(pages)
    notebooks_are_tutorials(pages)
    nothing_is_fetched_from_elsewhere(pages, tmp_path)
    nothing_is_left_as_markup(pages)


def constructions_have_pages_with_figures(pages: dict[str, str], site: Path) -> None:
    for entry in tables.CONSTRUCTIONS:
        page = pages[f"constructions/{entry.name}.html"]
        assert html.escape(entry.documentation.bound, quote=False) in page
        assert (site / "constructions" / f"{entry.name}.png").stat().st_size > 1000
        assert f'src="{entry.name}.png"' in page


def public_names_are_in_the_reference(pages: dict[str, str]) -> None:
    everything = "".join(text for name, text in pages.items() if name.startswith("api/"))
    names = [f"attnforge.{name}" for name in af.__all__ if name not in af.MODULES]
    names += [f"attnforge.{module}.{name}" for module in af.MODULES for name in getattr(af, module).__all__]
    assert [name for name in names if f'id="{name}"' not in everything] == []


def notebooks_are_tutorials(pages: dict[str, str]) -> None:
    notebooks = [f"notebooks/{path.stem}.html" for path in (links.ROOT / "docs/notebooks").glob("*.ipynb")]
    assert [name for name in notebooks if name not in pages or f'href="{name}"' not in pages["index.html"]] == []


def nothing_is_fetched_from_elsewhere(pages: dict[str, str], site: Path) -> None:
    fetched = {(name, *found) for name, text in pages.items() for found in FETCHED.findall(text)}
    assert len(fetched) > len(pages)
    assert [each for each in fetched if ELSEWHERE.match(each[1] or each[2])] == []
    named = [name for style in site.rglob("*.css") for name in STYLED.findall(style.read_text("utf-8"))]
    assert [name for name in named if ELSEWHERE.match(name)] == []


def nothing_is_left_as_markup(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        article = "".join(re.findall(r"<article.*?</article>", page, re.DOTALL))
        text = html.unescape(re.sub(r"<[^>]+>", "", TEXT.sub("", article)))
        if not name.startswith("notebooks/"):  # there maths stays between dollars until it is shown
            assert "$" not in text, name
        assert not re.search(r":(?:mod|func|class|meth):|>>>|\]\[|^:::", text, re.MULTILINE), name


def test_links_lead_to_where_files_are_in_the_site() -> None:
    text = "[a](../CHANGELOG.md) ![b](images/c.png) [d](limits.md#depth) [e](../attnforge/errors.py) [f](https://x.org)"
    moved = links.for_the_site(text, "docs/scaling.md")
    assert moved.startswith(
        "[a](CHANGELOG.md) ![b](images/c.png) [d](limits.md#depth) [e](attnforge/errors.py.md) [f](https"
    )
    assert links.for_the_site("[a](docs/limits.md)", "CONTRIBUTING.md") == "[a](limits.md)"
    assert links.for_the_site("```\n[a](docs/limits.md)\n```", "CONTRIBUTING.md") == "```\n[a](docs/limits.md)\n```"


def test_what_is_linked_to_from_outside_comes_along() -> None:
    reached = links.from_outside({"docs/new.md": "[a](../experiments/results/README.md) [b](limits.md)"})
    assert {"experiments/results/README.md", "experiments/results/selection/verdict.md"} <= set(reached)
    assert not [path for path in reached if path.startswith("docs/")]


def test_a_folder_of_the_navigation_is_its_pages() -> None:
    nav = [{"A": ["a.md", "b/", "*"]}, {"None": "notebooks/"}, {"Some": "c/"}]
    assert hooks.written_out(nav, ["CHANGELOG.md", "a.md", "b/x.md", "b/x.png", "c/y.ipynb", "d.md"]) == [
        {"A": ["a.md", "b/x.md", "d.md"]},
        {"Some": ["c/y.ipynb"]},
    ]
