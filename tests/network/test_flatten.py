"""Digest, count and the one traversal behind them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.network import (
    Attention,
    Network,
    Rows,
    Softmax,
    content_digest,
    count_parameters,
    digest,
    flatten,
    unflatten,
)
from tests.network.examples import CONTEXT, NETWORKS, M, N, alone, head, inputs
from tests.refusals import refused

MOST_LAYERS = 100_000


def rebuilt(network: Network) -> Network:
    """The same network from copied arrays."""
    skeleton, arrays = flatten(network)
    return unflatten(json.loads(json.dumps(skeleton)), {name: array.copy() for name, array in arrays.items()})


@pytest.mark.parametrize("name", NETWORKS)
def test_flatten_and_unflatten_are_inverse(name):
    network = NETWORKS[name]
    again, given = rebuilt(network), inputs(network, 2)
    assert digest(again) == digest(network)
    np.testing.assert_array_equal(again(*given), network(*given))
    assert (again.tokens, again.features, again.context) == (network.tokens, network.features, network.context)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_digest_changes_with_any_single_number(name):
    network = NETWORKS[name]
    skeleton, arrays = flatten(network)
    seen = {digest(network)}
    for key, array in arrays.items():
        for index in np.ndindex(array.shape):
            changed = array.copy()
            changed[index] = np.nextafter(changed[index], np.inf) if array.dtype == np.float64 else array[index] + 1
            seen.add(content_digest(skeleton, {**arrays, key: changed}))
    assert len(seen) == 1 + sum(array.size for array in arrays.values())


def test_the_digest_changes_with_structure_claims_and_rows():
    one = head(memory=3, rows=Rows(), claims=True)
    layer = Attention((one,))
    changed = [
        Attention((one,), residual=True),
        Attention((one, one)),
        Attention((replace(one, claims=None),)),
        Attention((replace(one, claims=replace(one.claims, construction="other")),)),
        Attention((replace(one, claims=replace(one.claims, sharpness=np.nextafter(2.5, 3))),)),
        Attention((replace(one, claims=replace(one.claims, roles=("anchor", "ghost", "anchor"))),)),
        Attention((replace(one, query_rows=Rows.some([0, 1, 2, 3])),)),
        Attention((replace(one, query_rows=Rows.some([0, 1, 3, 2])),)),
        Attention((replace(one, key_rows=Rows("own")),)),
        Attention((replace(one, key_rows=Rows.some([1])),)),
        Attention((replace(one, memory_keys=None, memory_values=None),)),
    ]
    networks = [alone(layer), *map(alone, changed), Network((layer,), M, None), Network((layer,), M, N + 1)]
    networks += [Network((layer,), M, N, CONTEXT), Network((layer, layer), M, N), Network((Softmax(), layer), M, N)]
    networks += [Network((Attention((replace(one, key_rows=Rows(source="context")),)),), M, N, (N, M))]
    assert len({digest(network) for network in networks}) == len(networks)


def test_the_skeleton_is_json_and_arrays_have_names():
    skeleton, arrays = flatten(NETWORKS["some of the context and memory"])
    assert json.loads(json.dumps(skeleton)) == skeleton
    assert sorted(arrays) == [f"layer0.head0.{name}" for name in (
        "key", "key_rows", "memory_keys", "memory_values", "output", "query", "query_rows", "value")]  # fmt: skip
    assert skeleton["context"] == [5, 2]


def test_zeros_are_parameters_but_not_counted_twice():
    network = NETWORKS["deep"]
    total, nonzero = count_parameters(network)
    assert total - nonzero == 6  # np.eye(2, 4) has two ones; claims are no weights
    skeleton, arrays = flatten(network)
    arrays["layer0.constant"] = np.zeros_like(arrays["layer0.constant"])
    assert count_parameters(unflatten(skeleton, arrays)) == (total, nonzero - 3)


def repeated(times: int, *, copies: bool = False) -> Network:
    """The same two layers again and again, as the same objects or as equal ones."""
    one, other = head(memory=3, rows=Rows()), head(seed=7, memory=2)
    blocks = [
        (
            Attention((replace(one, query=one.query.copy()) if copies else one,), residual=True),
            Attention((other,), True),
        )
        for _ in range(times)
    ]
    return Network(tuple(layer for block in blocks for layer in block), M, N)


def test_layers_that_repeat_are_stored_once():
    network = repeated(100)
    skeleton, arrays = flatten(network)
    assert len(skeleton["layers"]) == 2
    assert skeleton["order"] == [0, 1] * 100
    assert arrays.keys() == flatten(repeated(1))[1].keys()
    again = rebuilt(network)
    assert len(again.layers) == 200
    assert {id(layer) for layer in again.layers} == {id(layer) for layer in again.layers[:2]}
    assert digest(again) == digest(network) == digest(repeated(100, copies=True))
    assert count_parameters(network) == count_parameters(repeated(1))
    assert digest(repeated(99)) != digest(network)
    tokens = np.linspace(-1.0, 1.0, N * M).reshape(N, M)
    np.testing.assert_array_equal(again(tokens), network(tokens))


@pytest.mark.parametrize("order", [[0, 2], [-1], ["0"], [True], {"0": 1}, [], [0] * (MOST_LAYERS + 1)])
def test_an_order_that_counts_other_layers_is_refused(order):
    skeleton, arrays = flatten(repeated(3))
    with refused(af.FileFormatError):
        unflatten({**skeleton, "order": order}, arrays)


@pytest.mark.parametrize(
    "claims", [{"kind": "register", "formula": "x"}, {"construction": "x"}, ["anchor"], "anchor", 7, {}]
)
def test_claims_of_an_unknown_kind_are_none(claims):
    network = alone(Attention((head(memory=3, claims=True),)))
    skeleton, arrays = flatten(network)
    skeleton["layers"][0]["heads"][0]["claims"] = claims
    found = unflatten(skeleton, {**arrays, "layer0.head0.claims.range": np.ones(2)})
    assert found.heads[0].claims is None
    assert digest(found) == digest(alone(Attention((head(memory=3),))))


def _without(key):
    return lambda skeleton, arrays: skeleton.pop(key)


def _in_first_head(part, **changes):
    return lambda skeleton, arrays: skeleton["layers"][1]["heads"][0][part].update(**changes)


BROKEN = {
    "no layers": _without("layers"),
    "no context": _without("context"),
    "no tokens": _without("tokens"),
    "a foreign layer": lambda skeleton, arrays: skeleton["layers"][0].update(kind="relu"),
    "layers that are none": lambda skeleton, arrays: skeleton.update(layers=[None]),
    "features that are no number": lambda skeleton, arrays: skeleton.update(features="many"),
    "a head without query": lambda skeleton, arrays: arrays.pop("layer1.head0.query"),
    "claims without positions": lambda skeleton, arrays: arrays.pop("layer1.head0.claims.positions"),
    "a sharpness that is no number": _in_first_head("claims", sharpness="sharp"),
    "rows without indices": _in_first_head("query_rows", kind="some"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_skeleton_that_does_not_fit_is_refused(name):
    skeleton, arrays = flatten(NETWORKS["deep"])
    BROKEN[name](skeleton, arrays)
    with refused(af.FileFormatError):
        unflatten(skeleton, arrays)
