"""Graphs of registers as people see them: chosen, printed, traced; roots at the end of their domain."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused


@pytest.fixture(scope="module")
def net():
    return af.compile("x*y/sqrt(1 + z^2)", {"x": (-1, 1), "y": (-1, 1), "z": (0, 2)}, tol=1e-6)


def test_of_two_inputs_it_is_taken_where_a_grid_needs_more_keys():
    few = af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6)
    assert (few.construction, few.anchors) == ("graph", 5)
    assert "one head over a grid would need about 40 keys" in few.reason
    factors = "*".join(f"(2 + sin(x + {k}*y)/{k})" for k in range(1, 12))
    many = af.compile(factors, {"x": (0, 0.1), "y": (0, 0.1)}, tol=1e-2)
    assert many.construction == "tensor_grid"
    assert many.anchors < af.constructions.graph(factors, {"x": (0, 0.1), "y": (0, 0.1)}, 1e-2).anchors


@pytest.mark.parametrize("formula", ["exp(-x^2)*cos(3*y)*z", "x*log(y)*z", "x*z*(1 + sqrt(2 - y))"])
def test_an_input_that_does_not_vary_is_no_obstacle(formula):
    net = af.compile(formula, {"x": (-1, 1), "y": (1, 1), "z": (0, 2)}, tol=1e-4)
    assert net.certificate.status == "proved"
    assert af.measure(net, points=1000).sup <= net.certificate.bound <= 1e-4


def test_logarithms_are_those_of_factors_and_exponents():
    """Rows over [1, 5] twice, not one over [1, 25] of a product that would be written for it."""
    wave = af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-3)
    assert wave.network.heads[0].claims.formula == "-r[1]^2"
    net = af.compile("1/(exp(x*y/z) - 1)", dict.fromkeys("xyz", (1, 5)), tol=1e-6)
    formulas = [head.claims.formula for head in net.network.heads]
    assert formulas[:3] == ["log(r[3])", "log(r[1])", "log(r[2])"]
    assert len(formulas) == 4
    assert net.certificate.bound <= 1e-6


def test_every_register_is_printed_and_traced_beside_its_exact_value(net):
    assert (net.construction, net.reason[:34]) == ("graph", "a graph of 3 registers in 2 layers")
    assert "r[4] " in net.report()
    assert "sharpness" not in net.report()
    x = np.array([[0.5, -0.25, 1.0], [-1.0, 1.0, 0.0]])
    rows = net.trace(x)
    assert [row.name for row in rows] == [f"r[{i}]" for i in range(1, 7)]
    assert all(np.allclose(row.computed, row.exact, atol=1e-6) for row in rows)
    assert np.array_equal(rows[0].exact, x[:, 0])
    assert net.trace(x=0.5, y=1.0, z=0.0)[0].computed.tolist() == [0.5]
    with refused(af.TargetError):
        af.compile("sin(x)", {"x": (0, 1)}, tol=1e-3).trace([0.5])


def test_the_report_and_the_certificate_say_what_each_register_adds():
    net = af.compile("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), tol=1e-6)
    local = net.certificate.registers
    assert sum(each.share for each in local) == pytest.approx(1.0)
    traced = net.trace(np.random.default_rng(0).uniform(-1, 1, (1000, 3)))[3:]
    for each, row in zip(local, traced, strict=True):
        assert each.name == row.name
        assert each.lower <= row.computed.min() <= row.computed.max() <= each.upper
        assert each.name in str(net)
    assert "sensitivity" in str(net)
    assert af.Certificate.from_json(net.certificate.to_json()) == net.certificate


@pytest.mark.parametrize(
    "text", ["sqrt(x)*y*z", "exp(-sqrt(x*y + z))", "hypot(x - y, z)", "asin(x*y) + z", "acos(-x*y*z)", "acos(x*y) + z"]
)
def test_roots_at_the_end_of_their_domain_are_proved(text):
    net = af.compile(text, dict.fromkeys("xyz", (0, 1)), tol=1e-5, construction="graph")
    x = np.random.default_rng(0).uniform(0, 1, (2000, 3)) ** 4
    x[1000:1500] = 1 - x[1000:1500]
    x[:10] = np.linspace(0, 1, 10)[:, None] * [1, 1, 0]
    assert np.abs(net(x) - net.target.values(x)).max() <= net.certificate.bound <= 1e-5


@pytest.mark.parametrize(
    ("text", "tol"), [("log(x)*y*z", 1e-6), ("sign(x)*y*z", 1e-6), ("floor(x)*y*z", 1e-6), ("hypot(x - y, z)", 1e-10)]
)
def test_what_is_unbounded_or_jumps_or_is_moved_too_far_by_rounding_is_refused(text, tol):
    with refused(af.AttnforgeError):
        af.compile(text, dict.fromkeys("xyz", (0, 1)), tol=tol, construction="graph")
