"""Ridge functions and sums: read from text or found by probing, fitted term by term, refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.errors import RefusalError
from attnforge.targets import Box, Formula, Function
from attnforge.targets.structure import Structure
from attnforge.targets.structure.term import constant_term, input_term
from attnforge.theorems.structured import Additive, Ridge, fitted_terms

SQUARE = Box(-1, 1, shape=(2,))


def text(formula, names="xy"):
    return Formula(formula, Box(-1, 1, shape=(len(names),)), tuple(names))


def black_box(f, inputs):
    return Function(f, Box(-1, 1, shape=(inputs,)))


def error_of(construction, target, plan):
    network = construction.build(target, plan)
    points = np.random.default_rng(2).uniform(target.domain.lower, target.domain.upper, (2000, *target.domain.shape))
    wanted = np.asarray(target.values(points)).reshape(len(points), -1)
    return float(np.abs(network(points[:, None])[:, 0] - wanted).max())


@pytest.mark.parametrize(
    ("target", "tol", "most"),
    [
        (text("sin(3*x + y)"), 1e-8, 20),
        (text("abs(x + 2*y + z - 1/2)", "xyz"), 1e-5, 60),
        (black_box(lambda x: np.cos(x @ np.arange(1, 6) / 3), 5), 1e-6, 30),
        (black_box(lambda x: np.stack([np.sin(x.sum(-1)), np.cos(x.sum(-1))], axis=-1), 4), 1e-6, 30),
    ],
    ids=["text", "text with a kink", "black box", "two outputs"],
)
def test_ridges_take_one_head_along_one_form(target, tol, most):
    plan = Ridge().size(target, tol, "float64")
    assert len(plan.heads) == 1
    assert plan.heads[0].forms.shape == (1, target.domain.shape[0])
    assert plan.heads[0].anchors <= most
    assert error_of(Ridge(), target, plan) <= tol


@pytest.mark.parametrize(
    ("target", "tol", "heads"),
    [
        (text("sin(5*x) + exp(y)"), 1e-8, 2),
        (text("sin(x*y) + z^2 + abs(w)", "wxyz"), 1e-5, 3),
        (black_box(lambda x: np.sin(x[..., 0]) + np.exp(x[..., 1] * x[..., 2]), 3), 1e-6, 2),
    ],
    ids=["text", "text with a pair", "black box"],
)
def test_sums_take_one_head_a_term(target, tol, heads):
    plan = Additive().size(target, tol, "float64")
    assert len(plan.heads) == heads
    assert error_of(Additive(), target, plan) <= tol
    assert Additive().cost(target, plan).anchors == sum(head.anchors for head in plan.heads)


def test_inputs_that_do_not_matter_take_no_anchors():
    target = text("sin(5*x) + exp(z)", "wxyz")
    plan = Additive().size(target, 1e-6, "float64")
    assert sorted(int(np.flatnonzero(head.forms)[0]) for head in plan.heads) == [1, 3]
    assert error_of(Additive(), target, plan) <= 1e-6


def test_constants_are_folded_into_the_first_head():
    target = text("sin(x) + 3 + exp(y)")
    plan = Additive().size(target, 1e-8, "float64")
    assert len(plan.heads) == 2
    assert error_of(Additive(), target, plan) <= 1e-8
    wave = input_term(lambda x: np.sin(x[:, :1]), SQUARE, ("x", "y"), [0])
    apart = Structure("additive", (constant_term(1.25, ("x", "y")), wave, constant_term(0.5, ("x", "y"))), "A sum.")
    plan = fitted_terms(apart, 1e-8, "float64")
    assert len(plan.heads) == 1
    assert error_of(Additive(), text("sin(x) + 7/4"), plan) <= 1e-8


@pytest.mark.parametrize("target", [text("2 + 1 + 0*x"), black_box(lambda x: 3.0 + 0 * x[..., 0], 3)])
def test_a_constant_is_one_anchor(target):
    plan = Additive().size(target, 1e-8, "float64")
    assert [head.anchors for head in plan.heads] == [1]
    assert error_of(Additive(), target, plan) <= 1e-12


def test_several_constants_and_nothing_else_add_up():
    structure = Structure("additive", (constant_term([1.0, 2.0], ("x", "y")), constant_term([0.5, -1], ("x", "y"))), "")
    plan = fitted_terms(structure, 1e-6, "float64")
    assert plan.heads[0].values.ravel().tolist() == pytest.approx([1.5, 1.0])


def test_terms_share_the_tolerance():
    """One of a hundred terms must be a hundred times as good."""
    names = tuple(f"x{i}" for i in range(20))
    box = Box(-1, 1, shape=(20,))
    terms = tuple(input_term(lambda x, i=i: np.sin(3 * x[:, i : i + 1] + i), box, names, [i]) for i in range(20))
    plan = fitted_terms(Structure("additive", terms, "A sum."), 1e-4, "float64")
    target = Function(lambda x: np.sin(3 * x + np.arange(20)).sum(axis=-1), box)
    assert error_of(Additive(), target, plan) <= 1e-4
    assert plan.reason.startswith("A sum; ")
    assert "anchors in all" in plan.reason


def test_refusals_say_what_was_found():
    with pytest.raises(RefusalError, match=r"function of one linear form.*Got .*sum of 2 terms"):
        Ridge().size(text("sin(5*x) + exp(y)"), 1e-6, "float64")
    with pytest.raises(RefusalError, match=r"sum of terms of few inputs.*Got .*function of"):
        Additive().size(text("sin(3*x + y)"), 1e-6, "float64")
    with pytest.raises(RefusalError, match="None found with"):
        Additive().size(black_box(lambda x: np.exp(x[..., 0] * x[..., 1] * x[..., 2]), 3), 1e-6, "float64")


def test_what_is_not_taken():
    assert Ridge().accepts(text("sin(x)", "x")) == "one input has no structure"
    assert Additive().accepts(black_box(lambda x: x.sum(-1), 513)) == "513 inputs are more than 512"
    assert Ridge().accepts(Function(lambda x: x[..., 0], Box(0, 1, shape=(2, 2)))) is not None
    assert Ridge().accepts(text("sin(x + y)")) is None


def test_float32_fits_are_tame_enough_for_float32():
    target = text("sin(3*x + y)")
    plan = Ridge().size(target, 1e-5, "float32")
    head = plan.heads[0]
    weights = head.axes[0].weights(np.linspace(-2, 2, 300))
    assert (weights @ np.abs(head.values)).max() * 2.0**-24 <= 1e-5
    assert error_of(Ridge(), target, plan) <= 1e-5
