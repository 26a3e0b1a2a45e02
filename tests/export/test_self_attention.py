"""Networks as plain self-attention: run in NumPy by the definition, they compute what they did before."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.export.self_attention import FORBIDDEN, MOST_POSITIONS, SINK, PlainNetwork, check_size, plain
from attnforge.network import Attention, Head, Linear, Network, Term, apply
from tests.network.examples import NETWORKS, inputs
from tests.readers.networks import random_case


def patterns(found: PlainNetwork, tokens, context=None):
    """The residual stream (L, D) behind every layer, and the weights (heads, L, L) of each, of one sequence."""
    stream = np.eye(len(found.positions), found.width)
    stream[found.first : found.first + len(tokens), found.columns] += tokens
    if context is not None:
        start, count = found.told
        stream[start : start + count, found.told_columns] += context
    states, weights = [stream], []
    for layer in found.layers:
        added, seen = np.zeros_like(stream), []
        for head in layer:
            scores = (stream @ head.query) @ (stream @ head.key).T
            share = np.exp(scores - scores.max(axis=1, keepdims=True))
            share /= share.sum(axis=1, keepdims=True)
            seen.append(share)
            added += share @ (stream @ head.value) @ head.output
        stream = stream + added
        states.append(stream)
        weights.append(np.stack(seen))
    return states, weights


def ran(network, tokens, context=None):
    found = plain(network, len(tokens), 0 if context is None else len(context))
    states, _ = patterns(found, tokens, context)
    return (states[-1] @ found.readout)[found.first : found.first + found.rows[1]]


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_of_every_kind(name):
    network = NETWORKS[name]
    given = inputs(network)
    np.testing.assert_allclose(ran(network, *given), apply(network, *given), rtol=1e-13, atol=1e-14)


def test_random_networks():
    for seed in range(250):
        case = random_case(seed)
        given = [part[0] for part in case.split(case.points(np.random.default_rng(seed), 1)) if part is not None]
        wanted = apply(case.network, *given)
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(ran(case.network, *given), wanted, rtol=0, atol=1e-12 * scale, err_msg=str(seed))


def test_forbidden_keys_get_exactly_nothing_and_slots_stay_as_they_are():
    """Positions that do not ask look at the sink alone; nothing is ever written to sink and slots."""
    network = NETWORKS["unequal heads"]
    (given,) = inputs(network)
    found = plain(network, len(given))
    states, (weights,) = patterns(found, given)
    asleep = np.arange(len(found.positions)) < found.first
    assert np.array_equal(weights[:, asleep, SINK], np.ones((len(weights), asleep.sum())))
    for share, head in zip(weights, network.heads, strict=True):
        asking = found.first + (np.arange(len(given)) if head.query_rows.indices is None else head.query_rows.indices)
        unused = slice(1 + head.memory_size, found.first)
        assert not share[asking, SINK].any()
        assert not share[asking, unused].any()
    assert np.array_equal(states[-1][asleep], states[0][asleep])


def test_allowed_scores_do_not_change_by_a_bit():
    """Queries and keys of allowed pairs differ from ours by exact zeros."""
    network = NETWORKS["own row and memory"]
    (given,) = inputs(network)
    (head,) = network.heads
    found = plain(network, len(given))
    ((made,),) = found.layers
    stream = patterns(found, given)[0][0]
    r = head.query.shape[1]
    assert np.array_equal((stream @ made.key)[1 : 1 + head.memory_size, :r], head.memory_keys)
    assert np.array_equal((stream @ made.value)[1 : 1 + head.memory_size], head.memory_values)
    added = (stream @ made.query)[:, r:] @ (stream @ made.key)[:, r:].T
    assert set(np.unique(added)) == {-FORBIDDEN, 0.0}
    assert not added[found.first :, 1 : found.first].any()
    assert np.array_equal(added[found.first :, found.first :] == 0, np.eye(len(given), dtype=bool))


def test_affine_maps_of_all_tokens_alike_need_no_layer():
    head = Head(np.eye(2), np.eye(2), memory_keys=np.eye(2), memory_values=np.eye(2))
    maps = Linear((Term(np.array([[1.0, 2.0], [0.0, 1.0]])), Term()), np.array([[0.5, -1.0]]))
    assert len(plain(Network((maps, maps, Attention((head,)), maps), 2), 3).layers) == 1
    mixed = Linear((Term(None, np.full((3, 3), 0.5)),))
    assert len(plain(Network((mixed, Attention((head,))), 2, 3), 3).layers) == 2


def test_residuals_add_in_place():
    """Steps of an algorithm share the registers that hold their state: the stream is as wide for 50 steps as for 1."""
    one = af.in_context.LeastSquares(steps=1, learning_rate=0.1).build(features=2).network
    many = replace(one, layers=one.layers * 50)
    assert plain(one, 8).width == plain(many, 8).width
    assert len(plain(many, 8).layers) == 50


def test_fewer_tokens_than_there_may_be():
    network = NETWORKS["memory and all rows"]
    network = replace(network, tokens=None)
    (given,) = inputs(NETWORKS["memory and all rows"])
    found = plain(network, len(given))
    kept = len(found.positions) - 2
    short = replace(
        found,
        positions=found.positions[:kept],
        layers=tuple(tuple(_without(head, found, kept) for head in layer) for layer in found.layers),
        readout=np.delete(found.readout, slice(kept, len(found.positions)), axis=0),
        width=found.width - 2,
        columns=slice(found.columns.start - 2, found.columns.stop - 2),
    )
    states, _ = patterns(short, given[:-2])
    wanted = apply(network, given[:-2])
    np.testing.assert_allclose((states[-1] @ short.readout)[short.first :], wanted, rtol=1e-13, atol=1e-14)


def _without(head, found, kept):
    gone = slice(kept, len(found.positions))
    parts = {name: np.delete(getattr(head, name), gone, axis=0) for name in ("query", "key", "value")}
    return replace(head, **parts, output=np.delete(head.output, gone, axis=1))


def test_what_is_too_large_is_refused():
    head = Head(np.eye(1), np.eye(1), memory_keys=np.ones((2000, 1)), memory_values=np.ones((2000, 1)))
    with pytest.raises(af.RefusalError, match=rf"at most {MOST_POSITIONS:,} positions .* 2,000 keys .* torch format"):
        plain(Network((Attention((head,)),), 1), 1)
    few = replace(head, memory_keys=np.ones((900, 1)), memory_values=np.ones((900, 1)))
    found = plain(Network((Attention((few,)),), 1), 100)
    check_size(found)
    with pytest.raises(af.RefusalError, match="weights is written"):
        check_size(replace(found, layers=found.layers * 100_000))
