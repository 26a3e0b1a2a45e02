"""Other networks made of one, through the public names; what is changed, what is not, and what is refused."""

import dataclasses

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

EDIT = af.network
X = np.linspace(-1, 1, 101)[:, None, None]


@pytest.fixture(scope="module")
def clamp() -> af.Compiled:
    """Three heads that share a row of anchors, in the second of two layers."""
    return af.constructions.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=3)


@pytest.fixture(scope="module")
def looped() -> af.Network:
    """Three times the same two layers."""
    one = np.ones((1, 1))
    head = EDIT.Head(one, one, key=one, value=one, key_rows=EDIT.Rows("own"))
    block = (EDIT.Linear((EDIT.Term(0.5 * one),)), EDIT.Attention((head,)))
    return af.Network(block * 3, 1)


def parts(network: af.Network) -> list[np.ndarray]:
    """What each head adds to the output."""
    return [network(X) - EDIT.without_head(network, layer, head)(X) for layer, head in EDIT.head_places(network)]


def test_places_are_those_of_the_heads(clamp):
    network = clamp.network
    found = EDIT.head_places(network)
    assert found == ((1, 0), (1, 1), (1, 2))
    assert all(network.layers[i].heads[j] is head for (i, j), head in zip(found, network.heads, strict=True))


def test_what_heads_add_is_all_there_is(clamp):
    before = EDIT.digest(clamp.network)
    np.testing.assert_allclose(sum(parts(clamp.network)), clamp.network(X), atol=1e-12)
    assert all(np.abs(part).max() > 0.1 for part in parts(clamp.network))
    assert EDIT.digest(clamp.network) == before


def test_an_ablation_is_certified_as_what_it_is(clamp):
    other = clamp.with_network(EDIT.without_head(clamp.network, -1, -1))
    assert other.heads == clamp.heads - 1
    error = np.abs(other(X) - clamp(X)).max() - clamp.certificate.bound
    assert 0.1 < error <= other.certificate.bound


def test_the_only_head_of_a_layer_writes_zeros():
    net = af.constructions.gate([1.0], 0.0, -1, 1)
    ablated = EDIT.without_head(net.network, 1, 0)
    assert len(ablated.heads) == 1
    assert not ablated(X).any()


def test_fields_of_a_head_and_heads_are_exchanged(clamp):
    network = clamp.network
    first, second = network.heads[:2]
    assert EDIT.with_head(network, 1, 0, second).heads == (second, *network.heads[1:])
    twice = EDIT.with_head(network, 1, 0, output=2 * first.output)
    np.testing.assert_allclose(twice(X), network(X) + parts(network)[0], atol=1e-12)
    other = EDIT.with_head(network, 1, 0, second, claims=None).heads[0]
    assert other.claims is None
    assert np.array_equal(other.memory_keys, second.memory_keys)


@pytest.mark.parametrize("factor", [0, 0.5, -1, np.float32(3)])
def test_scores_are_multiplied(clamp, factor):
    head = clamp.network.heads[1]
    scores = float(factor) * EDIT.apply_layer(clamp.network.layers[0], X) @ head.query @ head.memory_keys.T
    expected = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected /= expected.sum(axis=-1, keepdims=True)
    one, changed, other = EDIT.attention_weights(EDIT.scaled(clamp.network, 1, 1, factor), X)[0]
    np.testing.assert_allclose(changed, expected, rtol=1e-9, atol=1e-12)
    before = EDIT.attention_weights(clamp.network, X)[0]
    assert np.array_equal(one, before[0])
    assert np.array_equal(other, before[2])


def test_keys_are_left_out_by_their_role(clamp):
    other = EDIT.without_keys(clamp.network, "sentinel")
    for before, after in zip(clamp.network.heads, other.heads, strict=True):
        kept = np.array([role != "sentinel" for role in before.claims.roles])
        assert set(after.claims.roles) == set(before.claims.roles) - {"sentinel"}
        assert np.array_equal(after.memory_values, before.memory_values[kept])
        assert np.array_equal(after.claims.positions, before.claims.positions[kept])
    assert np.abs(other(X) - clamp.network(X)).max() > 0.01


def test_every_array_is_moved_by_its_name_and_on_its_way(clamp):
    network, (_, arrays) = clamp.network, EDIT.flatten(clamp.network)
    for name, array in arrays.items():
        if array.dtype == np.float64:
            found = EDIT.moved(network, name, lambda values: values + 1.0)
            changed = [
                each for each, value in EDIT.flatten(found)[1].items() if not np.array_equal(value, arrays[each])
            ]
            assert changed == [name]
    by_name = EDIT.moved(network, "layer1.head2.claims.positions", lambda values: values + 1.0)
    on_way = EDIT.moved(network, ("layers", -1, "heads", 2, "claims", "positions"), lambda values: values + 1.0)
    assert EDIT.digest(by_name) == EDIT.digest(on_way) != EDIT.digest(network)


