"""``af.attack`` finds what a search finds and more, never more than the truth, and leaves out only what may be."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.network import moved
from tests.catalogue import network
from tests.refusals import refused

MADE = {
    "wave": lambda: af.compile("sin(8*x)*exp(x)", {"x": (-1, 1)}, 1e-6),
    "single": lambda: af.compile("sin(5*x)", {"x": (-1, 1)}, 1e-3, dtype="float32"),
    "bell": lambda: af.constructions.tensor_grid("exp(-3*x^2)*sin(3*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-4),
}
KINDS = (
    "wave", "readme", "bell", "single", "two layers", "softmax tail", "callable on cells",
    "cross-attention", "truncated, tokens", "graph", "additive",
)  # fmt: skip
LUCK = {"single": 2.0**-25}  # half a unit of the output: at a flat top one draw of roundings beats another by it


@cache
def net(name):
    return MADE[name]() if name in MADE else network(name)


def attacked(compiled, evaluations=2000, **settings):
    return af.attack(compiled, seconds=None, evaluations=evaluations, **settings)


def errors_on_a_grid(compiled, count):
    axes = [np.linspace(a, b, count) for a, b in zip(compiled.domain.lower, compiled.domain.upper, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return np.abs(compiled.at_points(points) - compiled.target.values(points.astype(np.longdouble)))


@pytest.mark.parametrize("name", KINDS)
def test_it_finds_what_a_search_of_as_many_evaluations_finds(name):
    compiled = net(name)
    plain = af.measure(compiled, points=1000)
    # In single precision rounding decides near a top: the attack's own search, a quarter of it, gets as many points.
    limit = plain.points * (4 if compiled.dtype == "float32" else 1)
    found = attacked(compiled, limit)
    assert found.error >= plain.sup * (1 - 1e-9) - LUCK.get(name, 0.0)
    assert found.error <= compiled.certificate.bound
    assert found.evaluations <= limit
    values = compiled.target.values(found.at[None].astype(np.longdouble))
    there = float(np.abs(compiled.at_points(found.at[None]) - values).max())
    noise = compiled.certificate.parts["rounding"]  # by which one point may round differently in another batch
    assert found.error == pytest.approx(there, rel=1e-9, abs=noise)
    compiled.domain.fixed(found.at.shape).check(found.at)


@pytest.mark.parametrize(("name", "count"), [("wave", 20_001), ("bell", 301), ("single", 20_001)])
def test_a_bound_a_tenth_too_small_is_beaten_and_what_is_left_out_holds_no_more(name, count):
    found, largest = attacked(net(name)), errors_on_a_grid(net(name), count).max()
    assert found.error > 0.9 * largest
    assert max(found.error, found.largest_left) >= largest * (1 - 1e-9)
    assert 0 <= found.pruned <= 1


@pytest.mark.parametrize("seed", range(3))
def test_one_altered_value_among_hundreds_is_found(seed):
    honest = net("bell")
    claims = honest.network.heads[0].claims
    inside = np.flatnonzero(np.all(np.abs(claims.positions) <= 1, axis=1) & (np.array(claims.roles) != "ghost"))
    key = int(np.random.default_rng(seed).choice(inside))
    by = 20 * honest.certificate.bound * np.eye(len(claims.roles))[key][:, None]
    forged = replace(honest, network=moved(honest.network, "layer1.head0.memory_values", lambda values: values + by))
    assert attacked(forged, seed=seed).error > honest.certificate.bound


PEAK = {"a": 0.3, "b": -0.6, "c": 0.1, "d": 0.5, "g": -0.2}


def test_a_narrow_peak_is_climbed_by_its_slope():
    compiled = af.compile("clamp(a + b + c + d + g, -9, 9)", dict.fromkeys(PEAK, (-1, 1)), 1e-6)
    peaked = "a + b + c + d + g + exp(-4*(" + " + ".join(f"({x} - {at})^2" for x, at in PEAK.items()) + "))"
    found = attacked(compiled, 3000, target=peaked)
    assert found.error == pytest.approx(1.0, abs=1e-6)
    assert np.allclose(found.at, list(PEAK.values()), atol=2e-3)
    assert found.error >= af.measure(compiled, peaked, points=2000).sup


def test_without_slopes_that_peak_stays_lower(monkeypatch):
    monkeypatch.setattr("attnforge.measurement.ascent.LENGTHS", (0.0, 0.0, 0.0, 0.0))
    with pytest.raises(AssertionError):
        test_a_narrow_peak_is_climbed_by_its_slope()


def test_slopes_of_networks_and_of_callables_are_followed():
    """A bump that a callable adds: by differences of the callable, and the network's own slope."""
    for name, place in (("additive", (0.123, -0.4)), ("grid", (0.123, -0.4)), ("single", (0.123,))):
        compiled = net(name)

        def bumped(x, compiled=compiled, place=place):
            x = x[..., None] if x.ndim == 1 else x
            return compiled.target.values(x) + np.exp(-40 * ((x - np.array(place)) ** 2).sum(axis=-1))

        found = attacked(compiled, 4000, target=bumped)
        assert found.error > 1 - compiled.certificate.bound - 1e-6
        assert np.allclose(found.at, place, atol=1e-2)


