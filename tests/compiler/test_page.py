"""The HTML page: complete, offline, well formed, the same twice, and safe from every text a file can hold."""

import base64
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pytest

import attnforge as af
from attnforge.compiler.page import page
from attnforge.compiler.page.figures import BOUNDED, ERROR
from attnforge.compiler.page.operations import multiply_adds
from attnforge.display.markup import element, escaped, joined
from attnforge.network import digest
from tests.attacks.files import agreeing, join, split

HOSTILE = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>' onload='x' &lt; $\\frac{ \x1b[31m \u202e"
NAME = HOSTILE[:55]  # what a file may call a head or a key: up to 100 characters that print
LINE = af.Box(0, 1, shape=(1,))
NETS = {
    "gate": lambda: af.constructions.gate([1.0], 0.1, -1, 1, sharpness=20.0),
    "truncated": lambda: af.constructions.truncated_linear([1.0, -0.5], 0.1, -1, 1, anchors=9),
    "fitted": lambda: af.compile("sin(3*x) + x", {"x": (0, 1)}, tol=1e-2),
    "cells": lambda: af.constructions.max_affine("x*y", {"x": (0, 1), "y": (0, 1)}, cells=3, sharpness="hard"),
    "sampled": lambda: af.constructions.max_affine(lambda x: np.sin(x[..., 0]), LINE, cells=4),
    "table": lambda: af.compile(([0.0, 0.5, 1.0], [0.0, 0.25, 1.0])),
    "pairs": lambda: af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], LINE, LINE, grid=2),
}


