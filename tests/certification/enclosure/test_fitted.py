"""What the proof of fitted heads refuses."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.enclosure.fitted import prove_fitted
from attnforge.certification.statement import Statement
from attnforge.effort import Effort


def test_a_network_of_other_shape_is_refused():
    pair = af.compile(lambda x: np.stack([np.sin(x), np.cos(x)], axis=-1), {"x": (0, 1)}, tol=1e-4)
    with pytest.raises(af.CertificateError, match="must write the target's 1 outputs"):
        af.certify(pair.network, "sin(x)", {"x": (0, 1)})
    with pytest.raises(af.CertificateError, match=r"inputs of shape \(2,\)"):
        af.certify(af.compile("sin(x)", {"x": (0, 1)}, tol=1e-4).network, "sin(x) + y", {"x": (0, 1), "y": (0, 1)})


def test_a_limit_is_said_in_words():
    """Too few boxes allowed: no bound, and the reason."""
    net = af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-8, construction="tensor_grid")
    statement = Statement(net.network, net.target, net.domain, machine("float64"))
    assert prove_fitted(statement).limit is None
    found = prove_fitted(replace(statement, effort=Effort(pairs=2e4)))
    assert found.parts["fit"] == np.inf
    assert "enough boxes" in found.limit


def test_the_parts_are_those_of_the_certificate():
    net = af.compile("sin(8*x)", {"x": (-1, 1)}, tol=1e-8)
    statement = Statement(net.network, net.target, net.domain, machine("float64"))
    assert prove_fitted(statement).parts == dict(net.certificate.parts)


@pytest.mark.parametrize("tol", [1e-11, 1e-12, 3e-13])
@pytest.mark.parametrize(("text", "interval"), [("sin(8*x)", (-1, 1)), ("exp(x)", (-1, 1)), ("log(x)", (0.1, 2))])
def test_near_rounding_the_bound_is_within_ten_times_the_error(text, interval, tol):
    net = af.compile(text, {"x": interval}, tol=tol)
    found = af.measure(net, points=20_000).sup
    assert found <= net.certificate.bound <= 10 * found
