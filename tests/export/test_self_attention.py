"""Networks as plain self-attention: run in NumPy by the definition, they compute what they did before."""

from dataclasses import replace

import numpy as np

import attnforge as af
from attnforge.export.self_attention import PlainNetwork, check_size, plain
from attnforge.network import Attention, Head, Linear, Network, Term, apply
from tests.readers.networks import random_case
from tests.refusals import refused


def first_stream(found: PlainNetwork, tokens, context=None):
    """The residual stream (L, D) of one sequence, before the first layer."""
    stream = np.eye(len(found.positions), found.width)
    stream[found.first : found.first + len(tokens), found.columns] += tokens
    if context is not None:
        start, count = found.told
        stream[start : start + count, found.told_columns] += context
    return stream


def ran(network, tokens, context=None):
    found = plain(network, len(tokens), 0 if context is None else len(context))
    stream = first_stream(found, tokens, context)
    for layer in found.layers:
        added = np.zeros_like(stream)
        for head in layer:
            scores = (stream @ head.query) @ (stream @ head.key).T
            share = np.exp(scores - scores.max(axis=1, keepdims=True))
            added += (share / share.sum(axis=1, keepdims=True)) @ (stream @ head.value) @ head.output
        stream = stream + added
    return (stream @ found.readout)[found.first : found.first + found.rows[1]]


def test_random_networks():
    for seed in range(250):
        case = random_case(seed)
        given = [part[0] for part in case.split(case.points(np.random.default_rng(seed), 1)) if part is not None]
        wanted = apply(case.network, *given)
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(ran(case.network, *given), wanted, rtol=0, atol=1e-12 * scale, err_msg=str(seed))


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


def test_what_is_too_large_is_refused():
    head = Head(np.eye(1), np.eye(1), memory_keys=np.ones((2000, 1)), memory_values=np.ones((2000, 1)))
    with refused(af.RefusalError):
        plain(Network((Attention((head,)),), 1), 1)
    few = replace(head, memory_keys=np.ones((900, 1)), memory_values=np.ones((900, 1)))
    found = plain(Network((Attention((few,)),), 1), 100)
    check_size(found)
    with refused(af.RefusalError):
        check_size(replace(found, layers=found.layers * 100_000))
