"""Where boxes are cut first: at kinks in one input."""

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.enclosure.kinks import kink_cuts
from attnforge.certification.enclosure.several_inputs import supremum_box
from attnforge.targets.expression import parse


def cuts(text):
    return [found.tolist() for found in kink_cuts(parse(text), ("x", "y"), -np.ones(2), np.ones(2))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(x) + y^2", [[0.0], []]),
        ("where(2*x < 1, 0.5, x)*y + where(0 < y, x, -y)", [[0.5], [0.0]]),
        ("relu(4*y - 1)*x", [[], [0.25]]),
        ("max(x, 0.5, y)", [[0.5], [0.5]]),
        ("clamp(x, -0.5, 0.5) + step(y)", [[-0.5, 0.5], [0.0]]),
        ("abs(x + y) + abs(x - 3) + abs(x*y) + sin(x)", [[], []]),
        ("max(x - x, y^2)", [[], []]),
    ],
)
def test_places(text, expected):
    assert cuts(text) == expected


def test_a_place_that_is_no_round_number_lies_in_a_narrow_slab():
    below, above = cuts("abs(x - 1/3)")[0]
    assert below < 1 / 3 < above
    assert above - below < 1e-11


def test_too_many_places_are_left_to_halving():
    text = " + ".join(f"abs(x - {k}/16)" for k in range(9))
    assert cuts(text) == [[], []]


@pytest.mark.parametrize("place", ["1/3", "0.3", "0.25"])
def test_a_kink_anywhere_takes_few_boxes(place):
    text = f"abs(x - {place}) + y^2"
    net = af.compile(text, {"x": (-1, 1), "y": (-1, 1)}, tol=1e-2, construction="tensor_grid")
    found = supremum_box(net.network, net.target.tree, ("x", "y"), [-1, -1], [1, 1])
    assert found.limit is None
    assert found.bound <= 1.2 * found.seen
    assert len(found.lower) < 1500
