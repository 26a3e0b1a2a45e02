"""A card: what a notebook shows in place of a long text, as HTML and as Markdown.

Words may be a user's: they are escaped, and never typeset as mathematics. Colours are those of the notebook, light or
dark, but for badges, which bring their own; nothing is said by colour alone. Without its style a card is plain tables.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnforge.display.markup import Markup, Part, element, joined, printable, stylesheet

Fact = str | tuple[str, ...]  # of one line, or of several aligned ones

COLOURS = {  # behind white letters, with a contrast of at least 4.5
    "good": "#00734f",
    "fair": "#00639c",
    "poor": "#b34a00",
    "bad": "#b3261e",
    "plain": "#5f6368",
}
KINDS = {
    **dict.fromkeys(("proved", "healthy", "confirmed"), "good"),
    **dict.fromkeys(("conditional",), "fair"),
    **dict.fromkeys(("sampled", "warning", "undecided", "unprovable"), "poor"),
    **dict.fromkeys(("fault", "rejected"), "bad"),
}
RULES = """
.attnforge-card { max-width: 62em; overflow-x: auto; overflow-wrap: anywhere; line-height: 1.45; }
.attnforge-card > p { margin: .2em 0 .5em; }
.attnforge-card.attnforge-card table { border-collapse: collapse; margin: .3em 0; width: auto; }
.attnforge-card.attnforge-card table :is(th, td) { padding: .15em 1.2em .15em .3em; text-align: left;
  vertical-align: top; border: 0; border-bottom: 1px solid rgba(128, 128, 128, .3); overflow-wrap: normal; }
