"""First cells: at kinks of formulas and at corners of the largest score."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.kernel.plan import Plan, Variables
from attnforge.proving.cells import _plan
from attnforge.proving.first_cells import _envelope, corners, first_edges
from tests.kernel.subjects import statement


@pytest.mark.parametrize("seed", range(20))
def test_corners_are_where_the_largest_of_affine_functions_changes(seed):
    rng = np.random.default_rng(seed)
    ends = rng.normal(size=(2, int(rng.integers(1, 9))))
    found = list(_envelope(ends, -2.0, 3.0))
    at = np.linspace(-2.0, 3.0, 20_001)
    largest = (ends[0] + (at[:, None] + 2) / 5 * (ends[1] - ends[0])).argmax(axis=1)
    changes = at[np.flatnonzero(np.diff(largest))]
    assert len(found) == len(changes)
    assert np.allclose([place for place, _ in found], changes, atol=1e-3)


def test_equal_scores_make_no_corner():
    assert list(_envelope(np.zeros((2, 3)), 0.0, 1.0)) == []
    assert list(_envelope(np.array([[1.0, 1.0], [0.0, 0.0]]), 0.0, 1.0)) == []


def test_a_row_of_keys_is_cut_between_them():
    stated = statement("row")
    plan = _plan(stated, (0,), (1, (-0.5, 1.0)))
    variables = Variables.of(plan, stated.domain)
    head = stated.run.network.heads[0]
    assert len(corners(stated, variables, 1)) == head.memory_size - 1
    assert plan.edges[0] == ()


@pytest.mark.parametrize(("name", "form", "place"), [("kink", None, 0.3), ("row", (1, (-0.5, 1.0)), 0.65)])
def test_kinks_of_formulas_are_cut_at(name, form, place):
    stated = statement(name)
    plan = _plan(stated, (0,), form)
    assert min(abs(edge - place) for edge in plan.edges[plan.pivot]) < 1e-9


@pytest.mark.parametrize("name", ["fit", "kink", "row", "product", "gate"])
def test_edges_lie_in_the_box_in_order(name):
    stated = statement(name)
    variables = Variables.of(Plan((0,), ((),) * stated.inputs, 1), stated.domain)
    every = first_edges(stated, stated.target.outputs, variables)
    for edges, low, high in zip(every, *stated.domain.ends, strict=True):
        assert list(edges) == sorted(set(edges))
        assert all(low < edge < high for edge in edges)
