"""Functions of one linear form: proved along a line, for any number of inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flint import arb

import attnforge as af
from attnforge.balls import machine, precision
from attnforge.certification.enclosure.affine_heads import affine_head, read_heads
from attnforge.certification.enclosure.fitted import prove_fitted
from attnforge.certification.enclosure.line import line_of
from attnforge.certification.enclosure.one_input import READ
from attnforge.certification.statement import Statement
from attnforge.network import Attention, rounded
from attnforge.targets import Formula
from attnforge.targets.expression import parse, variables

U = (-1, 1)
CASES = [
    ("sin(3*x + 2*y - z)", "xyz", 1e-8),
    ("exp(-(x + y/3)^2) + x + y/3", "xy", 1e-8),
    ("abs(x + 2*y - 0.3*z) + sin(x + 2*y - 0.3*z)", "xyz", 1e-5),
    ("cos(0.1*a + 0.2*b - 0.3*c + 0.5*d + f + g - h + k)", "abcdfghk", 1e-6),
]


def built(text, names, tol):
    return af.compile(text, dict.fromkeys(names, U), tol=tol, construction="ridge")


def proved(net, **changes):
    network = replace(rounded(net.network, "float64"), **changes)
    return prove_fitted(Statement(network, net.target, net.domain, machine("float64")))


def line(net, text=None, network=None):
    tree = net.target.tree if text is None else parse(text)
    encode, heads = read_heads(network or net.network)
    with precision(READ):
        exact = tuple(affine_head(encode, head, len(net.target.names)) for head in heads)
        return line_of(exact, tree, net.target.names, net.domain)


@pytest.mark.parametrize(("text", "names", "tol"), CASES)
def test_proved_within_a_fifth_of_the_measured_error(text, names, tol):
    net = built(text, names, tol)
    found, measured = proved(net), af.measure(net, points=20_000, seed=1).sup
    assert found.limit is None
    assert measured <= sum(found.parts.values()) <= 1.2 * measured


def test_a_changed_value_is_seen():
    net = built(*CASES[3])
    head = net.network.heads[0]
    values = head.memory_values.copy()
    values[len(values) // 2] += 1e-3
    layers = (*net.network.layers[:-1], Attention((replace(head, memory_values=values),)))
    assert proved(net, layers=layers).parts["fit"] > 1e-4


def test_a_head_that_reads_a_little_of_another_direction_is_no_line():
    net = built(*CASES[0])
    head = net.network.heads[0]
    turned = head.query.copy()
    turned[0] *= 1 + 1e-6
    layers = (*net.network.layers[:-1], Attention((replace(head, query=turned, claims=None),)))
    assert line(net) is not None
    assert line(net, network=replace(net.network, layers=layers)) is None


def test_a_formula_of_two_directions_is_no_line():
    net = built(*CASES[0])
    assert line(net, "sin(3*x + 2*y - z) + x") is None
    assert line(net, "x*y*z") is None


def test_the_formula_in_its_new_variables_is_the_same_function():
    net = built(*CASES[1])
    found = line(net)
    assert all(name.startswith("y[") for name in variables(found.tree))
    point = {"x": 0.3, "y": -0.7}
    with precision(200):
        exact = arb(point["x"]) * found.weights[0] + arb(point["y"]) * found.weights[1]
        values = {name: float(slope * exact + offset) for name, (slope, offset) in found.forms.items()}
    there = Formula(found.tree, af.Box(-9, 9, shape=(len(values),)), tuple(values)).values(
        np.array([[*values.values()]])
    )
    assert there[0] == pytest.approx(np.exp(-((0.3 - 0.7 / 3) ** 2)) + 0.3 - 0.7 / 3, rel=1e-14)


def test_the_ends_are_those_of_the_form():
    found = line(built(*CASES[0]))
    assert found.ends[1] >= np.abs(found.weights).sum() * (1 - 1e-15)
    assert found.upper == pytest.approx(found.ends[1], rel=1e-15)
    assert found.lower == -found.upper


def test_near_rounding_still_tight():
    net = built("sin(3*x + 2*y - z)", "xyz", 1e-12)
    found, measured = proved(net), af.measure(net, points=20_000, seed=1).sup
    assert measured <= sum(found.parts.values()) <= 5 * measured


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_dtypes_with_their_rounding(dtype):
    domain = dict.fromkeys("xyz", U)
    tol = 1e-3 if dtype == "float32" else 0.5
    net = af.compile("sin(3*x + 2*y - z)", domain, tol, construction="ridge", dtype=dtype, effort="low")
    found = prove_fitted(Statement(rounded(net.network, dtype), net.target, net.domain, machine(dtype)))
    measured = af.measure(net, points=20_000, seed=1).sup
    assert measured <= sum(found.parts.values()) <= 60 * measured
    assert found.parts["rounding"] > machine(dtype).roundoff
