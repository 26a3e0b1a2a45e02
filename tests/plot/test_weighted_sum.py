"""How it adds up: curves that are the numbers, the sum in words, and what is refused."""

from dataclasses import replace
from functools import cache
from importlib import import_module

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Linear, Network, Term
from attnforge.plot import weighted_sum
from attnforge.plot.weighted_sum import DRAWN
from attnforge.targets import Formula

LINE = {"x": (-1, 1)}
NETS = {
    "gate": lambda: af.constructions.gate([1.0], 0.0, -1, 1, sharpness=5.0),
    "cells": lambda: af.constructions.max_affine("sin(3*x)", LINE, cells=6),
    "hard": lambda: af.constructions.max_affine("sin(3*x)", LINE, cells=6, sharpness="hard"),
    "fitted": lambda: af.compile("sin(8*x) + abs(x)", LINE, tol=1e-4),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3),
    "two layers": lambda: af.constructions.two_layer("x^2", LINE, grid=4),
    "softmax": lambda: af.constructions.softmax_tail("x^2", LINE, grid=4),
    "plane": lambda: af.constructions.max_affine("x*y", {"x": (0, 1), "y": (0, 1)}, cells=20),
    "sampled": lambda: af.constructions.max_affine(
        lambda x: np.sin(x[..., 0]), af.Box(0, 1, shape=(1,)), cells=4, lipschitz=1
    ),
}


@cache
def built(kind):
    return NETS[kind]()


def curve(axes, label):
    return next(line for line in axes.get_lines() if line.get_label() == label)


@pytest.mark.parametrize("kind", NETS)
def test_every_kind_is_drawn_and_its_sum_is_the_output(kind):
    net = built(kind)
    figure = weighted_sum(net)
    figure.draw_without_rendering()
    top, middle, bottom = figure.axes
    assert [axes.get_ylabel() for axes in figure.axes] == ["weight", "weight × value", "sum"]
    total, target = curve(bottom, "sum: the output"), curve(bottom, "target")
    assert np.abs(total.get_ydata() - target.get_ydata()).max() <= (net.certificate.bound or 0.2)
    assert top.get_ylim()[0] == 0
    assert middle.get_lines()


def test_bumps_are_the_attention():
    net = built("cells")
    top = weighted_sum(net).axes[0]
    bumps = [line for line in top.get_lines() if len(line.get_xdata()) > 1]
    assert len(bumps) == net.anchors
    for number in (3, 7):
        x, y = bumps[number].get_data()
        assert np.allclose(net.attention(x)[0][0][:, 0, number], y)


def test_the_sum_is_written_out_where_asked():
    figure = weighted_sum(built("hard"), at=-0.5)
    assert figure.get_suptitle().split("\n")[-1] == "at x = -0.5:  1 × (-0.997) = -0.997"
    marks = [axes.get_lines()[-1].get_xdata()[0] for axes in figure.axes]
    assert marks == pytest.approx([-0.5] * 3, abs=1e-3)
    words = weighted_sum(built("cells"), at=0.3).get_suptitle().split(":  ")[-1].replace("\n", " ")
    terms, total = words.split(" = ")
    numbers = terms.replace(" by others", "").replace("×", "*").replace("(", "").replace(")", "").split(" + ")
    added = sum(np.prod([float(factor) for factor in term.split(" * ")]) for term in numbers)
    assert added == pytest.approx(float(total), abs=2e-3)
    assert float(total) == pytest.approx(built("cells")(0.3), abs=1e-3)


def test_keys_with_names_of_their_own_have_them_in_their_colours():
    top = weighted_sum(built("gate")).axes[0]
    assert [text.get_text() for text in top.get_legend().get_texts()] == ["low", "high", "self"]
    named = {line.get_label(): line.get_color() for line in top.get_lines()}
    assert len({named[name] for name in ("low", "high", "self")}) == 3


def test_ghosts_and_sentinels_are_dashed_and_counted():
    top = weighted_sum(built("heads")).axes[0]
    assert [text.get_text() for text in top.get_legend().get_texts()] == ["ghost (4)", "anchor (18)", "sentinel (8)"]
    assert curve(top, "ghost (4)").get_linestyle() == curve(top, "sentinel (8)").get_linestyle() == "--"


def test_one_head_of_several_beside_what_the_others_add():
    net = built("heads")
    whole, one = weighted_sum(net), weighted_sum(net, head=1)
    assert np.allclose(*(curve(figure.axes[2], "sum: the output").get_ydata() for figure in (whole, one)))
    assert curve(one.axes[1], "added by no key shown").get_ydata().max() > 0.9
    assert "1 head, 10 keys" in one.get_suptitle()


def test_an_earlier_layer_has_no_target():
    figure = weighted_sum(built("two layers"), 0)
    assert [text.get_text() for text in figure.axes[2].get_legend().get_texts()] == ["sum of each head", "sum"]


def test_many_keys_are_drawn_in_part():
    figure = weighted_sum(built("plane"))
    assert f"{built('plane').anchors:,} keys, {DRAWN} of them drawn" in figure.get_suptitle()
    assert len(figure.axes[0].get_lines()) <= DRAWN + 2  # and a line a role in the legend


def test_a_target_whose_code_is_not_stored_is_left_out(tmp_path):
    built("sampled").save(tmp_path / "f.safetensors")
    figure = weighted_sum(af.load(tmp_path / "f.safetensors"))
    assert [text.get_text() for text in figure.axes[2].get_legend().get_texts()] == ["sum: the output"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"layer": 1}, "`layer` must be at least 0 and below 1"),
        ({"head": 3}, "`head` must be one that adds to this number. Got 3. Use one of 0, 1, 2"),
        ({"output": 1}, "`output` must be"),
        ({"at": 9.0}, "`at` is a number on the axis, from -1.7 to 1.7. Got 9"),
        ({"at": float("nan")}, "Got nan"),
    ],
)
def test_what_is_not_there_is_refused(settings, complaint):
    with pytest.raises(af.DomainError, match=complaint):
        weighted_sum(built("heads"), **settings)


def test_networks_that_cannot_be_drawn_are_refused_in_words(monkeypatch):
    box = af.Box(0, 1, shape=(1,))
    pair = af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], box, box, grid=2)
    with pytest.raises(
        af.RefusalError, match=r"one input sequence. Got a network of two inputs. Use plot\.attention_map"
    ):
        weighted_sum(pair)
    linear = Network((Linear((Term(np.ones((1, 1))),)),), features=1, tokens=1)
    with pytest.raises(af.RefusalError, match=r"Some layer must have a softmax. Got linear maps alone"):
        weighted_sum(replace(built("cells"), network=linear))
    with pytest.raises(af.TargetError, match=r"plot\.weighted_sum draws a compiled target"):
        weighted_sum(built("cells").network)
    monkeypatch.setattr(import_module("attnforge.plot.weighted_sum"), "MOST_KEYS", 5)
    with pytest.raises(af.RefusalError, match="At most 5 keys"):
        weighted_sum(built("cells"))


def test_text_is_not_markup():
    class Hostile(Formula):
        def describe(self):
            return "$\\frac{1}{0}$"

    net = replace(built("hard"), target=Hostile("sin(3*x)", built("hard").domain, ("x",)))
    figure = weighted_sum(net)
    figure.draw_without_rendering()
    assert "$\\frac{1}{0}$" in figure.get_suptitle()
