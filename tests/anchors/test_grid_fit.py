"""Product grids of fitted anchors: within tol at fresh points, few anchors, f seen inside its box only, refusals."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from attnforge.anchors import grid_fit
from attnforge.anchors.grid_fit import contract, fit_counts, fit_grid
from attnforge.errors import RefusalError, TargetError, ToleranceError
from tests.clock import at_most


def on_box(f, lower, upper):
    """f as (N, r) -> (N, k), that fails when it is asked outside its box."""

    def guarded(points):
        assert (points >= lower).all()
        assert (points <= upper).all()
        return np.asarray(f(*points.T), dtype=np.float64).reshape(len(points), -1)

    return guarded


def fitted(f, ends, tol, **more):
    lower, upper = np.array(ends, dtype=np.float64).T
    guarded = on_box(f, lower, upper)
    found = fit_grid(guarded, lower, upper, tol, **more)
    points = np.random.default_rng(9).uniform(lower, upper, size=(4000, len(lower)))
    error = float(np.abs(found.at(points) - guarded(points)).max())
    assert found.error <= tol
    assert error <= 1.3 * tol
    return found, [len(axis) for axis in found.axes]


LINE = [(-1, 1)]
SQUARE = [(-1, 1), (-1, 1)]


@pytest.mark.parametrize(
    ("f", "tol", "most"),
    [
        (lambda x: np.sin(8 * x), 1e-10, 24),
        (lambda x: np.abs(x - 0.3), 1e-6, 64),
        (lambda x: np.tanh(1000 * (x - 0.3)), 1e-4, 60),
        (lambda x: np.stack([np.sin(3 * x), np.cos(5 * x), 0 * x], axis=1), 1e-8, 20),
        (lambda x: 1e9 * np.sin(8 * x), 1e2, 20),
    ],
    ids=["sin(8x)", "kink", "layer", "vector", "large"],
)
def test_one_input(f, tol, most):
    found, (count,) = fitted(f, LINE, tol)
    assert count <= most
    assert found.anchors == count


@pytest.mark.parametrize("ends", [(1e6 - 1, 1e6 + 1), (-1e-6, 1e-6), (0, 1e7)])
def test_far_small_and_large_intervals(ends):
    middle, half = sum(ends) / 2, (ends[1] - ends[0]) / 2
    _, (count,) = fitted(lambda x: np.sin(8 * (x - middle) / half), [ends], 1e-8)
    assert count <= 22


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("ends", [LINE, SQUARE])
def test_constants_take_one_anchor(ends, value):
    found, counts = fitted(lambda x, *_: value + 0 * x, ends, 1e-6)
    assert found.anchors == 1
    assert counts == [1] * len(ends)
    assert found.values.ravel() == pytest.approx([value])


def test_an_input_that_does_not_matter_gets_one_anchor():
    _, counts = fitted(lambda x, y: np.sin(8 * y), SQUARE, 1e-8)
    assert counts[0] == 1
    assert counts[1] <= 22


def test_anchors_follow_what_each_axis_needs():
    _, (along_x, along_y) = fitted(lambda x, y: np.sin(10 * x) * np.exp(y / 5), SQUARE, 1e-8)
    assert along_x <= 26
    assert along_y <= 10


def test_kinks_along_both_axes():
    found, counts = fitted(lambda x, y: np.abs(x - 0.1) * np.abs(y + 0.2), SQUARE, 1e-4)
    assert found.is_graded
    assert max(counts) <= 50
    assert [edge.at for edges in found.edges for edge in edges] == pytest.approx([0.1, -0.2], abs=1e-9)


def test_three_inputs():
    _, counts = fitted(lambda x, y, z: np.exp(-((x + y + z) ** 2) / 3), [(-1, 1)] * 3, 1e-4)
    assert max(counts) <= 12


@pytest.mark.parametrize("axis", [0, 1])
def test_a_jump_is_refused_by_its_place(axis):
    expected = rf"jump of 1 at 0\.3 along axis {axis}\. No tol below 0\.5"
    with pytest.raises(TargetError, match=expected):
        fitted(lambda *x: 1.0 * (x[axis] > 0.3), SQUARE, 1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named_with_the_whole_point(bad):
    with pytest.raises(TargetError, match=r"must be finite .* at \((.*), (.*)\)") as caught:
        fitted(lambda x, y: np.where((x > 0.5) & (y < -0.5), bad, x + y), SQUARE, 1e-3)
    x, y = map(float, re.search(r"\((\S+), (\S+)\)", str(caught.value)).groups())
    assert x > 0.5
    assert y < -0.5


@pytest.mark.parametrize(("roundoff", "dtype_tol"), [(2.0**-53, 1e-16), (2.0**-24, 1e-7), (2.0**-8, 1e-2)])
def test_a_tolerance_below_rounding_is_refused_and_what_it_advises_is_not(roundoff, dtype_tol):
    def f(points):
        return np.cos(points)

    ends = np.array([-1.0]), np.array([1.0])
    with pytest.raises(ToleranceError, match=r"exceed rounding.*Ask for tol >= ") as caught:
        fit_grid(f, *ends, dtype_tol, roundoff)
    advised = float(re.search(r">= (\S+)\.$", str(caught.value)).group(1))
    assert advised >= 4 * roundoff * np.cos(np.random.default_rng(0).uniform(-1, 1, (1000, 1))).max()
    assert advised <= 4.4 * roundoff


def test_a_fit_that_misses_at_fresh_points_is_made_again(monkeypatch):
    made, assembled = [], grid_fit._assembled

    def off_at_first(*arguments):
        found = assembled(*arguments)
        made.append(replace(found, values=found.values + (0.0 if made else 2e-5)))
        return made[-1]

    monkeypatch.setattr(grid_fit, "_assembled", off_at_first)
    found, _ = fitted(lambda x: np.sin(8 * x), LINE, 1e-5)
    assert len(made) == 2
    assert found.error <= 1e-5


def test_coarse_dtypes_get_tame_values():
    """Weights times absolute values, which rounding is proportional to, stay within twice f near a dtype's rounding."""
    points = np.linspace(-1, 1, 500)

    def size(**more):
        found, _ = fitted(lambda x: np.sin(8 * x), LINE, 1e-6, **more)
        return contract([found.axes[0].weights(points)], np.abs(found.values)).max()

    assert size(roundoff=2.0**-24) <= 2.05
    assert size() > 4


