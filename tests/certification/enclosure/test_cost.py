"""The cost of a proof, stated before it starts."""

import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.enclosure.cost import cost
from attnforge.certification.enclosure.fitted import as_line, boxes_allowed
from attnforge.certification.enclosure.one_input import supremum
from attnforge.certification.enclosure.several_inputs import supremum_box


@pytest.mark.parametrize(("text", "tol"), [("sin(8*x)", 1e-8), ("1/(1 + 25*x^2)", 1e-6)])
def test_cells_of_one_input(text, tol, clock):
    """About as many as there are: within a factor of five, looked at or kept."""
    net = af.compile(text, {"x": (-1, 1)}, tol=tol, construction="tensor_grid")
    line = as_line(net.network, net.target, net.domain, machine("float64"))
    kept = len(supremum(line.heads, line.tree, line.forms, line.lower, line.upper).lower)
    clock.tick = 1.0  # for a batch of cells
    found = cost(net.network, net.target, net.domain)
    assert kept / 5 <= found.cells <= 5 * kept
    assert 0 < found.seconds <= found.most_seconds


def test_boxes_of_two_inputs():
    net = af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6, construction="tensor_grid")
    kept = len(supremum_box(net.network, net.target.tree, ("x", "y"), [-1, -1], [1, 1]).lower)
    found = cost(net.network, net.target, net.domain)
    assert kept / 6 <= found.cells <= 6 * kept
    assert found.most_cells == boxes_allowed(net.network)


def test_a_sum_costs_what_its_terms_cost():
    net = af.compile("sin(8*x) + exp(y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6, construction="additive")
    assert cost(net.network, net.target, net.domain).cells < 1000


def test_nothing_to_enclose():
    net = af.compile(lambda x: x**2, {"x": (0, 1)}, tol=1e-2)
    assert cost(net.network, net.target, net.domain) is None
