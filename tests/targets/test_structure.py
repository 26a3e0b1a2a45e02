"""Ridges and sums: read from formulas, found by probing in callables, and nothing found that is not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from tests.refusals import refused


def cube(axes, lower=-1.0):
    return af.Box(lower, 1, shape=(axes,))


def named(letters, lower=-1.0):
    return dict.fromkeys(letters, (lower, 1))


def built(f, domain, kind, tol=1e-5):
    """The network, which is within tol at points of its own; a callable is asked inside of its domain only."""
    box = domain if isinstance(domain, af.Box) else af.Box(*np.array(list(domain.values()), dtype=float).T)

    def guarded(points):
        box.check(points)
        return f(points)

    net = af.compile(f if isinstance(f, str) else guarded, domain, tol, construction=kind, effort="low")
    assert af.measure(net, points=500, seed=7).sup <= tol
    return net


def product(*axes):
    return lambda x: np.prod([x[..., a] for a in axes], axis=0)


RIDGES = [
    (lambda x: np.cos(x.sum(axis=-1)), cube(8, 0.0), " + ".join(f"x[{i}]" for i in range(8))),
    (lambda x: (9 + x.sum(axis=-1)) ** -2.0, cube(3), "x[0] + x[1] + x[2]"),
    (lambda x: np.tanh(x @ [3, -2, 0.5]), cube(3), "x[0] - 0.6667*x[1] + 0.1667*x[2]"),
    (lambda x: np.abs(x @ [1, 2]), cube(2), "0.5*x[0] + x[1]"),
    (lambda x: np.clip(100 * (x @ [0.5, 1]), -1, 1), cube(2), "0.5*x[0] + x[1]"),
    (lambda x: np.sin(x @ [1, 1 / np.pi, -np.sqrt(0.2)]), cube(3), "x[0] + 0.3183*x[1] - 0.4472*x[2]"),
    (lambda x: np.sin(x[..., 0] + x[..., 1] * 1e-12 / 3), af.Box([0, 0], [1, 1e12]), "x[0] + 3.333e-13*x[1]"),
    (lambda x: np.cos(x.sum(axis=-1)) + 1e-9 * x[..., 0] ** 3, cube(3), "x[0] + x[1] + x[2]"),
    (lambda x: np.stack([np.sin(x @ [0.5, 1]), (x @ [0.5, 1]) ** 2], axis=-1), cube(2), "0.5*x[0] + x[1]"),
    ("tanh(3*x - 2*y + 0.5*z)", named("xyz"), "x - 0.6667*y + 0.1667*z"), ("cos(x - z)", named("xyz"), "x - z"),
    ("(x + y)^2 + x + y", named("xy"), "x + y"), ("x^2 + 2*x*y + y^2", named("xy"), "x + y"),
    ("exp(x + y) - (sin(2*x + 2*y) - y - 3) + x", named("xy"), "x + y"),
    ("sqrt(2)*sin(sqrt(2)*x + 2*y)", named("xy"), "0.7071*x + y"), ("(x + y + 3)^(x + y + 3)", named("xy"), "x + y"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "domain", "form"), RIDGES)
def test_ridges(f, domain, form):
    net = built(f, domain, "ridge")
    assert net.reason.startswith(f"A function of {form}, ")
    assert net.heads == 1


SUMS = [
    (lambda x: np.exp(x[..., 0]) + np.abs(x[..., 1] - 0.3), cube(2), "(x[0]), (x[1])"),
    (lambda x: np.sin(x[..., 0]) + x[..., 1] ** 2, cube(2), "(x[0]), (x[1])"),
    (lambda x: product(0, 1)(x) + product(1, 2)(x), cube(3), "(x[0], x[1]), (x[1], x[2])"),
    (lambda x: np.stack([np.exp(x[..., 0]), product(1, 2)(x)], axis=-1), cube(3), "(x[0]), (x[1], x[2])"),
    ("x*y*z + w", named("xyzw"), "(x, y, z), (w)"), ("(x + y)^2 - 2*x*y", named("xy"), "(x), (y)"),
    ("sin(20*x) + x*y", named("xy"), "(x), (x, y)"), ("cos(x + y) + z^2", named("xyz"), "(x + y), (z)"),
    ("cos(x + y) + 3*sin(2*x + 2*y) + z", named("xyz"), "(x + y), (z)"),
    ("exp(x)*2 - 4*(cos(y) - x*5)/3", named("xy"), "(x), (y)"),
    ("x*y + 2*z - w + 1", named("xyzw"), "(x, y), (z - 0.5*w)"), ("sin(x) + x*y - 3*x + 2", named("xy"), "(x), (x, y)"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "domain", "terms"), SUMS)
def test_sums(f, domain, terms):
    net = built(f, domain, "additive")
    count = terms.count("(")
    assert net.reason.startswith(f"A sum of {count} terms, of {terms}, ")
    assert net.heads == count


NEITHER = [
    (product(0, 1), cube(2)), (lambda x: np.cos(product(0, 1, 2)(x)), cube(3)),
    (lambda x: np.cos(x.sum(axis=-1)) * np.exp(-(x**2).sum(axis=-1) / 8), cube(8, 0.0)),
    (lambda x: np.cos(((x + 2) ** 2).sum(axis=-1)), cube(5)),
    (lambda x: np.stack([np.sin(x @ [0.5, 1]), (x @ [1, 1]) ** 2], axis=-1), cube(2)), ("cos(x*y*z) + 1", named("xyz")),
    ("cos(x + y)*cos(x + 1.000000001*y)*x", named("xy")), ("sin(x*y)", named("xy")),
]  # fmt: skip


@pytest.mark.parametrize(("f", "domain"), NEITHER)
def test_neither(f, domain):
    for kind in ("ridge", "additive"):
        with refused(af.RefusalError):
            af.compile(f, domain, 1e-7, construction=kind)


def test_a_disturbance_above_the_tolerance_counts():
    def disturbed(x):
        return np.cos(x.sum(axis=-1)) + 1e-4 * x[..., 0]

    def weak(x):
        return np.exp(x[..., 0]) + np.sin(x[..., 1]) + 1e-7 * x[..., 0] * x[..., 1]

    with refused(af.RefusalError):
        built(disturbed, cube(3), "ridge", 1e-6)
    assert built(weak, cube(2), "additive", 1e-3).heads == 2
    with refused(af.RefusalError):
        built(weak, cube(2), "additive", 1e-7)


def test_a_claim_that_fresh_points_contradict_is_not_believed():
    """A spike at one single point, which only the check looks at: the function is no ridge."""
    asked = []

    def ridge(points):
        asked.append(points.copy())
        return np.cos(points.sum(axis=-1))

    net = af.compile(ridge, cube(2), 1e-5, construction="ridge", effort="low")
    looked = int(net.reason.partition(" with ")[2].partition(" eval")[0].replace(",", ""))
    for spike in np.concatenate(asked)[[looked // 2, 3 * looked // 5]]:
        f = lambda x, at=spike: np.cos(x.sum(axis=-1)) + 1e-3 * (x == at).all(axis=-1)  # noqa: E731
        with refused(af.RefusalError) as caught:
            af.compile(f, cube(2), 1e-5, construction="ridge", effort="low")
        assert "misses it by" in str(caught.value)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=4).filter(lambda w: np.count_nonzero(w) > 1))
def test_every_direction_is_found_as_text_and_by_probing(weights):
    names = [f"x[{i}]" for i in range(len(weights))]
    text = f"sin({' + '.join(f'({w})*{name}' for w, name in zip(weights, names, strict=True))})"
    for f in (text, lambda x: np.sin(x @ np.array(weights))):
        assert built(f, named(names) if isinstance(f, str) else cube(len(weights)), "ridge").heads == 1


# Sums handed in as pairs.

BOX = af.Box([-1, 0, 2], [1, 3, 5])
PAIRS = [([0], lambda x: np.sin(x[..., 0])), ((2, 1), lambda x: x[..., 0] * 10 + x[..., 1])]


def test_given_terms_are_asked_inside_of_their_own_ranges_only():
    seen = []

    def watched(x):
        seen.append(x.reshape(-1, 2))
        return x[..., 0] * 10 + x[..., 1]

    net = af.constructions.additive([PAIRS[0], ((2, 1), watched)], BOX, tol=1e-6)
    points = np.random.default_rng(0).uniform(BOX.lower, BOX.upper, size=(50, 3))
    np.testing.assert_allclose(net(points), np.sin(points[:, 0]) + 10 * points[:, 2] + points[:, 1], atol=2e-6)
    asked = np.concatenate(seen)
    assert (asked.min(axis=0) >= [2, 0]).all()
    assert (asked.max(axis=0) <= [5, 3]).all()
    assert "A sum of 2 terms, as given" in net.reason


WRONG_PAIRS = [
    ([], np.sin), ([0, 0], np.sin), ([3], np.sin), ([-1], np.sin), ([0.0], np.sin), ("0", np.sin), (0, np.sin),
    ([0], "sin"), ([0],), ([0], np.sin, np.cos), None, np.sin, ([0], 3),
]  # fmt: skip


@pytest.mark.parametrize("entry", WRONG_PAIRS, ids=str)
def test_what_is_no_sum_of_pairs_is_refused(entry):
    for terms, box in (([PAIRS[0], entry], BOX), ([], BOX), (PAIRS, af.Box(0, 1, shape=(2, 3)))):
        with refused():
            af.constructions.additive(terms, box, tol=1e-3)
