"""Any stack of layers: bounds that hold, near the error, and that say what ended them."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.enclosure.stack import MOST, prove_stack
from attnforge.certification.statement import Statement
from attnforge.effort import NORMAL, until
from attnforge.network import Attention, Head, Linear, Network, Softmax, Term, rounded
from attnforge.targets import Box, Formula, TruncatedLinear
from tests.readers.erasing import perturbed

LINE = {"x": (-1.0, 1.0)}


def composed(*networks: Network) -> Network:
    return replace(networks[0], layers=tuple(layer for each in networks for layer in each.layers), construction="")


def statement(network, text, box, dtype="float64", **options) -> Statement:
    target = Formula(text, box, tuple("xyz"[: network.features]))
    return Statement(rounded(network, dtype), target, box, machine(dtype), **options)


def error_of(asked: Statement) -> float:
    box = asked.domain
    points = np.random.default_rng(1).uniform(box.lower, box.upper, size=(20_000, *box.shape))
    return float(np.abs(asked.run(points[:, None]).reshape(-1) - asked.target.values(points)).max())


@pytest.fixture(scope="module")
def square() -> Network:
    return af.compile("x^2", {"x": (-1.1, 1.1)}, 1e-3).network


@pytest.fixture(scope="module")
def sine(square) -> Statement:
    first = af.compile("sin(3*x)", LINE, 1e-3).network
    return statement(composed(first, square), "sin(3*x)^2", Box([-1.0], [1.0]))


def test_two_fitted_heads_in_a_row(sine):
    found, error = prove_stack(sine), error_of(sine)
    assert error <= found.bound <= 1.06 * error
    assert found.limit is None


def test_one_linear_form_of_two_inputs(square):
    gate = af.compile("clamp(2*x - y, -1, 1)", {"x": (-1, 1), "y": (0, 2)}, 1e-6, construction="gate").network
    asked = statement(composed(gate, square), "clamp(2*x - y, -1, 1)^2", Box([-1.0, 0.0], [1.0, 2.0]))
    found, error = prove_stack(asked), error_of(asked)
    assert error <= found.bound <= 1.06 * error


@pytest.mark.parametrize("construction", ["two_layer", "softmax_tail"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_moved_weights_of_two_layers(construction, dtype):
    net = af.compile("sin(3*x)", LINE, 0.2, construction=construction, dtype=dtype)
    asked = statement(perturbed(net.network, 1e-3, 0, everything=True), "sin(3*x)", Box([-1.0], [1.0]), dtype)
    found, error = prove_stack(asked), error_of(asked)
    assert error * (1 - 1e-4) <= found.bound <= 1.1 * error


def test_every_row_is_looked_at_by_itself():
    """Six tokens are six inputs, but each output reads one."""
    head = Head(np.eye(2), np.array([[1.0]]), memory_keys=np.eye(2), memory_values=np.array([[-1.0], [1.0]]))
    layers = (Linear((Term(np.array([[1.0, -1.0]])),)), Attention((head,)), Linear((Term(),)))
    target = TruncatedLinear([1.0], 0.0, -1.0, 1.0, Box(-2.0, 2.0, shape=(6, 1)))
    network = Network(layers, 1, 6)
    found = prove_stack(Statement(network, target, target.domain, machine("float64")))
    points = np.linspace(-2, 2, 4001).repeat(6).reshape(-1, 6, 1)
    error = np.abs(network(points)[..., 0] - np.clip(points[..., 0], -1, 1)).max()
    assert error <= found.bound <= 1.06 * error


def test_what_ended_the_search_is_said(sine):
    few = replace(sine, effort=replace(NORMAL, boxes=1))
    found = prove_stack(few)
    assert found.limit == "1 cells"
    assert prove_stack(sine).bound < found.bound < np.inf


def test_the_clock_is_obeyed(sine, clock):
    clock.tick = 1.0
    with until(0.5), pytest.raises(af.OutOfTimeError):
        prove_stack(sine)


def test_numbers_that_overflow_are_not_bounded():
    network = Network((Linear((Term(np.array([[300.0]])),)), Linear((Term(np.array([[300.0]])),)), Softmax()), 1, 1)
    with pytest.raises(af.CertificateError, match="Some bound must hold"):
        prove_stack(statement(network, "x", Box([0.0], [1.0]), "float16"))


def test_too_many_inputs_are_refused():
    network = Network((Linear((Term(np.ones((MOST + 1, 1))),)), Softmax()), MOST + 1, 1)
    names = tuple(f"x{i}" for i in range(MOST + 1))
    target = Formula("x0", Box(0.0, 1.0, shape=(MOST + 1,)), names)
    with pytest.raises(af.CertificateError, match=f"up to {MOST} inputs"):
        prove_stack(Statement(network, target, target.domain, machine("float64")))
