"""Attention and a softmax: rates, bounds at every sharpness and dtype, and the same numbers as two layers."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.errors import RefusalError
from attnforge.network import Attention, Linear, Softmax
from attnforge.runtime import audit
from attnforge.targets import Function, Lipschitz
from attnforge.theorems.bumps import BumpPlan
from attnforge.theorems.softmax_tail import SoftmaxTail
from tests.theorems.continuous import ATTEND, PRODUCT, SORT, WAVE, Map, worst

softmax_tail = partial(af.constructions.softmax_tail, effort="low")  # tests look for the worst point themselves


def built(case: Map, grid: int, **options: Any) -> Any:
    return softmax_tail(**case.options, grid=grid, **options)


@pytest.mark.parametrize(("case", "grids"), [(PRODUCT, (4, 8, 16)), (SORT, (2, 4, 8)), (WAVE, (4, 8, 16))])
def test_the_error_halves_when_the_grid_doubles(case: Map, grids: tuple[int, ...]) -> None:
    errors = [worst(built(case, grid), grid, 800) for grid in grids]
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert np.all((ratios > 1.7) & (ratios < 2.3)), errors


@pytest.mark.parametrize("sharpness", ["hard", "tuned", 2.0, 20.0, 1000.0])
@pytest.mark.parametrize("case", [PRODUCT, SORT, ATTEND], ids=["product", "sort", "attend"])
def test_no_error_exceeds_the_bound(case: Map, sharpness: Any) -> None:
    net = built(case, 4, sharpness=sharpness)
    assert net.certificate.status == "conditional"
    assert worst(net, 4) <= net.certificate.bound


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("sharpness", ["hard", 4.0])
def test_no_error_exceeds_the_bound_in_any_dtype(dtype: str, sharpness: Any) -> None:
    net = built(SORT, 3, dtype=dtype, sharpness=sharpness)
    assert worst(net, 3) <= net.certificate.bound


@pytest.mark.parametrize("case", [PRODUCT, SORT, WAVE], ids=["product", "sort", "wave"])
def test_it_computes_what_two_layers_compute(case: Map) -> None:
    x = np.random.default_rng(0).random((500, *case.domain.shape))
    other = af.constructions.two_layer(**case.options, grid=4, sharpness=9.0)
    net = built(case, 4, sharpness=9.0)
    assert np.abs(net(x) - other(x)).max() < 1e-12
    assert net.certificate.bound == pytest.approx(other.certificate.bound, rel=1e-6)


def test_output_tokens_differ() -> None:
    out = built(PRODUCT, 8)(np.array([[0.9], [0.2]]))
    assert abs(out[0, 0] - out[1, 0]) > 0.2


def test_one_layer_of_attention_then_a_softmax() -> None:
    net = built(SORT, 3)
    assert [type(layer) for layer in net.network.layers] == [Linear, Attention, Linear, Softmax, Linear]
    assert net.layers == 1


def test_only_linear_maps_attention_and_softmax_run() -> None:
    audit(built(SORT, 3).module(), torch.rand(4, 2, 2, dtype=torch.float64))


def test_a_linear_map_and_a_softmax_alone_are_universal() -> None:
    """The remark of the docstring: scores affine in x, no attention, the same staircase."""
    centres = (np.arange(32) + 0.5) / 32
    x = np.linspace(0, 1, 1001)[:, None]
    scores = 32**2 * 40.0 * (2 * x * centres - centres**2)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    out = (weights @ np.sin(5 * centres)) / weights.sum(axis=1)
    assert np.abs(out - np.sin(5 * x[:, 0])).max() <= 5 / 64 * 1.01


def test_formulas_are_proved() -> None:
    net = af.compile("abs(x - 0.3)", {"x": (-1, 1)}, tol=0.05, construction="softmax_tail")
    assert net.certificate.status == "proved"
    assert worst(net, 40) <= net.certificate.bound <= 0.05


def test_without_a_constant_the_certificate_is_sampled() -> None:
    assert softmax_tail(SORT.function, SORT.domain, grid=2).certificate.status == "sampled"


def test_absurd_grids_are_refused_before_memory_is_spent() -> None:
    with pytest.raises(RefusalError, match="bytes and"):
        softmax_tail(lambda x: x, af.Box(0, 1, shape=(3, 2)), grid=1000)


def test_half_types_say_when_they_cannot_add_so_many_terms() -> None:
    with pytest.raises(RefusalError, match="bfloat16 can add up"):
        built(SORT, 4, dtype="bfloat16")


def test_cost_counts_the_weights() -> None:
    net = built(SORT, 3)
    cost = SoftmaxTail().cost(net.target, BumpPlan(3, 1.0))
    assert 0.9 * net.parameters <= cost.parameters <= 1.3 * net.parameters


def test_size_is_the_smallest_grid() -> None:
    target = Function(SORT.function, SORT.domain, lipschitz=Lipschitz(1.0))
    plan = SoftmaxTail().size(target, 0.1, "float64")
    assert sum(SoftmaxTail().bound(target, plan).values()) <= 0.1
    assert sum(SoftmaxTail().bound(target, BumpPlan(plan.grid - 1, plan.sharpness)).values()) > 0.1
