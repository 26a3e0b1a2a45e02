"""Fitted heads: keys that survive rounding, polynomials, the structure of callables, tables; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from attnforge.network import rounded
from tests.refusals import refused

MAKE = af.constructions
LINE, SQUARE = {"x": (-1, 1)}, {"x": (-1, 1), "y": (-1, 1)}
RNG = np.random.default_rng(4)
POINTS = RNG.uniform(0, 2, size=(150, 2))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("count", [5, 120])
def test_keys_of_uniform_axes_survive_rounding_and_offsets_are_split_where_they_must_be(count, dtype):
    net = MAKE.tensor_grid("x", {"x": (-0.7, 1.1)}, anchors=count, dtype=dtype, effort="low")
    (head,) = net.network.heads
    kept = rounded(net.network, dtype).heads[0].memory_keys
    numbers = np.arange(len(kept)) - len(kept) // 2
    np.testing.assert_array_equal(kept, head.memory_keys)
    np.testing.assert_array_equal(kept[:, 0], numbers)
    np.testing.assert_array_equal(kept[:, 1:].sum(axis=1), numbers**2)
    assert kept.shape[1] == (3 if count == 120 and dtype in ("bfloat16", "float16") else 2)


@pytest.mark.parametrize("text", ["0*x", "x - x", "x^2 - x^2", "5", "x^12"])
def test_polynomials_of_every_degree_up_to_twelve(text):
    net = MAKE.polynomial(text, LINE, tol=1e-9)
    error = np.abs(net(np.linspace(-1, 1, 500)) - net.target.values(np.linspace(-1, 1, 500)[:, None])).max()
    assert error <= (0.0 if "-" in text or "0" in text else 1e-9)


def test_precision_costs_a_polynomial_anchors_not_by_the_spacing():
    """Errors fall like exp(-pi^2/c): from 1e-4 to 1e-12 the anchors about triple, where hard cells need 1e8 times."""
    counts = [MAKE.polynomial("x^3 - x", LINE, tol=tol).anchors for tol in (1e-4, 1e-8, 1e-12)]
    assert counts == sorted(counts)
    assert counts[-1] <= 3 * counts[0]


CALLABLES = {
    "a form of five inputs": (lambda x: np.cos(x @ np.arange(1, 6) / 3), 5, "ridge"),
    "two outputs of a form": (lambda x: np.stack([np.sin(x.sum(-1)), np.cos(x.sum(-1))], axis=-1), 4, "ridge"),
    "a sum": (lambda x: np.sin(x[..., 0]) + np.exp(x[..., 1] * x[..., 2]), 3, "additive"),
    "a constant": (lambda x: 3.0 + 0 * x[..., 0], 3, "additive"),
    "twenty terms": (lambda x: np.sin(3 * x + np.arange(20)).sum(axis=-1), 20, "additive"),
    "six inputs together": (lambda x: np.exp(-x.sum(axis=-1) / 3), 6, "sparse_grid"),
    "a constant of five inputs": (lambda x: np.full(x.shape[:-1], 2.5), 5, "sparse_grid"),
    "two outputs of five": (lambda x: np.stack([np.sin(x.sum(-1) / 2), x[..., 0] * x[..., 2]], -1), 5, "sparse_grid"),
}


@pytest.mark.parametrize("what", CALLABLES)
def test_the_structure_of_a_callable_is_found(what):
    f, inputs, construction = CALLABLES[what]
    net = af.compile(f, af.Box(-1, 1, shape=(inputs,)), 1e-3, construction=construction, effort="low")
    x = np.random.default_rng(9).uniform(-1, 1, size=(500, inputs))
    assert np.abs(net(x) - f(x)).max() <= 1e-3
    assert net.anchors == 1 or "constant" not in what


# Tables


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scattered_points_and_grids_are_met(dtype):
    line = np.linspace(0, 1, 12)
    for points, values in [(POINTS, np.sin(POINTS[:, 0]) * POINTS[:, 1]), ((line, line), np.add.outer(line**2, line))]:
        net = af.compile((points, values), tol=1e-3, dtype=dtype)
        assert net.certificate.estimate.error <= 1e-3 * (1 + 1e-6)
        (head,) = net.network.heads
        assert head.claims.positions.shape == (net.anchors, 2)
        assert ("12 x 12 data" if isinstance(points, tuple) else "scattered points") in net.reason


def test_offsets_of_scattered_points_that_a_dtype_cannot_hold_are_split():
    values = np.sin(POINTS[:, 0]) * POINTS[:, 1]
    widths = {d: af.compile((POINTS, values), tol=0.1, dtype=d).network.heads[0] for d in ("float64", "bfloat16")}
    assert {dtype: head.query.shape[1] for dtype, head in widths.items()} == {"float64": 3, "bfloat16": 4}


def test_no_other_construction_takes_a_table():
    for name in MAKE.__all__:
        if name not in ("table", "cross_attention"):
            with refused(af.AttnforgeError):
                af.compile((POINTS, POINTS[:, 0]), tol=1e-2, construction=name)


def jump(x):
    return 1.0 * (x[..., 0] > 0.5)


REFUSED = {
    "a polynomial of degree 13": ("polynomial", "x^13", LINE, 1e-3),
    "a sine as a polynomial": ("polynomial", "sin(x)", LINE, 1e-3),
    "a callable as a polynomial": ("polynomial", lambda x: x[..., 0], af.Box(0, 1, shape=(1,)), 1e-3),
    "a polynomial of five inputs": ("polynomial", "a*b*c*d*g", dict.fromkeys("abcdg", (0, 1)), 1e-3),
    "a polynomial below rounding": ("polynomial", "x^3 - x", LINE, 1e-19),
    "a grid of nine inputs": ("tensor_grid", lambda x: x.sum(axis=-1), af.Box(0, 1, shape=(9,)), 1e-3),
    "a grid for a sequence": ("tensor_grid", lambda x: x[..., 0], af.Box(0, 1, shape=(3, 2)), 1e-3),
    "a grid below rounding": ("tensor_grid", "sin(8*x)", LINE, 1e-18),
    "a jump": ("tensor_grid", jump, af.Box(0, 1, shape=(1,)), 1e-2),
    "a diagonal kink": ("tensor_grid", "abs(x + y)", SQUARE, 1e-4),
    "a sum as a ridge": ("ridge", "sin(5*x) + exp(y)", SQUARE, 1e-6),
    "a ridge as a sum": ("additive", "sin(3*x + y)", SQUARE, 1e-6),
    "a product as a sum": ("additive", lambda x: np.exp(x.prod(axis=-1)), af.Box(-1, 1, shape=(3,)), 1e-6),
    "a ridge of one input": ("ridge", "sin(x)", LINE, 1e-3),
    "a sum of 513 inputs": ("additive", lambda x: x.sum(axis=-1), af.Box(0, 1, shape=(513,)), 1e-3),
    "a sparse grid of four inputs": ("sparse_grid", lambda x: x.sum(axis=-1), af.Box(0, 1, shape=(4,)), 1e-3),
    "a sparse grid of thirteen": ("sparse_grid", lambda x: x.sum(axis=-1), af.Box(0, 1, shape=(13,)), 1e-3),
    "a rough sparse grid": ("sparse_grid", lambda x: abs(x.sum(axis=-1) - 2.3), af.Box(0, 1, shape=(5,)), 1e-2),
    "a table of nine inputs": ("table", "+".join("abcdfgkxy"), dict.fromkeys("abcdfgkxy", (0, 1)), 1e-2),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_taken_is_refused(what):
    name, f, domain, tol = REFUSED[what]
    with refused(af.AttnforgeError):
        af.compile(f, domain, tol, construction=name, effort="low")
