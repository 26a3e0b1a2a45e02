"""Bumps and retrieval, in two layers or by attention and a softmax: rates, weights by hand, the same numbers twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, Linear, Softmax
from tests.refusals import refused
from tests.theorems.continuous import ATTEND, PRODUCT, SORT, WAVE, Map, worst

MAKE = {"two layers": af.constructions.two_layer, "softmax tail": af.constructions.softmax_tail}
CASES = {"product": PRODUCT, "sort": SORT, "wave": WAVE}


def built(case: Map, grid: int, name: str = "two layers", **options: Any) -> Any:
    return MAKE[name](**case.options, grid=grid, **({"effort": "low"} | options))


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(("case", "grids"), [("product", (4, 8, 16)), ("sort", (2, 4, 8)), ("wave", (4, 8, 16))])
def test_the_error_halves_when_the_grid_doubles(case, grids, name) -> None:
    errors = np.array([worst(built(CASES[case], grid, name), grid, 800) for grid in grids])
    ratios = errors[:-1] / errors[1:]
    assert ((ratios > 1.7) & (ratios < 2.3)).all(), errors


def test_a_softmax_over_tokens_converges_too() -> None:
    assert worst(built(ATTEND, 8), 8) < 0.4 * worst(built(ATTEND, 2), 2)


@pytest.mark.parametrize("sharpness", ["hard", "tuned", 2.0, 20.0, 1000.0])
@pytest.mark.parametrize("placement", ["midpoints", "closed"])
@pytest.mark.parametrize("name", MAKE)
def test_no_error_exceeds_the_bound_of_any_sharpness(name, placement, sharpness) -> None:
    for case in (SORT, ATTEND):
        net = built(case, 4, name, sharpness=sharpness, placement=placement)
        assert worst(net, 4) <= net.certificate.bound
    if sharpness == "hard" and placement == "midpoints":
        assert built(SORT, 4, name, sharpness="hard").certificate.bound <= 1.15 * worst(built(SORT, 4, name), 4)


OTHER_WAYS = {
    "a uniform head collapses tokens": {"collapse": "uniform"},
    "a token a centre": {"layout": "literal"},
    "softmax tail": {"name": "softmax tail"},
}


@pytest.mark.parametrize("way", OTHER_WAYS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_ways_compute_the_same(case, way) -> None:
    x = np.random.default_rng(0).random((300, *case.domain.shape))
    one, other = built(case, 4, sharpness=9.0), built(case, 4, **{"sharpness": 9.0} | OTHER_WAYS[way])
    assert np.abs(one(x) - other(x)).max() < 1e-12
    assert one.certificate.bound == pytest.approx(other.certificate.bound, rel=1e-3)
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


def test_tuned_beats_hard_where_the_ends_are_grid_points_and_too_soft_says_so() -> None:
    tuned, hard = (worst(built(WAVE, 16, sharpness=s, placement="closed"), 16) for s in ("tuned", "hard"))
    assert tuned < 0.6 * hard
    soft, sharp = (built(WAVE, 16, sharpness=s) for s in (3.0, 20.0))
    assert worst(soft, 16) > 3 * worst(sharp, 16)
    assert soft.certificate.parts["leakage"] > soft.certificate.parts["spacing"]


def test_a_flat_input_and_uneven_boxes() -> None:
    box = af.Box([[-2.0, 5.0], [100.0, 0.5]], [[3.0, 5.0], [100.001, 0.75]])
    net = MAKE["two layers"](lambda x: x + x[..., ::-1, :], box, grid=3, lipschitz=2)
    assert worst(net, 3) <= net.certificate.bound < 2 * (5 / 6) * 1.1
    constant = MAKE["two layers"](lambda x: x[..., 0], af.Box(0, 1, shape=(1,)), grid=1, lipschitz=1)
    assert constant(np.array([0.0, 0.4, 1.0])).tolist() == [0.5] * 3


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
        MAKE["two layers"](**SORT.options, **{"grid": 3} | REFUSED[what])


def test_half_types_say_when_they_cannot_add_so_many_terms() -> None:
    with refused(af.RefusalError):
        built(SORT, 4, "softmax tail", dtype="bfloat16")
    with refused(af.RefusalError):  # without a constant no grid is known to suffice
        af.compile(SORT.function, SORT.domain, 0.1, construction="two_layer")
