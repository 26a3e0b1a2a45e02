"""Fitted values: exact in the span, residuals as stated, tamer for coarser cuts, the same along tensors."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.anchors.axis import Axis
from attnforge.anchors.fitting import Samples, cuts_between
from attnforge.anchors.panels import Panels

AXIS = Axis.uniform(-1.0, 1.0, 16, 3.0, 0.4)


def samples(columns, panels):
    fit_at, check_at = panels.samples(4), panels.samples(9.1)
    return Samples(fit_at, check_at, panels.interpolation(fit_at), panels.interpolation(check_at), columns)


def of(f, degree=40):
    panels = Panels.whole(-1.0, 1.0, degree)
    return samples(np.asarray(f(panels.nodes), dtype=np.float64).reshape(len(panels.nodes), -1), panels)


def test_a_function_in_the_span_is_reproduced_to_rounding():
    values = np.random.default_rng(3).normal(size=(len(AXIS), 2))
    given = of(lambda x: AXIS.weights(x) @ values)
    (fit,) = given.fits(AXIS, np.array([1e-15]))
    assert fit.residual < 1e-12
    x = np.linspace(-1, 1, 301)
    found = AXIS.weights(x) @ fit.values(given.columns)
    np.testing.assert_allclose(found, AXIS.weights(x) @ values, rtol=0, atol=1e-12)


def test_the_residual_is_the_largest_error_at_the_check_points():
    given = of(lambda x: np.stack([np.sin(8 * x), np.cos(3 * x)], axis=1))
    for fit in given.fits(AXIS, cuts_between(1e-2, 1e-12)):
        reached = AXIS.weights(given.check_at) @ fit.values(given.columns)
        wanted = np.stack([np.sin(8 * given.check_at), np.cos(3 * given.check_at)], axis=1)
        assert fit.residual == pytest.approx(np.abs(reached - wanted).max(), rel=1e-3, abs=1e-12)


def test_coarser_cuts_are_better_conditioned_and_worse_fits():
    given = of(lambda x: np.sin(8 * x))
    fits = given.fits(Axis.uniform(-1.0, 1.0, 24, 6.0, 0.4), cuts_between(1e-2, 1e-13))
    conditions, residuals = [fit.condition for fit in fits], [fit.residual for fit in fits]
    assert conditions == sorted(conditions)
    assert conditions[-1] > 100 * conditions[0]
    assert residuals[-1] < 1e-2 * residuals[0]
    for fit in fits:
        assert fit.condition <= 1 / fit.cut * (1 + 1e-9)


def test_values_along_a_tensor_are_those_column_by_column():
    given = of(np.exp)
    (fit,) = given.fits(AXIS, np.array([1e-9]))
    table = np.random.default_rng(0).normal(size=(len(given.columns), 3, 2))
    whole = fit.values(table)
    assert whole.shape == (len(AXIS), 3, 2)
    scale = np.abs(whole).max()
    for i in range(3):
        for j in range(2):
            np.testing.assert_allclose(whole[:, i, j], fit.values(table[:, i, j]), rtol=0, atol=1e-12 * scale)


def test_cuts_go_from_coarse_to_fine_and_end_at_both():
    cuts = cuts_between(1e-2, 4e-16)
    assert cuts[0] == pytest.approx(1e-2)
    assert cuts[-1] == pytest.approx(4e-16)
    ratios = cuts[:-1] / cuts[1:]
    assert (ratios > 15).all()
    assert (ratios < 60).all()
    assert len(cuts_between(1e-2, 9e-3)) == 2
