"""Malformed networks are named before they run: each case with a message one can act on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from attnforge.errors import TargetError
from attnforge.network import Attention, Linear, Network, Rows, Term, check_architecture
from tests.network.examples import CONTEXT, NETWORKS, M, N, alone, head


@dataclass(frozen=True)
class ReLU:
    """Not a layer of ours."""


@pytest.mark.parametrize("name", NETWORKS)
def test_well_formed_networks_pass(name):
    check_architecture(NETWORKS[name])


def attention(**changes) -> Network:
    """One well-formed head with memory and rows, changed."""
    return alone(Attention((replace(head(memory=3, rows=Rows()), **changes),)))


def with_nan(array: np.ndarray, value: float = np.nan) -> np.ndarray:
    array = array.copy()
    array.flat[-1] = value
    return array


ONE = head(memory=3, rows=Rows())
MALFORMED = {
    "a foreign layer": (
        Network((ReLU(),), M, N),
        r"linear maps, softmax attention and softmax only\. Got ReLU as layer 0",
    ),
    "a foreign layer later": (Network((Linear((Term(),)), ReLU()), M, N), r"Got ReLU as layer 1\. Express"),
    "NaN in a query": (
        attention(query=with_nan(ONE.query)),
        r"must be finite\. Got NaN or infinity in layer0\.head0\.query",
    ),
    "infinite value": (attention(memory_values=with_nan(ONE.memory_values, np.inf)), r"layer0\.head0\.memory_values"),
    "NaN in a map": (alone(Linear((Term(with_nan(np.ones((M, 2)))),))), r"layer0\.term0\.map"),
    "NaN in a mix": (alone(Linear((Term(None, with_nan(np.ones((2, N)))),))), r"layer0\.term0\.mix"),
    "NaN in a constant": (alone(Linear((Term(),), with_nan(np.ones((1, M))))), r"layer0\.constant"),
    "a map of wrong height": (
        alone(Linear((Term(np.ones((2, 2))),))),
        r"layer 0: a map takes 3 features\. Got \(2, 2\)",
    ),
    "too few maps": (alone(Linear((Term(np.ones((3, M, 2))),))), r"layer 0: one map a token \(4\)\. Got \(3, 3, 2\)"),
    "a mix of wrong width": (alone(Linear((Term(None, np.ones((2, 5))),))), r"a mix takes 4 tokens\. Got \(2, 5\)"),
    "terms of unequal width": (alone(Linear((Term(), Term(np.ones((M, 2)))))), r"terms of a linear map have one shape"),
    "terms of unequal length": (alone(Linear((Term(), Term(None, np.ones((2, N)))))), r"have one shape"),
    "a constant of wrong width": (alone(Linear((Term(),), np.ones((1, 2)))), r"have one shape"),
    "a constant of wrong length": (alone(Linear((Term(),), np.ones((3, M)))), r"have one shape"),
    "nothing at all": (alone(Linear(())), r"have one shape"),
    "no heads": (alone(Attention(())), r"layer 0: attention has at least one head\. Got 0"),
    "a head without keys": (
        alone(Attention((replace(ONE, key_rows=None, memory_keys=None, memory_values=None),))),
        r"layer 0, head 0: a head has keys",
    ),
    "rows without W_K": (attention(key=None), r"token keys need W_K and W_V"),
    "rows without W_V": (attention(value=None), r"token keys need W_K and W_V"),
    "a query of wrong height": (attention(query=np.ones((2, 2))), r"queries read 3 features\. Got \(2, 2\)"),
    "a key of wrong width": (attention(key=np.ones((M, 3))), r"W_K is \(3, 2\)\. Got \(3, 3\)"),
    "a key of wrong height": (attention(key=np.ones((2, 2))), r"W_K is \(3, 2\)\. Got \(2, 2\)"),
    "a value of wrong width": (attention(value=np.ones((M, 1))), r"W_V is \(3, 2\)\. Got \(3, 1\)"),
    "memory keys of wrong width": (attention(memory_keys=np.ones((3, 1))), r"memory keys are \(3, 2\)\. Got \(3, 1\)"),
    "memory values of wrong length": (attention(memory_values=np.ones((2, 2))), r"\(3, 2\) values\. Got \(2, 2\)"),
    "memory keys without values": (attention(memory_values=None), r"\(3, 2\) values\. Got None"),
    "memory values without keys": (attention(memory_keys=None), r"memory keys are \(0, 2\)\. Got None"),
    "heads that write unequally": (
        alone(Attention((ONE, replace(ONE, output=np.ones((2, 1)))))),
        r"layer 0, head 1: heads write 3 features\. Got \(2, 1\)",
    ),
    "a residual of wrong width": (
        alone(Attention((replace(ONE, output=np.ones((2, 1))),), residual=True)),
        r"layer 0: a residual needs 3 features\. Got 1",
    ),
    "duplicate query rows": (
        attention(query_rows=Rows.some([1, 1])),
        r"rows are distinct tokens below 4\. Got \[1, 1\]",
    ),
    "duplicate key rows": (attention(key_rows=Rows.some([0, 2, 0])), r"rows are distinct tokens .* Got \[0, 2, 0\]"),
    "a row beyond the sequence": (attention(query_rows=Rows.some([4])), r"below 4\. Got \[4\]"),
    "a negative row": (attention(key_rows=Rows.some([-1])), r"below 4\. Got \[-1\]"),
    "a second input that is not there": (
        alone(Attention((head(rows=Rows(source="context")),))),
        r"the network has a second input",
    ),
    "a row beyond the second input": (
        alone(Attention((head(rows=Rows.some([5], "context")),)), context=True),
        r"below 5\. Got \[5\]",
    ),
    "the second input read as the first": (
        Network((Attention((replace(ONE, key_rows=Rows(source="context")),)),), M, N, CONTEXT),
        r"W_K is \(2, 2\)\. Got \(3, 2\)",
    ),
    "layers that do not fit each other": (
        Network((Linear((Term(np.ones((M, 2))),)), Attention((ONE,))), M, N),
        r"layer 1, head 0: queries read 2 features",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_network_is_refused_with_the_reason(name):
    network, pattern = MALFORMED[name]
    with pytest.raises(TargetError, match=pattern) as caught:
        check_architecture(network)
    assert caught.value.remedy


WRONG_AXES = {
    "a map with one axis": alone(Linear((Term(np.ones(M)),))),
    "a mix with one axis": alone(Linear((Term(None, np.ones(N)),))),
    "a constant with one axis": alone(Linear((Term(),), np.ones(M))),
    "a query with one axis": attention(query=np.ones(M)),
    "an output with one axis": attention(output=np.ones(2)),
}


@pytest.mark.parametrize("name", WRONG_AXES)
def test_arrays_with_too_few_axes_are_refused_readably(name):
    with pytest.raises(TargetError, match=r"Got "):
        check_architecture(WRONG_AXES[name])


SENSELESS_ROWS = {
    "queries of the second input": attention(query_rows=Rows(source="context")),
    "queries that are their own": attention(query_rows=Rows("own")),
    "own row of the second input": alone(Attention((head(rows=Rows("own", None, "context")),)), context=True),
}


@pytest.mark.parametrize("name", SENSELESS_ROWS)
def test_row_sets_that_no_execution_honours_are_refused(name):
    with pytest.raises(TargetError, match=r"Got "):
        check_architecture(SENSELESS_ROWS[name])
