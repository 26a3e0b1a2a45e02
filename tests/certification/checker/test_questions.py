"""Which questions a bound asks: entries, variables, lines, and networks that do not fit their targets."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.checker.questions import questions
from attnforge.certification.checker.search import answer
from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Linear, Network, Rows, Term, with_heads
from attnforge.targets import Box, Formula, TruncatedLinear

UNIT = Box(0.0, 1.0, shape=(2,))


def ridge(weights, spoiled=0.0):
    """A head that reads w . x, or nearly, on len(w) inputs, and gives about tanh of it."""
    w = np.array(weights)
    at = np.linspace(-2, 2, 15)
    keys, values = np.stack([2 * at, -(at**2)], axis=1), np.tanh(at)[:, None]
    read = np.stack([w, np.zeros_like(w)], axis=1)
    read[0, 0] += spoiled
    lift = Linear((Term(read),), np.array([[0.0, 1.0]]))
    return Network(
        (lift, Attention((Head(20 * np.eye(2), np.eye(1), memory_keys=keys, memory_values=values),))), len(w), 1
    )


def asked(network, target, bound=0.05, dtype="float64"):
    return list(questions(network, target, bound, dtype))


def test_a_formula_of_one_form_is_looked_at_along_a_line():
    target = Formula("tanh(x - y)", UNIT, ("x", "y"))
    (along,) = asked(ridge([1.0, -1.0]), target)
    assert along.direction is not None
    assert len(along.whole[0]) == 1
    (across,) = asked(ridge([1.0, -1.0], spoiled=0.5), target)
    assert across.direction is None
    assert len(across.whole[0]) == 2
    assert answer(along, 2000).verdict == "confirmed"


def test_a_network_off_the_line_by_a_rounding_is_still_covered():
    """Not parallel by 1e-12: the line is taken, and what is off it is counted."""
    target = Formula("tanh(x - y)", UNIT, ("x", "y"))
    (along,) = asked(ridge([1.0, -1.0], spoiled=1e-12), target)
    assert along.direction is not None
    honest = answer(along, 2000)
    assert honest.verdict == "confirmed"
    forced = replace(along, network=ridge([1.0, -1.0], spoiled=0.5))
    assert answer(forced, 500).verdict != "confirmed"


def test_eight_inputs_along_one_form():
    names = tuple(f"x[{i}]" for i in range(8))
    target = Formula(f"tanh(({'+'.join(names)})/4 - 1)", Box(0.0, 1.0, shape=(8,)))
    network = ridge([0.25] * 8)
    shifted = replace(network, layers=(replace(network.layers[0], constant=np.array([[-1.0, 1.0]])), network.layers[1]))
    (along,) = asked(shifted, target)
    assert answer(along, 2000).verdict == "confirmed"


def test_five_inputs_that_all_matter_are_beyond_the_checker():
    target = Formula("x[0]*x[1]*x[2]*x[3]*x[4]", Box(0.0, 1.0, shape=(5,)))
    with pytest.raises(CertificateError, match="up to 4 inputs"):
        asked(ridge([1.0] * 5), target)


def test_every_token_and_every_output_is_asked_about():
    net = af.constructions.truncated_linear([[1.0, -0.5], [0.5, 0.5]], [0.25, 0.0], -1, 2, anchors=6)
    found = asked(net.network, net.target, net.certificate.bound)
    assert [q.entry for q in found] == [(0, 0), (1, 0)]
    assert all(len(q.lower) == 4 and q.direction is not None for q in found)
    target = TruncatedLinear([1.0], 0.0, -1, 1, Box(-2.0, 2.0), output=1, outputs=3)
    network = Network((Linear((Term(np.zeros((1, 3))),)),), 1, 1)
    assert [q.entry for q in asked(network, target)] == [(0, 0), (0, 1), (0, 2)]
    verdicts = [answer(q, 200).verdict for q in asked(network, target)]
    assert verdicts == ["confirmed", "refuted", "confirmed"]


@pytest.mark.parametrize(
    "network",
    [
        Network((Linear((Term(np.eye(3)),)),), 3, 1),
        Network((Linear((Term(np.eye(2)),)),), 2, 2),
        Network((Linear((Term(np.eye(2)),)),), 2, 1, context=(1, 1)),
    ],
)
def test_networks_of_another_shape_are_refused(network):
    with pytest.raises(CertificateError, match="must read"):
        asked(network, Formula("x + y", UNIT, ("x", "y")))


def test_any_number_of_tokens_must_not_matter():
    """On one token attention to all tokens is attention to itself; on two it is not."""
    net = af.constructions.gate([1.0], 0.0, -1, 1)
    net_any = replace(net.network, tokens=None)
    assert [answer(q, 2000).verdict for q in asked(net_any, net.target, 1e-9)] == ["confirmed"]
    everything = with_heads(net_any, lambda head: replace(head, key_rows=Rows()))
    with pytest.raises(CertificateError, match="by itself"):
        asked(everything, net.target, 1e-9)
