"""Hostile text is shown as it is, and never becomes markup: in cards, figures, graphs, terminals and errors."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import attnforge as af
from attnforge.cli import app
from tests.attacks.files import agreeing, join, split
from tests.catalogue import network

WORDS = r"$\frac{$ \alpha^{ <script>alert(1)</script> [red]x[/red] & \input{a} <img src=x onerror=y>"
NAMES = ("gate", "sine", "grid", "table", "graph", "relu", "truncated", "partition")


class Tags(HTMLParser):
    """The tags of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found = set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.found |= {name for name, _ in attrs if name.startswith("on")}


@pytest.fixture(scope="module", params=NAMES)
def hostile(request, tmp_path_factory) -> Any:
    """A network from a file in which all that is free text is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    network(request.param).save(folder / "honest")
    metadata, arrays = split(folder / "honest")
    metadata = metadata | {"construction": WORDS, "reason": WORDS}
    for layer in metadata["network"]["layers"]:
        for head in layer.get("heads", ()):
            if head["claims"] is not None:
                roles = [WORDS] * len(head["claims"]["roles"])
                head["claims"] |= {"construction": WORDS, "roles": roles}
    path = join(folder / "net", agreeing(metadata, arrays), arrays, honest=True)
    return af.load(path), path


def test_cards_hold_no_tag_of_a_file(hostile):
    net, _ = hostile
    shown = [net, net.labels(), net.causal_graph(), net.certificate, net.range(effort="low")]
    for each in (part for part in shown if hasattr(part, "_repr_html_")):
        assert not {"script", "img", "onerror"} & Tags(each._repr_html_()).found
        assert "&lt;script&gt;" in net._repr_html_()
    json.dumps(net.labels().to_data())


def test_figures_hold_words_and_no_mathematics(hostile, tmp_path):
    net, _ = hostile
    figure = net.plot()
    figure.savefig(tmp_path / "figure.svg")
    figure.savefig(tmp_path / "figure.png", dpi=20)
    assert not {"script", "img"} & Tags((tmp_path / "figure.svg").read_text()).found
    texts = [
        text for text in figure.findobj(lambda each: hasattr(each, "get_parse_math")) if "alpha" in text.get_text()
    ]
    assert not any(text.get_parse_math() for text in texts)
    plt.close(figure)


def test_terminals_show_brackets_as_brackets(hostile):
    _, path = hostile
    result = CliRunner().invoke(app, ["inspect", str(path)])
    assert result.exit_code == 0
    assert "[red]x[/red]" in result.output.replace("\n", "")


@pytest.mark.parametrize("text", [WORDS, "<script>", "x\x1b[31m", "\u202ex", "x" * 10_000])
@pytest.mark.parametrize(
    "call",
    [
        lambda text: af.compile(text, {"x": (-1, 1)}),
        lambda text: af.compile("sin(x)", {text: (-1, 1)}),
        lambda text: af.compile("sin(x)", {"x": (-1, 1)}, construction=text),
        lambda text: af.compile("sin(x)", {"x": (-1, 1)}, dtype=text),
        lambda text: af.load(text),
        lambda text: af.zoo.get(text),
        lambda text: network("sine")(**{text: np.zeros(3)}),
        lambda text: af.programs.compile(af.programs.tokens, ["a"], 3)([text]),
    ],
)
def test_errors_are_printable_text(call, text):
    with pytest.raises(af.AttnforgeError) as refusal:
        call(text)
    message = str(refusal.value)
    assert message.replace("\n", "").isprintable()
