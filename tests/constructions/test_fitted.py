"""Fitted constructions by name: tolerances, counts, and arguments that make no sense."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from attnforge import constructions as made
from tests.refusals import refused

LINE = {"x": (-1, 1)}
CUBE = af.Box(-1, 1, shape=(3,))
TERMS = [([0], lambda x: np.sin(5 * x[..., 0])), ([1, 2], lambda x: x[..., 0] * np.exp(x[..., 1]))]


def test_tensor_grid_by_tolerance_and_by_count():
    by_tol = made.tensor_grid("sin(8*x)", LINE, tol=1e-9)
    assert by_tol.certificate.estimate.error <= 1e-9
    by_count = made.tensor_grid("sin(8*x)", LINE, anchors=12)
    (head,) = by_count.network.heads
    assert head.claims.roles.count("anchor") == 12
    assert by_count.anchors > 12
    assert "fitted values" in by_count.reason


def test_one_count_an_axis_or_one_for_all():
    domain = {"x": (0, 1), "y": (0, 1)}
    (head,) = made.tensor_grid("exp(x*y)", domain, anchors=[5, 3]).network.heads
    assert head.claims.roles.count("anchor") == 15
    (head,) = made.tensor_grid("exp(x*y)", domain, anchors=4).network.heads
    assert head.claims.roles.count("anchor") == 16


@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-9), ("float32", 1e-3), ("bfloat16", 0.2)])
def test_few_anchors_are_fitted_for_the_dtype_that_runs(dtype, most):
    """Values a float64 fit would like are noise in coarser dtypes."""
    assert made.tensor_grid("sin(8*x)", LINE, anchors=6, dtype=dtype).certificate.estimate.error <= most


@pytest.mark.parametrize("given", [{}, {"tol": 1e-3, "anchors": 5}])
def test_either_tol_or_anchors(given):
    with refused(af.RefusalError):
        made.tensor_grid("sin(8*x)", LINE, **given)


@pytest.mark.parametrize("anchors", [0, 1, -3, 2.5, "many", [5, 5], [], [[5]], [[1], [1, 2]], True])
def test_counts_that_make_no_sense(anchors):
    with refused(af.RefusalError):
        made.tensor_grid("sin(8*x)", LINE, anchors=anchors)


@pytest.mark.parametrize(("anchors", "inputs"), [(2000, 1), (10**12, 1), (300, 3)])
def test_absurd_counts_are_refused_at_once(anchors, inputs):
    """Nothing is known of the function then but the shape of its values, from two points."""
    asked = []

    def f(x):
        asked.append(len(x))
        return x.sum(axis=-1)

    with refused(af.RefusalError):
        made.tensor_grid(f, af.Box(0, 1, shape=(inputs,)), anchors=anchors)
    assert sum(asked) <= 2


@pytest.mark.parametrize("tol", [0, -1e-3, float("nan"), float("inf"), "small"])
@pytest.mark.parametrize(
    "build",
    [
        lambda tol: made.tensor_grid("sin(8*x)", LINE, tol=tol),
        lambda tol: made.polynomial("x^2", LINE, tol=tol),
        lambda tol: made.ridge("sin(x + y)", {"x": (0, 1), "y": (0, 1)}, tol=tol),
        lambda tol: made.additive(TERMS, CUBE, tol=tol),
    ],
    ids=["tensor_grid", "polynomial", "ridge", "given"],
)
def test_tolerances_that_make_no_sense(build, tol):
    with refused(af.ToleranceError):
        build(tol)


def test_dtypes_that_do_not_exist():
    for build in (made.tensor_grid, made.ridge, made.polynomial):
        with refused(af.RefusalError):
            build("x", LINE, tol=1e-3, dtype="float128")
    with refused(af.RefusalError):
        made.additive(TERMS, CUBE, tol=1e-3, dtype="float128")


@pytest.mark.parametrize(
    "build",
    [
        lambda **asked: af.constructions.tensor_grid("x*y", {"x": (0, 1), "y": (0, 1)}, anchors=9, **asked),
        lambda **asked: af.constructions.ridge("sin(x + y)", {"x": (0, 1), "y": (0, 1)}, tol=1e-4, **asked),
        lambda **asked: af.constructions.max_affine("x*y", {"x": (0, 1), "y": (0, 1)}, cells=9, **asked),
        lambda **asked: af.constructions.truncated_linear([1.0], 0, -1, 1, anchors=99, **asked),
        lambda **asked: af.constructions.two_layer("x*y", {"x": (0, 1), "y": (0, 1)}, grid=4, **asked),
    ],
    ids=["tensor_grid", "ridge", "max_affine", "truncated_linear", "two_layer"],
)
def test_networks_by_name_beyond_max_bytes_are_refused_with_what_they_take(build):
    with refused(af.RefusalError):
        build(max_bytes=100, effort="low")
    assert build(max_bytes=10**8, effort="low").anchors >= 4


def test_terms_whose_shapes_do_not_add_up():
    mixed = [([0], lambda x: x[..., 0]), ([1], lambda x: x[..., :1])]
    with refused(af.TargetError):
        made.additive(mixed, CUBE, tol=1e-3)


def test_callables_take_rows_of_inputs():
    net = made.tensor_grid(lambda x: np.sin(x[..., 0]), af.Box(-1, 1, shape=(1,)), tol=1e-6)
    assert float(net(0.5)) == pytest.approx(np.sin(0.5), abs=1e-6)


def test_values_are_fitted_at_a_given_sharpness() -> None:
    """Softer is better until saturation exp(-pi^2/c), whatever the number of anchors."""
    domain, step = {"x": (-1, 1)}, 2 / 32
    nets = [made.tensor_grid("sin(8*x)", domain, anchors=33, sharpness=c / step**2) for c in (2.0, 1.0, 0.5, 0.3)]
    errors = [net.certificate.estimate.error for net in nets]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < 2e-2
    assert errors[-1] < 1e-11
    assert all(net.certificate.status == "proved" for net in nets)
    assert nets[0].network.heads[0].claims.sharpness == 2.0


@pytest.mark.parametrize("request_", [{"tol": 1e-3}, {}, {"anchors": 5, "tol": None}])
def test_a_sharpness_comes_with_anchors(request_) -> None:
    sharpness = -1.0 if "anchors" in request_ else 4.0
    with refused(af.RefusalError):
        made.tensor_grid("x", {"x": (0, 1)}, sharpness=sharpness, **request_)