def test_roughness_off_the_axes_is_fitted_loosely_or_refused_soon():
    """Soon: after half the values that a fit of this tolerance would be allowed."""
    asked = []

    def f(x, y):
        asked.append(len(x))
        return np.abs(x + y)

    fitted(f, SQUARE, 0.2)
    assert sum(asked) <= 50_000
    asked.clear()
    with at_most(200_000), pytest.raises(RefusalError, match="rough away from the axes"):
        fitted(f, SQUARE, 1e-4)
    assert sum(asked) <= 2_500_000


def test_too_many_samples_are_refused_before_f_is_asked_for_them():
    asked = []

    def f(points):
        asked.append(len(points))
        return np.sin(20 * points).prod(axis=1, keepdims=True)

    with pytest.raises(RefusalError, match=r"at most 4,000,000 values of f.* x .*samples.*structure"):
        fit_grid(f, -np.ones(5), np.ones(5), 1e-6)
    assert sum(asked) < 100_000


def test_counts_are_those_on_the_domain():
    def f(points):
        return np.sin(20 * points[:, :1]) * np.cos(10 * points[:, 1:])

    found = fit_counts(f, np.zeros(2), np.ones(2), [6, 4])
    assert [int(axis.inside.sum()) for axis in found.axes] == [6, 4]
    points = np.random.default_rng(7).uniform(size=(2000, 2))
    assert found.error == pytest.approx(np.abs(found.at(points) - f(points)).max(), rel=0.5)
    finer = fit_counts(f, np.zeros(2), np.ones(2), [10, 8])
    assert finer.error < 0.01 * found.error
    assert found.error < 0.1


def test_contraction_is_a_sum_over_all_anchors():
    rng = np.random.default_rng(0)
    first, second, values = rng.normal(size=(7, 3)), rng.normal(size=(7, 4)), rng.normal(size=(3, 4, 2))
    np.testing.assert_allclose(contract([first, second], values), np.einsum("na,nb,abk->nk", first, second, values))
