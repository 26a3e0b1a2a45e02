"""The slab holds every point of the box whose form lies in the interval."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.balls import Balls
from attnforge.certification.slab import slab

number = st.floats(-10, 10).map(lambda v: round(v, 3))


@settings(max_examples=60)
@given(st.lists(st.tuples(number, number, number), min_size=1, max_size=4), number, number, number, st.integers(0, 99))
def test_no_point_of_the_slab_is_lost(axes, offset, low, high, seed):
    low, high = sorted((low, high))
    w = np.array([[axis[0] for axis in axes]])
    lower = np.array([[min(axis[1:]) for axis in axes]])
    upper = np.array([[max(axis[1:]) for axis in axes]])
    new_lower, new_upper = slab(lower, upper, Balls.exact(w), Balls.exact([offset]), low, high)
    assert np.all((lower <= new_lower) & (new_upper <= upper))
    rng = np.random.default_rng(seed)
    corners = np.where(rng.random((50, w.size)) < 0.5, lower, upper)
    x = np.concatenate([rng.uniform(lower, upper, (500, w.size)), corners])
    y = x @ w[0] + offset
    inside = x[(y >= low) & (y <= high)]
    assert np.all((new_lower <= inside) & (inside <= new_upper))


def test_a_hand_computed_slab():
    lower, upper = np.array([[-5.0, -1.0]]), np.array([[5.0, 1.0]])
    box = slab(lower, upper, Balls.exact([[2.0, 1.0]]), Balls.exact([0.5]), -1.0, 1.0)
    # 2 x + y + 0.5 in [-1, 1], y in [-1, 1]: x in [-1.25, 0.75]
    assert np.allclose(box[0], [[-1.25, -1.0]], atol=1e-6)
    assert np.allclose(box[1], [[0.75, 1.0]], atol=1e-6)


def test_uncertain_weights_widen_it():
    lower, upper = np.array([[-5.0, -1.0]]), np.array([[5.0, 1.0]])
    vague = Balls(np.array([[2.0, 1.0]]), np.array([[0.0, 0.25]]))
    wide = slab(lower, upper, vague, Balls.exact([0.5]), -1.0, 1.0)
    assert wide[0][0, 0] <= -1.375 + 1e-9
    assert wide[1][0, 0] >= 0.875 - 1e-9


def test_an_empty_slab_leaves_the_box():
    lower, upper = np.array([[0.0]]), np.array([[1.0]])
    found = slab(lower, upper, Balls.exact([[1.0]]), Balls.exact([0.0]), 5.0, 6.0)
    assert np.array_equal(found, (lower, upper))
