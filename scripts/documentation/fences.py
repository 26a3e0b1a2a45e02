"""Blocks of code in Markdown, and the text around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^\n]*)\n(.*?)^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n\s*\Z")


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its lines, the number of the first, and whether a comment says it is not run."""

    language: str
    code: str
    line: int
    runs: bool


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page. ``<!-- not run: REASON -->`` before one says that, and why, it is only shown."""
    for fence in FENCE.finditer(text):
        code = re.sub(f"^{fence[1]}", "", fence[4], flags=re.MULTILINE)
        line = text.count("\n", 0, fence.start(4)) + 1
        yield Block(fence[3].strip(), code, line, NOT_RUN.search(text, 0, fence.start()) is None)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """A page whose text, not its blocks of code, is changed."""
    parts, end = list[str](), 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])
