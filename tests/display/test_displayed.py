"""What notebooks show of nets, certificates, diagnoses and the rest: what it says, in few bytes, with texts escaped."""

from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge import programs
from attnforge.experiments.table import Table
from tests.display.test_card import read

LINE = af.Box(0, 1, shape=(1,))
X = np.array([[0.5, -0.2], [0.1, 0.9], [-0.7, 0.3], [0.2, 0.2]])
Y = X @ [0.5, -0.3]
OBJECTS = {  # what it is, and words that must be on its card
    "net": (lambda: net(), ["proved", "sin(3*x)", "x in [-1, 1]", "1 head", "fit", "tensor_grid"]),
    "certificate": (lambda: net().certificate, ["proved", "|net(x) - f(x)| <= ", "[-1, 1]", "float64", "assumed (1)"]),
    "graph": (lambda: graph(), ["proved", "x*y + x", "multiplier"]),
    "graph's certificate": (lambda: graph().certificate, ["registers", "r[3]", "sensitivity"]),
    "sampled": (lambda: sampled(), ["sampled", "no error bound is proved"]),
    "sampled certificate": (lambda: sampled().certificate, ["sampled", "no bound is proved", "largest error seen"]),
    "in context": (lambda: lasso(), ["no certificate", "l1 0.05", "20 steps"]),
    "in context, boxed": (lambda: boxed(), ["proved", "net(X, y)"]),
    "certificate of a prompt": (lambda: lasso().certify(X, Y), ["on this prompt", "contracts by", "minimiser"]),
    "kernel": (lambda: af.in_context.KernelRegression(bandwidth=0.5).build(features=2), ["no certificate"]),
    "prompt function": (
        lambda: af.compile("tokens.mean(x)*q", {"x": (0, 1), "q": (0, 1)}, tol=1e-3, query=["q"]),
        ["proved", "tokens.mean"],
    ),
    "function prompt": (lambda: af.in_context.function_prompt("x^2", LINE, tol=1e-2)[1], ["tokens", "proved"]),
    "program": (lambda: program(), ["proved", "every sequence of 1 to 8 tokens", "0 MLPs"]),
    "program's certificate": (lambda: program().certificate, ["proved", "margin", "leakage"]),
    "trace": (lambda: program().trace(list("ab")), ["register", "largest error"]),
    "diagnosis": (
        lambda: af.diagnose(af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=9, sharpness=0.5)),
        ["1 fault", "uniform attention", "cause", "remedy", "eff. keys"],
    ),
    "measurement": (lambda: af.measure(net(), points=200), ["not a bound", "root mean square"]),
    "attack": (lambda: af.attack(net(), seconds=None, evaluations=2000), ["not a bound", "starts"]),
    "optimality": (lambda: af.optimality(net()), ["proved", "1 is optimal"]),
    "table": (lambda: Table.of([{"p": 10, "error": 0.125}, {"p": 20}] * 30), ["60 rows", "0.125", "and 20 more rows"]),
    "network": (lambda: net().network, ["(1, 1) tokens", "attention"]),
}


@cache
def net():
    return af.compile("sin(3*x)", {"x": (-1, 1)}, tol=1e-2)


@cache
def graph():
    return af.compile("x*y + x", {"x": (-1, 1), "y": (0, 2)}, tol=1e-3, construction="graph")


@cache
def sampled():
    return af.constructions.max_affine(lambda x: np.sin(x[..., 0]), LINE, cells=4)


@cache
def lasso():
    return af.in_context.Lasso(alpha=0.05, steps=20, learning_rate=0.5).build(features=2, examples=4)


@cache
def boxed():
    return af.in_context.Ridge(alpha=0.5, steps=3, learning_rate=0.1).build(features=1, examples=4, data_bound=1.0)


@cache
def program():
    return programs.compile(programs.library["reverse"], max_length=8)


@pytest.mark.parametrize("name", OBJECTS)
def test_a_card_says_what_it_is_about(name):
    make, words = OBJECTS[name]
    found = make()
    html, markdown = found._repr_html_(), found._repr_markdown_()
    text = read(html).text
    for word in words:
        assert word in text, word
    assert len(html) < 8000
    assert markdown.startswith("**")
    assert "\n\n" in markdown
    first = repr(found)
    assert len(first) < 500, "a line or two of a terminal"
    assert "array(" not in first


def test_a_checked_file_says_so(tmp_path):
    net().save(tmp_path / "net.safetensors")
    found = af.check(tmp_path / "net.safetensors")
    assert "confirmed" in read(found._repr_html_()).text


HOSTILE = "<script>alert(1)</script>"


def test_names_of_a_user_are_escaped():
    vocabulary = [HOSTILE, "$x$"]
    found = programs.compile(programs.tokens, vocabulary=vocabulary, max_length=3)
    for shown in (found.trace(vocabulary), found):
        html = shown._repr_html_()
        assert HOSTILE not in html
        read(html)
    assert HOSTILE in read(found.trace(vocabulary)._repr_html_()).text
    assert HOSTILE not in found.trace(vocabulary)._repr_markdown_()
    table = Table.of([{HOSTILE: HOSTILE}])
    assert HOSTILE not in table._repr_html_()
    assert HOSTILE not in table._repr_markdown_()
