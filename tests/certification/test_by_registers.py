"""Proofs by registers of what the package builds: bounds near today's, in any basis, and never below an error."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.graph.by_registers import prove_registers
from attnforge.certification.statement import Statement
from attnforge.errors import AttnforgeError
from attnforge.network import rounded
from attnforge.outward import machine
from attnforge.targets import Formula
from attnforge.zoo.knobs.basis import in_random_basis
from attnforge.zoo.knobs.distractors import with_distractors
from attnforge.zoo.knobs.superposition import superposed

CUBE, SQUARE = dict.fromkeys("xyz", (-1.0, 1.0)), dict.fromkeys("xy", (-1.0, 1.0))


def statement(net, network=None, dtype="float64", target=None):
    run = rounded(net.network if network is None else network, dtype)
    return Statement(run, net.target if target is None else target, net.target.domain, machine(dtype))


def largest_error(net, network, count=20_000):
    low, high = (end.ravel() for end in (net.target.domain.lower, net.target.domain.upper))
    points = np.random.default_rng(0).uniform(low, high, (count, len(low)))
    return np.abs(network(points[:, None])[:, 0].ravel() - net.target.values(points).ravel()).max()


BUILT = {
    "product": (lambda: af.constructions.graph("x*y*exp(-z^2)", CUBE, 1e-2), 1.3),
    "sum": (lambda: af.constructions.graph("sin(x*y) + exp(-(x + z)^2)*y", CUBE, 1e-2), 1.3),
    "kinks": (lambda: af.constructions.graph("max(x, y)*abs(z) + relu(x - z)", CUBE, 1e-2), 1.3),
    "root": (lambda: af.constructions.graph("exp(-sqrt(x*y + x + 2))*y", dict.fromkeys("xy", (0.0, 1.0)), 1e-6), 3.0),
    "clamps": (lambda: af.compile("max(x, abs(y))", SQUARE, 1e-9), 3.0),
}
KNOBS = {
    "basis": lambda network: in_random_basis(network, np.random.default_rng(1)),
    "distractors": lambda network: in_random_basis(
        with_distractors(network, 2, np.random.default_rng(2)), np.random.default_rng(1)
    ),
    "superposed": lambda network: in_random_basis(
        superposed(network, 1, np.random.default_rng(3)), np.random.default_rng(1)
    ),
}


@pytest.fixture(scope="module")
def nets():
    return {name: make() for name, (make, _) in BUILT.items()}


@pytest.mark.parametrize("name", BUILT)
def test_bounds_are_near_those_of_today(name, nets):
    net = nets[name]
    proof = prove_registers(statement(net))
    assert proof.status == "proved"
    assert largest_error(net, net.network) <= proof.bound + 1e-14
    assert proof.bound < BUILT[name][1] * net.certificate.bound


@pytest.mark.parametrize("knob", KNOBS)
@pytest.mark.parametrize("name", ["kinks", "clamps"])
def test_any_basis_will_do(name, knob, nets):
    net = nets[name]
    network = KNOBS[knob](net.network)
    proof = prove_registers(statement(net, network))
    assert largest_error(net, network) <= proof.bound + 1e-14
    assert proof.bound < 1.01 * af.certify(net.with_network(network)).bound or name == "kinks"


@pytest.mark.parametrize("options", [{"basis": 1}, {"basis": 1, "distractors": 2}])
def test_gravity_is_proved_where_its_columns_are_hidden(options):
    net = af.zoo.get("gravity")
    network = net.network
    if "distractors" in options:
        network = with_distractors(network, options["distractors"], np.random.default_rng(0))
    network = in_random_basis(network, np.random.default_rng(options["basis"]))
    proof = prove_registers(statement(net, network))
    assert largest_error(net, network) <= proof.bound < 1.1 * net.certificate.bound


def test_other_targets_are_refused_or_far(nets):
    for name, text in (
        ("product", "x*y*exp(-z^2) + 1"),
        ("product", "x*y*z"),
        ("clamps", "max(x, y)"),
        ("kinks", "max(x, y)*abs(z)"),
    ):
        other = Formula(text, nets[name].target.domain, tuple(nets[name].target.names))
        try:
            proof = prove_registers(statement(nets[name], target=other))
        except AttnforgeError:
            continue
        assert proof.bound > 0.4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_of_a_dtype_is_charged(dtype, nets):
    net = nets["clamps"]
    built = af.compile("max(x, abs(y))", SQUARE, 0.5, dtype=dtype)
    proof = prove_registers(statement(built, dtype=dtype))
    points = np.random.default_rng(0).uniform(-1, 1, (5000, 2))
    error = np.abs(np.asarray(built(points)).ravel() - net.target.values(points).ravel()).max()
    assert error <= proof.bound < 3 * built.certificate.bound
