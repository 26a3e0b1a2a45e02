"""Points near anchors: where they fall, for inputs, forms along inputs and forms that mix inputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.measurement.near_anchors import near_anchors
from attnforge.network import Attention, Claims, Head, Network
from attnforge.targets import Box

GRADED = np.array([-3.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 3.0])


def network(*claims, inputs):
    heads = tuple(
        Head(
            np.zeros((inputs, 1)),
            np.eye(1),
            memory_keys=np.zeros((len(c.positions), 1)),
            memory_values=np.zeros((len(c.positions), 1)),
            claims=c,
        )
        for c in claims
    )
    return Network((Attention(heads),), inputs, 1)


def claims(positions, forms=None, roles=None):
    at = np.asarray(positions, dtype=np.float64)
    at = at[:, None] if at.ndim == 1 else at
    forms = None if forms is None else np.asarray(forms, dtype=np.float64)
    return Claims("test", 1.0, at, ("anchor",) * len(at) if roles is None else roles, forms)


def drawn(*heads, box, count=4000, seed=0):
    points = near_anchors(network(*heads, inputs=box.lower.size), box, count, np.random.default_rng(seed))
    box.check(points)
    return points


def test_the_density_follows_the_anchors():
    points = drawn(claims(GRADED), box=Box(-1, 1, shape=(1,)))[:, 0]
    assert points.shape == (4000,)
    assert np.mean(np.abs(points) <= 1e-6) > 0.2  # of five places in the box three are within 1e-6
    assert np.mean(points == 0.0) > 0.01
    assert np.mean(points == 5e-7) > 0.002  # half-way
    assert np.mean(points == 1.0) > 0.01
    inner = points[(points > 0) & (points < 1e-6)]
    assert inner.min() < 1e-7
    assert inner.max() > 9e-7


def test_ghosts_are_not_chosen_and_the_end_of_the_range_is_a_neighbour():
    roles = ("ghost", "anchor", "ghost", "ghost")
    points = drawn(claims([-9.0, 0.5, 7.0, 8.0], roles=roles), box=Box(0, 1, shape=(1,)))[:, 0]
    assert np.mean(points == 0.5) > 0.05
    assert points.min() < 0.05
    assert points.max() > 0.95
    only = drawn(claims([-9.0, 9.0], roles=("ghost", "ghost")), box=Box(0, 1, shape=(1,)))[:, 0]
    assert 0.2 < only.mean() < 0.8  # all ghosts: between the ends


def test_forms_along_inputs_set_these_and_leave_the_others_free():
    box = Box([-1, -1, 5], [1, 1, 6])
    points = drawn(claims(GRADED, forms=[[0, 2, 0, 0.5]]), box=box)
    u = 2 * points[:, 1] + 0.5
    assert np.mean(np.abs(u) <= 1.0001e-6) > 0.2
    assert points[:, 0].std() > 0.5
    assert points[:, 2].std() > 0.25


def test_a_form_that_mixes_inputs_gets_its_values():
    box = Box([-1, 0, 5], [1, 1, 6])
    points = drawn(claims(GRADED, forms=[[1, -3, 0, 0.25]]), box=box)
    u = points @ [1, -3, 0] + 0.25
    assert np.mean(np.abs(u) <= 1.0001e-6) > 0.2
    assert points[np.abs(u) < 2e-6, 1].std() > 0.08  # from many sides: all of [0, 5 / 12] has the value 0
    assert points[:, 2].std() > 0.25


@given(
    st.lists(st.floats(-4, 4), min_size=1, max_size=5),
    st.lists(st.floats(-9, 9), min_size=1, max_size=6),
    st.floats(-2, 2),
)
def test_every_form_is_met_where_the_box_allows_it(weights, positions, offset):
    w = np.array(weights)
    box = Box(-1, 2, shape=w.shape)
    points = drawn(claims(positions, forms=[[*weights, offset]]), box=box, count=50)
    reach = np.maximum(-w, 2 * w).sum() + offset, np.minimum(-w, 2 * w).sum() + offset
    ends = np.clip(positions, reach[1], reach[0])
    u = points @ w + offset
    slack = 1e-12 * (1 + np.abs(w).sum() * 2 + abs(offset))
    assert np.all(u >= ends.min() - slack)
    assert np.all(u <= ends.max() + slack)


def test_heads_share_the_points_and_unreachable_ones_get_none():
    box = Box(0, 1, shape=(2,))
    first = claims([0.25], forms=[[1, 0, 0]])
    second = claims([0.75], forms=[[0, 1, 0]])
    mixing = claims([[0.5, 0.5]], forms=[[1, 1, 0], [1, -1, 0]])
    flat = Claims("test", 1.0, np.array([0.5]), ("anchor",))
    points = drawn(first, mixing, second, flat, box=box, count=101)
    assert len(points) == 101
    assert abs((points[:, 0] == 0.25).sum() - (points[:, 1] == 0.75).sum()) == 1
    assert drawn(mixing, flat, box=box).shape == (0, 2)
    assert len(drawn(first, second, box=box, count=1)) == 1


@pytest.mark.parametrize("forms", [None, [[1, 1, 1, 0]]])
def test_claims_of_another_number_of_inputs_are_left_out(forms):
    assert drawn(claims([0.5], forms=forms), box=Box(0, 1, shape=(2,))).shape == (0, 2)


def test_two_inputs_at_once():
    grid = np.stack(np.meshgrid(GRADED, [0.0, 1.0], indexing="ij"), axis=-1).reshape(-1, 2)
    points = drawn(claims(grid), box=Box(-1, 1, shape=(2,)))
    assert np.mean(np.abs(points[:, 0]) <= 1e-6) > 0.2
    assert points[:, 1].min() == 0.0
    assert np.mean((points[:, 1] > 0) & (points[:, 1] < 1)) > 0.3
