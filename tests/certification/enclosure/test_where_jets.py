"""Jets of a choice: on its sides, at its border, and where that may be touched."""

import numpy as np
import pytest

from attnforge.certification.enclosure.formula_jets import formula_jets
from attnforge.targets.expression import parse

MIDDLE, RADIUS = np.array([[-0.5], [-0.25], [0.25], [0.5], [0.0]]), np.array([[0.25], [0.25], [0.25], [0.25], [0.25]])


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("where(x < 0, -x, x)", [True, True, True, True, False]),
        ("where(x < 0, 1, x)", [True, False, True, True, False]),  # to the left its value at zero is another one
        ("where(x <= 0, 1, x)", [True, True, False, True, False]),
        ("where(x < 0, 1/(x - 2), log(x))", [True, False, False, True, False]),
    ],
)
def test_cells_may_touch_the_border_only_where_the_branches_meet(text, known):
    """On the side that has the border's value, and on both if they meet; log(x) has no series at zero."""
    _, over = formula_jets(parse(text), ("x",), MIDDLE, RADIUS, 2)
    assert over.known.tolist() == known


def test_a_branch_that_is_not_chosen_may_have_no_value():
    at, over = formula_jets(parse("where(x < 0, x^2, sqrt(x))"), ("x",), MIDDLE, RADIUS, 2)
    assert over.known.tolist() == [True, True, False, True, False]
    assert at.mid[0, :2].tolist() == [0.25, 0.0625]
