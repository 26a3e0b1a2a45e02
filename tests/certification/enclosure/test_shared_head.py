"""Tokens that share a head: never a bound below an error, close to it where nothing moved, others read row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.balls import machine
from attnforge.certification.enclosure.shared_head import prove_shared_head
from attnforge.certification.statement import Proof, Statement
from attnforge.effort import Effort
from attnforge.errors import CertificateError
from attnforge.network import Attention, Network, flatten, rounded, unflatten
from attnforge.network.flatten import is_weight
from attnforge.targets import TruncatedLinear
from attnforge.theorems.truncated_linear import AnchorPlan, TruncatedLinearHead

W, T = np.array([[1.0, -2.0], [0.5, 1.0], [2.0, 0.1]]), np.array([0.3, -0.2, 0.0])
TARGET = TruncatedLinear(W, T, -2, 2, af.Box(-1, 1))


def small_head(c: float = 1.4, anchors: int = 12) -> Network:
    return TruncatedLinearHead().build(TARGET, AnchorPlan(anchors, c / (4 / (anchors - 1)) ** 2))


def moved(network: Network, size: float, seed: int) -> Network:
    """Noise on every weight, as training would leave it: no token follows its form exactly."""
    skeleton, arrays = flatten(network)
    rng = np.random.default_rng(seed)
    noise = {name: array + size * rng.standard_normal(array.shape) for name, array in arrays.items() if is_weight(name)}
    return unflatten(skeleton, {**arrays, **noise})


def prove(network: Network, dtype: str = "float64", cells: int = 20_000, target: TruncatedLinear = TARGET) -> Proof:
    run = rounded(network, dtype)
    with np.errstate(all="ignore"):
        return prove_shared_head(Statement(run, target, target.domain, machine(dtype), Effort(boxes=cells)), 3)


def largest_error(network: Network, points: int = 20_000, target: TruncatedLinear = TARGET) -> float:
    corners = np.random.default_rng(1).choice([-1.0, 1.0], size=(200, 3, 2))
    x = np.concatenate([np.random.default_rng(0).uniform(-1, 1, (points, 3, 2)), corners])
    return float(np.abs(network(x)[..., 0] - target.values(x)).max())


@pytest.mark.parametrize("c", [0.7, 1.4, 2.7, 30.0])
def test_the_bound_of_what_did_not_move_is_close_to_the_largest_error(c: float) -> None:
    network = small_head(c)
    proof, error = prove(network), largest_error(network)
    assert error <= proof.bound <= 1.1 * error
    assert proof.parts["form"] + proof.parts["rounding"] < 1e-12


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-4, 1e-2, 0.1]), st.sampled_from([0.7, 2.7, 20.0]))
def test_no_error_above_the_bound(seed: int, size: float, c: float) -> None:
    network = moved(small_head(c), size, seed)
    assert largest_error(network, 4_000) <= prove(network, cells=1_000).bound


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_error_of_a_run_above_the_bound(dtype: str) -> None:
    import torch

    from attnforge.runtime import AttentionNetwork

    network = moved(small_head(), 1e-3, 0)
    x = torch.rand(4_000, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        out = AttentionNetwork(network, getattr(torch, dtype), False)(x.to(getattr(torch, dtype))).double().numpy()
    assert float(np.abs(out[..., 0] - TARGET.values(x.numpy())).max()) <= prove(network, dtype).bound


def test_more_cells_give_a_smaller_bound_and_a_wrong_value_a_larger_one() -> None:
    network = moved(small_head(), 1e-3, 0)
    assert prove(network).bound < prove(network, cells=1).bound < np.inf
    attention: Any = network.layers[1]
    values = np.array(attention.heads[0].memory_values)
    values[5] += 1.0
    wrong = replace(attention, heads=(replace(attention.heads[0], memory_values=values),))
    assert prove(replace(network, layers=(network.layers[0], wrong))).bound > 0.3


def test_one_token_that_moved_is_charged() -> None:
    encode, attention = small_head().layers
    maps: Any = encode
    shift = np.zeros((3, 2))
    shift[1, 0] = 0.5  # a step is 4/11: what the second token asks for is half a step further on
    moved = replace(small_head(), layers=(replace(maps, constant=maps.constant + shift), attention))
    assert largest_error(moved) > 0.15
    assert largest_error(moved) <= prove(moved).bound <= 1.5 * largest_error(moved) + prove(small_head()).bound


def test_tokens_of_one_form_on_boxes_of_their_own() -> None:
    ends = np.array([[1.0, 0.5], [0.3, 1.0], [0.1, 0.2]])
    target = TruncatedLinear(W[0], T[0], -2, 2, af.Box(-ends, ends))
    plan = AnchorPlan(12, 1.4 / (4 / 11) ** 2)
    network = moved(TruncatedLinearHead().build(target, plan), 1e-3, 1)
    x = np.random.default_rng(0).uniform(-ends, ends, (20_000, 3, 2))
    error = float(np.abs(network(x)[..., 0] - target.values(x)).max())
    assert error <= prove(network, target=target).bound <= 1.3 * error


@pytest.mark.parametrize("factor", [1e-300, 1e150, 1e300])
def test_features_of_any_size_are_bounded(factor: float) -> None:
    encode, attention = small_head().layers
    maps: Any = encode
    terms = (replace(maps.terms[0], map=factor * np.asarray(maps.terms[0].map)),)
    network = replace(small_head(), layers=(replace(maps, terms=terms), attention))
    assert 1.9 < largest_error(network, 1_000) <= prove(network, cells=1_000).bound


def _two_heads(network: Network) -> Network:
    attention: Any = network.layers[1]
    return replace(network, layers=(network.layers[0], Attention(attention.heads * 2)))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_two_heads, "one head over constant keys"),
        (lambda network: replace(network, layers=network.layers[:1]), "one head over constant keys"),
    ],
)
def test_other_networks_are_refused(spoil: Any, text: str) -> None:
    with pytest.raises(CertificateError, match=text):
        prove(spoil(small_head()))


def test_terms_of_a_map_add_up() -> None:
    network = small_head()
    encode: Any = network.layers[0]
    twice = replace(network, layers=(replace(encode, terms=encode.terms * 2), network.layers[1]))
    assert prove(network).bound < largest_error(twice) <= prove(twice, cells=1_000).bound


def test_certify_proves_tokens_that_moved_apart() -> None:
    network = moved(small_head(2.7), 0.01, 3)
    certificate = af.certify(network, TARGET)
    assert certificate.status == "proved"
    assert largest_error(network) <= (certificate.bound or 0.0) <= 4 * largest_error(network)
