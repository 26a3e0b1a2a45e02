"""Callables as targets: shapes found by probing, errors that name the point; constants proved for formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnforge.errors import TargetError
from attnforge.targets import Box, Formula, Function, Lipschitz, as_lipschitz

LINE, PAIR, TOKENS = Box([-1.0], [1.0]), Box(0, 1, shape=(2,)), Box(0, 1, shape=(3, 2))


@pytest.mark.parametrize(
    ("function", "box", "plain", "outputs", "shape"),
    [
        (np.sin, LINE, True, None, (5,)),
        (lambda x: np.sin(x[..., 0]), LINE, False, None, (5,)),
        (lambda x: x[..., 0] * x[..., 1], PAIR, False, None, (5,)),
        (lambda x: np.stack([x[..., 0]] * 4, axis=-1), PAIR, False, 4, (5, 4)),
        (lambda x: np.sort(x, axis=-2), TOKENS, False, 2, (5, 3, 2)),
        (lambda x: x.sum(axis=-1), TOKENS, False, None, (5, 3)),
        (lambda x: torch.relu(x).sum(dim=-1), PAIR, False, None, (5,)),
    ],
)
def test_shapes_are_found_by_calling(function, box, plain, outputs, shape):
    target = Function(function, box, plain=plain)
    assert target.outputs == outputs
    assert target.values(np.full((5, *box.shape), 0.5)).shape == shape
    assert target.values(np.full((2, 5, *box.shape), 0.5)).shape == (2, *shape)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: 1.0, "shape"),
        (lambda x: float(x[0, 0]), "shape"),
        (lambda x: "text", "numbers"),
        (lambda x: x.no_such_method(), "NumPy or torch"),
        (lambda x: x.sum(), "shape"),
    ],
)
def test_what_is_not_vectorised_is_refused_with_the_remedy(function, reason):
    with pytest.raises(TargetError, match=reason):
        Function(function, PAIR)


def test_a_point_without_a_finite_value_is_named():
    target = Function(lambda x: 1 / (x[..., 0] - 0.25), PAIR)
    points = np.array([[0.5, 0.5], [0.25, 0.75]])
    with np.errstate(divide="ignore"), pytest.raises(TargetError, match=r"NaN or infinity at \[0.25 0.75\]"):
        target.values(points)


def test_a_stored_callable_keeps_its_shape_and_refuses_values():
    target = Function(lambda x: np.sort(x, axis=-2), TOKENS, lipschitz=Lipschitz(1.0, "l2"))
    again = Function.from_data(target.to_data()[0], target.to_data()[1])
    assert (again.outputs, again.domain.shape, again.lipschitz()) == (2, (3, 2), Lipschitz(1.0, "l2"))
    with pytest.raises(TargetError, match="not stored"):
        again.values(np.zeros((1, 3, 2)))


@pytest.mark.parametrize("given_constant", ["steep", -1.0, float("nan"), float("inf")])
def test_senseless_constants_are_refused(given_constant):
    with pytest.raises(TargetError):
        as_lipschitz(given_constant)


def test_norms_are_translated():
    assert as_lipschitz(3).in_sup_norm(5) == 3.0
    assert Lipschitz(3.0, "l1").in_sup_norm(5) >= 15.0
    with pytest.raises(TargetError, match="sup, l2 or l1"):
        Lipschitz(1.0, "linf")


FORMULAS = [
    "sin(8*x) + abs(x)",
    "1/(1 + 25*x^2)",
    "exp(-3*(x - 0.3)^2)*y",
    "max(x, y) - x*y",
    "clamp(3*x, -1, 1) + tanh(y)",
]


@given(st.sampled_from(FORMULAS), st.data())
def test_proved_constants_hold_between_random_points(text, data):
    names = ("x", "y")[: 2 if "y" in text else 1]
    formula = Formula(text, Box(-1, 1, shape=(len(names),)), names)
    known = formula.lipschitz()
    assert known.proved
    coordinate = st.floats(-1, 1)
    a, b = (np.array(data.draw(st.lists(coordinate, min_size=len(names), max_size=len(names)))) for _ in range(2))
    change = abs(float(formula.values(a[None])[0] - formula.values(b[None])[0]))
    assert change <= known.constant * np.abs(a - b).max() + 1e-12


@pytest.mark.parametrize(("text", "slope"), [("sin(8*x) + abs(x)", 9.0), ("2*x - y", 3.0), ("x^2", 2.0)])
def test_proved_constants_are_tight(text, slope):
    names = ("x", "y")[: 2 if "y" in text else 1]
    found = Formula(text, Box(-1, 1, shape=(len(names),)), names).lipschitz()
    assert slope <= found.constant <= 1.02 * slope


@pytest.mark.parametrize("text", ["sqrt(x + 1)", "sign(x)", "log(x + 2)/x"])
def test_unbounded_slopes_give_no_constant(text):
    box = Box([-1.0], [0.9]) if "log" in text else LINE
    assert Formula(text, box, ("x",)).lipschitz() is None
