"""Anchors where the caller wants them, and heads without sentinels."""

import math

import numpy as np
import pytest

import attnforge as af
from attnforge.network import with_head
from tests.refusals import refused

UNEVEN = (-1, -0.9, -0.5, 0, 0.2, 0.7, 1)
LINE, SQUARE = {"x": (-1, 1)}, {"x": (0, 1), "y": (0, 1)}


def _largest(net, lower=-3.0, upper=3.0):
    x = np.linspace(lower, upper, 6001)
    return float(np.abs(net(x[:, None, None]).ravel() - np.clip(x, net.target.lower, net.target.upper)).max())


@pytest.mark.parametrize("sharpness", ["hard", "tuned", 5.0, 200.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_clamp_by_uneven_anchors(sharpness, dtype):
    net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=UNEVEN, sharpness=sharpness, dtype=dtype)
    assert (net.anchors, net.certificate.status) == (7, "proved")
    error = _largest(net)
    assert error <= net.certificate.bound <= 1.1 * error + 0.01
    assert net.network.heads[0].claims.positions.tolist() == list(UNEVEN)


def test_the_temperature_follows_the_gaps():
    follows = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=UNEVEN)
    alike = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=UNEVEN, sharpness=24.0)  # c at the mean gap
    assert follows.certificate.bound < 0.03 < alike.certificate.bound / 3
    weights = follows.attention(np.array([[[0.1]], [[0.45]]]))[0][0][:, 0]  # half-way in gaps of 0.2 and 0.5
    near = weights / weights.max(axis=1, keepdims=True)
    assert near[0, 3:5] == pytest.approx(1)
    assert near[1, 4:6] == pytest.approx(1)


@pytest.mark.parametrize("sharpness", ["hard", "tuned", 30.0])
def test_even_positions_are_the_closed_grid(sharpness):
    given = af.constructions.truncated_linear([1.0], 0.25, -1, 2, anchors=np.linspace(-1, 2, 9), sharpness=sharpness)
    counted = af.constructions.truncated_linear([1.0], 0.25, -1, 2, anchors=9, sharpness=sharpness)
    x = np.linspace(-3, 3, 101)[:, None, None]
    np.testing.assert_allclose(given(x), counted(x), atol=1e-12)
    assert given.certificate.bound == pytest.approx(counted.certificate.bound, rel=1e-9)


def test_a_moved_key_is_noticed():
    net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=UNEVEN)
    values = net.network.heads[0].memory_values + 0.2 * np.eye(7)[:, 3:4]
    other = net.with_network(with_head(net.network, 1, 0, memory_values=values))
    assert _largest(other) <= other.certificate.bound
    assert other.certificate.bound > net.certificate.bound + 0.15


@pytest.mark.parametrize("anchors", [[1, 0], [0, 0], [0], [], [0, 2], ["a", "b"], [0, math.nan]])
def test_positions_that_are_none(anchors):
    with refused(af.RefusalError):
        af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=anchors)


@pytest.mark.parametrize("how", [{"layout": "literal"}, {"grid": "open"}])
def test_positions_have_no_grid_and_no_literal_layout(how):
    with refused(af.RefusalError):
        af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=UNEVEN, **how)


def test_fitted_values_at_given_positions():
    near_kink = [-1, -0.3, -0.1, 0, 0.1, 0.3, 1]
    net = af.constructions.tensor_grid("abs(x)", LINE, anchors=near_kink)
    even = af.constructions.tensor_grid("abs(x)", LINE, anchors=np.linspace(-1, 1, 7))
    assert net.network.heads[0].claims.positions.ravel().tolist() == near_kink
    assert net.certificate.status == "proved"
    assert net.certificate.bound < 0.02 < even.certificate.bound
    assert "7 graded anchors with fitted values (" in net.reason


def test_positions_beyond_the_domain_are_ghosts():
    net = af.constructions.tensor_grid("sin(3*x)", LINE, anchors=[np.linspace(-1.6, 1.6, 17)])
    assert net.certificate.bound < 1e-6
    assert "17 anchors with fitted values, 11 on the domain, the others ghosts" in net.reason
    assert net.network.heads[0].claims.roles.count("ghost") == 6


def test_one_temperature_at_given_positions():
    net = af.constructions.tensor_grid("sin(3*x)", LINE, anchors=np.linspace(-1.6, 1.6, 17), sharpness=10.0)
    positions = net.network.heads[0].claims.positions.ravel()
    weights = np.exp(-10.0 * (0.3 - positions) ** 2)
    np.testing.assert_allclose(net.attention(x=0.3)[0][0].ravel(), weights / weights.sum(), atol=1e-12)


def test_positions_along_two_axes():
    axes = [[-0.4, -0.2, 0, 0.3, 0.7, 1, 1.3], [-0.3, 0, 0.2, 0.5, 1, 1.3]]
    net = af.constructions.tensor_grid("exp(x*y)", SQUARE, anchors=axes)
    assert (net.anchors, net.certificate.status) == (42, "proved")
    assert af.measure(net, points=2000).sup <= net.certificate.bound < 1e-3


@pytest.mark.parametrize("anchors", [[[0, 1]], [[0, 1], [1, 0]], [[0, 1], 5], [0.5, 0.7], 1, 2000])
def test_what_anchors_of_a_grid_are(anchors):
    with refused(af.RefusalError):
        af.constructions.tensor_grid("exp(x*y)", SQUARE, anchors=anchors)


def test_what_is_counted():
    net = af.constructions.tensor_grid("exp(x*y)", SQUARE, anchors=[4, 3])
    positions = net.network.heads[0].claims.positions
    on_domain = [len(np.unique(each[(each > -1e-9) & (each < 1 + 1e-9)])) for each in positions.T]
    assert on_domain == [4, 3]
    assert ", 4 x 3 on the domain, the others ghosts" in net.reason


@pytest.mark.parametrize(("lower", "upper"), [(-1, 1), (2, 4)])
@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_heads_without_sentinels(lower, upper, layout):
    how = {"tokens": 6, "heads": 3, "layout": layout, "domain": af.Box(-6, 6)}
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, lower, upper, sentinels=0, **how)
    assert (net.anchors, net.certificate.status) == (18, "proved")
    x = np.linspace(-6, 6, 2004)
    tokens = x.reshape(-1, 6, 1) if layout == "literal" else x[:, None, None]
    error = np.abs(net(tokens).ravel() - np.clip(x, lower, upper)).max()
    assert error <= net.certificate.bound <= 1.1 * error + 0.02
    guarded = af.constructions.multihead_truncated_linear([1.0], 0.0, lower, upper, sentinels=1, **how)
    assert guarded.certificate.bound < net.certificate.bound / 2
