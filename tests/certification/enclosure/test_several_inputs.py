"""The supremum of |heads - formula| on a box: proved, tight, and never below what is measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.balls import branch_and_bound, machine
from attnforge.certification.enclosure.affine_heads import read_heads
from attnforge.certification.enclosure.run import MemoryRun, rounding
from attnforge.certification.enclosure.several_inputs import supremum_box
from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Linear, Network, Term, apply
from attnforge.parallel import Processes
from attnforge.targets.expression import parse
from attnforge.targets.expression.evaluate import evaluate

FRANKE = (
    "0.75*exp(-((9*x-2)^2+(9*y-2)^2)/4) + 0.75*exp(-(9*x+1)^2/49-(9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)^2+(9*y-3)^2)/4) - 0.2*exp(-(9*x-4)^2-(9*y-7)^2)"
)
CASES = [
    (FRANKE, {"x": (0, 1), "y": (0, 1)}, 1e-3),
    ("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (-1, 1)}, 1e-6),
    ("x*y", {"x": (-1, 1), "y": (0, 2)}, 1e-4),
    ("cos(x + 2*y)*exp(-z)", {"x": (0, 1), "y": (0, 1), "z": (0, 1)}, 1e-4),
    ("abs(x - 0.3)*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-2),
]
NAMES = ("x", "y", "z", "w")


def compiled(text, domain, tol):
    net = af.compile(text, domain, tol=tol, construction="tensor_grid")
    return net.network, net.target.tree, np.array([domain[name] for name in net.target.names]).T


def proved(network, tree, ends, **limits):
    return supremum_box(network, tree, NAMES[: ends.shape[1]], *ends, **limits)


def errors(network, tree, ends, count=20_000, seed=5):
    lower, upper = ends
    points = lower + (upper - lower) * np.random.default_rng(seed).random((count, len(lower)))
    values = evaluate(tree, dict(zip(NAMES, points.T, strict=False)))
    return points, np.abs(apply(network, points[:, None])[:, 0, 0] - values)


def random_network(rng, inputs, grid):
    """Heads with random queries, keys and values; on a grid, keys are products of random rows."""
    heads = []
    for _ in range(int(rng.integers(1, 3))):
        if grid:
            sizes = rng.integers(1, 5, inputs)
            axes = [rng.normal(size=size) for size in sizes]
            mesh = np.meshgrid(*axes, indexing="ij")
            keys = np.column_stack([part for axis in mesh for part in (axis.ravel(), axis.ravel() ** 2)])
        else:
            keys = rng.normal(size=(int(rng.integers(1, 9)), 3))
        query = rng.normal(size=(inputs + 1, keys.shape[1]))
        values, output = rng.normal(size=(len(keys), 2)), rng.normal(size=(2, 1))
        heads.append(Head(query, output, memory_keys=keys, memory_values=values))
    encode = Linear((Term(np.eye(inputs, inputs + 1)),), np.eye(1, inputs + 1, inputs))
    return Network((encode, Attention(tuple(heads))), inputs, 1)


@pytest.mark.parametrize(("text", "domain", "tol"), CASES)
def test_proved_within_half_of_the_measured_error(text, domain, tol):
    network, tree, ends = compiled(text, domain, tol)
    found, measured = proved(network, tree, ends), errors(network, tree, ends)[1].max()
    assert measured <= found.bound <= 1.5 * measured
    assert found.seen <= found.bound <= 1.2 * found.seen


@given(st.integers(0, 10**6), st.integers(2, 3), st.booleans())
@settings(max_examples=8, deadline=None)
def test_random_heads_are_never_above_their_bound(seed, inputs, grid):
    """Any keys, any values, any cells: the bound holds on each cell, with few cells as with many."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, inputs, grid)
    tree = parse(["sin(3*x)*y + 1", "abs(x - y/3)", "exp(-x^2 - y)/(2 + x)"][seed % 3])
    ends = np.array([[-1.0] * inputs, [1.0] * inputs])
    found = proved(network, tree, ends, cells=int(rng.integers(1, 300)))
    points, measured = errors(network, tree, ends, 300)
    inside = ((found.lower <= points[:, None]) & (points[:, None] <= found.upper)).all(axis=2)
    assert inside.any(axis=1).all()
    slack = 1e-12
    assert (np.where(inside, measured[:, None], 0.0) <= found.bounds + slack).all()
    assert found.bound == found.bounds.max()


