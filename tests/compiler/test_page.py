"""The HTML page that ``attnforge report`` writes: complete, offline, the same twice, safe from every text of a file."""

from __future__ import annotations

import base64
import re
import tempfile
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import attnforge as af
from attnforge.cli import app
from attnforge.network import head_places, with_head

HOSTILE = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>' onload='x' &lt; $\\frac{ \x1b[31m \u202e"
NAME = HOSTILE[:55]  # what a file may call a head or a key: up to 100 characters that print
MAKE, LINE, SQUARE = af.constructions, af.Box(0, 1, shape=(1,)), {"x": (0, 1), "y": (0, 1)}


def product(x, y):
    return x[..., 0] * y[..., 0]


NETS = {
    "gate": lambda: MAKE.gate([1.0], 0.1, -1, 1, sharpness=20.0),
    "truncated": lambda: MAKE.truncated_linear([1.0], 0.1, -1, 1, anchors=9),
    "fitted": lambda: af.compile("sin(3*x) + x", {"x": (0, 1)}, tol=1e-2),
    "cells": lambda: MAKE.max_affine("x*y", SQUARE, cells=3, sharpness="hard"),
    "sampled": lambda: MAKE.max_affine(lambda x: np.sin(x[..., 0]), LINE, cells=4),
    "table": lambda: af.compile(([0.0, 0.5, 1.0], [0.0, 0.25, 1.0])),
    "pairs": lambda: MAKE.cross_attention(product, LINE, LINE, grid=2, lipschitz=2),
    "means": lambda: MAKE.max_affine("x^2", {"x": (0, 1)}, cells=4, norm=1, sharpness="hard"),
}


@pytest.fixture(autouse=True, scope="module")
def small_figures():
    """Figures of few pixels: what is drawn is tested with the figures themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnforge.compiler.page.figures.DPI", 30)
        yield


def written(net, *words, name="net.safetensors"):
    """The page of a network that was saved."""
    with tempfile.TemporaryDirectory() as folder:
        net.save(Path(folder) / name)
        place = Path(folder) / "page.html"
        made = CliRunner().invoke(
            app, ["report", str(Path(folder) / name), "-o", str(place), *(words or ("--no-timing",))]
        )
        assert made.exit_code == 0, made.output
        return place.read_text("utf-8")


@cache
def built(kind):
    return NETS[kind]()


@cache
def page(kind):
    return written(built(kind))


class Reader(HTMLParser):
    """Elements, attributes and text; raises where tags are not balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.elements, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


def images(reader):
    return [attrs for tag, attrs in reader.elements if tag == "img"]


@pytest.mark.parametrize("kind", [kind for kind in NETS if kind != "gate"])
def test_every_kind_has_a_whole_page_that_asks_for_nothing(kind):
    net, text = built(kind), page(kind)
    reader = read(text)
    assert {tag for tag, _ in reader.elements} <= {
        *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p"),
        *("table", "thead", "tbody", "tr", "th", "td", "span", "strong", "ul", "li", "figure", "img", "figcaption"),
        *("pre", "code"),
    }
    for attrs in images(reader):
        data = base64.b64decode(attrs["src"].removeprefix("data:image/png;base64,"), validate=True)
        assert data.startswith(b"\x89PNG")
        assert attrs["alt"]
    assert len(images(reader)) >= 2
    assert not re.search(r"https?:|url\(|@import|<link|<script|<iframe|srcset", text)
    for word in ("What it is", "How close it is", "What it looks like", "What it costs", "How to load it"):
        assert word in reader.text
    assert net.certificate.digest in reader.text
    assert net.certificate.status in reader.text


def test_two_pages_are_the_same_unless_timing_is_asked_for():
    assert written(NETS["truncated"]()) == page("truncated")
    assert "on this machine" not in page("truncated")
    timed = written(built("truncated"), "--timing")
    assert re.search(r"\d (s|ms|µs|ns) an input of one token, in batches of", timed)


def test_the_certificate_and_its_parts():
    net, reader = built("fitted"), read(page("fitted"))
    assert f"≤ {net.certificate.bound:.4g} on the whole domain, in float64" in reader.text
    for name, value in net.certificate.parts.items():
        assert f"{name}{value:.3g}" in reader.text
    widths = [attrs["style"] for tag, attrs in reader.elements if attrs.get("class") == "bar"]
    shares = [float(style.removeprefix("width:").removesuffix("%")) for style in widths]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert all(assumption in reader.text for assumption in net.certificate.assumptions)
    assert "healthy" in reader.text
    sampled = read(page("sampled")).text
    assert "no bound is known" in sampled
    assert "Errors were only measured" in sampled


