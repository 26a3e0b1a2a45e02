"""Linear forms on cells of inputs, and along one form of many inputs."""

import numpy as np
import pytest
from flint import arb

from attnforge.balls import precision
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import Cell


def test_forms_add_and_scale():
    a, b = Form({0: arb(1), 2: arb(-2)}, arb(0.5)), Form({2: arb(2), 1: arb(3)}, arb(1))
    found = a.plus(b).times(arb(2))
    assert {i: float(s) for i, s in found.slopes.items()} == {0: 2.0, 2: 0.0, 1: 6.0}
    assert found.constant == 3


def test_a_form_of_the_inputs_is_itself():
    with exactly(3):
        space = Space((0.0, -1.0), (1.0, 1.0))
        cell = Cell((0.25, 0.0), (0.5, 1.0), 3)
        model = space.model(Form({0: arb(2), 1: arb(-1)}, arb(1)), cell)
        assert model.at[0] == 2 * 0.375 - 0.5 + 1
        assert [float(model.over[k]) for k in cell.terms.axes] == [2.0, -1.0]


@pytest.mark.parametrize("seed", range(5))
def test_along_a_line_every_point_of_the_box_is_covered(seed):
    """Forms off the line are thick constants: each value of each form lies in the model at its y."""
    rng = np.random.default_rng(seed)
    low, w, s = rng.uniform(-1, 0, 5), rng.normal(size=5), rng.normal(size=5)
    high = low + rng.uniform(0.1, 1, 5)
    s = w * 1.7 + s * 10.0 ** -rng.integers(0, 18)
    with precision(160), exactly(2):
        space = Space(low.tolist(), high.tolist(), w.tolist())
        form = Form({i: arb(x) for i, x in enumerate(s.tolist())}, arb(0.25))
        for x in [*rng.uniform(low, high, size=(50, 5)).tolist(), low.tolist(), high.tolist()]:
            y = sum((arb(a) * b for a, b in zip(w.tolist(), x, strict=True)), start=arb(0))
            assert arb(space.lower[0]) <= y <= arb(space.upper[0])
            near = float(y.mid())
            cell = Cell((near - 1e-9,), (near + 1e-9,), 2)
            value = sum((arb(a) * b for a, b in zip(s.tolist(), x, strict=True)), start=arb(0.25))
            assert cell.range(space.model(form, cell)).contains(value)


def test_the_ends_of_a_line_are_rounded_outward():
    """0.1 + 0.2 in exact arithmetic is no float: the line reaches beyond it."""
    with precision(160):
        space = Space((0.1, 0.2), (0.3, 0.7), (1.0, 1.0))
        assert arb(space.lower[0]) < arb(0.1) + arb(0.2)
        assert arb(space.upper[0]) > arb(0.3) + arb(0.7)


def test_a_line_ends_where_the_box_does():
    """Nothing beyond the ends is looked at: a bound could be refuted there that is true on the box."""
    low, high, weights = (
        (-1.2600751903589136, -2.156621615481222),
        (1.9602957034654627, -0.4169629448230505),
        (-0.37, 1.0),
    )
    with precision(160):
        space = Space(low, high, weights)
        ends = [arb(w) * arb(a) for w, a in zip(weights, (low[0], high[1]), strict=True)]
        assert abs(arb(space.upper[0]) - sum(ends, start=arb(0))) < 1e-16
        ends = [arb(w) * arb(a) for w, a in zip(weights, (high[0], low[1]), strict=True)]
        assert abs(arb(space.lower[0]) - sum(ends, start=arb(0))) < 1e-15
