"""One construction tried: sized again where rounding takes part of the tolerance, refused by what was reached."""

from __future__ import annotations

import re

import numpy as np
import pytest

import attnforge as af
from attnforge.compiler.attempt import attempt
from attnforge.compiler.budget import Budget
from attnforge.compiler.targets import as_target
from attnforge.theorems.tensor_grid import TensorGrid

TARGET = as_target(lambda x: np.sin(8 * x), {"x": (-1, 1)})


class Sloppy(TensorGrid):
    """Plans that are twice as bad as was asked for."""

    def __init__(self, factor):
        self.factor, self.asked = factor, []

    def size(self, target, tol, dtype):
        self.asked.append(tol)
        return super().size(target, self.factor * tol, dtype)


def run(construction, tol, dtype="float64", **limits):
    plan = construction.size(TARGET, tol, dtype)
    return attempt(construction, plan, TARGET, tol, dtype, **limits)


def test_what_misses_is_sized_again_for_less():
    sloppy = Sloppy(4.0)
    net = run(sloppy, 1e-4)
    assert net.certificate.estimate.error <= 1e-4
    assert 2 <= len(sloppy.asked) <= 4
    assert sloppy.asked == sorted(sloppy.asked, reverse=True)
    assert sloppy.asked[1] >= 1e-5


def test_proofs_are_sized_again_by_their_bound():
    sloppy, formula = Sloppy(4.0), as_target("sin(8*x)", {"x": (-1, 1)})
    net = attempt(sloppy, sloppy.size(formula, 1e-4, "float64"), formula, 1e-4, "float64")
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 1e-4
    assert len(sloppy.asked) >= 2


def test_not_for_ever():
    hopeless = Sloppy(1e6)
    with pytest.raises(af.ToleranceError, match=r"`tensor_grid` must reach tol=1e-07 in float64\. Got an error of "):
        run(hopeless, 1e-7)
    assert len(hopeless.asked) <= 5


def test_a_dtype_that_cannot_says_what_it_reached_and_advises_float64():
    with pytest.raises(af.ToleranceError) as caught:
        run(TensorGrid(), 4e-7, "float32")
    expected = r'reach tol=4e-07 in float32\. Got an error of (\S+)\. Ask for tol >= (\S+), or .* dtype="float64"'
    reached, advised = map(float, re.search(expected, str(caught.value)).groups())
    assert 4e-7 < reached <= advised * 1.01 < 1e-4


def test_float64_is_not_advised_to_those_who_have_it():
    with pytest.raises(af.ToleranceError) as caught:
        run(Sloppy(1e6), 1e-7)
    assert "dtype=" not in str(caught.value)


def test_what_was_advised_can_be_had():
    with pytest.raises(af.ToleranceError) as caught:
        run(TensorGrid(), 3e-3, "float16")
    advised = float(re.search(r"tol >= ([0-9.e+-]+)", str(caught.value)).group(1))
    assert run(TensorGrid(), advised, "float16").certificate.estimate.error <= advised


def test_limits_are_checked_before_building():
    with pytest.raises(af.RefusalError, match=r"max_anchors=5\. Got \d+ anchors needed"):
        run(TensorGrid(), 1e-4, max_anchors=5)
    with pytest.raises(af.RefusalError, match="bytes and"):
        run(TensorGrid(), 1e-4, budget=Budget(max_bytes=100))
