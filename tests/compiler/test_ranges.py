"""The range of a network and of its target on a box: values known by hand, shapes, what has none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from tests.catalogue import network
from tests.laws.forms import of_one_length, spread
from tests.refusals import refused

FEW = af.Effort(points=200, climbers=4, rounds=4, tries=4, boxes=64, intervals=256, pairs=2e5)
READ = (
    "truncated, two inputs", "truncated, tokens", "gate", "relu", "leaky relu", "hardtanh", "partition",
    "grid", "sparse grid", "graph", "multiplier", "logistic", "head in a prompt",
)  # fmt: skip
UNREAD = ("two layers", "callable on cells", "cross-attention", "table", "callable on a sparse grid")


@pytest.fixture(scope="module")
def wave():
    return af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, 1e-6)


def test_ends_known_by_hand(wave):
    """On [-0.1, 0.1] the slope is positive: the ends are those of the box, and the target is within the bound."""
    ends = [np.sin(-0.8) + 0.1, np.sin(0.8) + 0.1]
    width, bound = ends[1] - ends[0], wave.certificate.bound
    for found, off in ((wave.target_range({"x": (-0.1, 0.1)}), 0.0), (wave.range({"x": (-0.1, 0.1)}), bound)):
        assert ends[0] - off - 1e-3 * width <= found.lower <= ends[0] + off
        assert ends[1] - off <= found.upper <= ends[1] + off + 1e-3 * width
    low, high = wave.range({"x": (0.3, 0.3)})  # a point is a box
    assert low <= wave(0.3) <= high
    assert high - low <= 2 * bound


def test_a_box_is_given_in_every_way(wave):
    found = [wave.range(box, effort="low") for box in ({"x": (0, 0.5)}, [(0, 0.5)], af.Box([0], [0.5]), af.Box(0, 0.5))]
    assert len(set(found)) == 1
    assert wave.range(effort="low") == wave.range({"x": (-1, 1)}, effort="low")
    beyond = float(np.nextafter(1.0, 2.0))
    assert wave.range({"x": (0, beyond)}, effort="low") == wave.range({"x": (0, 1)}, effort="low")  # as calls do
    net = af.compile("x + 2*y", {"x": (0, 1), "y": (0, 1)}, 1e-9)
    np.testing.assert_allclose(net.range({"y": (0.5, 0.75)}), (1.0, 2.5), atol=3e-3)  # x keeps its interval
    np.testing.assert_allclose(net.range(), (0.0, 3.0), atol=5e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_range_is_of_the_dtype_that_runs(dtype):
    net = af.constructions.gate([1.0], 0.25, -1, 2, domain=af.Box(-3, 3), dtype=dtype)
    unit = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    low, high = net.range(effort="low")
    found = net(np.linspace(-3, 3, 1001)[:, None, None])
    assert low <= found.min() <= found.max() <= high
    assert high - 2 <= 64 * unit


@pytest.mark.parametrize("name", READ)
def test_the_target_lies_in_its_range(name):
    net, rng = network(name), np.random.default_rng([2, *name.encode()])
    whole = of_one_length(net)
    low, high = np.sort(rng.uniform(whole.lower, whole.upper, size=(2, *whole.shape)), axis=0)
    box = af.Box(low, high)
    low, high = net.target_range(box, effort=FEW)
    values = np.asarray(net.target.values(spread(box, rng, 200)))
    slack = 2.0**-48 * np.abs(values)  # values are rounded, the range is not
    assert (values >= low - slack).all()
    assert (values <= high + slack).all()
    assert np.shape(low) == values.shape[1:]
    spread_ = values.max(axis=0) - values.min(axis=0)
    assert (high - low <= 2 * spread_ + 0.5 * np.abs(values).max()).all(), "a range that says something"


@pytest.mark.parametrize("name", UNREAD)
def test_what_cannot_be_read_has_a_range_of_the_network_alone(name):
    net = network(name)
    with refused(af.TargetError):
        net.target_range()
    few, more = (net.range(effort=effort) for effort in (FEW, "low"))
    assert np.all((few.lower <= more.lower) & (more.lower <= more.upper) & (more.upper <= few.upper))
    assert np.all(np.isfinite(few))


def test_tokens_and_pairs():
    net = network("gate")  # tokens attend to none but themselves
    low, high = net.range(af.Box(-1.0, 1.0, shape=(3, 2)), effort="low")
    np.testing.assert_allclose([low, high], [[-1.0] * 3, [1.75] * 3], atol=0.1)
    assert isinstance(net.range(effort="low").upper, float)
    emulated = network("head in a prompt")  # tokens that attend to each other are counted
    low, high = emulated.range(af.Box(-0.1, 0.1, shape=(3, 2)), effort=FEW)
    assert low.shape == high.shape == (3, 1)
    pair = network("cross-attention")
    named = pair.range({"X": [(0, 0.5)], "Y": [(0, 1)]}, effort=FEW)
    assert named == pair.range([(0, 0.5), (0, 1)], effort=FEW)


WRONG = {
    "beyond the domain": (af.DomainError, lambda wave: wave.range({"x": (0, 2)})),
    "another name": (af.DomainError, lambda wave: wave.range({"y": (0, 1)})),
    "exchanged ends": (af.DomainError, lambda wave: wave.range({"x": (0.5, 0.25)})),
    "another shape": (af.DomainError, lambda wave: wave.range([(0, 1), (0, 1)])),
    "tokens that are not counted": (af.DomainError, lambda _: network("head in a prompt").range()),
    "a regression": (af.RefusalError, lambda _: network("Poisson").range()),
    "another number of outputs": (
        af.CertificateError,
        lambda wave: replace(wave, network=af.compile("[x, x^2]", {"x": (-1, 1)}, 1e-2).network).range(effort="low"),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_has_no_range_is_refused(wave, what):
    kind, call = WRONG[what]
    with refused(kind):
        call(wave)
