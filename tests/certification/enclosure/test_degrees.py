"""Multi-indices: how many there are, and in which order."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from attnforge.certification.enclosure.degrees import degrees


@pytest.mark.parametrize(("inputs", "degree"), [(1, 5), (2, 4), (3, 3), (4, 2), (0, 3)])
def test_multi_indices_are_counted_and_sorted(inputs, degree):
    table = degrees(inputs, degree)
    assert len(table) == comb(inputs + degree, degree)
    assert (np.diff(table.totals) >= 0).all()
    assert all(table.count(d) == comb(inputs + d, d) for d in range(degree + 1))
