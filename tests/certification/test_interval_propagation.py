"""The peer that proofs are compared with must be sound: it encloses outputs and targets, closely on small boxes."""

import numpy as np
import pytest

import attnforge as af
from benchmarks.interval_propagation import Intervals, bound, equal_boxes, propagate, softmax, target_on
from tests.catalogue import network

NAMES = ("sine", "grid", "partition", "law: two_layer", "law: softmax_tail", "additive", "clamp", "deep relu")


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_targets_at_points_of_boxes_are_enclosed(name):
    """Of large boxes, of every third of width 1e-6, and of points."""
    rng, net = np.random.default_rng(5), network(name)
    low, high = net.domain.lower.ravel(), net.domain.upper.ravel()
    ends = np.sort(rng.uniform(low, high, size=(2, 30, low.size)), axis=0)
    ends[1, ::3] = np.clip(ends[0, ::3] + 1e-6, low, high)
    boxes = Intervals(*ends)
    found, wanted = propagate(net.network, boxes[:, None, :]), target_on(net.target, boxes)
    for share in (0.0, 1.0, *rng.random((2, *ends[0].shape))):
        points = np.clip(ends[0] + share * (ends[1] - ends[0]), *ends)
        outputs, values = net.network(points[:, None, :]), net.target.values(points.astype(np.longdouble))
        slack = 1e-13 * max(1.0, float(np.abs(outputs).max()))  # the run's own rounding, which is not enclosed
        assert ((found.lower <= outputs + slack) & (outputs <= found.upper + slack)).all()
        values = values.reshape(wanted.lower.shape)
        assert ((wanted.lower <= values + slack) & (values <= wanted.upper + slack)).all()
    at = propagate(net.network, Intervals.exact(ends[0][:, None, :]))
    assert name not in ("sine", "grid") or (at.upper - at.lower).max() < 1e-8


def test_equal_boxes_cover_the_box_and_the_bound_holds():
    net = network("sine")
    boxes = equal_boxes(net.domain, 100)
    assert (boxes.lower[1:] == boxes.upper[:-1]).all()
    assert (boxes.lower[0, 0], boxes.upper[-1, 0]) == (-1.0, 1.0)
    bounds = [bound(net.network, net.target, equal_boxes(net.domain, n)) for n in (100, 10_000)]
    assert af.measure(net, points=2000).sup <= bounds[1] < bounds[0]


def test_softmax_by_hand():
    """Scores in [0, log 2] and 0: exp in [1, 2] and 1, over sums in [2, 3]; wide scores say nothing."""
    found = softmax(Intervals(np.zeros(2), np.array([np.log(2.0), 0.0])))
    assert np.allclose([found.lower, found.upper], [[1 / 3, 1 / 3], [1.0, 0.5]])
    wide = softmax(Intervals(np.full(2, -1e3), np.full(2, 1e3)))
    assert (wide.lower.tolist(), wide.upper.tolist()) == ([0.0, 0.0], [1.0, 1.0])
