"""Emulated heads judged by their numbers: what departs enters the bound, what has another shape is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.certification.checker.check import check
from attnforge.certification.in_context.head import bound_head_on
from attnforge.network import Linear, Network, Rows, Term, digest
from attnforge.targets import AttentionHead, Box, Formula, target_from_data
from attnforge.theorems.in_context.head_emulation import best_sharpness, frozen_head, head_tokens, prompted


def random_head(d: int, r: int = 2, v: int = 2, bound: float = 1.0, tokens: int = 12, seed: int = 0) -> AttentionHead:
    rng = np.random.default_rng(seed)
    return AttentionHead(*(rng.normal(size=(d, w)) / np.sqrt(d) for w in (r, r, v)), Box(-bound, bound), tokens)


def emulated(head: AttentionHead, beta: float | None = None, dtype: str = "float64") -> Network:
    beta = beta or best_sharpness(len(head.query), float(head.domain.upper.max()), dtype)
    return prompted(frozen_head(head.shape), head_tokens(head, beta, dtype))


def first_layer(network: Network, *heads: dict[str, object], **fields: object) -> Network:
    """The network with fields of its first layer of attention, or of its heads, changed."""
    before, project, attend = network.layers
    changed = tuple(replace(head, **new) for head, new in zip(project.heads, heads, strict=False))
    project = replace(project, heads=(*changed, *project.heads[len(changed) :]), **fields)
    return replace(network, layers=(before, project, attend))


def last_layer(network: Network, residual: bool = False, **fields: object) -> Network:
    *before, attend = network.layers
    head = replace(attend.heads[0], **fields)
    return replace(network, layers=(*before, replace(attend, heads=(head,), residual=residual)))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 20), st.floats(0.2, 4.0), st.floats(0.02, 0.24), st.integers(0, 10**6))
def test_bounds_hold_at_any_sharpness(d, n, bound, t, seed):
    head = random_head(d, bound=bound, tokens=n, seed=seed)
    network, x = emulated(head, t / bound), np.random.default_rng(seed + 1).uniform(-bound, bound, size=(n, d))
    off = np.abs(network(x) - head.values(x)).max()
    assert off <= bound_head_on(network, head, "float64", x) <= certify(network, head).bound


def test_the_bound_sees_a_wrong_sharpness():
    head, best = random_head(4, 3), best_sharpness(4, 1.0, "float64")
    parts = [certify(emulated(head, beta), head).parts for beta in (best, 16 * best, best / 4096)]
    assert parts[1]["projection"] > 1e4 * parts[0]["projection"]
    assert parts[2]["rounding"] > 1e3 * parts[0]["rounding"]


def test_a_box_of_other_sides():
    """Entries of every feature in an interval of its own, anywhere."""
    head, rng = random_head(3), np.random.default_rng(1)
    network, box = emulated(head), Box([-0.1, 0.2, -1.0], [0.1, 0.9, 0.0])
    x = rng.uniform(box.lower, box.upper, size=(50, 12, 3))
    off = np.abs(network(x) - head.values(x)).max()
    assert off <= certify(network, head, box).bound < certify(network, head).bound


def test_a_constant_beside_the_tokens_enters():
    head = random_head(3)
    network, x = emulated(head), np.random.default_rng(1).uniform(-1, 1, size=(50, 12, 3))
    width = network.layers[0].terms[0].map.shape[1]
    for at in range(width):
        constant = np.zeros((1, width))
        constant[0, at] = 1e-3
        other = replace(network, layers=(replace(network.layers[0], constant=constant), *network.layers[1:]))
        found = certify(other, head).bound
        assert np.abs(other(x) - head.values(x)).max() <= found
        assert found > 1e3 * certify(network, head).bound


def test_networks_of_another_shape_are_refused():
    head = random_head(3)
    network = emulated(head)
    encode, project, attend = network.layers
    first, d = project.heads[0], 3
    memory = {"memory_keys": first.memory_keys[1:], "memory_values": first.memory_values[1:]}
    told = {"key": first.query, "value": np.eye(len(first.query), len(first.output)), "key_rows": Rows()}
    last = attend.heads[0]
    others = {
        "one layer less": replace(network, layers=(encode, replace(attend, residual=False))),
        "two terms": replace(network, layers=(Linear((*encode.terms, *encode.terms)), project, attend)),
        "a number of tokens": replace(network, tokens=3),
        "a mix": replace(network, tokens=3, layers=(Linear((Term(encode.terms[0].map, np.eye(3)),)), project, attend)),
        "another number of keys": first_layer(network, memory),
        "keys that are tokens": first_layer(network, told),
        "tokens that do not ask": first_layer(network, {"query_rows": Rows.some([0])}),
        "tokens that do not ask at last": last_layer(network, query_rows=Rows.some([0])),
        "tokens that are not told": last_layer(network, key_rows=Rows.some([0])),
        "own tokens": last_layer(network, key_rows=Rows("own")),
        "a memory": last_layer(network, memory_keys=np.ones((1, 2)), memory_values=np.ones((1, 2))),
        "two heads": replace(network, layers=(encode, project, replace(attend, heads=(last, last)))),
        "wider scores": last_layer(network, query=np.eye(len(last.query), d), key=np.eye(len(last.query), d)),
    }
    stated = certify(network, head)
    for name, other in others.items():
        with pytest.raises(af.AttnforgeError):
            certify(other, head)
        forged = replace(stated, digest=digest(other))
        assert check(other, head, forged, "float64").verdict != "confirmed", name
    formula = Formula("x", Box(0, 1, shape=(1,)), ("x",))
    bound, points = certify(emulated(random_head(1, 1, 1)), formula).bound, np.linspace(0, 1, 101)
    assert np.abs(emulated(random_head(1, 1, 1))(points[:, None, None]).ravel() - points).max() <= bound
    with pytest.raises(af.RefusalError, match="keeps small differences"):
        certify(network, head, dtype="bfloat16")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("d", "r", "v", "bound"), [(1, 1, 1, 0.01), (3, 2, 5, 10.0), (6, 4, 3, 2.0), (40, 8, 24, 1.0)])
def test_the_checker_confirms_what_is_true(d, r, v, bound, dtype):
    head = random_head(d, r, v, bound)
    network = emulated(head, dtype=dtype)
    stated = certify(network, head, dtype=dtype)
    assert check(network, head, stated, dtype).verdict == "confirmed"
    less = replace(stated, bound=stated.bound / 10, parts={})
    assert check(network, head, less, dtype).verdict == "undecided"


def test_the_checker_refutes_what_is_not():
    head = random_head(4)
    network = emulated(head)
    other = first_layer(network, {"output": 1.5 * network.heads[0].output})
    forged = replace(certify(network, head), digest=digest(other))
    found = check(other, head, forged, "float64")
    assert found.verdict == "rejected"
    assert found.what == "bound"
    assert check(other, head, certify(other, head), "float64").verdict == "confirmed"


def test_the_target_is_stored_whole():
    head = random_head(3, tokens=7)
    again = target_from_data(*head.to_data())
    assert isinstance(again, AttentionHead)
    assert again.tokens == 7
    x = np.random.default_rng(1).uniform(-1, 1, size=(7, 3))
    np.testing.assert_array_equal(again.values(x), head.values(x))
    for changed in ({"tokens": 0}, {"tokens": 2.5}, {"tokens": True}):
        with pytest.raises(af.FileFormatError):
            target_from_data(head.to_data()[0] | changed, head.to_data()[1])
    with pytest.raises(af.TargetError, match="truncated"):
        head.truncated_form()
