"""The peer that proofs are compared with must be sound: it encloses outputs, exact sums of exponentials and targets."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
import torch
from flint import arb
from torch import nn

import attnforge as af
from attnforge.balls import precision
from attnforge.network import Network
from attnforge.targets import Box, Formula
from attnforge.targets.expression import enclose
from benchmarks.interval_propagation import Intervals, bound, equal_boxes, propagate, softmax, target_on

Array = npt.NDArray[np.float64]
SQUARE = {"x": (-1, 1), "y": (0, 2)}
WAVE = "sin(3*x)*y + cos(2*y)"


def relu_module() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 4), nn.Hardtanh(), nn.Linear(4, 3)).double()


BUILDERS: dict[str, Callable[[], af.Compiled]] = {
    "tensor_grid": lambda: af.constructions.tensor_grid("sin(4*x) + abs(x)", {"x": (-1, 1)}, anchors=9),
    "two inputs": lambda: af.constructions.tensor_grid("exp(x*y)", SQUARE, anchors=5),
    "max_affine": lambda: af.compile(WAVE, SQUARE, 0.9, construction="max_affine"),
    "two_layer": lambda: af.compile(WAVE, SQUARE, 0.9, construction="two_layer"),
    "softmax_tail": lambda: af.compile(WAVE, SQUARE, 0.9, construction="softmax_tail"),
    "additive": lambda: af.constructions.additive("sin(3*x) + cos(y - 1)", SQUARE, tol=1e-2),
    "gate": lambda: af.compile("clamp(2*x - y, -1, 1)", SQUARE, 1e-6, construction="gate"),
    "relu_network": lambda: af.constructions.relu_network(relu_module(), Box(-1, 1, shape=(2,))),
    "literal": lambda: af.constructions.truncated_linear(
        [1.0, -2.0], 0.5, -1, 1, anchors=4, layout="literal", domain=Box(-1, 1, shape=(2,))
    ),
}


def random_boxes(box: Box, rng: np.random.Generator) -> Intervals:
    """Large ones, and every third of width 1e-6."""
    low, high = box.lower.ravel(), box.upper.ravel()
    ends = rng.uniform(low, high, size=(2, 30, low.size))
    ends[1, ::3] = np.clip(ends[0, ::3] + 1e-6, low, high)
    return Intervals(ends.min(axis=0), ends.max(axis=0))


def points_of(boxes: Intervals, rng: np.random.Generator) -> list[Array]:
    shares = [np.zeros(boxes.shape), np.ones(boxes.shape), rng.random(boxes.shape), rng.random(boxes.shape)]
    return [np.clip(boxes.lower + s * (boxes.upper - boxes.lower), boxes.lower, boxes.upper) for s in shares]


@pytest.mark.parametrize("name", BUILDERS)
def test_outputs_at_points_of_boxes_are_enclosed(name: str) -> None:
    rng, net = np.random.default_rng(5), BUILDERS[name]()
    boxes = random_boxes(net.domain, rng)
    found = propagate(net.network, boxes[:, None, :])
    for points in points_of(boxes, rng):
        run = net.network(points[:, None, :])
        slack = 1e-13 * max(1.0, float(np.abs(run).max()))  # the run's own rounding, which is not enclosed
        assert (found.lower <= run + slack).all()
        assert (run <= found.upper + slack).all()


def exact_head(network: Network, x: float) -> mpmath.mpf:
    """A head of constant keys with affine scores, in 60 digits."""
    head = network.heads[0]
    encode = network.layers[0]
    assert head.memory_keys is not None
    assert head.memory_values is not None
    with mpmath.workdps(60):
        row = [mpmath.mpf(x) * mpmath.mpf(float(w)) for w in encode.terms[0].map[0]]  # type: ignore[union-attr, index]
        row = [a + mpmath.mpf(float(b)) for a, b in zip(row, encode.constant[0], strict=True)]  # type: ignore[union-attr, index]
        query = [sum(a * mpmath.mpf(float(w)) for a, w in zip(row, column, strict=True)) for column in head.query.T]
        scores = [sum(a * mpmath.mpf(float(k)) for a, k in zip(query, key, strict=True)) for key in head.memory_keys]
        weights = [mpmath.exp(s - max(scores)) for s in scores]
        total = sum(w * mpmath.mpf(float(v)) for w, v in zip(weights, head.memory_values[:, 0], strict=True))
        return total / sum(weights) * mpmath.mpf(float(head.output[0, 0]))


def test_the_exact_output_at_a_point_is_enclosed_closely() -> None:
    net = af.constructions.tensor_grid("sin(4*x)", {"x": (-1, 1)}, anchors=9)
    points = np.random.default_rng(1).uniform(-1, 1, size=(40, 1))
    found = propagate(net.network, Intervals.exact(points[:, None, :]))
    for i, x in enumerate(points[:, 0].tolist()):
        value = exact_head(net.network, x)
        low, high = float(found.lower[i, 0, 0]), float(found.upper[i, 0, 0])
        assert mpmath.mpf(low) <= value <= mpmath.mpf(high)
        assert high - low < 1e-9


def test_softmax_of_wide_scores_says_nothing_and_of_far_ones_everything() -> None:
    wide = softmax(Intervals(np.array([-1e3, -1e3]), np.array([1e3, 1e3])))
    assert wide.lower.tolist() == [0.0, 0.0]
    assert wide.upper.tolist() == [1.0, 1.0]
    far = softmax(Intervals.exact(np.array([0.0, -1e5])))
    assert far.lower[0] > 1 - 1e-14
    assert far.upper[1] < 1e-300


def test_softmax_by_hand() -> None:
    """Scores in [0, log 2] and 0: exp in [1, 2] and 1, over sums in [2, 3]."""
    found = softmax(Intervals(np.zeros(2), np.array([np.log(2.0), 0.0])))
    assert found.lower == pytest.approx([1 / 3, 1 / 3])
    assert found.upper == pytest.approx([1.0, 0.5])


def test_formulas_are_enclosed() -> None:
    rng = np.random.default_rng(2)
    target = Formula(WAVE, Box([-1.0, 0.0], [1.0, 2.0]), ("x", "y"))
    boxes = random_boxes(target.domain, rng)
    found = target_on(target, boxes)
    with precision(200):
        for points in points_of(boxes, rng):
            for i, (x, y) in enumerate(points.tolist()):
                value = enclose(target.tree, {"x": arb(x), "y": arb(y)})
                assert arb(found.lower[i, 0]) <= value <= arb(found.upper[i, 0])


def test_relu_targets_are_enclosed() -> None:
    rng = np.random.default_rng(3)
    net = BUILDERS["relu_network"]()
    boxes = random_boxes(net.domain, rng)
    found = target_on(net.target, boxes)
    for points in points_of(boxes, rng):
        values = net.target.values(points.astype(np.longdouble))
        assert (found.lower <= values).all()
        assert (values <= found.upper).all()


def test_equal_boxes_cover_the_box_and_the_bound_holds() -> None:
    net = BUILDERS["tensor_grid"]()
    boxes = equal_boxes(net.domain, 100)
    assert boxes.shape == (100, 1)
    assert (boxes.lower[1:] == boxes.upper[:-1]).all()
    assert (boxes.lower[0, 0], boxes.upper[-1, 0]) == (-1.0, 1.0)
    seen = af.measure(net, points=2000).sup
    bounds = [bound(net.network, net.target, equal_boxes(net.domain, n)) for n in (100, 10_000)]
    assert seen <= bounds[1] < bounds[0]