@pytest.fixture(autouse=True, scope="module")
def small_figures():
    """Figures of few pixels: what is drawn is tested with the figures themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnforge.compiler.page.figures.DPI", 30)
        yield


@pytest.fixture
def without_figures(monkeypatch):
    """For what is no picture; such pages are not kept by :func:`written`."""
    monkeypatch.setattr(import_module("attnforge.compiler.page.page"), "pictures", lambda compiled: ())


@cache
def built(kind):
    return NETS[kind]()


@cache
def written(kind):
    return page(built(kind), points=500)


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
    net, text = built(kind), written(kind)
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


@pytest.mark.usefixtures("without_figures")
def test_faults_are_told():
    assert "healthy" in read(page(built("fitted"), points=500)).text
    soft = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=21, sharpness=1.0)
    assert "uniform attention" in read(page(soft, points=500)).text


def test_the_certificate_and_its_parts():
    net, reader = built("fitted"), read(written("fitted"))
    assert f"≤ {net.certificate.bound:.4g} on the whole domain, in float64" in reader.text
    for name, value in net.certificate.parts.items():
        assert f"{name}{value:.3g}" in reader.text
    widths = [attrs["style"] for tag, attrs in reader.elements if attrs.get("class") == "bar"]
    shares = [float(style.removeprefix("width:").removesuffix("%")) for style in widths]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert all(assumption in reader.text for assumption in net.certificate.assumptions)


@pytest.mark.usefixtures("without_figures")
def test_a_bound_that_is_refuted_is_called_wrong():
    net = NETS["fitted"]()
    assert "exceeds the bound" not in page(net, points=500)
    bound = net.certificate.estimate.error / 10
    net = replace(net, certificate=replace(net.certificate, bound=bound, parts={"fit": bound}))
    assert "The error found exceeds the bound" in read(page(net, points=500)).text


def test_without_a_bound_the_page_says_so():
    text = read(written("sampled")).text
    assert "no bound is known" in text
    assert "Errors were only measured" in text
    assert "certify" not in text


def test_two_calls_give_the_same_bytes():
    assert page(NETS["truncated"](), points=500) == written("truncated")


@pytest.mark.usefixtures("without_figures")
def test_timing_is_asked_for():
    assert "on this machine" not in page(built("truncated"), points=500)
    text = page(built("truncated"), points=500, timing=True)
    assert re.search(r"\d (s|ms|µs|ns) an input of one token, in batches of", text)


def test_captions_speak_of_a_bound_where_there_is_one():
    assert BOUNDED in read(written("fitted")).text
    for kind in ("sampled", "table"):
        text = read(written(kind)).text
        assert ERROR in text
        assert BOUNDED not in text


def product(x, y):
    return x[..., 0] * y[..., 0]


CALLABLES = {
    "one input": (lambda x: np.sin(x), lambda f: af.compile(f, {"x": (0, 1)}, tol=0.2, lipschitz=1)),
    "rows": (
        lambda x: x[..., 0],
        lambda f: af.constructions.max_affine(f, af.Box(0, 1, shape=(2,)), cells=2, lipschitz=1),
    ),
    "pairs": (product, lambda f: af.constructions.cross_attention(f, LINE, LINE, grid=2, lipschitz=2)),
    "sampled": (lambda x: np.sin(x[..., 0]), lambda f: af.constructions.max_affine(f, LINE, cells=4)),
}


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize("kind", CALLABLES)
def test_a_callable_must_be_handed_in_and_the_lines_that_do_so_work(kind, tmp_path):
    function, build = CALLABLES[kind]
    net, place = build(function), str(tmp_path / "net")
    net.save(place)
    text = read(page(af.load(place), points=500, file=place)).text
    assert "attnforge certify" not in text
    assert "attnforge measure" not in text
    assert "The file holds no code" in text
    code = text[text.index("when this network was built:") :].partition(":")[2].partition("The file is not")[0]
    lines = code.replace("af.attack(net, target)", "seen = af.measure(net, target, points=200)")
    lines = lines.replace("af.certify(net, target)", "proved = af.certify(net, target)")
    scope = {"f": function}
    exec(lines.replace("\naf.measure(net, target)", "\nseen = af.measure(net, target)"), scope)
    assert scope["seen"].sup > 0
    if net.certificate.bound is not None:
        assert scope["proved"].bound == net.certificate.bound
        assert scope["proved"].status == net.certificate.status
    else:
        assert "certify" not in text


@pytest.mark.usefixtures("without_figures")
def test_what_can_be_measured_is_said():
    means = af.constructions.max_affine("x^2", {"x": (0, 1)}, cells=4, norm=1, sharpness="hard")
    text = read(page(means, points=500)).text
    assert "attnforge measure model.safetensors --attack" in text
    assert "The L1 error was estimated" in text
    assert "attnforge certify" not in text
    table = read(page(built("table"), points=500)).text
    assert "--attack" not in table  # which refuses tables
    assert "attnforge certify model.safetensors --check" in table
    assert "L1" not in table
    formula = read(page(built("truncated"), points=500)).text
    assert "`attnforge certify` proves it again" in formula
    assert "--attack # try to refute it" in formula


def test_a_target_whose_code_is_not_stored(tmp_path):
    built("sampled").save(tmp_path / "net")
    reader = read(page(af.load(tmp_path / "net"), points=500))
    assert "not measured here" in reader.text
    assert len(images(reader)) >= 3  # attention, cells, anchors, graph


@pytest.mark.usefixtures("without_figures")
def test_commands_quote_the_name_of_the_file():
    text = read(page(built("truncated"), points=500, file="a b'; rm.safetensors")).text
    assert "attnforge inspect 'a b'\"'\"'; rm.safetensors'" in text
    assert 'af.load("a b\'; rm.safetensors")' in text


@pytest.mark.parametrize(
    "build",
    [
        lambda: af.constructions.gate([1.0], 0.1, -1, 1, sharpness=20.0),
        lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-2),
        lambda: af.constructions.max_affine("x*y", {"x": (0, 1), "y": (0, 1)}, cells=2, sharpness="hard"),
    ],
    ids=["gate", "fitted", "cells"],
)
def test_words_of_a_file_are_shown_and_never_obeyed(build, tmp_path):
    build().save(tmp_path / "honest")
    metadata, arrays = split(tmp_path / "honest")
    metadata = metadata | {"construction": HOSTILE, "reason": HOSTILE}
    for layer in metadata["network"]["layers"]:
        for head in layer.get("heads", ()):
            head["claims"] |= {"construction": NAME, "roles": [NAME] * len(head["claims"]["roles"])}
    net = af.load(join(tmp_path / "net", agreeing(metadata, arrays), arrays, honest=True))
    check_harmless(page(net, points=500, file=HOSTILE))


def test_words_of_target_and_certificate_are_shown_and_never_obeyed():
    net = NETS["fitted"]()
    net.target.describe = lambda: HOSTILE
    bound = net.certificate.bound
    net = replace(net, certificate=replace(net.certificate, assumptions=(HOSTILE,), parts={HOSTILE: bound}))
    reader = check_harmless(page(net, points=500))
    assert all("<script>" in attrs["alt"] for attrs in images(reader))  # as text of the attribute


@pytest.mark.usefixtures("without_figures")
def test_half_a_surrogate_pair_can_be_written():
    net = NETS["gate"]()
    net.target.describe = lambda: "a\ud800b"
    assert b"a\\ud800b" in page(net, points=500).encode("utf-8")


def check_harmless(text):
    reader = read(text)
    assert "<script>alert(1)</script>" in reader.text
    assert not any(tag == "script" for tag, _ in reader.elements)
    assert not any(key.startswith("on") for _, attrs in reader.elements for key in attrs)
    assert {attrs["src"][:22] for attrs in images(reader)} == {"data:image/png;base64,"}
    assert "\x1b" not in text
    assert "\u202e" not in text
    return reader


def test_elements_escape_children_and_attributes():
    assert (
        element("p", "<b>", element("i", "&"), title="\"'").text == '<p title="&quot;&#x27;">&lt;b&gt;<i>&amp;</i></p>'
    )
    assert element("img", alt="x").text == '<img alt="x">'
    assert joined("<", element("br")).text == "&lt;<br>"
    assert escaped("\x00") == "\\x00"


def test_operations_counted_by_hand():
    """Encode 1 x 2; query 2 x 2; 9 keys: scores of length 2, values of length 1; output 1."""
    net = af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=9)
    assert multiply_adds(net.network) == 2 + 4 + 9 * 2 + 9 * 1 + 1
    assert multiply_adds(net.network, tokens=3) == 3 * 34


def test_operations_of_a_second_input():
    """Counted for the cross-attention of 2 x 2 cells: no mixing is forgotten."""
    net = NETS["pairs"]()
    keys = net.anchors
    # X: 1; lengthened: 1 x 3 and a column of keys x 3. Y: 2. Query 4, keys and values 3 x 3 each, scores, output 1.
    assert multiply_adds(net.network) == 1 + 3 + 3 * keys + 2 + 4 + keys * 9 + keys * 3 + 1


def test_the_digest_shown_is_the_networks():
    assert digest(built("cells").network) in written("cells")
