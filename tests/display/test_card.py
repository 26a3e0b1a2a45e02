"""Cards: well formed, small, plain without style, and safe from every text."""

import re
from html.parser import HTMLParser

import pytest

from attnforge.display import Card, Grid, Section, shares
from attnforge.display.card import COLOURS, literal, plain

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)> $\\frac{1}{0}$ | `x` \x1b[31m **b** [a](b) _i_'


class Reader(HTMLParser):
    """Elements and text; raises where tags are not balanced."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.text, self.runs = [], [], "", []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.text += data
            self.runs.append((self.open[-1], data))


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


def full(text):
    grid = Grid((text, "b"), [(text, "1")], text)
    section = Section(text, text, {text: text}, [grid], folded=True)
    return Card(text, text, text, {text: text, "lines": (text, "two")}, [grid], [section, Section(text, "fault")])


def test_every_text_is_shown_as_it_is():
    card = read(full(HOSTILE).html())
    assert {tag for tag, _ in card.elements} <= {
        "div", "style", "p", "strong", "span", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary",
    }  # fmt: skip
    assert not [key for _, attributes in card.elements for key in attributes if key not in ("class", "scope")]
    shown = HOSTILE.replace("\x1b", "\\x1b")
    assert card.text.count(shown) == 17


def test_no_typesetter_finds_mathematics():
    """MathJax takes what stands between two signs in one run of text, unless told to ignore the element."""
    card = read(full("a $x$ \\(y\\)").html())
    for tag, run in card.runs:
        if tag != "pre":  # which is not typeset
            assert run in ("$", "\\") or not re.search(r"[$\\]", run)
    assert "mathjax_ignore" in card.elements[0][1]["class"]


def test_markdown_escapes_what_it_would_take_for_its_own():
    words = literal(HOSTILE)
    assert not re.search(r"(?<!\\)[<|`*_$\[\]]", words)
    assert "\x1b" not in words
    for line in full(HOSTILE).markdown().splitlines():
        if line.startswith("|") and "---" not in line:
            assert line.count("| ") - line.count("\\| ") in (2, 3)


def test_long_texts_are_cut():
    assert len(plain("x" * 10_000).text) == len(literal("x" * 10_000)) == 2000


def test_a_badge_has_the_colour_of_its_word():
    def kind(badge):
        return re.search(r"attnforge-badge attnforge-(\w+)", Card("a", badge).html())[1]

    found = [kind(badge) for badge in ("proved", "sampled", "2 faults, 1 note", "healthy, 1 note", "1 warning", "none")]
    assert found == ["good", "poor", "bad", "good", "poor", "plain"]
    assert "attnforge-badge attnforge" not in Card("a").html()


@pytest.mark.parametrize("colour", COLOURS.values())
def test_white_letters_are_readable_on_every_badge(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5


def test_colours_of_the_page_are_kept():
    """Light or dark is the notebook's: only badges set colours of letters and of what is behind them."""
    rules = re.search(r"<style>(.*)</style>", Card("a").html(), re.DOTALL)[1]
    for rule in re.findall(r"([^{}]+)\{([^{}]+)\}", rules):
        if not re.fullmatch(r"\s*\.attnforge-(badge|good|fair|poor|bad|plain)\s*", rule[0]):
            assert not re.search(r"(?<![-\w])color:|background: (?!none)", rule[1]), rule


def test_shares_of_nothing_are_left_open():
    assert shares({"rounding": 0.0}, 0.0).rows == [("rounding", "0", "")]