def test_with_the_bound_met_it_ends_early_and_says_so():
    found = attacked(net("bell"), 10**6)
    assert found.evaluations < 10**6
    assert found.error <= found.largest_left <= (1 + 1e-5) * found.error
    assert found.pruned > 0.99


@pytest.mark.parametrize(("large", "pruned"), [(1e-9, 1.0), (np.inf, 0.0), (np.nan, 0.0)])
def test_parts_are_left_out_by_their_bounds_alone(monkeypatch, large, pruned):
    """Wrong bounds would be noticed, and bounds that say nothing leave nothing out."""
    measuring = "attnforge.compiler.measuring.bounds_on_boxes"
    monkeypatch.setattr(measuring, lambda *_: lambda lower, upper: np.full(len(lower), large))
    found = attacked(net("wave"))
    assert found.pruned == pruned
    assert found.largest_left == (found.error if pruned else np.inf)


@pytest.mark.parametrize("place", [-0.9, 0.123, 0.777])
def test_parts_that_may_hold_more_are_cut_down_and_kept(monkeypatch, place):
    """By bounds that say twice the largest error in the boxes around a place, and nothing anywhere else."""
    twice = 2 * errors_on_a_grid(net("wave"), 20_001).max()

    def bounds(lower, upper):
        return np.where(((lower <= place) & (place <= upper)).all(axis=1), twice, 0.0)

    monkeypatch.setattr("attnforge.compiler.measuring.bounds_on_boxes", lambda *_: bounds)
    found = attacked(net("wave"))
    assert found.largest_left == pytest.approx(twice)
    assert 0.9 < found.pruned < 1


def test_without_bounds_nothing_is_left_out():
    found = attacked(net("two layers"))
    assert (found.boxes, found.pruned, found.largest_left) == (0, None, None)
    assert str(found)


def test_the_same_seed_finds_the_same_point():
    one, two, other = (attacked(net("callable on cells"), 3000, seed=seed) for seed in (5, 5, 6))
    assert (one.error, one.at.tolist(), one.evaluations) == (two.error, two.at.tolist(), two.evaluations)
    assert one.at.tolist() != other.at.tolist()


def test_what_is_not_a_number_ends_it_with_an_infinite_error():
    honest = net("truncated, two inputs")
    broken = replace(honest, network=moved(honest.network, "layer1.head0.query", lambda query: 1e308 * np.sign(query)))
    found = attacked(broken)
    assert found.error == np.inf
    assert found.evaluations < 2000


def test_time_is_kept_with_a_slow_target(clock):
    def slow(x):
        clock.passes(0.002 * x.size)
        return np.sin(8 * x) * np.exp(x)

    found = af.attack(net("wave"), slow, seconds=1.0)
    assert clock.now < 3.0
    assert 0 < found.evaluations < 1000
    assert found.error <= 1.01 * net("wave").certificate.bound


def test_progress_grows_to_one():
    seen = []
    attacked(net("wave"), progress=lambda fraction, _: seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize("name", ["wave", "truncated, tokens", "cross-attention"])
@pytest.mark.parametrize("evaluations", [100, 137, 500])
def test_small_budgets_are_kept(name, evaluations):
    found = attacked(net(name), evaluations)
    assert 0 < found.evaluations <= evaluations
    assert found.starts >= 1


ENDLESS = [{"evaluations": None}, {"evaluations": 99}, {"seconds": 0.0}, {"seconds": float("nan")}, {"seconds": -1}]


@pytest.mark.parametrize("settings", ENDLESS)
def test_budgets_that_make_no_sense_are_refused(settings):
    with refused(af.TargetError):
        af.attack(net("wave"), **{"seconds": None, "evaluations": None} | settings)
    with refused(af.TargetError):  # listed points are all measured
        af.attack(net("table"), seconds=None, evaluations=500)
