"""Fitted anchors: within the tolerance at points nobody fitted, few of them, and refusals that say what can be had."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import make_interp_spline

import attnforge as af
from tests.refusals import refused

LINE, SQUARE = af.Box(-1, 1, shape=(1,)), af.Box(-1, 1, shape=(2,))
CASES = {
    "sin(8x)": (lambda p: np.sin(8 * p[..., 0]), LINE, 1e-10, 24),
    "kink": (lambda p: np.abs(p[..., 0] - 0.3), LINE, 1e-6, 64),
    "layer": (lambda p: np.tanh(1000 * (p[..., 0] - 0.3)), LINE, 1e-4, 60),
    "vector": (lambda p: np.concatenate([np.sin(3 * p), np.cos(5 * p), 0 * p], axis=-1), LINE, 1e-8, 20),
    "large": (lambda p: 1e9 * np.sin(8 * p[..., 0]), LINE, 1e2, 20),
    "far": (lambda p: np.sin(8 * (p[..., 0] - 1e6)), af.Box([1e6 - 1], [1e6 + 1]), 1e-8, 22),
    "small": (lambda p: np.sin(8e6 * p[..., 0]), af.Box([-1e-6], [1e-6]), 1e-8, 22),
    "constant": (lambda p: 3.0 + 0 * p[..., 0], SQUARE, 1e-6, 1),
    "one input": (lambda p: np.sin(8 * p[..., 1]), SQUARE, 1e-8, 22),
    "two rates": (lambda p: np.sin(10 * p[..., 0]) * np.exp(p[..., 1] / 5), SQUARE, 1e-8, 260),
    "two kinks": (lambda p: np.abs(p[..., 0] - 0.1) * np.abs(p[..., 1] + 0.2), SQUARE, 1e-4, 2500),
    "three inputs": (lambda p: np.exp(-(p.sum(axis=-1) ** 2) / 3), af.Box(-1, 1, shape=(3,)), 1e-4, 12**3),
}  # fmt: skip


def off(net, f, box, count=4000):
    points = np.random.default_rng(9).uniform(box.lower, box.upper, size=(count, len(box.lower)))
    return float(np.abs(net(points) - f(points)).max())


@pytest.mark.parametrize("name", CASES)
def test_grids_are_within_tol_with_few_anchors(name):
    f, box, tol, most = CASES[name]
    net = af.constructions.tensor_grid(f, box, tol=tol, effort="low")
    assert off(net, f, box) <= tol
    assert net.anchors <= most
    assert ("graded" in net.reason or "kink" in net.reason) == ("kink" in name or name == "layer")


def test_a_finer_tolerance_takes_more_anchors():
    f, box = CASES["sin(8x)"][:2]
    counts = [af.constructions.tensor_grid(f, box, tol=tol, effort="low").anchors for tol in (1e-2, 1e-5, 1e-8, 1e-11)]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("axis", [0, 1])
def test_what_no_grid_follows_is_refused(axis):
    for f in (lambda p: 1.0 * (p[..., axis] > 0.3), lambda p: np.where(p[..., axis] > 0.5, np.nan, 1.0)):
        with refused(af.TargetError):
            af.constructions.tensor_grid(f, SQUARE, tol=1e-3)


@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-17), ("float32", 1e-8), ("bfloat16", 1e-3)])
def test_a_tolerance_below_rounding_is_refused_and_what_it_advises_is_not(dtype, tol):
    with refused(af.RefusalError) as caught:
        af.compile(lambda x: np.cos(x), [(-1, 1)], tol, construction="tensor_grid", dtype=dtype)
    advised = caught.value.smallest_tol
    assert advised is not None
    net = af.compile(lambda x: np.cos(x), [(-1, 1)], advised, construction="tensor_grid", dtype=dtype)
    assert net.certificate.estimate.error <= advised


@pytest.mark.parametrize(("name", "inputs", "tol", "most"), [("rational", 5, 1e-4, 4000), ("gaussian", 6, 1e-3, 5000)])
def test_sparse_grids_reach_the_tolerance_with_few_anchors(name, inputs, tol, most):
    def f(x):
        return 1 / (1 + x.sum(axis=-1) / 4) if name == "rational" else np.exp(-((x - 0.5) ** 2).sum(axis=-1))

    box, asked = af.Box(0, 1, shape=(inputs,)), []
    net = af.constructions.sparse_grid(lambda x: asked.append(x) or f(x), box, tol=tol, effort="low")
    assert off(net, f, box) <= tol
    assert net.anchors <= most
    rows = np.concatenate(asked)
    assert ((rows >= 0) & (rows <= 1)).all()
    assert len(np.unique(rows, axis=0)) == len(rows)


# Tables.

X = np.linspace(-1, 1, 50)
FINE = np.linspace(-1, 1, 2001)


@pytest.mark.parametrize(
    ("x", "y", "tol", "most", "wild"),
    [
        (X, np.sin(8 * X), 1e-2, 36, 1.01),
        (X, np.sin(8 * X), 1e-6, 36, 1.01),
        (X, np.full(50, 3.0), 1e-9, 2, 1.0),
        (-np.cos(np.pi * np.arange(41) / 40), 1 / (1 + 25 * np.cos(np.pi * np.arange(41) / 40) ** 2), 1e-6, 60, 1.01),
        (np.linspace(-1, 1, 40), np.abs(np.linspace(-1, 1, 40)), 1e-6, 60, 1.01),
        (np.linspace(-1, 1, 60), np.random.default_rng(0).normal(size=60), 1e-3, 68, 1.2),
        (np.linspace(-1, 1, 20_000), np.sin(20 * np.linspace(-1, 1, 20_000)), 1e-5, 60, 1.01),
    ],
)
def test_tables_are_met_by_few_anchors_and_are_calm_between(x, y, tol, most, wild):
    net = af.compile((x, y), tol=tol, effort="low")
    assert np.abs(net(x) - y).max() <= tol
    assert net.anchors <= most
    spline = make_interp_spline(x, y)(FINE)
    assert np.abs(net(FINE)).max() <= wild * np.abs(spline).max() + tol
    if wild < 1.1:
        assert np.abs(net(FINE) - spline).max() <= 2e-3 * np.ptp(y) + 2 * tol


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-10, 10, width=32), min_size=2, max_size=12), st.integers(0, 2**16))
def test_any_data_at_any_places_are_met(values, seed):
    places = np.cumsum(np.random.default_rng(seed).uniform(0.2, 1.0, size=len(values)))
    assert np.abs(af.compile((places, values), tol=1e-4, effort="low")(places) - values).max() <= 1e-4


def test_tables_of_the_plane():
    x, fine = np.linspace(-1, 1, 12), np.linspace(-1, 1, 51)
    net = af.compile(((x, x), np.exp(-np.add.outer(x**2, x**2))), tol=1e-6, effort="low")
    places = np.stack(np.meshgrid(fine, fine, indexing="ij"), axis=-1)
    assert np.abs(net(places) - np.exp(-(places**2).sum(axis=-1))).max() < 1e-3
    assert net.anchors <= 14**2


@pytest.mark.parametrize("inputs", [1, 2, 4])
def test_scattered_points_are_met_by_few_anchors(inputs):
    rng = np.random.default_rng(0)
    points, fresh = rng.uniform(-1, 1, size=(600, inputs)), 0.9 * rng.uniform(-1, 1, size=(1000, inputs))
    smooth = lambda x: np.exp(-(x**2).sum(axis=-1))  # noqa: E731
    nets = [af.compile((points, smooth(points)), tol=tol, effort="low") for tol in (1e-1, 1e-2)]
    assert np.abs(nets[1](points) - smooth(points)).max() <= 1e-2
    assert np.abs(nets[1](fresh) - smooth(fresh)).max() < 5e-2
    assert nets[0].anchors < nets[1].anchors < 300
    noise = af.compile((points[:200], rng.normal(size=200)), tol=1e-2, effort="low")
    assert noise.certificate.estimate.error <= 1e-2
    assert noise.anchors <= 210


def test_what_cannot_be_met_is_refused():
    x = np.linspace(0, 1, 30)
    with refused(af.RefusalError) as caught:
        af.compile((x, np.sin(9 * x)), tol=1e-18)
    assert "Ask for tol >= " in str(caught.value)
    assert af.compile((x, np.sin(9 * x)), tol=1e-14).certificate.estimate.error <= 1e-14
