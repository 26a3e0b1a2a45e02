"""NumPy execution of every layer kind against loops over the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, apply, apply_layer, attention_weights
from tests.network.examples import NETWORKS, UNEQUAL, alone, head, inputs, reference, reference_weights
from tests.refusals import refused


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [(3,), (2, 3), (1, 1, 2)])
def test_leading_axes_are_a_batch(name, batch):
    network = NETWORKS[name]
    given = inputs(network, *batch)
    found = apply(network, *given)
    assert found.shape[: len(batch)] == batch
    for index in np.ndindex(batch):
        wanted = reference(network, *(array[index] for array in given))
        np.testing.assert_allclose(found[index], wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_empty_batch_gives_an_empty_batch(name):
    network = NETWORKS[name]
    found = apply(network, *inputs(network, 0))
    assert found.shape == (0, *apply(network, *inputs(network)).shape)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("chunk", [1, 50, 130])
def test_chunks_give_the_same_numbers(name, chunk, monkeypatch):
    network = NETWORKS[name]
    given = inputs(network, 7)
    whole = apply(network, *given)
    sizes = []
    run = np.concatenate

    def recorded(parts, *args, **kwargs):
        sizes.append(len(parts))
        return run(parts, *args, **kwargs)

    monkeypatch.setitem(apply.__globals__, "CHUNK", chunk)
    monkeypatch.setattr(np, "concatenate", recorded)
    found = apply(network, *given)
    assert sizes[-1] > 1 or chunk > 1  # it did run in pieces
    np.testing.assert_allclose(found, whole, rtol=1e-14, atol=1e-15)


def test_weights_are_those_of_the_loops_and_sum_to_one():
    network = NETWORKS["unequal heads"]
    (tokens,) = inputs(network)
    (weights,) = attention_weights(network, tokens)
    assert len(weights) == len(UNEQUAL)
    for found, one in zip(weights, UNEQUAL, strict=True):
        np.testing.assert_allclose(found, reference_weights(one, tokens), rtol=1e-13)
        np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-14)


def test_weights_of_later_layers_see_the_layers_before():
    network = NETWORKS["deep"]
    (tokens,) = inputs(network)
    first, second = attention_weights(network, tokens)
    state = tokens
    for layer in network.layers[:3]:
        state = apply_layer(layer, state)
    assert len(first) == 2
    np.testing.assert_allclose(second[0], reference_weights(network.heads[-1], state), rtol=1e-13)


def test_weights_of_a_context_come_with_a_batch():
    network = NETWORKS["some of the context and memory"]
    tokens, context = inputs(network, 2)
    ((weights,),) = attention_weights(network, tokens, context)
    assert weights.shape == (2, 2, 5)
    np.testing.assert_allclose(weights[1], reference_weights(network.heads[0], tokens[1], context[1]), rtol=1e-13)


def test_enormous_scores_do_not_overflow():
    one = head(memory=3)
    network = alone(Attention((replace(one, query=one.query * 1e200),)))
    (tokens,) = inputs(network)
    found = apply(network, tokens)
    assert np.isfinite(found).all()


def test_the_input_is_left_alone():
    network = NETWORKS["own row of some queries"]
    (tokens,) = inputs(network)
    before = tokens.copy()
    apply(network, tokens)
    np.testing.assert_array_equal(tokens, before)


@pytest.mark.parametrize("shape", [(3,), (4, 2), (5, 3), (2, 5, 3)])
def test_a_wrong_shape_is_refused_with_the_one_wanted(shape):
    with refused(af.DomainError):
        apply(NETWORKS["some rows"], np.zeros(shape))
