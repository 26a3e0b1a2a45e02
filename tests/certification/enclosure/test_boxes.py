"""Bounds on boxes hold where the network runs, and exist only where they can be proved."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.certification.enclosure.boxes import bounds_on_boxes

LINE = af.compile("sin(5*x) + abs(x)", {"x": (-1, 1)}, 1e-5)
PLANE = af.constructions.tensor_grid("sin(3*x)*exp(y)", {"x": (-1, 1), "y": (0, 1)}, tol=1e-4)
SINGLE = af.compile("sin(5*x)", {"x": (-1, 1)}, 1e-4, dtype="float32")
CASES = [LINE, PLANE, SINGLE]
BOUNDS = [bounds_on_boxes(net.network, net.target, net.domain, net.dtype) for net in CASES]


@given(st.integers(0, 2), st.integers(0, 2**32 - 1), st.floats(0, 12))
def test_no_error_in_a_box_exceeds_its_bound(case, seed, halvings):
    net, bounds, rng = CASES[case], BOUNDS[case], np.random.default_rng(seed)
    box, sides = net.domain, net.domain.upper - net.domain.lower
    lower = rng.uniform(box.lower, box.upper)
    upper = np.minimum(lower + sides * 2.0**-halvings, box.upper)
    points = rng.uniform(lower, upper, size=(200, len(lower)))
    errors = np.abs(net.at_points(points) - net.target.values(points.astype(np.longdouble)))
    assert errors.max() <= bounds(lower[None], upper[None])[0]


@pytest.mark.parametrize("case", range(3))
def test_small_boxes_are_bounded_closely(case):
    net, bounds = CASES[case], BOUNDS[case]
    at = np.array(net.certificate.estimate.at)
    side = (net.domain.upper - net.domain.lower) * 1e-9  # the worst point may be a kink
    lower, upper = np.maximum(at - side, net.domain.lower), np.minimum(at + side, net.domain.upper)
    found = bounds(lower[None], upper[None])[0]
    assert found <= (1.6 if net is SINGLE else 1.001) * net.certificate.estimate.error
    assert found <= net.certificate.bound * 1.01


def test_an_altered_weight_enlarges_the_bound_there_and_not_elsewhere():
    (encode, layer), at = LINE.network.layers, 0.4
    head = layer.heads[0]
    values = head.memory_values.copy()
    key = int(np.abs(head.claims.positions[:, 0] - at).argmin())
    values[key] += 0.5
    altered = replace(LINE.network, layers=(encode, replace(layer, heads=(replace(head, memory_values=values),))))
    bounds = bounds_on_boxes(altered, LINE.target, LINE.domain)
    place = float(head.claims.positions[key, 0])
    near, far = bounds(np.array([[place - 1e-4], [-0.9]]), np.array([[place + 1e-4], [-0.899]]))
    assert near > 0.01
    assert far < 1e-4


def test_there_are_none_for_what_is_not_covered():
    box = af.Box(0, 1, shape=(1,))
    unknown = af.constructions.max_affine(lambda x: x[..., 0], box, cells=4, lipschitz=1)
    assert bounds_on_boxes(unknown.network, unknown.target, unknown.domain) is None
    layered = af.constructions.two_layer(lambda x: x[..., 0], box, grid=4, lipschitz=1)
    assert bounds_on_boxes(layered.network, LINE.target, LINE.domain) is None
    assert bounds_on_boxes(LINE.network, PLANE.target, PLANE.domain) is None
