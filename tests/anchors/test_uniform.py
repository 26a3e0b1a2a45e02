"""Equally spaced anchors, closed and open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.anchors import uniform
from attnforge.errors import RefusalError


def test_hand_computed_grids():
    positions, h = uniform(-1.0, 1.0, 5)
    assert positions.tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert h == 0.5
    positions, h = uniform(-1.0, 1.0, 4, "open")
    assert positions.tolist() == [-1.0, -0.5, 0.0, 0.5]
    assert h == 0.5


@given(st.floats(-100, 100), st.floats(0.01, 100), st.integers(2, 300), st.sampled_from(["closed", "open"]))
def test_anchors_are_equally_spaced_and_end_where_the_grid_says(a, length, count, grid):
    positions, h = uniform(a, a + length, count, grid)
    assert len(positions) == count
    assert positions[0] == a
    scale = abs(a) + length
    np.testing.assert_allclose(np.diff(positions), h, rtol=0, atol=1e-14 * scale)
    last = positions[-1] + (h if grid == "open" else 0.0)
    assert last == pytest.approx(a + length, rel=0, abs=1e-14 * scale)


def test_fewer_than_two_anchors_are_refused():
    with pytest.raises(RefusalError, match=r"`anchors` must be at least 2\. Got 1\. Ask for more anchors\."):
        uniform(0.0, 1.0, 1)


def test_an_unknown_grid_is_refused():
    with pytest.raises(RefusalError, match=r"`grid` must be 'closed' or 'open'\. Got 'half'\. Use 'closed'"):
        uniform(0.0, 1.0, 3, "half")  # type: ignore[arg-type]
