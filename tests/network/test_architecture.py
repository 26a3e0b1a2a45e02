"""What two readers could take differently cannot be made: not by hand, not by ``replace``, not from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from attnforge.errors import FileFormatError, TargetError
from attnforge.network import Attention, Claims, Linear, Network, Rows, Term, check_architecture, flatten, unflatten
from tests.clock import at_most
from tests.network.examples import CONTEXT, NETWORKS, M, N, alone, head, numbers


@dataclass(frozen=True)
class ReLU:
    """Not a layer of ours."""


@pytest.mark.parametrize("name", NETWORKS)
def test_well_formed_networks_pass(name):
    network = NETWORKS[name]
    width = check_architecture(network)
    given = [numbers(network.tokens or N, network.features)]
    given += [] if network.context is None else [numbers(*network.context)]
    assert network(*given).shape[-1] == width


def attention(**changes) -> Network:
    """One well-formed head with memory and rows, changed."""
    return alone(Attention((replace(ONE, **changes),)))


def with_nan(array: np.ndarray, value: float = np.nan) -> np.ndarray:
    array = array.copy()
    array.flat[-1] = value
    return array


ONE = head(memory=3, rows=Rows())
LINEAR = NETWORKS["a map per token"]
MALFORMED: dict[str, tuple[Callable[[], object], str]] = {
    "a foreign layer": (lambda: Network((ReLU(),), M, N), r"at least one layer\. Got ReLU at 0"),
    "a foreign layer later": (lambda: Network((Linear((Term(),)), ReLU()), M, N), r"Got ReLU at 1"),
    "no layers": (lambda: Network((), M, N), r"at least one layer\. Got \(\)"),
    "a list of layers": (lambda: Network([Linear((Term(),))], M, N), r"are a tuple"),
    "NaN in a query": (lambda: attention(query=with_nan(ONE.query)), r"must be finite\. Got NaN or infinity in query"),
    "infinite value": (lambda: attention(memory_values=with_nan(ONE.memory_values, np.inf)), r"in memory_values"),
    "NaN in a map": (lambda: Term(with_nan(np.ones((M, 2)))), r"in a map"),
    "NaN in a mix": (lambda: Term(None, with_nan(np.ones((2, N)))), r"in a mix"),
    "NaN in a constant": (lambda: Linear((Term(),), with_nan(np.ones((1, M)))), r"in a constant"),
    "a map of wrong height": (lambda: alone(Linear((Term(np.ones((2, 2))),))), r"takes 3 features\. Got \(2, 2\)"),
    "too few maps": (lambda: alone(Linear((Term(np.ones((3, M, 2))),))), r"a token \(4\)\. Got \(3, 3, 2\)"),
    "one map for several tokens": (
        lambda: alone(Linear((Term(np.ones((1, M, 2))),))),
        r"a token \(4\)\. Got \(1, 3, 2\)",
    ),
    "maps for any number of tokens": (lambda: replace(LINEAR, tokens=None), r"one map a token \(None\)"),
    "constants for any number of tokens": (
        lambda: alone(Linear((Term(),), np.ones((N, M))), tokens=None),
        r"have one shape",
    ),
    "a mix of any number of tokens": (
        lambda: alone(Linear((Term(None, np.ones((2, N))),)), tokens=None),
        r"a mix takes None tokens",
    ),
    "a mix of wrong width": (lambda: alone(Linear((Term(None, np.ones((2, 5))),))), r"4 tokens\. Got \(2, 5\)"),
    "terms of unequal width": (lambda: alone(Linear((Term(), Term(np.ones((M, 2)))))), r"have one shape"),
    "terms of unequal length": (lambda: alone(Linear((Term(), Term(None, np.ones((2, N)))))), r"have one shape"),
    "a constant of wrong width": (lambda: alone(Linear((Term(),), np.ones((1, 2)))), r"have one shape"),
    "a constant of wrong length": (lambda: alone(Linear((Term(),), np.ones((3, M)))), r"have one shape"),
    "nothing at all": (lambda: Linear(()), r"at least one Term\. Got \(\)"),
    "a constant alone": (lambda: Linear((), np.ones((1, M))), r"at least one Term\. Got \(\)"),
    "a foreign term": (lambda: Linear((np.ones((M, M)),)), r"Got ndarray at 0"),
    "no heads": (lambda: Attention(()), r"at least one Head\. Got \(\)"),
    "a residual that is no bool": (lambda: Attention((ONE,), 1), r"True or False\. Got 1"),
    "a head without keys": (
        lambda: replace(ONE, key_rows=None, key=None, value=None, memory_keys=None, memory_values=None),
        r"has keys: tokens, memory or both",
    ),
    "matrices without key rows": (lambda: replace(ONE, key_rows=None), r"none of the three\. Got no key_rows"),
    "rows without W_K": (lambda: replace(ONE, key=None), r"none of the three\. Got no key"),
    "rows without W_V": (lambda: replace(ONE, value=None), r"none of the three\. Got no value"),
    "rows alone": (lambda: replace(ONE, key=None, value=None), r"Got no key and no value"),
    "W_K alone": (lambda: replace(ONE, key_rows=None, value=None), r"Got no key_rows and no value"),
    "rows of a foreign kind": (lambda: replace(ONE, key_rows=[0, 1]), r"has Rows or None\. Got list"),
    "claims of a foreign kind": (lambda: replace(ONE, claims="gate"), r"has Claims or None\. Got str"),
    "a query of wrong height": (lambda: attention(query=np.ones((2, 2))), r"queries read 3 features\. Got \(2, 2\)"),
    "a key of wrong width": (lambda: replace(ONE, key=np.ones((M, 3))), r"key has the shape \(3, 2\)\. Got \(3, 3\)"),
    "a key of wrong height": (
        lambda: attention(key=np.ones((2, 2)), value=np.ones((2, 2))),
        r"keys and values read 3 features\. Got \(2, 2\)",
    ),
    "keys and values of two heights": (lambda: replace(ONE, value=np.ones((2, 2))), r"value has the shape \(3, 2\)"),
    "a value of wrong width": (lambda: replace(ONE, value=np.ones((M, 1))), r"value has the shape \(3, 2\)"),
    "memory keys of wrong width": (lambda: replace(ONE, memory_keys=np.ones((3, 1))), r"shape \(3, 2\)\. Got \(3, 1\)"),
    "memory values of wrong length": (lambda: replace(ONE, memory_values=np.ones((2, 2))), r"Got \(2, 2\)"),
    "memory keys without values": (lambda: replace(ONE, memory_values=None), r"or neither\. Got no memory_values"),
    "memory values without keys": (lambda: replace(ONE, memory_keys=None), r"or neither\. Got no memory_keys"),
    "an empty memory": (
        lambda: replace(ONE, memory_keys=np.ones((0, 2)), memory_values=np.ones((0, 2))),
        r"not empty\. Got float64 of shape \(0, 2\)",
    ),
    "scores of no width": (
        lambda: replace(ONE, query=np.ones((M, 0)), key=np.ones((M, 0)), memory_keys=np.ones((3, 0))),
        r"not empty",
    ),
    "heads that write unequally": (
        lambda: Attention((ONE, replace(ONE, output=np.ones((2, 1))))),
        r"write 3 features\. Got \(2, 1\) at 1",
    ),
    "a residual of wrong width": (
        lambda: Attention((replace(ONE, output=np.ones((2, 1))),), residual=True),
        r"as many features as are read\. Got 1 written to 3",
    ),
    "duplicate query rows": (lambda: Rows.some([1, 1]), r"distinct tokens, counted from 0\. Got \[1, 1\]"),
    "duplicate key rows": (lambda: Rows.some([0, 2, 0], "context"), r"Got \[0, 2, 0\]"),
    "a row beyond the sequence": (lambda: attention(query_rows=Rows.some([4])), r"below 4\. Got \[4\]"),
    "a key beyond the sequence": (lambda: attention(key_rows=Rows.some([4])), r"below 4\. Got \[4\]"),
    "a negative row": (lambda: Rows.some([-1]), r"Got \[-1\]"),
    "no rows": (lambda: Rows.some(np.zeros(0, dtype=np.int64)), r"not empty"),
    "rows of two axes": (lambda: Rows.some([[0], [1]]), r"int64 with 1 axes"),
    "rows between tokens": (lambda: Rows.some([0.0, 1.5]), r"Got float64"),
    "rows as bools": (lambda: Rows.some([True, False]), r"Got bool"),
    "rows of another width": (lambda: Rows("some", np.array([0], dtype=np.int32)), r"Got int32"),
    "rows as a list": (lambda: Rows("some", [0, 1]), r"Got list"),
    "rows of an unknown kind": (lambda: Rows("few"), r"Got 'few' of 'state'"),
    "rows of an unknown source": (lambda: Rows("all", None, "memory"), r"Got 'all' of 'memory'"),
    "own rows of the second input": (lambda: Rows("own", None, "context"), r"own of the context"),
    "queries of the second input": (lambda: replace(ONE, query_rows=Rows(source="context")), r"tokens of the state"),
    "queries that are their own": (lambda: replace(ONE, query_rows=Rows("own")), r"tokens of the state"),
    "queries that are none": (lambda: replace(ONE, query_rows=None), r"tokens of the state\. Got None"),
    "a second input that is not there": (
        lambda: alone(Attention((head(rows=Rows(source="context")),))),
        r"those of a second input\. Got a network without",
    ),
    "a row beyond the second input": (
        lambda: alone(Attention((head(rows=Rows.some([5], "context")),)), context=True),
        r"below 5\. Got \[5\]",
    ),
    "the second input read as the first": (
        lambda: Network((Attention((replace(ONE, key_rows=Rows(source="context")),)),), M, N, CONTEXT),
        r"keys and values read 2 features\. Got \(3, 2\)",
    ),
    "layers that do not fit each other": (
        lambda: Network((Linear((Term(np.ones((M, 2))),)), Attention((ONE,))), M, N),
        r"layer 1, head 0: queries read 2 features",
    ),
    "no features": (lambda: replace(LINEAR, features=0), r"features: a positive int\. Got 0"),
    "features as a float": (lambda: replace(LINEAR, features=3.0), r"Got 3\.0"),
    "features as a bool": (lambda: replace(LINEAR, features=True), r"Got True"),
    "features of NumPy": (lambda: replace(LINEAR, features=np.int64(3)), r"positive int"),
    "no tokens": (lambda: replace(LINEAR, tokens=0), r"or None for any number\. Got 0"),
    "negative tokens": (lambda: replace(LINEAR, tokens=-4), r"Got -4"),
    "tokens as text": (lambda: replace(LINEAR, tokens="4"), r"Got 4"),
    "a context of one number": (lambda: replace(LINEAR, context=(3,)), r"shape \(rows or None, features\)"),
    "a context as a list": (lambda: replace(LINEAR, context=[3, 2]), r"shape \(rows or None, features\)"),
    "a context without features": (lambda: replace(LINEAR, context=(3, None)), r"context features"),
    "a context without rows": (lambda: replace(LINEAR, context=(0, 2)), r"context rows"),
    "a construction that is no name": (lambda: replace(LINEAR, construction=None), r"is a name\. Got None"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_network_cannot_be_made(name):
    make, pattern = MALFORMED[name]
    with pytest.raises(TargetError, match=pattern) as caught:
        make()
    assert caught.value.remedy


DTYPES = [np.float32, np.float16, np.int64, bool, object, complex, ">f8"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["query", "output", "key", "value", "memory_keys", "memory_values"])
def test_weights_have_one_dtype(name, dtype):
    with pytest.raises(TargetError, match=rf"{name}: an array of float64 with 2 axes"):
        replace(ONE, **{name: np.ones_like(getattr(ONE, name)).astype(dtype)})


def test_maps_and_claims_have_one_dtype_too():
    for make in (Term, lambda array: Term(None, array), lambda array: Linear((Term(),), array)):
        with pytest.raises(TargetError, match="an array of float64"):
            make(np.eye(M, dtype=np.int64))
    with pytest.raises(TargetError, match="claimed positions"):
        Claims("gate", 1.0, np.arange(3), ("low", "self", "high"))
    with pytest.raises(TargetError, match=r"is a float\. Got str"):
        Claims("gate", "sharp", np.arange(3.0), ("low", "self", "high"))
    with pytest.raises(TargetError, match="role of each key"):
        Claims("gate", 1.0, np.arange(3.0), ("low", None, "high"))


@pytest.mark.parametrize("shape", [(M,), (1, M, 2), ()])
@pytest.mark.parametrize("name", ["query", "output", "memory_keys"])
def test_arrays_with_other_axes_are_refused_readably(name, shape):
    with pytest.raises(TargetError, match=rf"2 axes, not empty\. Got float64 of shape \({shape[0] if shape else ''}"):
        replace(ONE, **{name: np.ones(shape)})


def test_arrays_cannot_be_written_to():
    network = NETWORKS["some of the context and memory"]
    for name, array in flatten(network)[1].items():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        assert array.base is not None, name


class Labelled(np.ndarray):
    """An array that might mean something else by its operators."""


def test_a_subclass_of_arrays_is_read_as_an_array():
    assert type(Term(np.ones((1, 2)).view(Labelled)).map) is np.ndarray


FORBIDDEN = {  # arrays added to, or exchanged in, a file of one head that attends to its memory
    "half a token key": {"layer0.head0.key": np.ones((M, 2)), "layer0.head0.value": np.ones((M, 2))},
    "integer weights": {"layer0.head0.memory_values": np.ones((5, 2), dtype=np.int64)},
    "indices without rows": {"layer0.head0.query_rows": np.array([0])},
    "weights as indices": {"layer0.head0.query": np.ones((M, 2), dtype=np.int64)},
    "NaN": {"layer0.head0.query": np.full((M, 2), np.nan)},
    "a memory of another length": {"layer0.head0.memory_keys": np.ones((4, 2))},
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_files_cannot_hold_them_either(name):
    skeleton, arrays = flatten(NETWORKS["memory"])
    with pytest.raises(FileFormatError, match=r"Got .*Build it anew"):
        unflatten(skeleton, {**arrays, **FORBIDDEN[name]})


def test_what_does_not_change_is_not_looked_at_again(monkeypatch):
    """A network of a million keys: neither one by one, nor all at once."""
    big = replace(ONE, memory_keys=np.zeros((10**6, 2)), memory_values=np.zeros((10**6, 2)))
    network, looked_at, isfinite = alone(Attention((big,))), [], np.isfinite
    monkeypatch.setattr(np, "isfinite", lambda array: looked_at.append(array.size) or isfinite(array))
    with at_most(1000):
        replace(network, construction="x")
    assert sum(looked_at) == 0
    replace(big, claims=None)
    assert sum(looked_at) >= 4 * 10**6