def test_a_function_may_change_its_copy(clamp):
    def zeroed(values):
        values[:] = 0
        return values

    before = EDIT.digest(clamp.network)
    assert not EDIT.moved(clamp.network, "layer1.head0.output", zeroed).heads[0].output.any()
    assert EDIT.digest(clamp.network) == before


def test_a_repeated_layer_is_changed_once_or_everywhere(looped):
    once = EDIT.with_head(looped, 3, 0, output=np.full((1, 1), 2.0))
    assert [head.output[0, 0] for head in once.heads] == [1, 2, 1]
    assert [h.output[0, 0] for h in EDIT.moved(looped, ("layers", 3, "heads", 0, "output"), np.negative).heads] == [
        1,
        -1,
        1,
    ]
    everywhere = EDIT.moved(looped, "layer1.head0.output", np.negative)
    assert [head.output[0, 0] for head in everywhere.heads] == [-1, -1, -1]
    assert len({id(layer) for layer in everywhere.layers}) == 2
    assert len({id(layer) for layer in EDIT.with_heads(looped, lambda head: head).layers}) == 2


def unclaimed(head: EDIT.Head) -> EDIT.Head:
    return dataclasses.replace(head, claims=None)


REFUSED = {
    "no network": lambda n, net: EDIT.head_places(net),
    "no network to move": lambda n, net: EDIT.moved(net, "layer1.head0.output", np.negative),
    "a linear layer": lambda n, net: EDIT.with_head(n, 0, 0, claims=None),
    "no such layer": lambda n, net: EDIT.without_head(n, 2, 0),
    "no such layer from the end": lambda n, net: EDIT.without_head(n, -3, 0),
    "no number of a layer": lambda n, net: EDIT.scaled(n, "1", 0, 2.0),
    "no such head": lambda n, net: EDIT.scaled(n, 1, 3, 2.0),
    "no number of a head": lambda n, net: EDIT.without_head(n, 1, None),
    "no such field": lambda n, net: EDIT.with_head(n, 1, 0, sharpness=3.0),
    "no head": lambda n, net: EDIT.with_head(n, 1, 0, net),
    "no head, with fields": lambda n, net: EDIT.with_head(n, 1, 0, net, claims=None),
    "another width": lambda n, net: EDIT.with_head(n, 1, 0, output=np.ones((1, 2))),
    "no array": lambda n, net: EDIT.with_head(n, 1, 0, output=2.0),
    "a change without a head": lambda n, net: EDIT.with_heads(n, lambda head: None),
    "no factor": lambda n, net: EDIT.scaled(n, 1, 0, "2"),
    "not a number": lambda n, net: EDIT.scaled(n, 1, 0, float("nan")),
    "beyond float64": lambda n, net: EDIT.scaled(n, 1, 0, 1e308),
    "no such role": lambda n, net: EDIT.without_keys(n, "ghots"),
    "no role": lambda n, net: EDIT.without_keys(n, ["ghost"]),
    "no claims": lambda n, net: EDIT.without_keys(EDIT.with_heads(n, unclaimed), "anchor"),
    "no such array": lambda n, net: EDIT.moved(n, "layer1.head9.output", np.negative),
    "no such field on the way": lambda n, net: EDIT.moved(n, ("layers", 1, "head", 0), np.negative),
    "no such layer on the way": lambda n, net: EDIT.moved(n, ("layers", 2, "heads", 0), np.negative),
    "a way that ends early": lambda n, net: EDIT.moved(n, ("layers", 1), np.negative),
    "a way that goes too far": lambda n, net: EDIT.moved(n, ("layers", 1, "heads", 0, "output", 0), np.negative),
    "a way to no array": lambda n, net: EDIT.moved(n, ("layers", 1, "heads", 0, "key"), np.negative),
    "no name": lambda n, net: EDIT.moved(n, 3, np.negative),
    "no function": lambda n, net: EDIT.moved(n, "layer1.head0.output", 3),
    "nothing returned": lambda n, net: EDIT.moved(n, "layer0.constant", lambda values: None),
    "another shape": lambda n, net: EDIT.moved(n, "layer1.head0.output", lambda values: values[:, :0]),
    "another dtype": lambda n, net: EDIT.moved(n, "layer1.head0.output", lambda values: values.astype(np.float32)),
    "another number of keys": lambda n, net: EDIT.moved(n, "layer1.head0.memory_keys", lambda keys: keys[1:]),
    "not finite": lambda n, net: EDIT.moved(n, "layer1.head0.output", lambda values: values * np.inf),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_in_three_parts(clamp, name):
    before = EDIT.digest(clamp.network)
    with refused(af.TargetError) as raised, np.errstate(all="ignore"):
        REFUSED[name](clamp.network, clamp)
    assert raised.value.remedy
    assert EDIT.digest(clamp.network) == before
