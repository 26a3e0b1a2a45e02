"""What two readers could take differently cannot be made: not by hand, not by ``replace``, not from a file."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pytest

import attnforge as af
from attnforge.network import (
    Attention,
    Claims,
    Linear,
    Network,
    Rows,
    Softmax,
    Term,
    check_architecture,
    flatten,
    unflatten,
)
from tests.clock import at_most
from tests.network.examples import NETWORKS, TWO_INPUTS, M, N, alone, head, inputs
from tests.refusals import refused


@dataclass(frozen=True)
class ReLU:
    """Not a layer of ours."""


def attention(**changes) -> Network:
    """One well-formed head with memory and rows, changed."""
    return alone(Attention((replace(ONE, **changes),)))


def with_nan(array: np.ndarray, value: float = np.nan) -> np.ndarray:
    array = array.copy()
    array.flat[-1] = value
    return array


ONE, TOLD = head(memory=3, rows=Rows()), Rows(source="context")
LINEAR = NETWORKS["a map per token"]
NO_KEYS = ("key_rows", "key", "value", "memory_keys", "memory_values")
SCALE, LENGTHEN = TWO_INPUTS.context_layers
MALFORMED = {
    "a foreign layer": lambda: Network((ReLU(),), M, N),
    "a foreign layer later": lambda: Network((Linear((Term(),)), ReLU()), M, N),
    "no layers": lambda: Network((), M, N),
    "a list of layers": lambda: Network([Linear((Term(),))], M, N),
    "NaN in a query": lambda: attention(query=with_nan(ONE.query)),
    "infinite value": lambda: attention(memory_values=with_nan(ONE.memory_values, np.inf)),
    "NaN in a map": lambda: Term(with_nan(np.ones((M, 2)))),
    "NaN in a mix": lambda: Term(None, with_nan(np.ones((2, N)))),
    "NaN in a constant": lambda: Linear((Term(),), with_nan(np.ones((1, M)))),
    "a map of wrong height": lambda: alone(Linear((Term(np.ones((2, 2))),))),
    "too few maps": lambda: alone(Linear((Term(np.ones((3, M, 2))),))),
    "one map for several tokens": lambda: alone(Linear((Term(np.ones((1, M, 2))),))),
    "maps for any number of tokens": lambda: replace(LINEAR, tokens=None),
    "constants for any number of tokens": lambda: alone(Linear((Term(),), np.ones((N, M))), tokens=None),
    "a mix of any number of tokens": lambda: alone(Linear((Term(None, np.ones((2, N))),)), tokens=None),
    "a mix of wrong width": lambda: alone(Linear((Term(None, np.ones((2, 5))),))),
    "terms of unequal width": lambda: alone(Linear((Term(), Term(np.ones((M, 2)))))),
    "terms of unequal length": lambda: alone(Linear((Term(), Term(None, np.ones((2, N)))))),
    "a constant of wrong width": lambda: alone(Linear((Term(),), np.ones((1, 2)))),
    "a constant of wrong length": lambda: alone(Linear((Term(),), np.ones((3, M)))),
    "nothing at all": lambda: Linear(()),
    "a constant alone": lambda: Linear((), np.ones((1, M))),
    "a foreign term": lambda: Linear((np.ones((M, M)),)),
    "no heads": lambda: Attention(()),
    "a residual that is no bool": lambda: Attention((ONE,), 1),
    "a head without keys": lambda: replace(ONE, **dict.fromkeys(NO_KEYS)),
    "matrices without key rows": lambda: replace(ONE, key_rows=None),
    "rows without W_K": lambda: replace(ONE, key=None),
    "rows without W_V": lambda: replace(ONE, value=None),
    "rows alone": lambda: replace(ONE, key=None, value=None),
    "W_K alone": lambda: replace(ONE, key_rows=None, value=None),
    "rows of a foreign kind": lambda: replace(ONE, key_rows=[0, 1]),
    "claims of a foreign kind": lambda: replace(ONE, claims="gate"),
    "a query of wrong height": lambda: attention(query=np.ones((2, 2))),
    "a key of wrong width": lambda: replace(ONE, key=np.ones((M, 3))),
    "a key of wrong height": lambda: attention(key=np.ones((2, 2)), value=np.ones((2, 2))),
    "keys and values of two heights": lambda: replace(ONE, value=np.ones((2, 2))),
    "a value of wrong width": lambda: replace(ONE, value=np.ones((M, 1))),
    "memory keys of wrong width": lambda: replace(ONE, memory_keys=np.ones((3, 1))),
    "memory values of wrong length": lambda: replace(ONE, memory_values=np.ones((2, 2))),
    "memory keys without values": lambda: replace(ONE, memory_values=None),
    "memory values without keys": lambda: replace(ONE, memory_keys=None),
    "an empty memory": lambda: replace(ONE, memory_keys=np.ones((0, 2)), memory_values=np.ones((0, 2))),
    "scores of no width": lambda: replace(ONE, query=np.ones((M, 0)), key=np.ones((M, 0)), memory_keys=np.ones((3, 0))),
    "heads that write unequally": lambda: Attention((ONE, replace(ONE, output=np.ones((2, 1))))),
    "a residual of wrong width": lambda: Attention((replace(ONE, output=np.ones((2, 1))),), residual=True),
    "duplicate query rows": lambda: Rows.some([1, 1]),
    "duplicate key rows": lambda: Rows.some([0, 2, 0], "context"),
    "a row beyond the sequence": lambda: attention(query_rows=Rows.some([4])),
    "a key beyond the sequence": lambda: attention(key_rows=Rows.some([4])),
    "a negative row": lambda: Rows.some([-1]),
    "no rows": lambda: Rows.some(np.zeros(0, dtype=np.int64)),
    "rows of two axes": lambda: Rows.some([[0], [1]]),
    "rows between tokens": lambda: Rows.some([0.0, 1.5]),
    "rows as bools": lambda: Rows.some([True, False]),
    "rows of another width": lambda: Rows("some", np.array([0], dtype=np.int32)),
    "rows as a list": lambda: Rows("some", [0, 1]),
    "rows of an unknown kind": lambda: Rows("few"),
    "rows of an unknown source": lambda: Rows("all", None, "memory"),
    "own rows of the second input": lambda: Rows("own", None, "context"),
    "queries of the second input": lambda: replace(ONE, query_rows=Rows(source="context")),
    "queries that are their own": lambda: replace(ONE, query_rows=Rows("own")),
    "queries that are none": lambda: replace(ONE, query_rows=None),
    "a second input that is not there": lambda: alone(Attention((head(rows=Rows(source="context")),))),
    "a row beyond the second input": lambda: alone(Attention((head(rows=Rows.some([5], "context")),)), context=True),
    "the second input read as the first": lambda: alone(Attention((replace(ONE, key_rows=TOLD),)), context=True),
    "layers that do not fit each other": lambda: Network((Linear((Term(np.ones((M, 2))),)), Attention((ONE,))), M, N),
    "no features": lambda: replace(LINEAR, features=0),
    "features as a float": lambda: replace(LINEAR, features=3.0),
    "features as a bool": lambda: replace(LINEAR, features=True),
    "features of NumPy": lambda: replace(LINEAR, features=np.int64(3)),
    "no tokens": lambda: replace(LINEAR, tokens=0),
    "negative tokens": lambda: replace(LINEAR, tokens=-4),
    "tokens as text": lambda: replace(LINEAR, tokens="4"),
    "a context of one number": lambda: replace(LINEAR, context=(3,)),
    "a context as a list": lambda: replace(LINEAR, context=[3, 2]),
    "a context without features": lambda: replace(LINEAR, context=(3, None)),
    "a context without rows": lambda: replace(LINEAR, context=(0, 2)),
    "a construction that is no name": lambda: replace(LINEAR, construction=None),
    "rows of kind some without indices": lambda: Rows("some", None),
    "all rows with indices": lambda: Rows("all", np.array([0])),
    "own rows with indices": lambda: Rows("own", np.array([0])),
    "maps of no second input": lambda: replace(TWO_INPUTS, context=None),
    "a map of a second input with other features": lambda: replace(TWO_INPUTS, context=(2, 2)),
    "a map of a second input with other rows": lambda: replace(TWO_INPUTS, context=(3, 3)),
    "a softmax of the second input": lambda: replace(TWO_INPUTS, context_layers=(Softmax(),)),
    "a list of maps of the second input": lambda: replace(TWO_INPUTS, context_layers=[SCALE, LENGTHEN]),
    "maps of the second input left out": lambda: replace(TWO_INPUTS, context_layers=()),
    "a mix of any second input": lambda: of_any(Linear((Term(None, np.ones((4, 2))),))),
    "a map a row of any second input": lambda: of_any(Linear((Term(np.ones((4, 3, 3))),))),
    "constants of any second input": lambda: of_any(Linear((Term(),), np.ones((4, 3)))),
    "any second input with other features": lambda: replace(
        of_any(Linear((Term(np.ones((3, 4))),))), context=(None, 4)
    ),
}


def of_any(layer: Linear) -> Network:
    """A second input of any number of rows, through this layer."""
    return replace(TWO_INPUTS, context=(None, 3), context_layers=(layer,))


@pytest.mark.parametrize("name", NETWORKS)
def test_well_formed_networks_pass(name):
    network = NETWORKS[name]
    assert network(*inputs(network)).shape[-1] == check_architecture(network)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_network_cannot_be_made(name):
    with refused(af.TargetError) as caught:
        MALFORMED[name]()
    assert caught.value.remedy


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, bool, object, complex, ">f8"])
@pytest.mark.parametrize("name", ["query", "output", "key", "value", "memory_keys", "memory_values"])
def test_weights_have_one_dtype(name, dtype):
    with refused(af.TargetError):
        replace(ONE, **{name: np.ones_like(getattr(ONE, name)).astype(dtype)})


WHOLE = np.eye(M, dtype=np.int64)
KEYS = ("low", "self", "high")
OTHERWISE = {
    "a map of whole numbers": lambda: Term(WHOLE),
    "a mix of whole numbers": lambda: Term(None, WHOLE),
    "a constant of whole numbers": lambda: Linear((Term(),), WHOLE),
    "positions that are whole numbers": lambda: Claims("gate", 1.0, np.arange(3), KEYS),
    "a sharpness in words": lambda: Claims("gate", "sharp", np.arange(3.0), KEYS),
    "a role that is none": lambda: Claims("gate", 1.0, np.arange(3.0), ("low", None, "high")),
    **{
        f"{name} of shape {shape}": lambda name=name, shape=shape: replace(ONE, **{name: np.ones(shape)})
        for name in ("query", "output", "memory_keys") for shape in ((M,), (1, M, 2), ())
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_arrays_and_claims_are_refused(name):
    with refused(af.TargetError):
        OTHERWISE[name]()


class Labelled(np.ndarray):
    """An array that might mean something else by its operators."""


def test_what_is_made_stays_what_it_is():
    assert type(Term(np.ones((1, 2)).view(Labelled)).map) is np.ndarray
    for name, array in flatten(NETWORKS["some of the context and memory"])[1].items():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        assert array.base is not None, name
    with pytest.raises(FrozenInstanceError):
        head(memory=1).query = np.zeros((3, 2))  # type: ignore[misc]


FORBIDDEN = {  # arrays added to, or exchanged in, a file of one head that attends to its memory
    "half a token key": {"layer0.head0.key": np.ones((M, 2)), "layer0.head0.value": np.ones((M, 2))},
    "integer weights": {"layer0.head0.memory_values": np.ones((5, 2), dtype=np.int64)},
    "indices without rows": {"layer0.head0.query_rows": np.array([0])},
    "weights as indices": {"layer0.head0.query": np.ones((M, 2), dtype=np.int64)},
    "NaN": {"layer0.head0.query": np.full((M, 2), np.nan)},
    "a memory of another length": {"layer0.head0.memory_keys": np.ones((4, 2))},
    "an array without a place": {"layer0.head1.query": np.ones((M, 2))},
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_files_cannot_hold_them_either(name):
    skeleton, arrays = flatten(NETWORKS["memory"])
    with refused(af.FileFormatError):
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
