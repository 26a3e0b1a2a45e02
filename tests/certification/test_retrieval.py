"""Certificates of retrieval read the network: whatever is changed in it enlarges the bound or is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.compiler import Compiled
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.targets import Box, Formula
from attnforge.theorems.bumps import BumpPlan
from attnforge.theorems.two_layer import TwoLayer
from tests.theorems.continuous import PRODUCT, SORT, worst


def changed(array: np.ndarray, index: Any, value: float) -> np.ndarray:
    copy = array.copy()
    copy[index] += value
    return copy


def with_layer(network: Network, at: int, layer: Any) -> Network:
    layers = list(network.layers)
    layers[at] = layer
    return replace(network, layers=tuple(layers))


def with_head(network: Network, at: int, index: int, change: Callable[[Head], Head]) -> Network:
    layer = network.layers[at]
    assert isinstance(layer, Attention)
    heads = [change(head) if i == index else head for i, head in enumerate(layer.heads)]
    return with_layer(network, at, replace(layer, heads=tuple(heads)))


def with_term(network: Network, at: int, **changes: Any) -> Network:
    layer = network.layers[at]
    assert isinstance(layer, Linear)
    return with_layer(network, at, replace(layer, terms=(replace(layer.terms[0], **changes), *layer.terms[1:])))


@pytest.fixture(scope="module")
def memory() -> Compiled:
    return af.constructions.two_layer(**PRODUCT.options, grid=4, sharpness="hard")


@pytest.fixture(scope="module")
def literal() -> Compiled:
    return af.constructions.two_layer(**PRODUCT.options, grid=4, sharpness="hard", layout="literal")


@pytest.fixture(scope="module")
def uniform() -> Compiled:
    return af.constructions.two_layer(**PRODUCT.options, grid=4, sharpness="hard", collapse="uniform")


@pytest.fixture(scope="module")
def tail() -> Compiled:
    return af.constructions.softmax_tail(**PRODUCT.options, grid=4, sharpness="hard")


def caught(net: Compiled, network: Network, *, harm: bool = True) -> None:
    """The change is refused, or the bound covers what it does; where it does harm, the old bound would not have."""
    try:
        bound = certify(network, net.target).bound
    except (CertificateError, RefusalError):
        return
    run = worst(Compiled(network, net.target, net.certificate, net.construction, net.dtype), 4)
    assert run <= bound
    if harm:
        assert bound > net.certificate.bound + 1e-6


def test_the_untouched_network_keeps_its_bound(memory: Compiled) -> None:
    assert certify(memory.network, memory.target).bound == memory.certificate.bound
    assert set(memory.certificate.parts) == {"spacing", "leakage", "rounding"}


@pytest.mark.parametrize("which", ["memory", "uniform"])
def test_values(which: str, request: pytest.FixtureRequest) -> None:
    net = request.getfixturevalue(which)
    at = [i for i, layer in enumerate(net.network.layers) if isinstance(layer, Attention)][-1]
    for size in (0.01, -1.0):
        network = with_head(
            net.network, at, 0, lambda h, s=size: replace(h, memory_values=changed(h.memory_values, (7, 1), s))
        )
        certificate = certify(network, net.target)
        assert certificate.bound >= net.certificate.bound + abs(size) - 1e-9
        caught(net, network)


def test_keys(memory: Compiled) -> None:
    for index in ((5, 1), (5, 2), (0, 0)):
        for size in (1.0, -1.0, 0.3):
            caught(
                memory,
                with_head(
                    memory.network,
                    2,
                    0,
                    lambda h, i=index, s=size: replace(h, memory_keys=changed(h.memory_keys, i, s)),
                ),
                harm=size != 0.3,
            )


def test_swapped_keys_are_swapped_values(memory: Compiled) -> None:
    order = np.arange(16)
    order[[2, 9]] = 9, 2
    network = with_head(memory.network, 2, 0, lambda h: replace(h, memory_keys=h.memory_keys[order]))
    assert certify(network, memory.target).bound > memory.certificate.bound + 0.1
    network = with_head(
        memory.network,
        2,
        0,
        lambda h: replace(h, memory_keys=h.memory_keys[order], memory_values=h.memory_values[order]),
    )
    assert certify(network, memory.target).bound == pytest.approx(memory.certificate.bound, rel=1e-9)


def test_repeated_keys_are_refused(memory: Compiled) -> None:
    order = np.arange(16)
    order[3] = 4
    network = with_head(memory.network, 2, 0, lambda h: replace(h, memory_keys=h.memory_keys[order]))
    with pytest.raises(CertificateError, match="15 of 16 combinations"):
        certify(network, memory.target)


def test_queries(memory: Compiled) -> None:
    softer = with_head(memory.network, 2, 0, lambda h: replace(h, query=h.query / 10))
    assert certify(softer, memory.target).bound > memory.certificate.bound
    caught(memory, softer)
    caught(memory, with_head(memory.network, 2, 0, lambda h: replace(h, query=changed(h.query, (3, 3), -30.0))))
    mixed = with_head(memory.network, 2, 0, lambda h: replace(h, query=changed(h.query, (3, 5), 1.0)))
    caught(memory, mixed)


def test_ramps(memory: Compiled) -> None:
    changes: list[Callable[[Head], Head]] = [
        lambda h: replace(h, memory_values=changed(h.memory_values, (1, 0), 0.5)),
        lambda h: replace(h, value=changed(h.value, (-1, 0), 0.5)),
        lambda h: replace(h, memory_keys=changed(h.memory_keys, (0, 1), 0.5)),
        lambda h: replace(h, query=h.query / 1e15),
        lambda h: replace(h, output=2 * h.output),
        lambda h: replace(h, claims=replace(h.claims, positions=h.claims.positions + 1)),
        lambda h: replace(h, claims=replace(h.claims, sharpness=1.0)),
        lambda h: replace(h, claims=None),
    ]
    for change in changes:
        for index in (0, 5):
            caught(memory, with_head(memory.network, 1, index, change), harm=False)


def test_a_missing_ramp_is_refused(memory: Compiled) -> None:
    layer = memory.network.layers[1]
    with pytest.raises(CertificateError, match="one ramp minus another"):
        certify(with_layer(memory.network, 1, replace(layer, heads=layer.heads[1:])), memory.target)


def test_the_collapse(memory: Compiled, uniform: Compiled) -> None:
    moved = with_layer(memory.network, 0, replace(memory.network.layers[0], constant=np.array([[-2.0, -1.5, 1.0]])))
    caught(memory, moved)
    caught(memory, with_term(memory.network, 0, map=1.1 * memory.network.layers[0].terms[0].map))
    caught(memory, with_term(memory.network, 0, map=np.array([[4.0, 0.5, 0.0]])))
    blind = with_term(memory.network, 0, map=np.zeros((1, 3)))
    with pytest.raises(CertificateError, match="is read"):
        certify(blind, memory.target)
    unequal = with_head(uniform.network, 1, 0, lambda h: replace(h, query=h.query + 1, key=h.key + 1))
    with pytest.raises(CertificateError, match="scores zero"):
        certify(unequal, uniform.target)
    caught(uniform, with_head(uniform.network, 1, 0, lambda h: replace(h, value=h.value * 1.05)))


def test_the_read_out(memory: Compiled, uniform: Compiled) -> None:
    terms = memory.network.layers[-1].terms
    crossed = with_layer(
        memory.network, -1, Linear((Term(terms[1].map, terms[0].mix), Term(terms[0].map, terms[1].mix)))
    )
    both = with_layer(uniform.network, -1, Linear((Term(uniform.network.layers[-1].terms[0].map[::-1]),)))
    for net, network in ((memory, crossed), (uniform, both)):
        with pytest.raises(CertificateError, match="slice"):
            certify(network, net.target)
    scaled = with_term(memory.network, -1, map=1.01 * terms[0].map)
    with pytest.raises(CertificateError, match="zeros and ones"):
        certify(scaled, memory.target)
    unread = replace(memory.network, layers=memory.network.layers[:-1])
    with pytest.raises(CertificateError):
        certify(unread, memory.target)


def test_the_softmax_tail(tail: Compiled) -> None:
    caught(tail, with_term(tail.network, 2, map=changed(tail.network.layers[2].terms[0].map, (1, 5), 30.0)))
    caught(tail, with_term(tail.network, 2, map=tail.network.layers[2].terms[0].map / 20))
    values = with_term(tail.network, 4, map=changed(tail.network.layers[4].terms[0].map, (5, 0), 0.2))
    assert certify(values, tail.target).bound >= tail.certificate.bound + 0.2 - 1e-9
    terms = tail.network.layers[4].terms
    crossed = Linear((Term(terms[1].map, terms[0].mix), Term(terms[0].map, terms[1].mix)))
    caught(tail, with_layer(tail.network, 4, crossed))
    with pytest.raises(CertificateError, match="tokens"):
        certify(with_layer(tail.network, 4, Linear(terms[:1])), tail.target)
    with pytest.raises(CertificateError):
        certify(replace(tail.network, layers=tail.network.layers[:3]), tail.target)


def test_the_literal_layout(literal: Compiled) -> None:
    encode = literal.network.layers[2]
    caught(literal, with_layer(literal.network, 2, replace(encode, constant=changed(encode.constant, (6, 2), 0.3))))
    key = with_layer(literal.network, 2, replace(encode, constant=changed(encode.constant, (6, 0), 0.3)))
    caught(literal, key)
    caught(literal, with_term(literal.network, 2, mix=changed(encode.terms[0].mix, (15, 0), 1.0)))
    caught(literal, with_head(literal.network, 3, 0, lambda h: replace(h, query=h.query / 10)))


def test_another_target_is_not_covered(memory: Compiled) -> None:
    other = af.constructions.two_layer(
        lambda x: PRODUCT.function(x) + 1.0, PRODUCT.domain, grid=2, lipschitz=2, sharpness="hard"
    )
    assert certify(memory.network, other.target).bound >= 1.0


def test_a_wider_domain_costs_its_distance(memory: Compiled) -> None:
    wide = memory.target.on(Box(-0.5, 1.5, shape=(2, 1)))
    certificate = certify(memory.network, wide)
    assert certificate.bound >= 0.5 * 2
    net = Compiled(memory.network, wide, certificate, "two_layer", "float64")
    assert worst(net, 4) <= certificate.bound


def test_a_narrower_domain_for_formulas_and_callables(memory: Compiled) -> None:
    formula = Formula("x*y", Box(0, 1, shape=(2,)), ("x", "y"))
    network = TwoLayer().build(formula, BumpPlan(4, 40.0))
    narrow = certify(network, formula.on(Box(0.4, 0.6, shape=(2,))))
    assert narrow.bound <= certify(network, formula).bound * 1.001
    with pytest.raises(CertificateError, match="known on its domain"):
        certify(memory.network, memory.target.on(Box(0.4, 0.6, shape=(2, 1))))


def test_formulas_are_enclosed_at_their_centres() -> None:
    formula = Formula("exp(3*x)", Box(0, 1, shape=(1,)), ("x",))
    network = TwoLayer().build(formula, BumpPlan(16, 40.0))
    certificate = certify(network, formula)
    assert certificate.status == "proved"
    assert certificate.parts["rounding"] < 1e-9
    assert certificate.parts["spacing"] == pytest.approx(3 * np.exp(3) / 32, rel=0.01)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rounding_is_charged(dtype: str) -> None:
    net = af.constructions.two_layer(**SORT.options, grid=3, dtype=dtype, sharpness="hard")
    exact = certify(net.network, net.target, dtype="float64")
    assert net.certificate.parts["rounding"] > exact.parts["rounding"]


def test_scores_must_fit_the_dtype() -> None:
    with pytest.raises(RefusalError, match="float16"):
        af.constructions.two_layer(**SORT.options, grid=3, dtype="float16", sharpness=5e4)
