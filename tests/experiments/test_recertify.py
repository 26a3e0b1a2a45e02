"""Trained weights read back, and their bounds: never below an error, close to the theorem's where nothing moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.errors import CertificateError
from attnforge.experiments.recertify import _mixed, _steepest, bound_along_form, trained_network
from attnforge.network import Attention, Linear, Network
from attnforge.network.flatten import digest
from attnforge.runtime import AttentionNetwork, TargetModule
from attnforge.targets import TruncatedLinear
from attnforge.theorems.multihead_truncated_linear import HeadsPlan, MultiheadTruncatedLinear
from attnforge.theorems.truncated_linear import AnchorPlan, TruncatedLinearHead

W, T = np.array([[1.0, -2.0], [0.5, 1.0], [2.0, 0.1]]), np.array([0.3, -0.2, 0.0])
TARGET = TruncatedLinear(W, T, -2, 2, af.Box(-1, 1))


def _head(c: float = 1.4, anchors: int = 12) -> Network:
    return TruncatedLinearHead().build(TARGET, AnchorPlan(anchors, c / (4 / (anchors - 1)) ** 2))


def _module(network: Network) -> TargetModule:
    return TargetModule(AttentionNetwork(network, torch.float64, True), "tokens", False)


def _moved(network: Network, size: float, seed: int) -> Network:
    """The network with noise on every weight, by way of a module as training would do it."""
    module, generator = _module(network), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight += size * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return trained_network(module, network)


def _largest_error(network: Network, points: int = 20_000) -> float:
    corners = np.random.default_rng(1).choice([-1.0, 1.0], size=(200, 3, 2))
    x = np.concatenate([np.random.default_rng(0).uniform(-1, 1, (points, 3, 2)), corners])
    return float(np.abs(network(x)[..., 0] - TARGET.values(x)).max())


def test_an_untrained_module_gives_the_network_back() -> None:
    for network in (_head(), MultiheadTruncatedLinear().build(TARGET, HeadsPlan(8, 3, 10.0))):
        assert digest(trained_network(_module(network), network)) == digest(network)


def test_a_trained_module_and_its_network_agree() -> None:
    network = MultiheadTruncatedLinear().build(TARGET, HeadsPlan(8, 3, 10.0))
    module = _module(network)
    with torch.no_grad():
        for i, weight in enumerate(module.parameters()):
            weight += 0.01 * (i + 1)
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3, 2))
    found = trained_network(module, network)(x)[..., 0]
    assert np.allclose(found, module(torch.tensor(x)).detach().numpy(), atol=1e-12)
    assert not np.allclose(found, network(x)[..., 0], atol=1e-3)


@pytest.mark.parametrize("c", [0.7, 1.4, 2.7, 30.0])
def test_the_bound_of_what_did_not_move_is_close_to_the_largest_error(c: float) -> None:
    network = _head(c)
    bound, error = bound_along_form(network, TARGET), _largest_error(network)
    assert error <= bound <= 1.1 * error
    assert bound <= 1.06 * af.certify(network, TARGET).bound


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-4, 1e-2, 0.1]), st.sampled_from([0.7, 2.7, 20.0]))
def test_no_error_above_the_bound(seed: int, size: float, c: float) -> None:
    network = _moved(_head(c), size, seed)
    assert _largest_error(network, 4_000) <= bound_along_form(network, TARGET, cells=3_000)


def test_more_cells_give_a_smaller_bound_and_a_wrong_value_a_larger_one() -> None:
    network = _moved(_head(), 1e-3, 0)
    few, many = (bound_along_form(network, TARGET, cells=cells) for cells in (1, 30_000))
    assert many < few
    attention = network.layers[1]
    assert isinstance(attention, Attention)
    values = np.array(attention.heads[0].memory_values)
    values[5] += 1.0
    wrong = replace(
        network, layers=(network.layers[0], Attention((replace(attention.heads[0], memory_values=values),)))
    )
    assert bound_along_form(wrong, TARGET) > 0.3


def test_the_mean_over_uncertain_weights_by_brute_force() -> None:
    draw = np.random.default_rng(0)
    values = np.sort(draw.standard_normal(6))
    low = draw.standard_normal((4, 6))
    high = low + draw.uniform(0, 2, (4, 6))
    least, largest = _mixed(low, high, values)
    picks = np.array(np.meshgrid(*[[False, True]] * 6)).reshape(6, -1).T  # the extremes are at corners
    weights = np.exp(np.where(picks[None], high[:, None], low[:, None]))
    means = weights @ values / weights.sum(axis=-1)
    assert np.allclose(least, means.min(axis=1))
    assert np.allclose(largest, means.max(axis=1))


@pytest.mark.parametrize(("inside", "wanted"), [((True, True), 0.625), ((False, False), 0.375), ((False, True), 0.625)])
def test_the_derivative_of_the_error_by_hand(inside: tuple[bool, bool], wanted: float) -> None:
    scores = np.log([[1.0, 3.0]])  # weights 1/4 and 3/4: the covariance of (0, 2) and (0, 1) is 3/2 - 9/8
    flags = np.array([inside[0]]), np.array([inside[1]])
    found = _steepest(scores, scores, np.array([[0.0, 2.0]]), np.array([[0.0, 1.0]]), flags)
    assert found[0] == pytest.approx(wanted, abs=1e-9)
    wider = _steepest(scores - 0.1, scores + 0.1, np.array([[0.0, 2.0]]), np.array([[0.0, 1.0]]), flags)
    assert wider[0] > found[0]


def test_weights_that_underflow_say_nothing() -> None:
    least, largest = _mixed(np.array([[-2000.0, -2000.0]]), np.array([[0.0, 0.0]]), np.array([-1.0, 3.0]))
    assert (least[0], largest[0]) == (-1.0, 3.0)
    ends, outside = (np.full((1, 2), -2000.0), np.zeros((1, 2))), np.array([False])
    assert _steepest(*ends, np.ones((1, 2)), np.ones((1, 2)), (outside, outside))[0] == np.inf


def _with_nan(network: Network) -> Network:
    return _moved(network, np.nan, 0)


def _two_heads(network: Network) -> Network:
    attention: Any = network.layers[1]
    return replace(network, layers=(network.layers[0], Attention(attention.heads * 2)))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_with_nan, "finite"),
        (_two_heads, "one head after one linear term"),
        (lambda network: replace(network, layers=network.layers[:1]), "one layer of attention"),
        (lambda network: replace(network, layers=(Linear(()), network.layers[1])), "one head after one linear term"),
    ],
)
def test_other_networks_are_refused(spoil: Any, text: str) -> None:
    with pytest.raises(CertificateError, match=text):
        bound_along_form(spoil(_head()), TARGET)
