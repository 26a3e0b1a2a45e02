"""The search finds errors that random points miss, and never invents one."""

import numpy as np
import pytest

import attnforge as af
from attnforge.errors import TargetError
from attnforge.measurement import search
from attnforge.measurement.points import line_points, random_points, risky_places
from attnforge.network import Attention, Claims, Head, Network
from attnforge.targets import Formula, Function, TruncatedLinear

NET = af.constructions.gate([1.0, 2.0], 0.5, -1, 1, sharpness=1e6, domain=af.Box(-1, 1))


def test_the_largest_error_of_a_gate_sits_at_a_kink():
    found = af.measure(NET, points=500)
    y = float(NET.target.forms(found.at)[0])
    assert min(abs(y - 1), abs(y + 1)) < 1e-4
    assert found.sup == pytest.approx(0.2785 / 1e6, rel=1e-2)
    assert found.sup <= NET.certificate.bound


def test_the_error_reported_is_attained_where_it_says():
    net = af.constructions.truncated_linear([1.0, 2.0], 0.5, -1, 1, anchors=9, domain=af.Box(-1, 1))
    found = af.measure(net, points=500)
    again = np.abs(net(found.at) - net.target.values(found.at.astype(np.longdouble))).max()
    assert found.sup == float(again)
    assert "largest error found" in str(found)
    assert f"{found.points:,} points" in str(found)


def test_a_spike_beside_a_kink_is_found_by_looking_there():
    target = NET.target

    def spiked(x):
        y = target.forms(x)
        return target.values(x) + 0.5 * (np.abs(y - 1.0) < 1e-7)

    assert search(spiked, target, NET.network, points=300).sup >= 0.49


def test_climbing_finds_a_smooth_bump():
    target = TruncatedLinear([1.0, 2.0], 0.5, -9, 9, af.Box(-1, 1))

    def bumped(x):
        away = ((x - np.array([0.3, -0.6])) ** 2).sum(axis=-1)
        return target.values(x) + np.exp(-away / 0.05)

    found = search(bumped, target, NET.network, points=50)
    assert found.sup == pytest.approx(1.0, abs=1e-6)
    assert np.allclose(found.at, [[0.3, -0.6]], atol=1e-2)


def test_nothing_is_found_where_there_is_nothing():
    target = NET.target
    found = search(lambda x: np.asarray(target.values(x.astype(np.longdouble))), target, NET.network, points=300)
    assert found.sup == 0.0
    assert found.rms == 0.0


def test_a_run_that_is_not_a_number_is_not_a_small_error():
    target = NET.target

    def broken(x):
        return np.where(target.forms(x) > 1.2, np.nan, target.values(x))

    found = search(broken, target, NET.network, points=300)
    assert not found.sup <= NET.certificate.bound


def kinked():
    return af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-6)


def test_a_spike_between_anchors_around_a_kink_is_found():
    net = kinked()
    at = np.sort(net.network.heads[0].claims.positions[:, 0])
    gaps = np.diff(at)
    tight = int(gaps.argmin())
    low, high = at[tight], at[tight + 1]
    assert gaps.min() < 1e-4  # uniform points do not come here

    def spiked(x):
        return net.at_points(x) + 0.5 * ((x[..., 0] > low) & (x[..., 0] < high))

    assert search(spiked, net.target, net.network, points=500).sup >= 0.49


def test_the_climb_follows_a_ridge_as_thin_as_the_anchors_are_close():
    positions, forms = np.array([[-1.0], [0.0], [1e-8], [1.0]]), np.array([[1.0, 0.0, 0.0]])
    claims = Claims("test", 1.0, positions, ("anchor",) * 4, forms)
    head = Head(np.zeros((2, 1)), np.eye(1), memory_keys=positions, memory_values=positions, claims=claims)
    target = Formula("x + y", af.Box(-1, 1, shape=(2,)), ("x", "y"))

    def ridged(x):  # errs along x = 0, most at y = 1: steps must be tiny in x and long in y
        return target.values(x) + (2 + x[..., 1]) / (1 + np.abs(x[..., 0]) / 1e-7)

    assert search(ridged, target, Network((Attention((head,)),), 2, 1), points=100).sup > 2.99


def test_random_points_alone_make_the_root_mean_square():
    net = kinked()
    found = search(lambda x: net.target.values(x) + 0.25, net.target, net.network, points=100)
    assert found.rms == pytest.approx(0.25)
    near = search(
        lambda x: net.target.values(x) + (np.abs(x[..., 0]) < 1e-4), net.target, net.network, points=1000, seed=1
    )
    assert (near.sup, near.rms) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-12))


def test_points_near_anchors_are_counted():
    net = kinked()
    assert af.measure(net, points=1000).points == 1000 + 500 + 16 * 24 * 24
    assert af.measure(NET, points=1000).points == 1000 + 250 + 16 * 24 * 24 + 5 * 7  # places and nudges


def test_a_slow_target_is_looked_at_less(clock):
    calls = []

    def slow(x):
        calls.append(len(x))
        clock.passes(0.001 * len(x))
        return np.sin(x[:, 0])

    target = Function(slow, af.Box(-1, 1, shape=(1,)))
    net = kinked()
    calls.clear()
    found = search(lambda x: np.sin(x[..., 0]) + 1.0, target, net.network, points=4000, seconds=0.4)
    assert found.sup == pytest.approx(1.0)
    assert 100 <= found.points <= 400
    assert sum(calls) <= 400 + 10  # and what was timed
    assert search(net.at_points, net.target, net.network, points=100, seconds=60.0).points == 100 + 50 + 16 * 24 * 24


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(TargetError, match="`seconds` must be positive"):
        search(NET.at_points, NET.target, NET.network, seconds=seconds)


def test_random_points_fill_the_box():
    rng = np.random.default_rng(0)
    box = af.Box([-1, 5], [1, 6])
    points = random_points(box, None, 1000, rng)
    assert points.shape == (1000, 2)
    box.check(points)
    assert points[:, 0].min() < -0.9
    tokens = random_points(box.fixed((4, 2)), 4, 1000, rng)
    assert tokens.shape == (250, 4, 2)
    box.check(tokens)


def test_line_points_run_through_all_values_of_the_form():
    box = af.Box([-1, 0], [1, 3])
    target = Formula("clamp(2*x - y, -1, 1)", box, ("x", "y"))
    points = line_points(target, box, None, 101, np.array([0.25, 100.0]))
    y = 2 * points[:, 0] - points[:, 1]
    assert points.shape == (103, 2)
    box.check(points)
    assert (y.min(), y.max()) == pytest.approx((-5.0, 2.0))
    assert y[101] == pytest.approx(0.25)
    assert y[102] == pytest.approx(2.0)  # beyond the box: its corner


def test_risky_places_are_kinks_anchors_and_midpoints():
    places = risky_places(np.array([0.0, 1.0, 2.0]), (-1.0, 2.0))
    for wanted in (-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 0.21, 1.0 + 1e-9):
        assert np.abs(places - wanted).min() < 1e-15
