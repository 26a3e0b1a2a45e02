"""What one who waits is told."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.certification.enclosure.fitted import prove_fitted
from attnforge.certification.statement import Statement
from attnforge.outward import machine
from attnforge.outward.branch_and_bound import Progress


@given(st.lists(st.tuples(st.floats(1e-12, 1e12) | st.just(math.inf), st.floats(0, 1e3)), max_size=20))
def test_it_never_falls_and_stays_between_zero_and_one(steps):
    told = []
    progress = Progress(told.append)
    for bound, goal in steps:
        progress.tell(bound, goal)
    assert told == sorted(told)
    assert all(0 <= each <= 1 for each in told)


def test_half_the_way_on_a_logarithmic_scale():
    told = []
    progress = Progress(told.append)
    progress.tell(1.0, 1e-8)
    progress.tell(1e-4, 1e-8)
    assert told == [0.0, pytest.approx(0.5)]


@pytest.mark.parametrize(
    ("text", "names", "construction"),
    [("abs(x - 0.3)", "x", "tensor_grid"), ("exp(-9*x*y)", "xy", "tensor_grid"), ("sin(5*x) + y^2", "xy", "additive")],
)
def test_a_proof_tells_how_far_it_is(text, names, construction):
    net = af.compile(text, dict.fromkeys(names, (-1, 1)), tol=1e-5, construction=construction)
    told = []
    prove_fitted(Statement(net.network, net.target, net.domain, machine("float64"), progress=told.append))
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) >= 2
