"""Docstrings as Markdown: display maths in blocks of its own, doctests as code, roles as names.

The same is done to every page, so that ``$$`` may stand on the line after a sentence, as hosts of repositories have it.
"""

from __future__ import annotations

import re

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from scripts.documentation.fences import outside_code

BEFORE_FENCES = 28  # fences are taken out at 25, line ends made alike at 30

DISPLAY = re.compile(r"^( *)\$\$(.*?)\$\$ ?([.,;:]?)", re.DOTALL | re.MULTILINE)
DOCTEST = re.compile(r"^( *)>>> .*?(?=^ *$|\Z)", re.DOTALL | re.MULTILINE)
ROLE = re.compile(r":(?:mod|func|class|meth|data|attr):`[~.]?([^`]+)`")


def as_markdown(text: str) -> str:
    """Text whose display maths stands alone, whose doctests are fenced and whose roles are code."""
    text = ROLE.sub(r"`\1`", text)
    text = DISPLAY.sub(lambda found: f"\n{found[1]}$$\n{_lines(found[2])}{found[3]}\n{found[1]}$$\n\n", text)
    return DOCTEST.sub(lambda found: f"\n{found[1]}```pycon\n{found[0].rstrip()}\n{found[1]}```\n", text)


def _lines(maths: str) -> str:
    return "\n".join(line.strip() for line in maths.strip().splitlines())


class DocstringExtension(Extension):
    """Markdown that takes docstrings as they are written here."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, the name that Markdown calls
        """Register what is done before anything else."""
        md.preprocessors.register(_Docstrings(md), "attnforge-docstrings", BEFORE_FENCES)


class _Docstrings(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        """Blocks of code are left alone."""
        return outside_code("\n".join(lines), as_markdown).split("\n")
