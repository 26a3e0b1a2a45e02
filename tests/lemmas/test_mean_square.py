"""Mean squares of rows of anchors, by brute force."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from attnforge.lemmas.mean_square import mean_square


@settings(max_examples=30, deadline=None)
@given(st.floats(0.25, 40.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(1, 40))
def test_mean_squares_are_bounded_and_those_of_rows_that_end(c, theta, growth, count):
    """The infinite row; and, if the bound is below one, rows that begin at the bracket."""
    bound = mean_square(c, growth)

    def mean(places):
        distances = np.abs(places - theta)
        return special.softmax(-c * distances**2) @ (distances**2 * np.exp(growth * distances))

    assert mean(np.arange(-60, 62)) <= bound * (1 + 1e-12)
    assert bound > 1 or mean(np.arange(0, count + 1)) <= bound * (1 + 1e-12)
