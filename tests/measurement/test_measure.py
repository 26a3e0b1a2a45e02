"""``af.measure`` finds errors that random points miss, never invents one, and looks less where a target is slow."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, Claims, Head, Network, moved
from tests.catalogue import network
from tests.refusals import refused

GATE = af.constructions.gate([1.0, 2.0], 0.5, -1, 1, sharpness=1e6, domain=af.Box(-1, 1))
KINKED = af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-6)
ANCHORS = np.sort(KINKED.network.heads[0].claims.positions[:, 0])


def wave(x):
    return np.sin(8 * x) + np.abs(x)


def points_of(net, *, points=2000, **settings):
    """Where a target is evaluated when a network is compared with it; inside the domain, all of them."""
    seen = []

    def target(x):
        seen.append(np.array(x, dtype=np.float64).reshape(len(x), -1))
        return np.zeros(len(x))

    af.measure(net, target, points=points, **settings)
    found = np.concatenate(seen)
    net.domain.check(found)
    return found


def test_the_largest_error_of_a_gate_sits_at_a_kink():
    found = af.measure(GATE, points=500)
    y = float(found.at[0] @ [1.0, 2.0] + 0.5)
    assert min(abs(y - 1), abs(y + 1)) < 1e-4
    assert found.sup == pytest.approx(0.2785 / 1e6, rel=1e-2)
    assert found.sup <= GATE.certificate.bound
    assert found.points == 500 + 125 + 16 * 24 * 24 + 5 * 7  # random, along the form, climbing, places and nudges


@pytest.mark.parametrize("name", ["truncated, two inputs", "readme", "grid", "deep relu", "cross-attention", "table"])
def test_the_error_reported_is_attained_where_it_says(name):
    net = network(name)
    found = af.measure(net, points=500)
    wanted = net.target.values(found.at[None].astype(np.longdouble) if name != "table" else found.at[None])
    slack = 4e-16 * float(np.abs(wanted).max())  # one point is rounded otherwise than many
    assert np.abs(net.at_points(found.at[None]) - wanted).max() == pytest.approx(found.sup, abs=slack)
    assert f"{found.points:,} points" in str(found)
    again, other = (af.measure(net, points=500, seed=seed) for seed in (0, 1))
    assert (again.sup, again.rms) == (found.sup, found.rms)
    assert name == "table" or other.rms != found.rms


def test_climbing_finds_a_smooth_bump():
    flat = af.compile("0.5*a + b", {"a": (-1, 1), "b": (-1, 1)}, 1e-9)

    def bumped(x):
        away = ((x - np.array([0.3, -0.6])) ** 2).sum(axis=-1)
        return x @ [0.5, 1.0] + np.exp(-away / 0.05)

    found = af.measure(flat, bumped, points=50)
    assert found.sup == pytest.approx(1.0, abs=1e-6)
    assert np.allclose(found.at, [0.3, -0.6], atol=1e-2)


def test_a_spike_between_anchors_around_a_kink_is_found():
    tight = int(np.diff(ANCHORS).argmin())
    low, high = ANCHORS[tight : tight + 2]
    assert high - low < 1e-4  # uniform points do not come here
    found = af.measure(KINKED, lambda x: wave(x) + 0.5 * ((x > low) & (x < high)), points=500)
    assert found.sup >= 0.49
    assert found.points == 500 + 250 + 16 * 24 * 24


def test_the_climb_follows_a_ridge_as_thin_as_the_anchors_are_close():
    at = np.array([[-1.0], [0.0], [1e-8], [1.0]])
    claims = Claims("test", 1.0, at, ("anchor",) * 4, np.array([[1.0, 0.0, 0.0]]))
    head = Head(np.zeros((2, 1)), np.eye(1), memory_keys=at, memory_values=0 * at, claims=claims)
    flat = af.compile("0*x + 0*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-3)
    net = replace(flat, network=Network((Attention((head,)),), 2, 1))

    def ridged(x):  # errs along x = 0, most at y = 1: steps must be tiny in x and long in y
        return (2 + x[..., 1]) / (1 + np.abs(x[..., 0]) / 1e-7)

    assert af.measure(net, ridged, points=100).sup > 2.99


def test_the_root_mean_square_is_that_of_random_points_alone():
    assert af.measure(KINKED, lambda x: wave(x) + 0.25, points=100).rms == pytest.approx(0.25)
    near = af.measure(KINKED, lambda x: wave(x) + (np.abs(x) < 1e-4), points=1000, seed=1)
    assert (near.sup, near.rms) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-6))


def test_what_is_not_a_number_is_not_a_small_error():
    net = network("truncated, two inputs")
    broken = moved(net.network, "layer1.head0.query", lambda query: 1e308 * np.sign(query))
    assert not af.measure(replace(net, network=broken), points=300).sup <= net.certificate.bound


def test_points_are_as_dense_as_the_anchors():
    x = points_of(KINKED)[:, 0]
    inside = ANCHORS[(ANCHORS >= -1) & (ANCHORS <= 1)]
    middle = np.median(np.abs(inside))
    assert np.mean(np.isin(x, inside)) > 0.01
    assert np.mean(np.abs(x) < middle) > 2 * middle  # of uniform points: as many as the interval is wide
    assert np.mean(np.isin(x, (inside[1:] + inside[:-1]) / 2)) > 0.001


def test_a_form_that_mixes_inputs_gets_its_kink_from_many_sides():
    net = af.compile("abs(x - 3*y + 0.25)", {"x": (-1, 1), "y": (0, 1)}, 1e-4, construction="ridge")
    points = points_of(net, points=500)
    at_kink = points[np.abs(points @ [1, -3] + 0.25) < 1e-3]
    assert len(at_kink) > 0.02 * len(points)
    assert at_kink[:, 1].std() > 0.06  # all of [0, 5 / 12] has the value 0


def test_terms_of_a_sum_share_the_points():
    ends = {"x": (0, 1), "y": (0, 1)}
    points = points_of(af.compile("abs(x - 0.25) + abs(y - 0.75)", ends, 1e-3, construction="additive"), points=500)
    first, second = (np.mean(np.abs(points[:, i] - place) < 1e-2) for i, place in ((0, 0.25), (1, 0.75)))
    assert 0.5 < first / second < 2
    assert first > 0.02


@pytest.mark.parametrize(("seconds", "fewest", "most"), [(0.4, 100, 410), (4.0, 800, 4010)])
def test_a_slow_target_is_looked_at_less(clock, seconds, fewest, most):
    calls = []

    def slow(x):
        calls.append(x.size)
        clock.passes(0.001 * x.size)
        return wave(x) + 1.0

    found = af.measure(KINKED, slow, points=4000, seconds=seconds)
    assert found.sup == pytest.approx(1.0)
    assert fewest <= found.points <= most
    assert sum(calls) <= most  # what was timed among it


@pytest.mark.parametrize("settings", [{"seconds": seconds} for seconds in (0.0, -1.0, float("nan"))] + [{"points": 0}])
def test_no_time_and_no_points_are_refused(settings):
    with refused(af.TargetError):
        af.measure(KINKED, **settings)


def test_tokens_fill_their_box():
    points = points_of(GATE, points=1000)
    assert points.shape[1] == 2
    assert points.min() < -0.9
    assert points.max() > 0.9
