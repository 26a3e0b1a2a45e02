"""Bumps and retrieval, in two layers or by attention and a softmax: rates, weights by hand, the same numbers twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, Linear, Softmax
from tests.refusals import refused

MAKE = {"two layers": af.constructions.two_layer, "softmax tail": af.constructions.softmax_tail}


def wave(x: Any) -> Any:
    """sin(3a) b + cos(2b): |3 cos(3a) b| + |sin(3a) - 2 sin(2b)| is at most 4.82 on the unit square."""
    return np.sin(3 * x[..., 0]) * x[..., 1] + np.cos(2 * x[..., 1])


def product(x: Any) -> Any:
    """Of two tokens a and b: a b, and sin(a) - b."""
    return np.stack([x[..., 0, :] * x[..., 1, :], np.sin(x[..., 0, :]) - x[..., 1, :]], axis=-2)


def sort(x: Any) -> Any:
    """Which never moves points apart."""
    return np.sort(x, axis=-2)


UNIT = af.Box(0, 1, shape=(2,))
WAVE, PRODUCT, SORT = (
    (wave, UNIT, 4.82),
    (product, af.Box(0, 1, shape=(2, 1)), 2.0),
    (sort, af.Box(0, 1, shape=(2, 2)), 1.0),
)
CASES = {"product": PRODUCT, "sort": SORT, "wave": WAVE}


def built(case: Any, grid: int, name: str = "two layers", **options: Any) -> Any:
    function, box, slope = case
    return MAKE[name](function, box, grid=grid, lipschitz=slope, **({"effort": "low"} | options))


def test_bounds_are_near_and_tuned_is_better_where_the_ends_are_grid_points() -> None:
    """And too soft says so."""
    x = np.random.default_rng(3).random((20_000, 2))
    errors = {
        sharpness: np.abs(built(WAVE, 16, sharpness=sharpness, placement="closed")(x) - wave(x)).max()
        for sharpness in ("tuned", "hard", 3.0)
    }
    assert errors["tuned"] < 0.6 * errors["hard"] < errors[3.0]
    soft = built(WAVE, 16, sharpness=3.0).certificate.parts
    assert soft["leakage"] > soft["spacing"]
    sorted_ = built(SORT, 4, sharpness="hard", effort="normal").certificate
    assert sorted_.bound <= 1.15 * sorted_.estimate.error
    constant = MAKE["two layers"](lambda x: x[..., 0], af.Box(0, 1, shape=(1,)), grid=1, lipschitz=1)
    assert constant(np.array([0.0, 0.4, 1.0])).tolist() == [0.5] * 3


OTHER_WAYS = {
    "a uniform head collapses tokens": {"collapse": "uniform"},
    "a token a centre": {"layout": "literal"},
    "softmax tail": {"name": "softmax tail"},
}


@pytest.mark.parametrize("way", OTHER_WAYS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_ways_compute_the_same(case, way) -> None:
    x = np.random.default_rng(0).random((300, *case[1].shape))
    one, other = built(case, 4, sharpness=9.0), built(case, 4, **{"sharpness": 9.0} | OTHER_WAYS[way])
    assert np.abs(one(x) - other(x)).max() < 1e-12
    if "collapse" not in OTHER_WAYS[way]:  # a uniform head rounds once more
        assert one.certificate.bound == pytest.approx(other.certificate.bound, rel=1e-6)
    assert one.layers == 2


@pytest.mark.parametrize("name", MAKE)
def test_each_output_token_has_its_own_value_and_reads_all_tokens(name) -> None:
    out = built(PRODUCT, 8, name)(np.array([[0.9], [0.2]]))
    assert np.abs(out - [[0.18], [np.sin(0.9) - 0.2]]).max() < 0.13
    assert abs(out[0, 0] - out[1, 0]) > 0.2
    net, x = built(SORT, 4, name), np.array([[0.9, 0.1], [0.2, 0.8]])
    assert np.allclose(net(x), net(x[::-1]))
    assert not np.allclose(net(x)[0], net(np.array([[0.9, 0.1], [0.6, 0.8]]))[0])


def test_weights_are_a_product_of_softmaxes() -> None:
    x, centres = np.array([0.31, 0.77]), (np.arange(4) + 0.5) / 4
    weights = built(WAVE, 4, sharpness=6.0).attention(x)[1][0].reshape(4, 4)
    scores = 6.0 * np.clip(1.5 - np.abs(x[:, None] - centres) * 4, 0, 1)
    a, b = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(weights, np.outer(a, b), atol=1e-12)


def test_layers_and_heads() -> None:
    net = built(SORT, 3)
    assert [len(layer.heads) for layer in net.network.layers if isinstance(layer, Attention)] == [2 * 4 * 3, 1]
    assert net.network.heads[-1].memory_size == 3**4
    tail = built(SORT, 3, "softmax tail")
    assert [type(layer) for layer in tail.network.layers] == [Linear, Attention, Linear, Softmax, Linear]


@pytest.mark.parametrize(("placement", "expected"), [("midpoints", (0.291, 0.148)), ("closed", (0.202, 0.096))])
def test_suprema_over_the_square(placement, expected) -> None:
    """With midpoints the corner decides, whatever beta: f(h/2, 1 - h/2) - f(0, 1) = 0.291 for G = 8."""
    nets = [built(WAVE, grid, sharpness=20.0, placement=placement, effort="normal") for grid in (8, 16)]
    assert [net.certificate.estimate.error for net in nets] == pytest.approx(expected, rel=0.02)


REFUSED = {
    "no grid": {"grid": 0},
    "half a point": {"grid": 2.5},
    "one point on both ends": {"grid": 1, "placement": "closed"},
    "a placement": {"placement": "open"},
    "a collapse": {"collapse": "mean"},
    "a sharpness": {"sharpness": "soft"},
    "a negative sharpness": {"sharpness": -1.0},
    "a dtype": {"dtype": "int8"},
    "a uniform head in the literal layout": {"collapse": "uniform", "layout": "literal"},
    "more centres than memory holds": {"grid": 1000},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_built_is_refused(what) -> None:
    with refused(af.RefusalError):
        built(SORT, **{"grid": 3} | REFUSED[what])


def test_half_types_say_when_they_cannot_add_so_many_terms() -> None:
    with refused(af.RefusalError):
        built(SORT, 4, "softmax tail", dtype="bfloat16")
    with refused(af.RefusalError):  # without a constant no grid is known to suffice
        af.compile(sort, SORT[1], 0.1, construction="two_layer")
