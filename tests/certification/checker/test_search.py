"""True bounds are confirmed, false ones refuted with a witness, and with too few cells nothing is said."""

from dataclasses import replace

import numpy as np
import pytest
from flint import arb

from attnforge.certification.checker.search import Outcome, Question, answer, exactly, halves, look, volume
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.targets import Box, Formula
from tests.certification.checker.reference import formula_at, network_at


def anchors(count=8, sharpness=40.0):
    at = np.linspace(0, 1, count)
    head = Head(
        sharpness * np.eye(2), np.eye(1), memory_keys=np.stack([2 * at, -(at**2)], axis=1),
        memory_values=np.sin(3 * at)[:, None],
    )  # fmt: skip
    return Network((Linear((Term(np.array([[1.0, 0.0]])),), np.array([[0.0, 1.0]])), Attention((head,))), 1, 1)


NETWORK, FORMULA = anchors(), Formula("sin(3*x)", Box(0.0, 1.0), ("x",))


def question(bound, **changes):
    asked = Question(NETWORK, "float64", 1, (0, 0), FORMULA.tree, (("x", 0),), (0.0,), (1.0,), None, 8, bound)
    return replace(asked, **changes)


@pytest.fixture(scope="module")
def attained():
    points = np.linspace(0, 1, 20001)[:, None]
    return float(np.abs(NETWORK(points[:, None])[:, 0, 0] - FORMULA.values(points)).max())


def test_a_true_bound_is_confirmed_and_tight(attained):
    found = answer(question(1.01 * attained), 2000)
    assert found.verdict == "confirmed"
    assert attained <= found.reached <= 1.01 * attained
    assert found.seen <= attained * (1 + 1e-9)


@pytest.mark.parametrize("factor", [0.95, 0.5, 0.01, 0.0])
def test_a_false_bound_is_refuted_with_a_witness(attained, factor):
    found = answer(question(factor * attained), 5000)
    assert found.verdict == "refuted"
    assert factor * attained < found.seen <= attained * (1 + 1e-6)
    with exactly(2):
        exact = abs(network_at(NETWORK, np.array([found.at]))[0][0] - formula_at(FORMULA.tree, {"x": found.at[0]}))
        assert exact >= arb(found.seen)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_too_few_cells_decide_nothing(attained, limit):
    found = answer(question(1.01 * attained), limit)
    assert found.verdict == "undecided"
    assert found.cells <= limit


@pytest.fixture(scope="module")
def long():
    """A question of more cells than one process looks at alone."""
    network, points = anchors(250, 6.25e4), np.linspace(0, 1, 20001)[:, None]
    error = float(np.abs(network(points[:, None])[:, 0, 0] - FORMULA.values(points)).max())
    return question(1.001 * error, network=network, order=1)


def test_two_processes_say_the_same(long):
    alone, together = answer(long, 20000), answer(long, 20000, workers=2)
    assert alone == together
    assert alone.verdict == "confirmed"
    assert alone.cells > 400


def test_two_processes_find_the_same_fault(long):
    """A narrow bump at the right end, where cells are looked at last."""
    false = replace(long, tree=Formula("sin(3*x) + 0.1*exp(-(1000*(x - 0.996))^2)", Box(0, 1), ("x",)).tree)
    alone, together = answer(false, 20000), answer(false, 20000, workers=2)
    assert alone.verdict == together.verdict == "refuted"
    assert abs(together.at[0] - 0.996) < 0.005
    assert together.cells > 400


def test_a_bound_below_rounding_is_never_confirmed():
    """The identity in float32 against x: right up to the rounding of the input, no further."""
    identity = Network((Linear((Term(np.eye(1)),)),), 1, 1)
    asked = question(2.0**-30, network=identity, dtype="float32", tree=Formula("x", Box(0, 1), ("x",)).tree)
    assert answer(asked, 300).verdict == "undecided"
    assert answer(replace(asked, bound=2.0**-23), 300).verdict == "confirmed"


def test_jumps_cannot_be_confirmed():
    asked = question(0.5, tree=Formula("step(x - 0.3)", Box(0, 1), ("x",)).tree)
    found = answer(asked, 3000)
    assert found.verdict == "refuted"
    kind = replace(asked, bound=0.999, network=Network((Linear((Term(np.zeros((1, 1))),), np.array([[0.5]])),), 1, 1))
    assert answer(kind, 3000).verdict == "confirmed"  # 0.5 is within 0.5 of both sides
    tight = replace(kind, bound=0.4999)
    assert answer(tight, 3000).verdict == "refuted"


def test_progress_is_told_and_ends_at_one(long):
    told = []
    answer(long, 20000, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_a_point_is_a_domain():
    asked = question(1.0, lower=(0.25,), upper=(0.25,))
    assert answer(asked, 10).verdict == "confirmed"
    assert answer(replace(asked, bound=1e-9), 10).verdict == "refuted"


def test_halves_cover_the_box_and_stop_between_neighbours():
    whole = (0.0, 0.0), (4.0, 1.0)
    parts = halves(((0.0, 0.0), (1.0, 1.0)), whole)
    assert parts == [((0.0, 0.0), (1.0, 0.5)), ((0.0, 0.5), (1.0, 1.0))]
    assert sum(volume(part, whole) for part in parts) == volume(((0.0, 0.0), (1.0, 1.0)), whole) == 0.25
    assert halves(((1.0,), (float(np.nextafter(1.0, 2)),)), ((0.0,), (1.0,))) == []
    assert halves(((1.0,), (1.0,)), ((1.0,), (1.0,))) == []


def test_what_is_left_is_handed_back(attained):
    found, left = look(question(1.01 * attained), [((0.0,), (1.0,))], 5)
    assert found.cells == 5
    assert left
    again, rest = look(question(1.01 * attained), left, 2000)
    assert again.verdict == "confirmed"
    assert not rest


def test_outcomes_join_to_the_worse():
    confirmed, undecided = Outcome("confirmed", 1.0, 0.5, (1.0,), 3), Outcome("undecided", 0.0, 0.75, (2.0,), 4)
    assert confirmed.and_(undecided) == Outcome("undecided", 1.0, 0.75, (2.0,), 7)
    assert undecided.and_(Outcome("refuted")).verdict == "refuted"
