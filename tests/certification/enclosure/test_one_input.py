"""The supremum of |heads - formula| on an interval: proved, tight, and never below what is measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.balls import machine, precision
from attnforge.certification.enclosure.affine_heads import affine_head, read_heads
from attnforge.certification.enclosure.fitted import prove_fitted
from attnforge.certification.enclosure.one_input import READ, ErrorOnIntervals, supremum
from attnforge.certification.statement import Statement
from attnforge.network import Attention, Head
from attnforge.targets.expression import parse

CASES = [
    ("sin(8*x)", (-1, 1), 1e-8),
    ("1/(1 + 25*x^2)", (-1, 1), 1e-8),
    ("exp(x)", (-1, 1), 1e-8),
    ("log(x)", (0.1, 2), 1e-8),
    ("sin(8*x) + abs(x)", (-1, 1), 1e-6),
    ("abs(x - 1/3)", (0, 1), 1e-5),
    ("tanh(1000*(x - 0.3))", (-1, 1), 1e-6),
    ("sqrt(x)", (0, 1), 1e-6),
    ("max(sin(5*x), cos(5*x))", (-1, 1), 1e-4),
    ("x^3 - x", (-2, 2), 1e-9),
]


@pytest.mark.parametrize(("text", "interval", "tol"), CASES)
def test_proved_within_a_quarter_of_the_measured_error(text, interval, tol):
    net = af.compile(text, {"x": interval}, tol=tol, construction="tensor_grid")
    found = af.measure(net, points=20_000, seed=5).sup
    assert net.certificate.status == "proved"
    assert found <= net.certificate.bound <= 1.25 * found + 2 * net.certificate.parts["rounding"]
    assert net.certificate.bound <= tol


@pytest.mark.parametrize(("text", "interval", "tol"), [("sin(8*x)", (-1, 1), 1e-12), ("exp(x)", (-1, 1), 1e-12)])
def test_near_rounding_the_error_in_exact_arithmetic_is_still_tight(text, interval, tol):
    net = af.compile(text, {"x": interval}, tol=tol)
    assert net.certificate.parts["fit"] <= 1.25 * af.measure(net, points=20_000).sup


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_dtypes_with_their_rounding(dtype):
    net = af.constructions.tensor_grid("sin(3*x)", {"x": (-1, 1)}, anchors=9, dtype=dtype)
    assert af.measure(net, points=20_000).sup <= net.certificate.bound


@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(0.05, 4))
@settings(max_examples=25, deadline=None)
def test_random_heads_are_never_above_their_bound(seed, count, c):
    """Any keys, any values: the certificate is about the numbers, not about how they came to be."""
    base = af.constructions.tensor_grid("sin(3*x)", {"x": (-1, 1)}, anchors=4)
    rng = np.random.default_rng(seed)
    head = base.network.heads[0]
    keys, values = rng.normal(size=(count, head.query.shape[1])) * c, rng.normal(size=(count, 1))
    changed = replace(head, memory_keys=keys, memory_values=values, claims=None)
    network = replace(base.network, layers=(base.network.layers[0], Attention((changed,))))
    parts = prove_fitted(Statement(network, base.target, base.domain, machine("float64"))).parts
    x = rng.uniform(-1, 1, size=(4000, 1, 1))
    error = np.abs(network(x)[:, 0, 0] - np.sin(3 * x[:, 0, 0])).max()
    assert error <= sum(parts.values()) <= 1.2 * error + 1e-9


@pytest.mark.parametrize("where", [0, 5, 12])
def test_a_value_changed_by_more_than_the_slack_is_seen(where):
    net = af.compile("sin(8*x)", {"x": (-1, 1)}, tol=1e-8)
    head = net.network.heads[0]
    values = head.memory_values.copy()
    values[where] += 1e-3
    layers = (net.network.layers[0], Attention((replace(head, memory_values=values),)))
    found = af.certify(replace(net.network, layers=layers), net.target)
    assert found.bound > net.certificate.bound


def test_cells_cover_the_interval():
    net = af.compile("abs(x)*x", {"x": (-1, 2)}, tol=1e-5, construction="tensor_grid")
    encode, heads = read_heads(net.network)
    with precision(READ):
        exact = tuple(affine_head(encode, head, 1) for head in heads)
    found = supremum(exact, parse("abs(x)*x"), "x", -1.0, 2.0)
    low, high = np.sort(found.lower[:, 0]), np.sort(found.upper[:, 0])
    assert (low[0], high[-1]) == (-1.0, 2.0)
    assert np.array_equal(low[1:], high[:-1])


def hyperbolic(*scales):
    """Heads of two keys each: together sum(scales) tanh(x), exactly."""
    head = Head(np.eye(1), np.eye(1), memory_keys=np.array([[-1.0], [1.0]]), memory_values=np.array([[-1.0], [1.0]]))
    heads = tuple(replace(head, memory_values=scale * head.memory_values) for scale in scales)
    with precision(READ):
        return tuple(affine_head((), each, 1) for each in heads)


def test_errors_far_below_what_float64_tells():
    found = supremum(hyperbolic(1.0), parse("tanh(x) + 1e-30*cos(x)"), "x", -1.0, 1.0)
    assert found.limit is None
    assert found.bound / 1.1 <= found.seen <= 1e-30 <= found.bound <= 1.1e-30
    assert len(found.lower) < 200


def test_more_bits_where_values_are_wild():
    """Three heads that nearly cancel: 160 bits leave 1e-18, which no smaller cell lessens."""
    heads, tree = hyperbolic(1.0, 1e30, -1e30), parse("tanh(x) + 1e-20*cos(x)")
    assert ErrorOnIntervals(heads, tree, {"x": (arb(1), arb(0))}).on(0.0999, 0.1).bound > 1e-19
    found = supremum(heads, tree, "x", -0.1, 0.1)
    assert found.limit is None
    assert found.bound <= 1.1e-20


def test_an_error_of_zero_ends_the_search():
    found = supremum(hyperbolic(1.0), parse("tanh(x)"), "x", -1.0, 1.0)
    assert (found.seen, found.limit) == (0.0, None)
    assert found.bound <= 1e-32


def test_a_limit_is_said():
    found = supremum(hyperbolic(1.0), parse("tanh(x) + 1e-9*sin(90*x)"), "x", -1.0, 1.0, cells=10)
    assert found.limit == "10 cells"
    assert found.bound >= 1e-9


def test_where_balls_hide_the_error_the_search_ends():
    forms = {"u": (arb(1), arb(0, 1e-6))}
    found = supremum(hyperbolic(1.0), parse("tanh(u)"), forms, -1.0, 1.0)
    assert "digits" in found.limit
    assert 1e-6 <= found.bound <= 3e-6
    assert len(found.lower) < 2000


def test_where_the_formula_is_not_bounded_nothing_is_proved():
    net = af.compile("1/x", {"x": (0.1, 1)}, tol=1e-3)
    found = af.certify(net.network, "1/x", {"x": (0, 1)})
    assert (found.status, found.bound) == ("sampled", None)
