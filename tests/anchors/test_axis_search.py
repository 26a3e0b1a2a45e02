"""The fewest anchors along one axis: within tol, no more than needed, graded only where that pays."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.anchors.axis_search import AxisSearch
from attnforge.anchors.fitting import FINEST_CUT
from attnforge.anchors.resolve import resolve
from attnforge.errors import RefusalError

FRESH = np.random.default_rng(1).uniform(-1, 1, 2000)


def search(f, tol, **limits):
    def column(x):
        return np.asarray(f(x), dtype=np.float64).reshape(len(x), -1)

    found = resolve(column, -1.0, 1.0, 0.05 * tol)
    assert found.resolved
    return AxisSearch(found.panels, found.edges, found.values, tol, FINEST_CUT, **limits), found.values


def error_of(fit, values, f):
    reached = fit.axis.weights(FRESH) @ fit.values(values)
    return float(np.abs(reached - np.asarray(f(FRESH)).reshape(len(FRESH), -1)).max())


CASES = {
    "sin(8x)": (lambda x: np.sin(8 * x), 1e-9, 24, False),
    "kink": (lambda x: np.abs(x - 0.3), 1e-5, 52, True),
    "layer": (lambda x: np.tanh(1000 * (x - 0.3)), 1e-4, 60, True),
    "pair": (lambda x: np.stack([np.sin(3 * x), np.cos(5 * x)], axis=1), 1e-8, 20, False),
}


@pytest.mark.parametrize("name", CASES)
def test_within_tol_at_fresh_points_with_few_anchors(name):
    f, tol, most, graded = CASES[name]
    found, values = search(f, tol)
    fit = found.smallest(tol)
    assert fit.residual <= tol
    assert error_of(fit, values, f) <= 1.2 * tol
    assert len(fit.axis) <= most
    assert found.is_graded == graded
    uniform_gaps = np.ptp(np.diff(fit.axis.positions)) < 1e-9
    assert uniform_gaps != graded


@pytest.mark.parametrize("frequency", [3, 8, 13, 20])
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_one_anchor_fewer_does_not_reach_it(frequency, tol):
    def f(x):
        return np.sin(frequency * x)

    found, _ = search(f, tol)
    count = len(found.smallest(tol).axis)
    assert found.uniform(count - 1, tol).residual > tol
    assert found.uniform(count, tol).residual <= tol


def test_a_finer_tolerance_needs_more_anchors():
    found, _ = search(lambda x: np.sin(8 * x), 1e-11)
    counts = [len(found.smallest(tol).axis) for tol in (1e-2, 1e-5, 1e-8, 1e-11)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_a_constant_takes_one_anchor(value):
    found, values = search(lambda x: np.full(len(x), value), 1e-6)
    fit = found.smallest(1e-6)
    assert len(fit.axis) == 1
    assert fit.values(values)[0, 0] == pytest.approx(value, rel=1e-12)


def test_the_tamest_fit_within_tol_is_taken():
    found, _ = search(lambda x: np.sin(8 * x), 1e-9)
    loose, strict = found.uniform(24, 1e-6), found.uniform(24, 0.0)
    assert loose.residual <= 1e-6
    assert strict.residual <= loose.residual
    assert loose.condition <= strict.condition


@pytest.mark.parametrize(
    ("name", "most", "got"),
    [("sin(8x)", 8, "[0-9.e+-]+"), ("kink", 32, "[0-9.e+-]+"), ("kink", 8, "no mesh of so few")],
)
def test_too_few_anchors_allowed_is_refused_with_what_was_reached(name, most, got):
    f, tol, *_ = CASES[name]
    found, _ = search(f, tol, most=most)
    with pytest.raises(RefusalError, match=rf"at most {most} anchors\. Got {got}\. Raise tol"):
        found.smallest(tol)


@pytest.mark.parametrize("name", ["sin(8x)", "kink"])
def test_inside_counts_anchors_on_the_domain(name):
    f, tol, *_ = CASES[name]
    found, values = search(f, tol)
    fit = found.inside(20)
    assert fit.axis.inside.sum() == 20
    assert error_of(fit, values, f) < 0.1
    assert fit.residual == pytest.approx(error_of(fit, values, f), rel=0.5, abs=0.1 * tol)
