"""A second input of any number of tokens: run, checked, flattened and printed; its features stay fixed."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnforge.errors import DomainError, FileFormatError, TargetError
from attnforge.network import (
    Attention,
    Head,
    Linear,
    Network,
    Rows,
    Term,
    apply,
    check_architecture,
    describe,
    digest,
    flatten,
    unflatten,
)
from attnforge.runtime import AttentionNetwork
from tests.network.examples import numbers, reference

HEAD = Head(numbers(2, 2), numbers(1, 2), key=numbers(3, 2), value=numbers(3, 1), key_rows=Rows(source="context"))
NETWORK = Network((Attention((HEAD,)),), 2, None, (None, 3))


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_any_number_of_rows_is_read(rows):
    tokens, context = numbers(4, 2), numbers(rows, 3, seed=5)
    wanted = reference(NETWORK, tokens, context)
    np.testing.assert_allclose(apply(NETWORK, tokens, context), wanted, rtol=1e-13)
    module = AttentionNetwork(NETWORK, torch.float64)
    found = module(torch.from_numpy(tokens), torch.from_numpy(context))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13)


def test_large_batches_are_cut_by_the_rows_given(monkeypatch):
    running, seen = importlib.import_module("attnforge.network.apply"), []
    tokens, context = numbers(9, 4, 2), numbers(7, 3, seed=5)
    whole, run = apply(NETWORK, tokens, context), running._run
    monkeypatch.setattr(running, "CHUNK", 2 * 4 * 7)  # query-key pairs of two batch entries
    monkeypatch.setattr(running, "_run", lambda net, state, told: seen.append(len(state)) or run(net, state, told))
    np.testing.assert_array_equal(apply(NETWORK, tokens, context), whole)
    assert seen == [2, 2, 2, 2, 1]


@pytest.mark.parametrize("shape", [(5, 2), (3,), (5, 4)])
def test_other_features_are_refused(shape):
    with pytest.raises(DomainError, match=r"\(\.\.\., n, 3\)"):
        apply(NETWORK, numbers(4, 2), np.zeros(shape))
    with pytest.raises(DomainError, match=r"\(\.\.\., n, 3\)"):
        AttentionNetwork(NETWORK, torch.float64)(torch.zeros(4, 2), torch.zeros(shape))


def test_a_fixed_number_of_rows_stays_fixed():
    fixed = replace(NETWORK, context=(5, 3))
    with pytest.raises(DomainError, match=r"\(\.\.\., 5, 3\)"):
        apply(fixed, numbers(4, 2), numbers(6, 3))
    assert digest(fixed) != digest(NETWORK)


def test_it_survives_flattening():
    skeleton, arrays = flatten(NETWORK)
    assert skeleton["context"] == [None, 3]
    again = unflatten(skeleton, arrays)
    assert again.context == (None, 3)
    assert digest(again) == digest(NETWORK)


@pytest.mark.parametrize("context", [[None, None], [None], ["n", 3]])
def test_a_shape_without_features_is_refused(context):
    skeleton, arrays = flatten(NETWORK)
    with pytest.raises(FileFormatError):
        unflatten({**skeleton, "context": context}, arrays)


def test_it_is_checked_and_printed():
    assert check_architecture(NETWORK) == 2
    assert "(n, 2) tokens and (n, 3) of a second input" in describe(NETWORK)
    with pytest.raises(TargetError, match="keys and values read 4 features"):
        replace(NETWORK, context=(None, 4))


def test_linear_maps_of_any_number_of_rows_treat_them_alike():
    scaled = replace(NETWORK, context=(None, 1), context_layers=(Linear((Term(numbers(1, 3)),)),))
    assert check_architecture(scaled) == 2
    context = numbers(6, 1)
    np.testing.assert_allclose(
        apply(scaled, numbers(4, 2), context), apply(NETWORK, numbers(4, 2), context @ numbers(1, 3)), rtol=1e-13
    )
    with pytest.raises(TargetError, match="a mix takes None tokens"):
        replace(NETWORK, context_layers=(Linear((Term(mix=numbers(4, 2)),)),))
    with pytest.raises(TargetError, match="one map a token"):
        replace(NETWORK, context_layers=(Linear((Term(numbers(4, 3, 3)),)),))
    with pytest.raises(TargetError, match="one shape"):
        replace(NETWORK, context_layers=(Linear((Term(),), numbers(4, 3)),))
