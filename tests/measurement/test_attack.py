"""The attack finds what a search finds and more, never more than the truth, and prunes only what may be pruned."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.certification.enclosure.boxes import bounds_on_boxes
from attnforge.errors import TargetError
from attnforge.measurement import Attack, attack, search
from attnforge.measurement.generations import Generations
from attnforge.measurement.judge import Judge
from attnforge.targets import Formula, Function

UNIT = af.Box(0, 1, shape=(1,))


def relu(dtype="float64"):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 2)).double()
    return af.compile(layers, [(-1, 1)] * 3, 1e-3, dtype=dtype)


CASES = {
    "tensor_grid": lambda: af.compile("sin(8*x)*exp(x)", {"x": (-1, 1)}, 1e-6),
    "kinked": lambda: af.compile("abs(x) + sin(3*x)", {"x": (-1, 1)}, 1e-4),
    "plane": lambda: af.constructions.tensor_grid("exp(-3*x^2)*sin(3*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-4),
    "single": lambda: af.compile("sin(5*x)", {"x": (-1, 1)}, 1e-3, dtype="float32"),
    "relu": lambda: relu("float32"),
    "max_affine": lambda: af.constructions.max_affine(
        lambda x: np.sin(3 * x[..., 0]) * x[..., 1], af.Box(0, 1, shape=(2,)), cells=16, sharpness=50.0, lipschitz=4
    ),
    "two_layer": lambda: af.constructions.two_layer(lambda x: np.sin(3 * x[..., 0]), UNIT, grid=8, lipschitz=3),
    "softmax_tail": lambda: af.constructions.softmax_tail(lambda x: np.cos(3 * x[..., 0]), UNIT, grid=8, lipschitz=3),
    "cross": lambda: af.constructions.cross_attention(
        lambda X, Y: np.sin(X[..., 0] + 2 * Y[..., 0]), UNIT, UNIT, grid=6, lipschitz=3
    ),
    "tokens": lambda: af.constructions.truncated_linear(
        [[1.0, 2.0], [0.5, -1.0]], 0.5, -1, 1, anchors=9, domain=af.Box(-1, 1)
    ),
}


@cache
def net(name):
    return CASES[name]()


@cache
def bounds_of(compiled):
    enough = 1e-3 * compiled.certificate.estimate.error
    return bounds_on_boxes(compiled.network, compiled.target, compiled.domain, compiled.dtype, enough)


def attacked(compiled, evaluations=2000, **settings):
    settings = {"bounds": bounds_of(compiled), "seconds": None, "dtype": compiled.dtype} | settings
    return attack(compiled.at_points, compiled.target, compiled.network, evaluations=evaluations, **settings)


def error_at(compiled, at):
    values = compiled.target.values(at[None].astype(np.longdouble))
    return float(np.abs(compiled.at_points(at[None]) - values).max())


LUCK = {
    "single": 2.0**-25
}  # half a unit of the output: by so much one draw of rounding errors at a flat top beats another


def noise(compiled):
    """By which one point may round differently in another batch."""
    return compiled.certificate.parts["rounding"]


@pytest.mark.parametrize("name", CASES)
def test_it_finds_what_a_search_of_as_many_evaluations_finds(name):
    compiled = net(name)
    plain = search(compiled.at_points, compiled.target, compiled.network, points=1000)
    # In single precision rounding decides near a top: the attack's own search, a quarter of it, gets as many points.
    limit = plain.points * (4 if compiled.dtype == "float32" else 1)
    found = attacked(compiled, limit, **({} if name == "kinked" else {"bounds": None}))
    assert found.error >= plain.sup * (1 - 1e-9) - LUCK.get(name, 0.0)
    assert found.error == pytest.approx(error_at(compiled, found.at), rel=1e-9, abs=noise(compiled))
    assert found.error <= compiled.certificate.bound
    assert found.evaluations <= limit
    compiled.domain.fixed(found.at.shape).check(found.at)


FORMULAS = ["sin(6*x)", "exp(x)*x", "abs(x - 0.3)", "clamp(2*x, -1, 1)", "1/(1 + 25*x^2)", "sqrt(x + 1.5)", "tanh(4*x)"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_true_bound_is_beaten(text):
    compiled = af.compile(text, {"x": (-1, 1)}, 1e-4)
    assert attacked(compiled, seed=1).error <= compiled.certificate.bound


def test_no_true_bound_in_the_plane_is_beaten():
    assert attacked(net("plane"), seed=1).error <= net("plane").certificate.bound


def grid(compiled, count):
    axes = [np.linspace(a, b, count) for a, b in zip(compiled.domain.lower, compiled.domain.upper, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return points, np.abs(compiled.at_points(points) - compiled.target.values(points.astype(np.longdouble)))


@pytest.mark.parametrize(("name", "count"), [("tensor_grid", 20_001), ("plane", 301), ("single", 20_001)])
def test_a_bound_a_tenth_too_small_is_beaten(name, count):
    assert attacked(net(name)).error > 0.9 * grid(net(name), count)[1].max()


def with_altered_value(compiled, key, by):
    encode, layer = compiled.network.layers
    head = layer.heads[0]
    values = head.memory_values.copy()
    values[key] += by
    network = replace(compiled.network, layers=(encode, replace(layer, heads=(replace(head, memory_values=values),))))
    return af.Compiled(network, compiled.target, compiled.certificate, compiled.construction, compiled.dtype)


@pytest.mark.parametrize("seed", range(3))
def test_one_altered_value_among_hundreds_is_found(seed):
    honest = net("plane")
    key = int(np.random.default_rng(seed).choice(np.flatnonzero([r == "anchor" for r in _roles(honest)])))
    forged = with_altered_value(honest, key, 20 * honest.certificate.bound)
    assert attacked(forged, seed=seed).error > honest.certificate.bound


def _roles(compiled):
    claims = compiled.network.heads[0].claims
    inside = np.all((claims.positions >= -1) & (claims.positions <= 1), axis=1)
    return ["anchor" if role != "ghost" and ok else "other" for role, ok in zip(claims.roles, inside, strict=True)]


def test_a_narrow_peak_is_climbed_by_its_slope():
    top = {"a": 0.3, "b": -0.6, "c": 0.1, "d": 0.5, "g": -0.2}
    compiled = af.compile("clamp(a + b + c + d + g, -9, 9)", dict.fromkeys(top, (-1, 1)), 1e-6)
    away = " + ".join(f"({name} - {place})^2" for name, place in top.items())
    peaked = Formula(f"a + b + c + d + g + exp(-4*({away}))", compiled.domain, tuple(top))
    found = attack(compiled.at_points, peaked, compiled.network, seconds=None, evaluations=3000)
    plain = search(compiled.at_points, peaked, compiled.network, points=2000)
    assert found.error == pytest.approx(1.0, abs=1e-6)
    assert np.allclose(found.at, list(top.values()), atol=2e-3)
    assert found.error >= plain.sup


def test_without_slopes_that_peak_stays_lower(monkeypatch):
    monkeypatch.setattr("attnforge.measurement.ascent.LENGTHS", (0.0, 0.0, 0.0, 0.0))
    with pytest.raises(AssertionError):
        test_a_narrow_peak_is_climbed_by_its_slope()


@pytest.mark.parametrize(("name", "count"), [("tensor_grid", 4001), ("kinked", 4001), ("plane", 151)])
def test_pruned_boxes_never_contain_the_worst_point(name, count):
    compiled = net(name)
    bounds = bounds_of(compiled)
    judge = Judge(compiled.at_points, compiled.target, compiled.domain, 10_000, None)
    hunt = Generations(judge, compiled.network, None, compiled.dtype, bounds, np.random.default_rng(0))
    while hunt.worthwhile:
        hunt.next(8)
    points, errors = grid(compiled, count)
    for level in (judge.error, 0.9 * judge.error, 0.5 * judge.error):
        left = hunt.boxes.left(level)
        assert left.holds(points[errors > level]).all()
    assert hunt.boxes.left(judge.error * (1 - 1e-12)).holds(judge.at[None]).all()
    assert hunt.boxes.pruned(judge.error) > 0.9  # and it does prune


def test_wrong_bounds_would_be_noticed():
    compiled = net("tensor_grid")
    found = attacked(compiled, bounds=lambda lower, upper: np.full(len(lower), 1e-9))
    assert found.pruned == 1.0
    assert found.largest_left == found.error > 1e-9


def test_with_the_bound_met_it_ends_early_and_says_so():
    compiled = net("plane")
    found = attacked(compiled, 10**6)
    assert found.evaluations < 10**6
    assert found.error <= found.largest_left <= (1 + 1e-5) * found.error
    assert "99.9% of the domain proved to hold no larger error, at most " in str(found)


def test_without_bounds_nothing_is_pruned():
    found = attacked(net("two_layer"))
    assert (found.boxes, found.pruned, found.largest_left) == (0, None, None)
    assert "no part of the domain could be left out" in str(found)


def test_bounds_that_say_nothing_prune_nothing():
    found = attacked(net("tensor_grid"), bounds=lambda lower, upper: np.full(len(lower), np.inf))
    assert (found.pruned, found.largest_left) == (0.0, np.inf)
    assert "0.0% of the domain proved to hold no larger error, nothing is known of the rest" in str(found)


def test_the_text_says_what_was_found():
    text = str(Attack(0.25, np.array([0.5, -1.0]), 12345, 67, 8, 0.99999, 0.3))
    assert text.startswith(
        "largest error found 0.25 at [ 0.5, -1. ]; 12,345 evaluations, 67 starts; 99.9% of the domain"
    )
    assert text.endswith("at most 0.3 on the rest")


def test_the_same_seed_finds_the_same_point():
    one, two, other = (attacked(net("max_affine"), 3000, seed=seed) for seed in (5, 5, 6))
    assert (one.error, one.at.tolist(), one.evaluations) == (two.error, two.at.tolist(), two.evaluations)
    assert one.at.tolist() != other.at.tolist()


def test_a_run_that_is_not_a_number_ends_it_with_an_infinite_error():
    compiled = net("tensor_grid")

    def broken(x):
        return np.where(np.abs(x[:, 0] - 0.5) < 0.1, np.nan, compiled.at_points(x))

    found = attack(broken, compiled.target, compiled.network, seconds=None, evaluations=2000)
    assert found.error == np.inf
    assert abs(found.at[0] - 0.5) < 0.1
    assert found.evaluations < 2000


def test_time_is_kept_with_a_slow_target(clock):
    compiled = net("tensor_grid")

    def slow(x):
        clock.passes(0.002 * len(x))
        return np.sin(8 * x) * np.exp(x)

    target = Function(slow, compiled.domain, plain=True)
    found = attack(compiled.at_points, target, compiled.network, seconds=1.0)
    assert clock.now < 3.0
    assert 0 < found.evaluations < 1000
    assert found.error <= 1.01 * compiled.certificate.bound


def test_progress_grows_to_one():
    seen = []
    attacked(net("tensor_grid"), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evaluations": None}, "An attack needs an end"),
        ({"evaluations": 99}, "`evaluations` must be at least 100"),
        ({"seconds": 0.0}, "`seconds` must be positive"),
        ({"seconds": float("nan")}, "`seconds` must be positive"),
    ],
)
def test_budgets_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(TargetError, match=message):
        attacked(net("tensor_grid"), **settings)


@pytest.mark.parametrize("name", ["tensor_grid", "tokens", "cross"])
@pytest.mark.parametrize("evaluations", [100, 137, 500])
def test_small_budgets_are_kept(name, evaluations):
    found = attacked(net(name), evaluations)
    assert 0 < found.evaluations <= evaluations
    assert found.starts >= 1