def test_what_is_wrong_is_told():
    soft = MAKE.truncated_linear([1.0], 0.0, -1, 1, anchors=21, sharpness=1.0)
    assert "uniform attention" in read(written(soft)).text
    net = built("fitted")
    bound = net.certificate.estimate.error / 10
    lie = replace(net, certificate=replace(net.certificate, bound=bound, parts={"fit": bound}, estimate=None))
    assert "The error found exceeds the bound" in read(written(lie)).text
    assert "exceeds the bound" not in page("fitted")


CALLABLES = {
    "one input": (lambda x: np.sin(x), lambda f: af.compile(f, {"x": (0, 1)}, tol=0.2, lipschitz=1)),
    "pairs": (product, lambda f: MAKE.cross_attention(f, LINE, LINE, grid=2, lipschitz=2)),
    "sampled": (lambda x: np.sin(x[..., 0]), lambda f: MAKE.max_affine(f, LINE, cells=4)),
}


@pytest.mark.parametrize("kind", CALLABLES)
def test_a_callable_must_be_handed_in_and_the_lines_that_do_so_work(kind, tmp_path, monkeypatch):
    function, build = CALLABLES[kind]
    net = build(function)
    text = read(written(net, name="net")).text
    monkeypatch.chdir(tmp_path)
    net.save("net")
    assert "attnforge certify" not in text
    assert "attnforge measure" not in text
    assert "The file holds no code" in text
    code = text[text.index("when this network was built:") :].partition(":")[2].partition("The file is not")[0]
    lines = code.replace("af.attack(net, target)", "seen = af.measure(net, target, points=200)")
    lines = lines.replace("af.certify(net, target)", "proved = af.certify(net, target)")
    scope = {"f": function}
    exec(lines.replace("\naf.measure(net, target)", "\nseen = af.measure(net, target)"), scope)
    assert scope["seen"].sup > 0
    if net.certificate.bound is None:
        assert "certify" not in text
    else:
        assert (scope["proved"].bound, scope["proved"].status) == (net.certificate.bound, net.certificate.status)


def test_commands_quote_the_name_of_the_file():
    text = read(written(built("truncated"), name="a b'; rm.safetensors")).text
    assert "attnforge inspect 'a b'\"'\"'; rm.safetensors'" in text
    assert 'af.load("a b\'; rm.safetensors")' in text


@pytest.mark.parametrize("kind", ["gate", "fitted", "cells"])
def test_words_of_a_file_are_shown_and_never_obeyed(kind):
    net = built(kind)
    network = net.network
    for layer, head in head_places(network):
        claims = network.layers[layer].heads[head].claims
        named = replace(claims, construction=NAME, roles=(NAME,) * len(claims.roles))
        network = with_head(network, layer, head, claims=named)
    certificate = replace(net.with_network(network).certificate, assumptions=(HOSTILE,))
    text = written(replace(net, network=network, construction=HOSTILE, reason=HOSTILE, certificate=certificate))
    reader = read(text)
    assert "<script>alert(1)</script>" in reader.text
    assert not any(tag == "script" for tag, _ in reader.elements)
    assert not any(key.startswith("on") for _, attrs in reader.elements for key in attrs)
    assert {attrs["src"][:22] for attrs in images(reader)} == {"data:image/png;base64,"}
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_operations_counted_by_hand():
    """Encode 1 x 2; query 2 x 2; 9 keys: scores of length 2, values of length 1; output 1. And of a second input."""
    assert f"multiply-adds{2 + 4 + 9 * 2 + 9 * 1 + 1} an input" in read(page("truncated")).text
    keys = built("pairs").anchors
    # X: 1; lengthened: 1 x 3 and a column of keys x 3. Y: 2. Query 4, keys and values 3 x 3 each, scores, output 1.
    count = 1 + 3 + 3 * keys + 2 + 4 + keys * 9 + keys * 3 + 1
    assert f"multiply-adds{count:,}" in read(page("pairs")).text
