"""Callables as targets: shapes found by probing, errors that name the point; constants proved for formulas."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnforge.errors import TargetError
from attnforge.targets import Box, Formula, Function, Lipschitz, as_lipschitz
from attnforge.targets.evaluation import Evaluation
from attnforge.targets.sample_cache import read_samples

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


class Counted:
    """A callable that keeps every point it was asked for."""

    def __init__(self, function):
        self.function, self.batches = function, []

    def __call__(self, points):
        self.batches.append(np.stack([np.asarray(point) for point in points]))
        return self.function(points)

    @property
    def points(self):
        return np.concatenate(self.batches)


@pytest.mark.parametrize("box", [LINE, PAIR, TOKENS, Box([3.0], [3.0]), Box([-1e308], [1e308])])
def test_the_constructor_asks_for_two_points_of_the_domain_once(box):
    f = Counted(lambda x: x.sum(axis=-1))
    target = Function(f, box)
    assert len(f.batches) == 1
    box.check(f.points)
    assert len(f.points) == 2
    assert np.array_equal(f.points[0], box.middle)
    assert np.array_equal(f.points[0], f.points[1]) == np.array_equal(box.lower, box.upper)
    target.values(f.points)
    assert len(f.batches) == 1


@pytest.mark.parametrize("method", ["values", "unchecked"])
def test_each_value_is_computed_once_also_on_another_box(method):
    f = Counted(np.sin)
    target = Function(f, LINE, plain=True)
    ask, points = getattr(target, method), np.linspace(-1, 1, 7).reshape(-1, 1)
    assert np.array_equal(ask(points), np.sin(points[:, 0]))
    again = getattr(target.on(Box([0.0], [2.0])), method)(points.reshape(7, 1, 1).astype(np.longdouble))
    assert np.array_equal(again, np.sin(points))
    assert len(np.unique(f.points)) == len(f.points) == 8


def test_another_box_keeps_everything_and_calls_nothing():
    f, careful = Counted(lambda x: torch.relu(x)), Evaluation()
    target = Function(f, LINE, lipschitz=Lipschitz(1.0), names=("x",), evaluation=careful)
    calls = len(f.batches)
    moved = target.on(Box(2, 3))
    assert len(f.batches) == calls
    assert moved.evaluation is careful
    assert (moved.outputs, moved.names, moved.lipschitz()) == (1, ("x",), Lipschitz(1.0))
    assert (moved.domain.lower, target.domain.lower) == (2.0, -1.0)
    assert moved.values(np.array([[2.5]])).tolist() == [[2.5]]


def test_a_torch_function_goes_through_the_evaluation(tmp_path):
    careful = Evaluation(cache=tmp_path / "c", batch=2)
    f = Counted(lambda x: torch.relu(x).sum(dim=-1))
    target = Function(f, PAIR, evaluation=careful)
    points = np.random.default_rng(0).uniform(size=(5, 2))
    assert np.allclose(target.values(points), points.sum(axis=1), rtol=1e-15)
    assert [len(batch) for batch in f.batches[-3:]] == [2, 2, 1]
    later = Counted(f.function)
    assert np.array_equal(
        Function(later, PAIR, evaluation=Evaluation(cache=tmp_path / "c")).values(points), target.values(points)
    )
    assert len(later.points) == 2 + 2 + 5  # NumPy was tried, two points to learn the shape, five to check the cache


def test_workers_compute_a_slow_function(clock, tmp_path):
    """It takes long enough to be sent when it is called here, for two points that tell what it returns."""
    here, trace = os.getpid(), tmp_path / "trace"

    def slow(x):
        if os.getpid() == here:
            clock.passes(0.03 * len(x))
        with trace.open("a") as file:
            file.write(f"{os.getpid()} {len(x)}\n")
        return np.cos(x)

    points = np.linspace(-1, 1, 20)[:, None]
    target = Function(slow, LINE, plain=True, evaluation=Evaluation(workers=2))
    assert np.array_equal(target.values(points), np.cos(points[:, 0]))
    asked = [tuple(map(int, line.split())) for line in trace.read_text().splitlines()]
    assert asked[0] == (here, 2)
    assert sum(rows for process, rows in asked if process != here) >= 8


@pytest.mark.parametrize("plain", [True, False])
def test_a_function_may_write_to_its_input(tmp_path, plain):
    def f(x):
        x *= 2
        return x if plain else x[..., 0]

    points = np.array([[0.25], [0.5]])
    target = Function(f, LINE, plain=plain, evaluation=Evaluation(cache=tmp_path / "c"))
    assert target.values(points).tolist() == [0.5, 1.0]
    assert points.tolist() == [[0.25], [0.5]]
    stored, values = read_samples(tmp_path / "c", 1, (), 10)
    assert stored[:, 0].tolist() == [0.0, 0.1, 0.25, 0.5]
    assert np.array_equal(values, 2 * stored[:, 0])


ONE, ROW, SEQUENCE = "np.vectorize(f, otypes=[float])", 'signature="(d)->()"', 'signature="(n,d)->(n)"'


@pytest.mark.parametrize(
    ("function", "box", "plain", "remedy"),
    [
        (lambda x: math.sin(x), LINE, True, ONE),
        (lambda x: x if x > 0 else -x, LINE, True, ONE),
        (lambda x: max(x, 0), LINE, True, ONE),
        (lambda x: [math.sin(x), x], LINE, True, 'signature="()->(k)"'),
        (lambda p: math.hypot(p[0], p[1]), PAIR, False, ROW),
        (lambda p: math.hypot(*p), PAIR, False, ROW),
        (lambda p: p[0] if p[0] > p[1] else p[1], PAIR, False, ROW),
        (lambda p: [math.sin(p[0]), p[1], 1.0], PAIR, False, 'signature="(d)->(k)"'),
        (lambda x: [math.hypot(*row) for row in x], TOKENS, False, SEQUENCE),
        (lambda p: torch.dot(p, p), PAIR, False, "torch.vmap(f)"),
    ],
)
def test_what_works_at_single_points_is_told_how_to_be_vectorised(function, box, plain, remedy):
    with pytest.raises(TargetError, match="works at a single point") as caught:
        Function(function, box, plain=plain)
    assert remedy in caught.value.remedy
    wrapped = eval(caught.value.remedy.partition("Wrap it: ")[2], {"np": np, "torch": torch, "f": function})
    points = np.random.default_rng(0).uniform(0.1, 0.9, size=(5, *box.shape))
    alone = [function(float(p[0]) if plain else (torch.tensor(p) if "torch" in remedy else p)) for p in points]
    assert np.allclose(Function(wrapped, box, plain=plain).values(points), np.array(alone), rtol=1e-15)


@pytest.mark.parametrize("total", [np.sum, np.max, lambda x: float(x.sum()), lambda x: x.sum(keepdims=True)])
def test_one_number_for_a_whole_batch_is_refused(total):
    for box in (LINE, PAIR, TOKENS):
        with pytest.raises(TargetError, match=r"must return an array of shape \(N.*for inputs of shape \(2, "):
            Function(total, box)


def test_a_shape_that_depends_on_the_batch_is_refused_later():
    target = Function(lambda x: x.sum(axis=0), PAIR)  # (2,) for two points of two inputs: right by chance
    with pytest.raises(TargetError, match=r"of shape \(N,\)\. Got shape \(2,\) for inputs of shape \(5, 2\)"):
        target.values(np.random.default_rng(0).uniform(size=(5, 2)))


def test_a_function_of_two_arguments_is_told_to_take_one():
    with pytest.raises(TargetError, match=r"takes 2 .*lambda p: f\(p\[\.\.\., 0\], p\[\.\.\., 1\]\)"):
        Function(lambda x, y: np.sin(x) * y, PAIR)


def test_complex_values_are_refused():
    for f in (lambda x: x[..., 0] + 0j, lambda x: torch.view_as_complex(x).conj()):
        with pytest.raises(TargetError, match=r"real numbers\. Got complex"):
            Function(f, PAIR)


def test_a_point_at_which_it_raises_is_named():
    def f(x):
        if (x == 0.25).any():
            raise ZeroDivisionError("no value here")
        return x

    target = Function(f, LINE, plain=True)
    with pytest.raises(TargetError, match=r"no value here at \[0\.25\]\. Shrink the domain") as caught:
        target.values(np.linspace(-1, 1, 81)[:, None])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(TargetError, match=r"no value here at \[0\.25\]\. Shrink the domain"):
        Function(f, Box([0.0], [0.5]), plain=True)


def test_both_attempts_are_told_where_neither_numpy_nor_torch_runs():
    module = torch.nn.Linear(2, 1).float()
    with pytest.raises(TargetError, match=r"TypeError.*with torch, RuntimeError.*double precision"):
        Function(module, PAIR)


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