.attnforge-card.attnforge-card table th { font-weight: 500; opacity: .75; white-space: nowrap; }
.attnforge-card pre { margin: 0; font: .92em monospace; background: none; overflow-x: auto; white-space: pre; }
.attnforge-card summary { cursor: pointer; opacity: .75; }
.attnforge-badge { display: inline-block; padding: 0 .55em; border-radius: .35em; color: #fff; font-weight: 600; }
""" + "".join(f".attnforge-{kind} {{ background: {colour}; }}\n" for kind, colour in COLOURS.items())

TYPESET = re.compile(r"([$\\])")  # where mathematics may begin, for those who typeset notebooks
SPECIAL = re.compile(r"([\\`*_{}\[\]|~<>&$])")  # in the middle of a line of Markdown
LONGEST = 2000  # characters of one text


@dataclass(frozen=True)
class Grid:
    """A table: names of the columns, rows of cells, and what to say below of rows that were left out."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a card, with a badge and words above facts and tables; folded away where that is asked for."""

    title: str
    badge: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    grids: Sequence[Grid] = ()
    folded: bool = False


@dataclass(frozen=True)
class Card:
    r"""Name and badge, a statement, facts in rows, tables, and further sections.

    >>> card = Card("Certificate", "proved", "|net(x) - f(x)| <= 0.1", {"dtype": "float64"})
    >>> print(card.markdown())
    **Certificate** **proved** \|net(x) - f(x)\| \<= 0.1
    <BLANKLINE>
    | | |
    |---|---|
    | dtype | float64 |
    """

    title: str
    badge: str = ""
    statement: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    grids: Sequence[Grid] = ()
    sections: Sequence[Section] = ()

    def html(self) -> str:
        """The card as HTML, in an element that brings its style."""
        words = [element("strong", plain(self.title)), *_badge(self.badge), plain(self.statement)]
        body = [*_facts(self.facts), *map(_grid, self.grids), *map(_section, self.sections)]
        untypeset = "attnforge-card tex2jax_ignore mathjax_ignore"
        return element("div", stylesheet(RULES), element("p", *_spaced(words)), *body, class_=untypeset).text

    def markdown(self) -> str:
        """The card as Markdown."""
        head = [_bold(self.title), *([_bold(self.badge)] if self.badge else []), literal(self.statement)]
        parts = [" ".join(word for word in head if word), *_markdown_body(self.facts, self.grids)]
        for section in self.sections:
            words = [section.badge, section.title] if section.badge else [section.title]
            parts += [" ".join(map(_bold, words)), *_markdown_body(section.facts, section.grids)]
        return "\n\n".join(parts)


class Displayed(ABC):
    """What notebooks show as a card; terminals show ``repr``, and ``print`` the whole text."""

    @abstractmethod
    def _card(self) -> Card:
        """The card."""

    def _repr_html_(self) -> str:
        return self._card().html()

    def _repr_markdown_(self) -> str:
        return self._card().markdown()


def shares(parts: Mapping[str, float], total: float) -> Grid:
    """The parts of a bound, and what share of it each is.

    >>> shares({"fit": 3.0, "rounding": 1.0}, 4.0).rows
    [('fit', '3', '75 %'), ('rounding', '1', '25 %')]
    """
    rows = [(name, f"{value:.3g}", f"{100 * value / total:.0f} %" if total else "") for name, value in parts.items()]
    return Grid(("part of the bound", "size", "share"), rows)


def plain(text: str) -> Markup:
    """The text as it is; characters at which mathematics might begin stand alone, where no typesetter takes them.

    >>> plain("a < $b$").text
    'a &lt; <span>$</span>b<span>$</span>'
    """
    words = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    parts = TYPESET.split(words)
    return joined(*(element("span", part) if TYPESET.fullmatch(part) else part for part in parts))


def literal(text: str) -> str:
    r"""The text on one line, for Markdown that shows it as it is.

    >>> print(literal("a*b <i>"))
    a\*b \<i\>
    """
    words = " ".join(printable(text).split())
    return SPECIAL.sub(r"\\\1", words if len(words) <= LONGEST else words[: LONGEST - 1] + "…")


def _bold(text: str) -> str:
    return f"**{literal(text)}**"


def _badge(word: str) -> list[Markup]:
    """A word on its colour; of several, as in "2 faults, 1 note", on that of the first."""
    kind = KINDS.get(word.split(",")[0].split(" ")[-1].removesuffix("s"), "plain")
    return [element("span", plain(word), class_=f"attnforge-badge attnforge-{kind}")] if word else []


def _spaced(parts: Sequence[Markup]) -> list[Part]:
    return [each for part in parts for each in (part, " ")]


def _facts(facts: Mapping[str, Fact]) -> list[Markup]:
    rows = [
        element("tr", element("th", plain(label), scope="row"), element("td", _value(value)))
        for label, value in facts.items()
    ]
    return [element("table", *rows)] if rows else []


def _value(value: Fact) -> Markup:
    return plain(value) if isinstance(value, str) else element("pre", "\n".join(value))


def _grid(grid: Grid) -> Markup:
    head = element("tr", *(element("th", plain(name)) for name in grid.columns))
    rows = [element("tr", *(element("td", plain(cell)) for cell in row)) for row in grid.rows]
    table = element("table", element("thead", head), element("tbody", *rows))
    return joined(table, *([element("p", plain(grid.note))] if grid.note else []))


def _section(section: Section) -> Markup:
    title = _spaced([*_badge(section.badge), element("strong", plain(section.title))])
    body = [*_facts(section.facts), *map(_grid, section.grids)]
    if section.folded:
        return element("details", element("summary", plain(section.title), *_badge(section.badge)), *body)
    return joined(element("p", *title), *body)


def _markdown_body(facts: Mapping[str, Fact], grids: Sequence[Grid]) -> list[str]:
    texts = {label: value if isinstance(value, str) else "; ".join(value) for label, value in facts.items()}
    lines = [f"| {literal(label)} | {literal(text)} |" for label, text in texts.items()]
    found = ["\n".join(["| | |", "|---|---|", *lines])] if lines else []
    for grid in grids:
        rows = [grid.columns, *grid.rows]
        listed = ["| " + " | ".join(literal(cell) for cell in row) + " |" for row in rows]
        found.append("\n".join([listed[0], "|" + "---|" * len(grid.columns), *listed[1:]]))
        found += [literal(grid.note)] if grid.note else []
    return found