def test_the_cells_fill_the_box():
    """Their volumes add up to the box's: with the law above, they cover it and do not overlap."""
    network, tree, ends = compiled(*CASES[1])
    cells = proved(network, tree, ends)
    assert (cells.lower >= ends[0]).all()
    assert (cells.upper <= ends[1]).all()
    assert (cells.upper - cells.lower).prod(axis=1).sum() == pytest.approx(4.0, rel=1e-12)


def test_a_changed_value_raises_the_bound():
    network, tree, ends = compiled(*CASES[1])
    head = network.layers[-1].heads[0]
    values = head.memory_values.copy()
    values[np.abs(head.claims.positions).max(axis=1).argmin()] += 1e-2  # the key nearest to the middle
    changed = Attention((replace(head, memory_values=values),))
    other = replace(network, layers=(*network.layers[:-1], changed))
    assert proved(other, tree, ends).bound > 100 * proved(network, tree, ends).bound


def test_a_changed_formula_raises_the_bound():
    network, _, ends = compiled(*CASES[1])
    assert proved(network, parse("exp(-x^2)*cos(3*y) + 1e-4*x"), ends).seen > 9e-5


def test_the_cells_serve_for_rounding():
    network, tree, ends = compiled(*CASES[1])
    cells = proved(network, tree, ends)
    run = MemoryRun(*read_heads(network), machine("float64"))
    assert 0 < rounding(run, cells.lower, cells.upper) < 1e-11


def test_a_kink_at_the_border_of_cells_costs_nothing():
    net = af.compile("exp(-x^2) + abs(y)", {"x": (-1, 1), "y": (0, 1)}, tol=1e-4, construction="tensor_grid")
    found = proved(net.network, net.target.tree, np.array([[-1.0, 0.0], [1.0, 1.0]]))
    assert found.bound <= 1.2 * found.seen
    assert len(found.lower) < 500


def test_errors_below_rounding_end_the_search():
    """Equal values give a constant: nothing to see, and a bound near float64's own error before any limit."""
    network = random_network(np.random.default_rng(2), 2, grid=True)
    heads = [replace(head, memory_values=np.ones_like(head.memory_values)) for head in network.layers[-1].heads[:1]]
    total = float(heads[0].output.sum())
    constant = replace(network, layers=(network.layers[0], Attention(tuple(heads))))
    found = proved(constant, parse(f"0*x + ({total!r})"), np.array([[-1.0, -1.0], [1.0, 1.0]]))
    assert found.bound < 1e-12
    assert len(found.lower) < 10_000


def test_limits_end_the_search_with_a_valid_bound():
    network, tree, ends = compiled(*CASES[1])
    found, measured = proved(network, tree, ends, cells=100), errors(network, tree, ends)[1].max()
    assert measured <= found.bound
    assert len(found.lower) < 300


def test_what_ended_the_search_is_said(monkeypatch):
    network, tree, ends = compiled(*CASES[1])
    assert proved(network, tree, ends).limit is None
    assert proved(network, tree, ends, cells=10, close=1 + 1e-9).limit == "10 cells"
    monkeypatch.setattr(branch_and_bound, "time_is_up", lambda: True)
    cut_off = proved(network, tree, ends, close=1 + 1e-9)
    assert cut_off.limit == "the time allowed"
    assert errors(network, tree, ends)[1].max() <= cut_off.bound


@pytest.mark.slow
def test_processes_find_the_same_numbers():
    network, tree, ends = compiled(*CASES[0])
    one, two = (proved(network, tree, ends, processes=Processes(workers)) for workers in (1, 2))
    for name in ("lower", "upper", "bounds", "seen"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_a_box_of_no_width_in_one_input():
    network, tree, _ = compiled(*CASES[1])
    found = proved(network, tree, np.array([[-1.0, 0.5], [1.0, 0.5]]))
    measured = errors(network, tree, np.array([[-1.0, 0.5], [1.0, 0.5]]))[1].max()
    assert measured <= found.bound <= 1.3 * measured


def test_other_boxes_are_refused():
    network, tree, ends = compiled(*CASES[1])
    with pytest.raises(CertificateError, match="one to four inputs"):
        supremum_box(network, tree, ("x", "y"), ends[0][:1], ends[1])
