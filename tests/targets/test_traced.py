"""Python functions as formulas: what is traced, what is refused, and with which line."""

import math
from math import sin

import numpy as np
import pytest
import torch
from scipy import special
from torch.nn import functional

import attnforge as af
from tests.refusals import refused

MATRIX = np.array([[1.0, 2.0], [0.0, 3.0]])


@pytest.mark.parametrize(
    ("function", "names", "text"),
    [
        (lambda x, y: np.sin(x) * y + x / 2 - 3 * y**2, None, "sin(x)*y + x/2 - 3*y^2"),
        (lambda x: 2 / x + 2**x + 1 - x, None, "2/x + 2^x + 1 - x"),
        (lambda x: -x + abs(x) + (+x), None, "-x + abs(x) + x"),
        (lambda x: x * x, None, "x^2"),
        (lambda x: x**0.5, None, "sqrt(x)"),
        (lambda x: sum([x, x, 1]), None, "x + x + 1"),
        (lambda x, a=3: x * a, None, "x*3"),
        (lambda x: 5.0, None, "5"),
        (lambda x: np.maximum(x, 0.5) + np.clip(x, 0, 1), None, "max(x, 0.5) + clamp(x, 0, 1)"),
        (lambda x: np.clip(x, None, 1) + np.clip(x, a_min=0, a_max=None), None, "min(x, 1) + max(x, 0)"),
        (lambda x: special.expit(x) + special.erf(x), None, "sigmoid(x) + erf(x)"),
        (lambda x: np.log1p(x) + np.expm1(x) + np.log2(x), None, "log(1 + x) + exp(x) - 1 + log(x)/log(2)"),
        (lambda x: np.heaviside(x, 0.5) * np.sign(x), None, "step(x)*sign(x)"),
        (lambda x: MATRIX @ x, {"x": 2}, "[x[0] + 2*x[1], 3*x[1]]"),
        (lambda x: x @ MATRIX, {"x": 2}, "[x[0], 2*x[0] + 3*x[1]]"),
        (lambda x: x @ x + np.dot(x, [1, 2]), {"x": 2}, "x[0]^2 + x[1]^2 + x[0] + 2*x[1]"),
        (lambda x: np.linalg.norm(x), {"x": 2}, "hypot(x[0], x[1])"),
        (lambda x: np.linalg.norm(x, 1), {"x": 2}, "abs(x[0]) + abs(x[1])"),
        (lambda x: np.sum(x) / 2 + np.prod(x), {"x": 2}, "(x[0] + x[1])/2 + x[0]*x[1]"),
        (lambda x: np.mean(x) - np.max(x) + x.min(), {"x": 2}, "(x[0] + x[1])/2 - max(x[0], x[1]) + min(x[0], x[1])"),
        (lambda x: np.stack([x[0], 2 * x[1]]), {"x": 2}, "[x[0], 2*x[1]]"),
        (lambda x: np.sin(np.array([x[0], 2 * x[1]])), {"x": 2}, "[sin(x[0]), sin(2*x[1])]"),
        (lambda x: np.concatenate([x[1:], [3.0]]), {"x": 2}, "[x[1], 3]"),
        (lambda x, y: (x, y**2, 1), None, "[x, y^2, 1]"),
        (lambda x, t: [e * t for e in x], {"x": 2}, "[x[0]*t, x[1]*t]"),
        (lambda v: v[0] * v[1], ("a", "b"), "a*b"),
        (lambda x, y: x - y, ("y", "x"), "x - y"),
        (lambda x: 1.5 * torch.sin(x) + torch.exp(-(x**2)), None, "1.5*sin(x) + exp(-x^2)"),
        (lambda x: torch.tensor(2.0) * x - torch.tensor(1.0) / x, None, "2*x - 1/x"),
        (lambda x: torch.tensor([1.0, 2.0]) @ x, {"x": 2}, "x[0] + 2*x[1]"),
        (lambda x: torch.clamp(x, max=0.5) + x.clamp(min=0, max=1), None, "min(x, 0.5) + clamp(x, 0, 1)"),
        (lambda x: torch.cat([x[:1], x[1:] * 2]), {"x": 2}, "[x[0], x[1]*2]"),
        (lambda x: functional.softmax(x, dim=0), {"x": 2}, "[sigmoid(x[0] - x[1]), sigmoid(x[1] - x[0])]"),
        (lambda x: functional.softplus(x, beta=2), None, "softplus(2*x)/2"),
        (lambda x: np.float32(0.1) * x, None, "0.10000000149011612*x"),
    ],
)
def test_traced_text(function, names, text):
    traced = af.formula(function, names)
    assert traced.text == str(traced) == text
    target = traced.on(af.Box(0.2, 0.9))  # compared with the function at 100 points
    assert target.names == traced.names
    assert (target.outputs is None) == traced.scalar


ACTIVATIONS = [
    functional.relu, functional.relu6, functional.gelu, lambda x: functional.gelu(x, approximate="tanh"),
    functional.silu, functional.mish, functional.elu, lambda x: functional.elu(x, 0.5),
    lambda x: functional.celu(x, 2.0), functional.selu, functional.softplus, functional.softsign, functional.tanhshrink,
    functional.logsigmoid, functional.hardswish, functional.hardsigmoid, functional.hardtanh, functional.leaky_relu,
    torch.sigmoid, torch.tanh, torch.rsqrt, torch.special.erf, torch.square,
]  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_functions_of_torch_mean_what_they_compute(activation):
    traced = af.formula(lambda x: activation(x))
    assert traced.scalar
    traced.on(af.Box([0.1] if activation is torch.rsqrt else [-5], [30]))


