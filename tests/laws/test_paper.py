"""The papers' own setting: d = 10, n = 50, x ~ U[-5, 5], w, t ~ N(0, 1) per token, [a, b] = [-25, 25]."""

import numpy as np
import pytest

import attnforge as af
from tests.laws.cases import truth

BOX = af.Box(-5, 5)
TOKENS, FEATURES = 50, 10


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2504)
    w, t = rng.normal(size=(TOKENS, FEATURES)), rng.normal(size=TOKENS)
    return w, t, rng.uniform(-5, 5, size=(400, TOKENS, FEATURES))


def mean_square(net, x):
    error = np.abs(net(x) - truth(net, x))
    assert error.max() <= net.certificate.bound
    return float((error**2).mean())


def one_head(data, c):
    w, t, _ = data
    h = 50 / 59
    sharpness = "hard" if c is None else c / h**2
    return af.constructions.truncated_linear(w, t, -25, 25, anchors=60, sharpness=sharpness, domain=BOX)


def test_hard_reaches_the_papers_error(data):
    mse = mean_square(one_head(data, None), data[2])
    assert 0.05 <= mse <= 0.062


def test_sharpness_for_the_mean_square_is_a_thousand_times_better(data):
    assert mean_square(one_head(data, 1.4), data[2]) <= 3.5e-5


@pytest.mark.parametrize("c", [3.0, 36.0])
def test_other_sharpness_misses_it(data, c):
    """The mutation: at another c the same anchors do not reach the mean square error of c = 1.4."""
    assert mean_square(one_head(data, c), data[2]) > 1e-3


def test_sixteen_heads(data):
    w, t, x = data
    h = 50 / (16 * 46 - 1)
    net = af.constructions.multihead_truncated_linear(
        w[0], t[0], -25, 25, tokens=50, heads=16, sentinels=2, sharpness=2 / h**2, domain=BOX
    )
    assert net.anchors == 800
    assert mean_square(net, x) <= 2e-6


def test_the_gate_is_exact_to_twelve_digits(data):
    w, t, x = data
    net = af.constructions.gate(w, t, -25, 25, domain=BOX)
    assert np.abs(net(x) - truth(net, x)).max() <= 1e-12
    assert af.measure(net, points=5000).sup <= 1e-12
    assert net.certificate.bound <= 1e-11
