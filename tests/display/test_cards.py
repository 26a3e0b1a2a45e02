"""What notebooks show: cards that say what they are about, in few bytes, well formed, with every text escaped."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

import attnforge as af
from attnforge import programs
from tests.catalogue import network

HOSTILE = (
    '<script>alert(1)</script>"><img src=x onerror=alert(2)> $\\frac{1}{0}$ \\(y\\) | `x` \x1b[31m **b** [a](b) _i_'
)
X = np.array([[0.5, -0.2], [0.1, 0.9], [-0.7, 0.3], [0.2, 0.2]])
CARDS = {  # what it is, and words that must be on its card
    "net": (lambda: network("sine"), ["proved", "sin(3*x)", "x in [-1, 1]", "1 head", "fit", "tensor_grid"]),
    "certificate": (lambda: network("sine").certificate, ["proved", "|net(x) - f(x)| <= ", "[-1, 1]", "float64"]),
    "graph's certificate": (lambda: network("graph").certificate, ["registers", "r[", "sensitivity"]),
    "sampled": (lambda: network("cell averages"), ["sampled", "no error bound is proved"]),
    "in context": (lambda: lasso(), ["no certificate", "l1 0.05", "20 steps"]),
    "prompt": (lambda: lasso().certify(X, X @ [0.5, -0.3]), ["on this prompt", "contracts by", "minimiser"]),
    "function prompt": (lambda: af.in_context.function_prompt("x^2", {"x": (0, 1)}, tol=1e-2)[1], ["tokens", "proved"]),
    "program": (lambda: program(), ["proved", "every sequence of 1 to 8 tokens", "0 MLPs"]),
    "program's certificate": (lambda: program().certificate, ["proved", "margin", "leakage"]),
    "trace": (lambda: program().trace(list("ab")), ["register", "largest error"]),
    "diagnosis": (
        lambda: af.diagnose(af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=9, sharpness=0.5)),
        ["1 fault", "uniform attention", "cause", "remedy", "eff. keys"],
    ),
    "measurement": (lambda: af.measure(network("sine"), points=200), ["not a bound", "root mean square"]),
    "attack": (lambda: af.attack(network("sine"), seconds=None, evaluations=2000), ["not a bound", "starts"]),
    "optimality": (lambda: af.optimality(network("sine")), ["proved", "1 is optimal"]),
    "sweep": (lambda: af.sweep("x", {"x": (0, 1)}, anchors=[3, 4], construction="tensor_grid"), ["anchors", "error"]),
    "zoo": (lambda: af.zoo.entries, ["lorenz", "kind", "keys"]),
    "network": (lambda: network("sine").network, ["(1, 1) tokens", "attention"]),
}


@cache
def lasso():
    return af.in_context.Lasso(alpha=0.05, steps=20, learning_rate=0.5).build(features=2, examples=4)


@cache
def program():
    return programs.compile(programs.library["reverse"], max_length=8)


class Reader(HTMLParser):
    """Elements and text; raises where tags are not balanced."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.text, self.runs = [], [], "", []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style":
            self.text += data
            self.runs.append((self.open[-1], data))


@pytest.mark.parametrize("name", CARDS)
def test_a_card_says_what_it_is_about(name):
    make, words = CARDS[name]
    found = make()
    html = found._repr_html_()
    text = Reader(html).text
    assert [word for word in words if word not in text] == []
    assert len(html) < (8000 if name != "zoo" else 30_000)
    first = repr(found)
    assert len(first) < 500, "a line or two of a terminal"
    assert "array(" not in first


def hostile():
    """A network, its certificate and a trace whose words are markup, wherever they have words of their own."""
    net = network("sine")
    words = {"assumptions": (HOSTILE,), "parts": {HOSTILE: 1e-3}}
    net = replace(net, construction=HOSTILE, certificate=replace(net.certificate, **words))
    told = programs.compile(programs.tokens, vocabulary=[HOSTILE, "$x$"], max_length=3).trace([HOSTILE, "$x$"])
    return net, net.certificate, told


@pytest.mark.parametrize("shown", hostile(), ids=["net", "certificate", "trace"])
def test_every_text_is_shown_as_it_is(shown):
    card = Reader(shown._repr_html_())
    assert {tag for tag, _ in card.elements} <= {
        "div", "style", "p", "strong", "span", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary",
    }  # fmt: skip
    assert not [key for _, attributes in card.elements for key in attributes if key not in ("class", "scope")]
    assert HOSTILE.replace("\x1b", "\\x1b") in card.text
    for tag, run in card.runs:  # MathJax takes what stands between two signs in one run of text
        assert tag == "pre" or run in ("$", "\\") or not re.search(r"\$|\\[(\[f]", run)
    assert "mathjax_ignore" in card.elements[0][1]["class"]
    markdown = shown._repr_markdown_()
    assert not re.search(r"(?<!\\)<(?!br)", markdown)
    assert "\x1b" not in markdown


def test_letters_are_readable_and_colours_of_the_page_are_kept():
    """Light or dark is the notebook's: only badges set colours of letters and of what is behind them."""
    rules = re.search(r"<style>(.*)</style>", network("sine")._repr_html_(), re.DOTALL)[1]
    for name, rule in re.findall(r"([^{}]+)\{([^{}]+)\}", rules):
        if not re.fullmatch(r"\s*\.attnforge-(badge|good|fair|poor|bad|plain)\s*", name):
            assert not re.search(r"(?<![-\w])color:|background: (?!none)", rule), name
        for colour in re.findall(r"background: (#\w{6})", rule):
            parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
            red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
            assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5  # of white ones