def test_parts_that_are_used_twice_are_one():
    def f(x, y):
        u = np.tanh(x + y)
        return np.stack([u * x, u + y, u**2 + np.tanh(x + y)])

    assert af.formula(f).text == "t1 = tanh(x + y); [t1*x, t1 + y, t1^2 + t1]"
    text = af.formula(lambda x, y: ((x + y) + 1) * ((x + y) + 2)).text
    assert text == "t1 = x + y; (t1 + 1)*(t1 + 2)"


def test_loops_are_unrolled_into_a_short_program():
    def f(x):
        for _ in range(100):
            x = x - 0.1 * np.sin(x) * x
        return x

    traced = af.formula(f)
    assert traced.on(af.Box([0], [1])).outputs is None
    assert len(traced.text) < 4000  # as a text without names it would be longer than the world
    with pytest.raises(AttributeError):
        traced.names = ("y",)


def test_float32_functions_are_compared_in_float32():
    weight = torch.tensor([0.25, -0.5], dtype=torch.float32)
    assert af.formula(lambda x: torch.dot(weight, x), {"x": 2}).on(af.Box(-1, 1)).describe() == "0.25*x[0] + -0.5*x[1]"


CHOICES = [
    lambda x: np.where(x > 0, x, 2 * x), lambda x: np.where(x <= 0, x, 2 * x), lambda x: torch.where(x >= 0, x, 2 * x),
    lambda x: (x > 0) * x, lambda x: np.where((x > 0) & (x < 0.5), x, 1),
]  # fmt: skip


@pytest.mark.parametrize("function", CHOICES)
def test_choices_by_comparisons(function):
    af.formula(function).on(af.Box([-1], [1]))


def branches(x):
    y = 2 * x
    if y > 1:
        return y
    return -y


def hidden_state(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x * len(seen)


REFUSED = {
    "math.sin": (lambda x: math.sin(x), None), "sin": (lambda x: sin(x), None), "float": (lambda x: float(x), None),
    "int": (lambda x: int(x), None), "round": (lambda x: round(x), None), "if": (branches, None),
    "max": (lambda x: max(x, 0), None), "a choice": (lambda x: x if x else 1, None), "==": (lambda x: x == 1, None),
    "%": (lambda x: x % 2, None), "in": (lambda x: 1 in x, {"x": 2}), "an index": (lambda x: x[5], {"x": 2}),
    "numpy()": (lambda x: x.numpy(), None), "a high power": (lambda x: x**100, None),
    "inv": (lambda x: np.linalg.inv(x), {"x": 2}), "sort": (lambda x: np.sort(x), {"x": 2}),
    "cumsum": (lambda x: np.cumsum(x), {"x": 2}), "accumulate": (lambda x: np.add.accumulate(x), {"x": 2}),
    "order": (lambda x: np.ravel(x, order="F"), {"x": 2}), "dtype": (lambda x: np.sum(x, dtype=int), {"x": 2}),
    "astype": (lambda x: x.astype(int), None), "to": (lambda x: x.to(torch.int64), None),
    "out": (lambda x: np.sin(x, out=np.zeros(())), None), "asarray": (lambda x: np.asarray(x, dtype=float), {"x": 2}),
    "torch.tensor": (lambda x: torch.tensor([x, x]), None), "complex": (lambda x: x + 1j, None),
    "infinity": (lambda x: x + np.inf, None), "shapes": (lambda x: x + np.ones(3), {"x": 2}),
    "shapes of @": (lambda x: x @ np.ones(3), {"x": 2}), "size": (lambda x: x @ np.ones((2, 200_000)), {"x": 2}),
    "NameError": (lambda x: x / undefined, None), "dropout": (lambda x: functional.dropout(x), None),  # noqa: F821
    "log_softmax": (lambda x: functional.log_softmax(x, 0), {"x": 2}), "text": (lambda x: "x", None),
    "None": (lambda x: None, None), "a dictionary": (lambda x: {"a": x}, None), "nothing": (lambda x: [], None),
    "a matrix": (lambda x: np.stack([x, x]), {"x": 2}), "*x": (lambda *x: x[0], None), "no input": (lambda: 1, None),
    "a keyword": (lambda x, *, k: x, None), "another vector": (lambda x, y: x, {"z": 2}),
    "another name": (lambda x, y: x, ("x", "z")), "a gap": (lambda x: x, ("x[0]", "x[2]")),
    "a name twice": (lambda x: x, ("a", "a")), "no name": (lambda x: x, ("a b", "c")),
}  # fmt: skip
LINED = ("math.sin", "sin", "float", "if", "max", "an index", "NameError", "asarray")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_formula_is_refused_with_its_line(name):
    with refused(af.TargetError) as caught:
        af.formula(*REFUSED[name])
    assert caught.value.remedy
    if name in LINED:
        assert "of test_traced.py" in str(caught.value)


OTHERS = {
    "random": (lambda x: np.random.default_rng().normal() * x, (0, 1)), "with a state": (hidden_state, (0.5, 1)),
    "by its type": (lambda x: x if isinstance(x, float) else 2 * x, (0.5, 1)),
    "beyond float64": (lambda x: np.exp(1000 + x), (0, 1)),
    "a quotient": (lambda x: x / 0 if isinstance(x, float) else x, (0, 1)),
    "that knows": (lambda x: x if hasattr(x, "nodes") else x.missing, (0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_functions_are_compared_with_what_was_traced(name):
    function, (low, high) = OTHERS[name]
    for verb in (af.formula(function).on, lambda box: af.compile(af.formula(function), box, 1e-2)):
        with refused(af.TargetError):
            verb(af.Box([low], [high]))
