"""Sharpness and ghosts from a tolerance: what they promise, and that they do not promise too little."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.anchors.saturation import HARDEST, ghosts_for, sharpness_for
from attnforge.errors import ToleranceError
from attnforge.lemmas.saturation import saturation

TOLERANCES = st.floats(1e-300, 0.2)


def leading(c: float) -> float:
    return 2 * math.pi / c * math.exp(-(math.pi**2) / c)


@pytest.mark.parametrize(("tol", "c"), [(1e-3, 1.147), (1e-8, 0.4700), (1e-13, 0.2993)])
def test_the_values_of_the_theory(tol, c):
    assert sharpness_for(tol) == pytest.approx(c, abs=6e-4)


@given(TOLERANCES)
def test_the_sharpness_is_the_largest(tol):
    c = sharpness_for(tol)
    assert leading(c) == pytest.approx(tol, rel=1e-11)
    assert leading(1.001 * c) > tol


@given(st.floats(1e-14, 1e-2))
def test_the_proved_saturation_is_near_what_was_asked(tol):
    assert saturation(sharpness_for(tol), 1) == pytest.approx(tol, rel=0.02)


def test_coarse_tolerances_end_at_the_hardest():
    assert sharpness_for(0.3) == sharpness_for(7.0) == HARDEST
    assert sharpness_for(2 / (math.pi * math.e) * (1 - 1e-9)) == pytest.approx(HARDEST, rel=1e-3)


@given(st.floats(1e-300, 10.0), st.floats(0.05, 30.0))
def test_the_ghosts_are_the_fewest(tol, c):
    g = ghosts_for(tol, c)
    assert c * g**2 >= -math.log(tol) * (1 - 1e-12)
    assert g == 0 or c * (g - 1) ** 2 < -math.log(tol)


@pytest.mark.parametrize("tol", [0.0, -1.0, math.inf, math.nan])
def test_a_tolerance_must_be_a_positive_number(tol):
    with pytest.raises(ToleranceError, match="`tol` must be positive and finite"):
        sharpness_for(tol)
    with pytest.raises(ToleranceError, match="`tol` must be positive and finite"):
        ghosts_for(tol, 0.5)


@pytest.mark.parametrize("c", [0.0, -1.0, math.inf, math.nan])
def test_a_sharpness_must_be_a_positive_number(c):
    with pytest.raises(ToleranceError, match="`c` must be positive and finite"):
        ghosts_for(1e-3, c)
