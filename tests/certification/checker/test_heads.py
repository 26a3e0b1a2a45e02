"""One head on a cell: keys left out, keys that take over, values of any size, on cells of any size."""

import numpy as np
import pytest
from flint import arb

from attnforge.balls import machine
from attnforge.certification.checker.heads import attend, select
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value, constant
from attnforge.network import Attention, Head, Linear, Network, Rows, Softmax, Term
from tests.certification.checker.reference import network_at

ORDER = 4


def anchors(count, sharpness, values):
    """Scores sharpness (2 x L - L^2), L evenly spaced on [0, 1]; the constant 1 is the second feature."""
    at = np.linspace(0, 1, count)
    keys = np.stack([2 * at, -(at**2)], axis=1)
    return Head(sharpness * np.eye(2), np.eye(1), memory_keys=keys, memory_values=values(at)[:, None])


def row(place):
    return [Value(place, Form({0: ONE}, ZERO), 0.0), constant(place, 1.0)]


def place_on(low, high, dtype="float64"):
    return Place(Space((0.0,), (1.0,)), Cell((low,), (high,), ORDER), machine(dtype))


def exactly_at(head, x):
    return network_at(Network((Attention((head,)),), 2, 1), np.array([[x, 1.0]]))[0][0]


@pytest.mark.parametrize("negligible", [0.0, 1e-12, 1e-3])
@pytest.mark.parametrize("sharpness", [1.0, 100.0, 1e4, 1e7])
def test_keys_left_out_are_accounted_for(sharpness, negligible):
    rng = np.random.default_rng(int(sharpness))
    head = anchors(50, sharpness, lambda at: np.sin(9 * at) * np.where(at > 0.7, 1e3, 1.0))
    with exactly(ORDER), np.errstate(all="ignore"):
        for _ in range(6):
            low = rng.uniform(0, 0.9)
            high = min(low + 10.0 ** rng.uniform(-6, 0), 1.0)
            place = place_on(low, high)
            (found,) = attend(place, head, row(place), [], negligible)
            for x in [*rng.uniform(low, high, 5).tolist(), low, high]:
                exact = exactly_at(head, x)
                assert (place.cell.range(found.model) + arb(0, found.off)).overlaps(exact)
                assert found.run.overlaps(exact)


def test_a_sharp_head_far_from_a_tie_is_its_winner():
    head = anchors(11, 1e5, lambda at: at**2)
    with exactly(ORDER), np.errstate(all="ignore"):
        place = place_on(0.31, 0.32)
        (found,) = attend(place, head, row(place), [], 1e-9)
        assert place.cell.range(found.model).contains(0.09) or abs(float(found.model.at[0]) - 0.09) < 1e-15
        assert found.off < 1e-9


def test_the_output_lies_between_the_values_even_where_nothing_else_is_known():
    head = anchors(11, 1e9, lambda at: 1 + at)
    with exactly(ORDER), np.errstate(all="ignore"):
        place = place_on(0.0, 1.0)
        (found,) = attend(place, head, row(place), [], 0.0)
        span = place.cell.range(found.model)
        assert span.contains(1)
        assert span.contains(2)
        assert float(span.lower()) > 0.99
        assert float(span.upper()) < 2.01
        assert found.off < 1.1  # anywhere between them


def test_an_error_of_the_query_moves_the_weights():
    """Half a unit off the query, and the run may give another mixture."""
    head = anchors(3, 4.0, lambda at: at)
    with exactly(ORDER), np.errstate(all="ignore"):
        place = place_on(0.4, 0.40001)
        x = Value(place, Form({0: ONE}, ZERO), 0.05)
        (found,) = attend(place, head, [x, constant(place, 1.0)], [], 0.0)
        (calm,) = attend(place, head, row(place), [], 0.0)
        moved = max(abs(exactly_at(head, 0.4 + s) - exactly_at(head, 0.4)) for s in (-0.05, 0.05))
        assert found.off > float(moved) > 1e4 * calm.off


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_softmax_over_features_is_a_head(dtype):
    rng = np.random.default_rng(2)
    weights, values = rng.normal(size=(2, 6)) * 5, rng.normal(size=(6, 1))
    network = Network((Linear((Term(weights),)), Softmax(), Linear((Term(values),))), 2, 1)
    with exactly(ORDER), np.errstate(all="ignore"):
        place = place_on(0.2, 0.3, dtype)
        forms = [Form({0: arb(a)}, arb(b)) for a, b in weights.T.tolist()]
        (found,) = select(place, [Value(place, form, 0.0) for form in forms], values, 1e-6)
        for x in (0.2, 0.25, 0.3):
            exact = network_at(network, np.array([[x, 1.0]]))[0][0]
            assert (place.cell.range(found.model) + arb(0, found.off)).overlaps(exact)


def test_huge_values_do_not_overflow_unseen():
    """Kernels add weights times values before they divide: 200 values of 1e37 leave float32's range."""
    head = anchors(200, 1.0, lambda at: np.full_like(at, 1e37))
    with exactly(ORDER), np.errstate(all="ignore"):
        place = place_on(0.2, 0.3, "float32")
        assert attend(place, head, row(place), [], 0.0)[0].off == np.inf


def test_half_types_round_weights_and_outputs():
    """The output alone may be off by half a unit in its last place, and so may the weight before it."""
    head = anchors(1, 1.0, lambda at: np.full_like(at, 1.0))
    with exactly(ORDER), np.errstate(all="ignore"):
        place = place_on(0.2, 0.3, "bfloat16")
        assert attend(place, head, row(place), [], 0.0)[0].off >= 2.0**-8


def test_errors_of_keys_and_scores_move_the_weights():
    """Two keys of one token, or two scores, each off by 0.1: the weights move by about a twentieth."""
    moved = float(np.tanh(0.1) / 2)  # from 1/2, when one score gains and the other loses 0.1
    head = Head(
        np.eye(1), np.eye(1), key=np.eye(1), value=np.zeros((1, 1)), key_rows=Rows(),
        memory_keys=np.array([[0.5]]), memory_values=np.array([[1.0]]),
    )  # fmt: skip
    with exactly(ORDER), np.errstate(all="ignore"):
        place = place_on(0.2, 0.3)
        one, half = constant(place, 1.0), Value(place, Form({}, arb(0.5)), 0.1)
        (found,) = attend(place, head, [one], [[half]], 0.0)
        assert found.off >= abs(1 / (1 + np.exp(0.1)) - 0.5)
        (chosen,) = select(place, [half, half], np.array([[0.0], [1.0]]), 0.0)
        assert chosen.off >= moved
