"""Affine pieces near a target: the distance is proved, near the largest that can be found, follows mutations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.certification.bracket import cut, distance
from attnforge.targets import Box, Formula, Formulas, ReluNetwork, part_of

SQUARE = Box([-2, -1], [2, 1])


def mlp():
    torch.manual_seed(1)
    layers = (torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    return ReluNetwork.from_torch(torch.nn.Sequential(*layers).double(), SQUARE)


TARGETS = {
    "sine": Formula("sin(8*x)", Box([-1], [1])),
    "kink": Formula("abs(x - 0.3) + x/7", Box([-1], [1])),
    "root": Formula("sqrt(x)", Box([0], [1])),
    "bump": Formula("x*exp(-x^2 - y^2)", SQUARE, ("x", "y")),
    "saddle": Formula("x*y", SQUARE, ("x", "y")),
    "several": Formulas.from_text("[sin(x)*y, x - y^2]", SQUARE, ("x", "y")),
    "mlp": mlp(),
    "five inputs": Formula("a*b + sin(c)*d + g", Box([-1] * 5, [1] * 5), tuple("abcdg")),
}


def seen(target, pieces, count=400):
    """The largest distance at points of every cell, from the piece of that cell."""
    ends, rng, found = zip(pieces.lower, pieces.upper, strict=True), np.random.default_rng(0), 0.0
    for cell, (lower, upper) in enumerate(ends):
        points = rng.uniform(lower, upper, (count, len(lower)))
        points[:2] = lower, upper
        form = points @ pieces.slopes[cell].T + pieces.offsets[cell]
        found = max(found, np.abs(target.values(points).reshape(form.shape) - form).max())
    return found


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", TARGETS)
def test_no_point_is_farther_and_some_are_nearly_as_far(name, affine):
    target = TARGETS[name]
    pieces, spread = cut(target, target.domain, 8, affine=affine, dtype="float32")
    proved, found = distance(target, pieces), seen(target, pieces)
    assert found <= proved
    assert proved <= (2.0 if name == "five inputs" else 1.15) * max(found, spread)


@pytest.mark.parametrize("name", ["sine", "bump", "mlp"])
def test_pieces_that_are_moved_are_farther(name):
    target = TARGETS[name]
    pieces, _ = cut(target, target.domain, 4, affine=True, dtype="float64")
    before, offsets, slopes = distance(target, pieces), pieces.offsets.copy(), pieces.slopes.copy()
    offsets[2] += 10 * before
    slopes[1] += 10 * before
    for other in (replace(pieces, offsets=offsets), replace(pieces, slopes=slopes)):
        assert distance(target, other) >= max(seen(target, other), 1.5 * before)


def test_cells_cover_the_box_with_ends_in_the_dtype():
    target = TARGETS["bump"]
    pieces, spread = cut(target, target.domain, 11, affine=True, dtype="float32")
    assert len(pieces.lower) == 11
    volumes = (pieces.upper - pieces.lower).prod(axis=1)
    assert volumes.sum() == pytest.approx(8.0, rel=1e-12)
    for numbers in (pieces.lower, pieces.upper, pieces.slopes, pieces.offsets):
        np.testing.assert_array_equal(numbers, numbers.astype(np.float32))
    assert len(cut(target, target.domain, 11, affine=True, dtype="float32", enough=2 * spread)[0].lower) < 11


def test_linear_functions_are_one_piece():
    target = Formula("2*x - y/4 + 1", SQUARE, ("x", "y"))
    pieces, _ = cut(target, target.domain, 8, affine=True, dtype="float64", enough=1e-12)
    assert len(pieces.lower) == 1
    assert distance(target, pieces, negligible=1e-12) < 1e-12


def test_what_cannot_be_read_is_refused():
    target = af.compile(lambda x: x**2, {"x": (-1, 1)}, 1e-1).target
    pieces, _ = cut(target, target.domain, 2, affine=True, dtype="float64")
    with pytest.raises(af.TargetError, match="formulas, ReLU networks"):
        distance(target, pieces)


def test_boxes_of_named_inputs():
    found = part_of(SQUARE, ("x", "y"), {"y": (0, 1)})
    assert (found.lower.tolist(), found.upper.tolist()) == ([-2, 0], [2, 1])
