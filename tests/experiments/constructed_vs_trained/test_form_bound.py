"""Bounds of trained weights: never below an error, close to the theorem's where nothing moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.errors import CertificateError
from attnforge.experiments.constructed_vs_trained.form_bound import bound_along_form
from attnforge.network import Attention, Network
from tests.experiments.constructed_vs_trained.moved_weights import TARGET, moved, small_head


def _largest_error(network: Network, points: int = 20_000) -> float:
    corners = np.random.default_rng(1).choice([-1.0, 1.0], size=(200, 3, 2))
    x = np.concatenate([np.random.default_rng(0).uniform(-1, 1, (points, 3, 2)), corners])
    return float(np.abs(network(x)[..., 0] - TARGET.values(x)).max())


@pytest.mark.parametrize("c", [0.7, 1.4, 2.7, 30.0])
def test_the_bound_of_what_did_not_move_is_close_to_the_largest_error(c: float) -> None:
    network = small_head(c)
    bound, error = bound_along_form(network, TARGET), _largest_error(network)
    assert error <= bound <= 1.1 * error
    assert bound <= 1.06 * af.certify(network, TARGET).bound


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-4, 1e-2, 0.1]), st.sampled_from([0.7, 2.7, 20.0]))
def test_no_error_above_the_bound(seed: int, size: float, c: float) -> None:
    network = moved(small_head(c), size, seed)
    assert _largest_error(network, 4_000) <= bound_along_form(network, TARGET, cells=3_000)


def test_more_cells_give_a_smaller_bound_and_a_wrong_value_a_larger_one() -> None:
    network = moved(small_head(), 1e-3, 0)
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


def _two_terms(network: Network) -> Network:
    encode: Any = network.layers[0]
    return replace(network, layers=(replace(encode, terms=encode.terms * 2), network.layers[1]))


def _two_heads(network: Network) -> Network:
    attention: Any = network.layers[1]
    return replace(network, layers=(network.layers[0], Attention(attention.heads * 2)))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_two_heads, "one head after one linear term"),
        (lambda network: replace(network, layers=network.layers[:1]), "one layer of attention"),
        (_two_terms, "one head after one linear term"),
    ],
)
def test_other_networks_are_refused(spoil: Any, text: str) -> None:
    with pytest.raises(CertificateError, match=text):
        bound_along_form(spoil(small_head()), TARGET)
