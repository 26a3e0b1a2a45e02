"""The range of a network and of its target on a box: values known by hand, shapes, words of refusal."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.effort import EFFORTS
from tests.readers.built import BUILT, built
from tests.readers.test_ranges import FEW, boxes_of, points_in

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


def test_a_box_is_given_in_every_way(wave):
    found = [wave.range(box, effort="low") for box in ({"x": (0, 0.5)}, [(0, 0.5)], af.Box([0], [0.5]), af.Box(0, 0.5))]
    assert len(set(found)) == 1
    assert wave.range(effort="low") == wave.range({"x": (-1, 1)}, effort="low")


def test_inputs_that_are_not_named_keep_their_interval():
    net = af.compile("x + 2*y", {"x": (0, 1), "y": (0, 1)}, 1e-9)
    np.testing.assert_allclose(net.range({"y": (0.5, 0.75)}), (1.0, 2.5), atol=3e-3)
    np.testing.assert_allclose(net.range(), (0.0, 3.0), atol=5e-3)


def test_a_point_is_a_box(wave):
    low, high = wave.range({"x": (0.3, 0.3)})
    assert low <= wave(0.3) <= high
    assert high - low <= 2 * wave.certificate.bound


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
    net, rng = built(name), np.random.default_rng([2, *name.encode()])
    box = boxes_of(net, rng)
    low, high = net.target_range(box, effort=FEW)
    values = np.asarray(net.target.values(points_in(box, rng)))
    slack = 2.0**-48 * np.abs(values)  # values are rounded, the range is not
    assert (values >= low - slack).all()
    assert (values <= high + slack).all()
    assert np.shape(low) == values.shape[1:]
    spread = values.max(axis=0) - values.min(axis=0)
    assert (high - low <= 2 * spread + 0.5 * np.abs(values).max()).all(), "a range that says something"


@pytest.mark.parametrize("name", UNREAD)
def test_what_cannot_be_read_has_a_range_of_the_network_alone(name):
    net = built(name)
    with pytest.raises(af.TargetError, match=r"proved of what can be read.*net\.range"):
        net.target_range()
    low, high = net.range(effort=FEW)
    assert np.all(np.isfinite(low) & np.isfinite(high) & (low <= high))


def test_every_construction_says_one_or_the_other():
    assert {*READ, *UNREAD} <= {*BUILT}


def test_boxes_outside_the_domain(wave):
    with pytest.raises(af.DomainError, match=r"inside the domain \(\[-1.0, 1.0\].*Got \[0.0, 2.0\]"):
        wave.range({"x": (0, 2)})
    with pytest.raises(af.DomainError, match="inputs of this network are x"):
        wave.range({"y": (0, 1)})
    with pytest.raises(af.DomainError, match="lower <= upper"):
        wave.range({"x": (0.5, 0.25)})
    with pytest.raises(af.DomainError, match="shape"):
        wave.range([(0, 1), (0, 1)])
    beyond = float(np.nextafter(1.0, 2.0))
    assert wave.range({"x": (0, beyond)}, effort="low") == wave.range({"x": (0, 1)}, effort="low")  # as calls do


def test_tokens_that_attend_to_each_other_are_counted():
    net = built("head in a prompt")
    with pytest.raises(af.DomainError, match=r"shape=\(n, 2\)"):
        net.range()
    low, high = net.range(af.Box(-0.1, 0.1, shape=(3, 2)), effort=FEW)
    assert low.shape == high.shape == (3, 1)


def test_tokens_that_attend_to_none_but_themselves_are_any_number():
    net = built("gate")
    low, high = net.range(af.Box(-1.0, 1.0, shape=(3, 2)), effort="low")
    assert low.shape == (3,)
    np.testing.assert_allclose([low, high], [[-1.0] * 3, [1.75] * 3], atol=0.1)
    assert isinstance(net.range(effort="low").upper, float)


def test_two_inputs_by_their_names():
    net = built("cross-attention")
    named, flat = net.range({"X": [(0, 0.5)], "Y": [(0, 1)]}, effort=FEW), net.range([(0, 0.5), (0, 1)], effort=FEW)
    assert named == flat


def test_functions_of_a_prompt():
    net = af.compile("tokens.mean(x*y)*q", {"x": (0, 1), "y": (0, 1), "q": (0, 1)}, 1e-6)
    low, high = net.range({"q": (0.25, 0.5)}, effort="low")
    assert 0.5 <= high <= 0.501
    tokens, asked = np.random.default_rng(0).uniform(size=(50, 20, 2)), np.random.default_rng(1).uniform(0.25, 0.5, 50)
    found = net(tokens, asked)
    assert low <= found.min() <= found.max() <= high
    assert net(np.ones((5, 2)), 0.5) <= high
    assert net.target_range(effort="low").upper <= 1.001


def test_regressions_have_no_box_of_points():
    net = af.in_context.LeastSquares(steps=2, learning_rate=0.1).build(features=1, examples=4, data_bound=1.0)
    with pytest.raises(af.RefusalError, match="of a prompt"):
        net.range()


def test_a_network_of_another_shape_is_refused(wave):
    other = af.compile("[x, x^2]", {"x": (-1, 1)}, 1e-2)
    with pytest.raises(af.CertificateError, match="target's outputs"):
        replace(wave, network=other.network).range(effort="low")


def test_more_effort_is_no_wider():
    net = built("callable on cells")
    few, more = net.range(effort=FEW), net.range(effort=EFFORTS["low"])
    assert few.lower <= more.lower <= more.upper <= few.upper
