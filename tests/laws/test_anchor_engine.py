"""The promises of the anchor engine: so many anchors, such an error, on points nobody fitted."""

from __future__ import annotations

import math

import numpy as np
import pytest

import attnforge as af
from tests.laws.cases import changed, running, with_head

POINTS = 20_000


def franke(p):
    x, y = 9 * p[..., 0], 9 * p[..., 1]
    hills = 0.75 * np.exp(-((x - 2) ** 2 + (y - 2) ** 2) / 4) + 0.75 * np.exp(-((x + 1) ** 2) / 49 - (y + 1) / 10)
    return hills + 0.5 * np.exp(-((x - 7) ** 2 + (y - 3) ** 2) / 4) - 0.2 * np.exp(-((x - 4) ** 2) - (y - 7) ** 2)


def oscillatory(p):
    return np.cos(0.6 * math.pi + 2 * p.sum(axis=-1))


def corner_peak(p):
    return (1 + p.sum(axis=-1)) ** -(p.shape[-1] + 1.0)


def gaussian(p):
    return np.exp(-4 * ((p - 0.5) ** 2).sum(axis=-1))


def ring(p):
    return (np.sin(np.arange(1, 11) * p) + p * np.roll(p, -1, axis=-1)).sum(axis=-1)


RING = " + ".join(f"sin({k}*x[{k - 1}]) + x[{k - 1}]*x[{k % 10}]" for k in range(1, 11))
UNIT = {d: af.Box(0, 1, shape=(d,)) for d in (2, 3, 4, 8)}
LINE = {"x": (-1, 1)}


def promise(target, domain, anchors, tol, **settings):
    """Compile, count, and look for the worst error: at random points, and where anchors are dense."""
    net = af.compile(target, domain, tol=tol, **settings)
    assert net.anchors <= anchors
    assert af.measure(net, points=POINTS, seed=11).sup <= tol
    return net


@pytest.mark.parametrize(
    ("text", "domain", "anchors", "tol"),
    [
        ("sin(8*x)", LINE, 48, 1e-13),
        ("1/(1 + 25*x^2)", LINE, 100, 1e-10),
        ("x^3 - x", {"x": (-2, 2)}, 32, 1e-13),
    ],
)
def test_smooth_functions_of_one_input(text, domain, anchors, tol):
    promise(text, domain, anchors, tol)


def test_a_clamp_without_a_gate():
    net = promise("clamp(x, -1, 1)", {"x": (-4, 4)}, 210, 2e-7, construction="tensor_grid")
    assert "kink" in net.reason


@pytest.mark.parametrize(
    ("f", "anchors"),
    [(lambda x: np.sin(8 * x) + np.abs(x), 200), (lambda x: np.tanh(1000 * (x - 0.3)), 120)],
    ids=["kink not told", "layer not told"],
)
def test_black_boxes_with_a_kink_or_a_layer(f, anchors):
    promise(f, LINE, anchors, 1e-6)


@pytest.mark.parametrize(("anchors", "tol"), [(1000, 1e-8), (2300, 3e-10)])
def test_franke(anchors, tol):
    promise(franke, UNIT[2], anchors, tol)


@pytest.mark.parametrize("d", [3, 4])
@pytest.mark.parametrize("f", [oscillatory, corner_peak, gaussian])
def test_genz_functions_on_a_grid(f, d):
    promise(f, UNIT[d], 13**d, 5e-7, construction="tensor_grid")


@pytest.mark.parametrize("target", [ring, RING], ids=["black box", "text"])
def test_a_sum_over_ten_inputs(target):
    net = promise(target, af.Box(-1, 1, shape=(10,)), 5000, 1e-8)
    assert net.construction == ("additive" if callable(target) else "graph")  # a formula is taken apart further
    assert net.heads == 20 or not callable(target)


@pytest.mark.parametrize(
    "f", [lambda p: np.cos(p.sum(axis=-1)), lambda p: (1 + p.sum(axis=-1)) ** -2.0], ids=["cosine", "power"]
)
def test_ridges_of_eight_inputs(f):
    net = promise(f, UNIT[8], 40, 1e-7)
    assert net.construction == "ridge"


@pytest.mark.slow
def test_eight_inputs_without_structure():
    f = lambda p: np.cos(p.sum(axis=-1)) * np.exp(-(p**2).sum(axis=-1) / 8)  # noqa: E731
    net = af.compile(f, UNIT[8], tol=1e-3)
    assert net.anchors <= 200_000
    assert af.measure(net, points=2000, seed=11, effort="low").sup <= 1e-3


@pytest.mark.parametrize("text", ["sin(8*x)", "exp(x)", "1/(1 + 25*x^2)"])
def test_a_thousandth_of_the_anchors_of_hard_selection(text):
    """Hard selection errs by about slope times half a cell: at 16,384 cells it is still above 1e-6 by far."""
    fitted = promise(text, LINE, 16_384 // 1000 * 7, 1e-6)
    hard = af.constructions.max_affine(text, LINE, cells=1000 * fitted.anchors, sharpness="hard", effort="low")
    assert hard.certificate.estimate.error > 1e-6


def test_a_moved_anchor_breaks_the_promise():
    """The law can fail: one value changed by a thousandth is seen."""
    net = af.compile("sin(8*x)", LINE, tol=1e-10)
    values, at = net.network.heads[0].memory_values, net.anchors // 2
    moved = with_head(net.network, memory_values=changed(values, at, values[at] + 1e-3))
    assert af.measure(running(net, moved), points=POINTS).sup > 1e-5
