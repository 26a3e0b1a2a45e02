"""The search finds errors that random points miss, and never invents one."""

import numpy as np
import pytest

import attnforge as af
from attnforge.measurement import search
from attnforge.measurement.points import line_points, random_points, risky_places
from attnforge.targets import Formula, TruncatedLinear

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
