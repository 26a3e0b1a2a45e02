"""Heads on registers by name: domains, dtypes, refusals, and what is proved of them."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

MAKE = af.constructions


@pytest.mark.parametrize(("keys", "most"), [(2, 0.021), (3, 2.8e-4), (5, 8.3e-8)])
def test_a_product_is_proved(keys, most):
    net = MAKE.multiplier(keys=keys)
    assert (net.anchors, net.heads, net.layers, net.certificate.status) == (keys, 1, 1, "proved")
    assert af.measure(net, points=2000).sup <= net.certificate.bound <= most


def test_a_logistic_function_is_proved():
    net = MAKE.logistic([0.5, -1.0, 0.0], 0.25, domain=af.Box(-1, 1))
    assert (net.anchors, net.certificate.status) == (2, "proved")
    assert af.measure(net, points=2000).sup <= net.certificate.bound <= 3e-15


def test_domains_name_and_order_the_inputs(clock):
    net = MAKE.multiplier(3, {"force": (0, 2), "way": (-1, 1)}, timeout=0.5)
    assert net(force=2.0, way=-0.5) == pytest.approx(-1.0, abs=1e-3)
    assert MAKE.multiplier(3, [(0, 2), (-1, 1)], timeout=0.5)(x=2.0, y=-0.5) == net(force=2.0, way=-0.5)
    grown = MAKE.exponential({"amount": (0, 3), "growth": (-1, 1)}, timeout=0.5)
    assert grown(amount=2.0, growth=0.5) == pytest.approx(2 * np.exp(0.5), rel=1e-13)


WRONG = {
    "too few keys": lambda: MAKE.multiplier(1),
    "half a key": lambda: MAKE.multiplier(2.5),
    "one input of two": lambda: MAKE.multiplier(5, [(0, 1)]),
    "a number as a domain": lambda: MAKE.multiplier(5, 3),
    "another dtype": lambda: MAKE.multiplier(5, dtype="float8"),
    "an exponential beyond float64": lambda: MAKE.exponential([(0, 1), (0, 700)]),
    "an exponential beyond float32": lambda: MAKE.exponential([(0, 1), (0, 80)], dtype="float32"),
    "a matrix": lambda: MAKE.logistic([[1.0]]),
    "no weights": lambda: MAKE.logistic([]),
    "text": lambda: MAKE.logistic("abc"),
    "a weight that is no number": lambda: MAKE.logistic([np.nan]),
    "an infinite offset": lambda: MAKE.logistic([1.0], np.inf),
    "a number as a logistic domain": lambda: MAKE.logistic([1.0], domain=3),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_refused(what):
    with refused():
        WRONG[what]()
