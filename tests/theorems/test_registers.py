"""One head on registers: products, exponentials, logistic functions and roots, against more digits than they have."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

MAKE = af.constructions
PRECISE = {3: 6.9e-5, 5: 2.1e-8, 7: 6.9e-12, 9: 4e-15}  # errors of products, relative to the largest
INTERVALS = [
    (-1.0, 1.0), (0.0, 1.0), (1.0, 2.0), (-2.0, -1.0), (-3.0, 0.5), (2.0, 1e6), (-1e-3, 1e9), (1e100, 3e100),
    (-1e-100, 2e-100), (1.0, 1.0 + 2.0**-52), (-7.25, -7.0), (3.0, 3.0),
]  # fmt: skip


def products(net, low: float, high: float, count: int = 300) -> float:
    """The largest error of a product in [low, high] x [-1, 1], relative to 4 r |y|: r is half the interval."""
    rng = np.random.default_rng(0)
    x = np.concatenate([[low, high], rng.uniform(low, high, size=count)]).clip(low, high)
    y = rng.uniform(-1, 1, size=len(x))
    exact = x.astype(np.longdouble) * y
    largest = 4 * max(high / 2 - low / 2, abs(low / 2 + high / 2) / 3)
    return float((np.abs(net(x=x, y=y) - exact) / (largest * np.abs(y))).max())


@pytest.mark.parametrize("keys", PRECISE)
@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_any_interval_will_do_for_a_product(low, high, keys):
    net = MAKE.multiplier(keys, {"x": (low, high), "y": (-1, 1)}, effort="low")
    assert products(net, low, high) <= PRECISE[keys] + 16 * 2.0**-53
    assert net.anchors == keys


@pytest.mark.parametrize("keys", PRECISE)
def test_products_are_as_precise_as_stated_and_no_more(keys):
    assert PRECISE[keys] / 3 < products(MAKE.multiplier(keys, effort="low"), -1.0, 1.0, 2000) <= PRECISE[keys]


def test_the_fewest_keys_that_reach_a_tolerance_are_taken():
    for tol in (1e-2, 1e-6, 1e-10):
        net = af.compile("x*y", {"x": (-1, 3), "y": (2, 5)}, tol, construction="multiplier", effort="low")
        fewer = MAKE.multiplier(net.anchors - 1, [(-1, 3), (2, 5)], effort="low")
        assert net.certificate.bound <= tol < fewer.certificate.bound


@pytest.mark.parametrize(("low", "high"), [(-700.0, 670.0), (-1e4, 0.0), (600.0, 672.0), (-30.0, -20.0)])
def test_any_range_of_exponents(low, high):
    """Roundoffs of the relative error: of the sink, of scores of this size, and of a few products."""
    net = MAKE.exponential([(-1, 1), (low, high)], effort="low")
    exponents = np.concatenate([[low, high], np.random.default_rng(0).uniform(low, high, 300)])
    found = net(v=-0.75, l=exponents)
    with mpmath.workdps(50):
        exact = np.array([float(-0.75 * mpmath.exp(each)) for each in exponents])
    sink = high + 53 * np.log(2) + 1
    allowed = 2.0**-53 * (2 * (sink + np.abs(exponents)) + 16)
    vanishing = np.finfo(float).tiny * np.exp(sink)
    assert (np.abs(found - exact) <= np.abs(exact) * allowed + vanishing).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("high", [-3.5, 0.0, 2.0])
def test_the_sink_of_an_exponential_lies_a_roundoff_below(high, dtype):
    digits = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}[dtype]
    net = MAKE.exponential([(-0.1, 0.1), (-5, high)], dtype=dtype, effort="low")
    level = net.network.heads[0].memory_keys[0, 1]
    assert level == round(level)
    assert np.exp(high - level) <= 2.0**-digits < np.exp(high - level + 1) * (1 + 1e-12)


@pytest.mark.parametrize("text", ["sigmoid(2*x - y)", "tanh(x/4 + 1)", "1/(exp(-3*x) + 1)", "tanh(sqrt(2)*y)"])
def test_logistic_functions_are_exact_up_to_rounding(text):
    net = af.compile(text, {"x": (-2, 1), "y": (-1, 2)}, 1e-6, construction="logistic", effort="low")
    points = np.random.default_rng(0).uniform([-2, -1], [1, 2], size=(500, 2))
    assert np.abs(net(points) - net.target.values(points)).max() <= 2e-15
    assert net.anchors == 2


def test_far_out_a_logistic_function_is_flat():
    net = af.compile("tanh(x)", {"x": (-1e6, 1e6)}, 1e-6, construction="logistic", effort="low")
    assert net(np.array([-1e6, -800.0, 800.0, 1e6])).tolist() == [-1.0, -1.0, 1.0, 1.0]


OTHERS = {
    "multiplier": ("x*x", "x*y*y", "x + y", "x*sin(y)", "x^2", "x"),
    "exponential": ("x*exp(x)", "x*x*exp(y)", "exp(y)", "x*exp(2*y)", "x + exp(y)", "x*y"),
    "logistic": ("sigmoid(x*y)", "2*tanh(x)", "1/(2 + exp(x))", "1/(1 + exp(x) + y)", "exp(x)", "x"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_formulas_are_refused(name):
    for text in OTHERS[name]:
        with refused(af.RefusalError):
            af.compile(text, {"x": (-1, 1), "y": (-1, 1)}, 1e-3, construction=name)
    with refused(af.AttnforgeError):
        af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-20, construction="multiplier")


@pytest.mark.parametrize("size", [1e-6, 1.0, 3e8])
@pytest.mark.parametrize("share", [1e-3, 1e-5])
def test_roots_are_near_down_to_zero_and_precision_costs_few_keys(size, share):
    tol = share * np.sqrt(size)
    net = MAKE.graph("sqrt(x)*y", {"x": (0, size), "y": (0, 1)}, tol, effort="low")
    x = size * np.linspace(0, 1, 1001) ** 4
    root = next(row for row in net.trace(x=x, y=1.0) if "sqrt" in row.formula)
    assert np.abs(root.computed - np.sqrt(x)).max() <= tol
    assert np.abs(net(x=x, y=1.0) - np.sqrt(x)).max() <= net.certificate.bound <= tol
    assert net.anchors <= (20 if share == 1e-3 else 40)
    with refused(af.RefusalError):
        MAKE.graph("sqrt(x)*y", {"x": (0, size), "y": (0, 1)}, 1e-14 * np.sqrt(size))
