"""Linear maps on the second input: run, flattened, digested, checked and printed like any other layer."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

from attnforge.errors import DomainError, FileFormatError, TargetError
from attnforge.network import (
    Attention,
    Head,
    Linear,
    Network,
    Rows,
    Softmax,
    Term,
    apply,
    attention_weights,
    check_architecture,
    count_parameters,
    describe,
    digest,
    flatten,
    rounded,
    unflatten,
)
from tests.network.examples import numbers, reference, reference_weights

SCALE = Linear((Term(numbers(2, 3, 3)),), numbers(2, 3))
LENGTHEN = Linear(
    (Term(numbers(3, 4), numbers(6, 2)), Term(numbers(3, 4, seed=2), numbers(6, 2, seed=2))), numbers(6, 4)
)
HEAD = Head(numbers(2, 2), numbers(1, 2), key=numbers(4, 2), value=numbers(4, 1), key_rows=Rows(source="context"))
NETWORK = Network((Attention((HEAD,)),), 2, None, (2, 3), "", (SCALE, LENGTHEN))


def lengthened(context: np.ndarray) -> np.ndarray:
    """The second input through its two maps, by the reference's loops."""
    return reference(Network((SCALE, LENGTHEN), 3, 2), context)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_attention_reads_the_lengthened_context(batch):
    tokens, context = numbers(*batch, 5, 2), numbers(*batch, 2, 3)
    found = apply(NETWORK, tokens, context)
    plain = replace(NETWORK, context=(6, 4), context_layers=())
    for index in np.ndindex(batch):
        told = lengthened(context[index])
        assert told.shape == (6, 4)
        np.testing.assert_allclose(found[index], reference(plain, tokens[index], told), rtol=1e-12)
        ((weights,),) = attention_weights(NETWORK, tokens[index], context[index])
        np.testing.assert_allclose(weights, reference_weights(HEAD, tokens[index], told), rtol=1e-12)


def test_one_context_serves_a_batch_and_chunks_do_not_show(monkeypatch):
    tokens, context = numbers(7, 5, 2), numbers(2, 3)
    whole = apply(NETWORK, tokens, context)
    monkeypatch.setattr(importlib.import_module("attnforge.network.apply"), "CHUNK", 1)
    np.testing.assert_allclose(apply(NETWORK, tokens, context), whole, rtol=1e-14)
    np.testing.assert_allclose(whole[3], apply(NETWORK, tokens[3], context), rtol=1e-14)


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 2), (4, 6, 4)])
def test_a_second_input_of_another_shape_is_refused(shape):
    for call in (apply, attention_weights):
        with pytest.raises(DomainError, match=r"second input has shape \(\.\.\., 2, 3\)\. Got shape "):
            call(NETWORK, numbers(5, 2), np.zeros(shape))


def test_flatten_round_trip():
    skeleton, arrays = flatten(NETWORK)
    assert [entry["kind"] for entry in skeleton["context_layers"]] == ["linear", "linear"]
    assert {"context0.term0.map", "context1.term1.mix", "context1.constant"} <= set(arrays)
    again = unflatten(skeleton, arrays)
    assert digest(again) == digest(NETWORK)
    np.testing.assert_array_equal(again(numbers(5, 2), numbers(2, 3)), NETWORK(numbers(5, 2), numbers(2, 3)))


def test_networks_without_context_layers_have_the_skeleton_they_always_had():
    assert "context_layers" not in flatten(replace(NETWORK, context=(6, 4), context_layers=()))[0]


def test_every_weight_of_the_context_is_counted_digested_and_rounded():
    total, _ = count_parameters(NETWORK)
    assert total == 18 + 6 + 2 * (12 + 12) + 24 + 4 + 2 + 8 + 4
    other = Linear(SCALE.terms, numbers(2, 3) + 1e-9)
    assert digest(replace(NETWORK, context_layers=(other, LENGTHEN))) != digest(NETWORK)
    half = rounded(NETWORK, "bfloat16").context_layers[0].constant
    assert half is not None
    assert np.abs(half - SCALE.constant).max() > 1e-4


def test_a_file_cannot_smuggle_attention_into_the_context():
    skeleton, arrays = flatten(NETWORK)
    skeleton["context_layers"][0] = {"kind": "softmax"}
    with pytest.raises(FileFormatError, match=r"second input passes linear maps only\. Got another layer"):
        unflatten(skeleton, arrays)


MALFORMED = {
    "no second input": (lambda: replace(NETWORK, context=None), "Only a network with a second input has layers for it"),
    "wrong features": (lambda: replace(NETWORK, context=(2, 2)), "context layer 0: a map takes 2 features"),
    "wrong tokens": (lambda: replace(NETWORK, context=(3, 3)), r"context layer 0: one map a token \(3\)"),
    "a softmax": (
        lambda: replace(NETWORK, context_layers=(Softmax(),)),
        "context layer 0: the second input passes linear maps",
    ),
    "a list": (lambda: replace(NETWORK, context_layers=[SCALE, LENGTHEN]), "a tuple of linear maps"),
    "left out": (lambda: replace(NETWORK, context_layers=()), "keys and values read 3 features"),
    "NaN": (lambda: Linear(SCALE.terms, np.full((2, 3), np.nan)), "NaN or infinity in a constant"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_context_layers_cannot_be_made(name):
    make, message = MALFORMED[name]
    with pytest.raises(TargetError, match=message):
        make()


def test_a_well_formed_one_passes_and_prints():
    check_architecture(NETWORK)
    lines = describe(NETWORK).splitlines()
    assert lines[0].startswith("Network on (n, 2) tokens and (2, 3) of a second input: 114 parameters")
    assert lines[1].startswith("  second input 1. linear     Z -> Z P[2, 3, 3] + constant")
    assert lines[2].startswith("  second input 2. linear     Z -> 2 terms Q[6, 2] Z P[3, 4] + constant")
    assert "all tokens of the second input" in lines[3]
