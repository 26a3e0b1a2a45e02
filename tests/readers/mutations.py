"""Changes of a network: of each field and each array, of each kind of entry, small and large.

A change either cannot be made (a refusal), or gives another network, whose error a proof may not understate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, Head, Layer, Linear, Network, Rows, Softmax, Term, flatten, unflatten

Generator = np.random.Generator
AnyArray = npt.NDArray[Any]

CONSTRUCTIONS = (
    "", "truncated_linear", "multihead_truncated_linear", "gate", "relu_network", "two_layer", "softmax_tail",
    "max_affine", "cross_attention", "tensor_grid", "ridge", "additive", "sparse_grid", "polynomial", "table",
    "in_context", "graph", "multiplier", "exponential", "logistic",
)  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """What is changed, in words, and the network that results when it is called, or the refusal it raises."""

    what: str
    make: Callable[[], Network]


def mutations(network: Network, rng: Generator, each: int) -> Iterator[Mutation]:
    """``each`` random changes of every array, like ones of the heads or terms of a layer taken as one, and field."""
    skeleton, arrays = flatten(network)
    alike: dict[str, list[str]] = {}
    for name in arrays:
        alike.setdefault(re.sub(r"(head|term)[0-9]+", r"\1", name), []).append(name)
    for names in alike.values():
        for _ in range(each):
            name = str(rng.choice(names))
            how = str(rng.choice(list(INDICES if arrays[name].dtype == np.int64 else NUMBERS)))
            seed = int(rng.integers(2**31))
            yield Mutation(f"{name}: {how}", lambda n=name, h=how, s=seed: _with_array(skeleton, arrays, n, h, s))
    for field, change in FIELDS.items():
        for _ in range(each):
            seed = int(rng.integers(2**31))
            yield Mutation(field, lambda c=change, s=seed: c(network, np.random.default_rng(s)))


def _with_array(skeleton: dict[str, Any], arrays: dict[str, AnyArray], name: str, how: str, seed: int) -> Network:
    array = arrays[name]
    change = (INDICES if array.dtype == np.int64 else NUMBERS)[how]
    return unflatten(skeleton, {**arrays, name: change(array.copy(), np.random.default_rng(seed))})


def _entry(array: AnyArray, rng: Generator, zero: bool) -> int | None:
    """A random entry that is zero, or one that is not; any if there is none."""
    places = np.flatnonzero((array.ravel() == 0) == zero)
    return int(rng.choice(places if len(places) else np.arange(array.size)))


def _scaled(low: int, high: int) -> Callable[[AnyArray, Generator], AnyArray]:
    def change(array: AnyArray, rng: Generator) -> AnyArray:
        """A relative change of an entry by a power of two between these."""
        at = _entry(array, rng, zero=False)
        array.flat[at] *= 1 + rng.choice([-1, 1]) * 2.0 ** rng.integers(low, high)
        return array

    return change


def _filled(low: int, high: int) -> Callable[[AnyArray, Generator], AnyArray]:
    def change(array: AnyArray, rng: Generator) -> AnyArray:
        """Something where there was nothing, relative to the largest entry."""
        largest = float(np.abs(array).max()) or 1.0
        array.flat[_entry(array, rng, zero=True)] = rng.choice([-1, 1]) * largest * 2.0 ** rng.integers(low, high)
        return array

    return change


def _cleared(array: AnyArray, rng: Generator) -> AnyArray:
    array.flat[_entry(array, rng, zero=False)] = 0.0
    return array


def _flipped(array: AnyArray, rng: Generator) -> AnyArray:
    array.flat[_entry(array, rng, zero=False)] *= -1
    return array


def _swapped(array: AnyArray, rng: Generator) -> AnyArray:
    axis = int(rng.integers(array.ndim))
    i, j = rng.integers(array.shape[axis], size=2)
    order = np.arange(array.shape[axis])
    order[[i, j]] = order[[j, i]]
    return np.take(array, order, axis=axis)


def _shifted(array: AnyArray, rng: Generator) -> AnyArray:
    """All entries by the same amount."""
    return array + (float(np.abs(array).max()) or 1.0) * rng.normal() * 2.0 ** rng.integers(-12, 2)


def _times(array: AnyArray, rng: Generator) -> AnyArray:
    return array * float(rng.choice([1.5, -1.0, 0.0, 100.0, 0.5, 1 + 2.0**-20, 2.0]))


def _noise(array: AnyArray, rng: Generator) -> AnyArray:
    return array + (float(np.abs(array).max()) or 1.0) * rng.normal(size=array.shape) * 2.0 ** rng.integers(-30, 1)


def _shorter(array: AnyArray, rng: Generator) -> AnyArray:
    return np.delete(array, rng.integers(len(array)), axis=0)


NUMBERS: dict[str, Callable[[AnyArray, Generator], AnyArray]] = {
    "an entry changed a little": _scaled(-30, -8), "an entry changed a lot": _scaled(-7, 6),
    "an entry put to zero": _cleared, "a small entry for a zero": _filled(-30, -8),
    "a large entry for a zero": _filled(-7, 4), "a sign turned": _flipped,
    "two rows or columns exchanged": _swapped, "all entries shifted": _shifted, "all entries multiplied": _times,
    "noise on all entries": _noise, "a row left out": _shorter,
}  # fmt: skip

INDICES: dict[str, Callable[[AnyArray, Generator], AnyArray]] = {
    "another token": lambda array, rng: np.where(np.arange(len(array)) == rng.integers(len(array)), array + 1, array),
    "another order": lambda array, rng: rng.permutation(array),
    "one left out": _shorter,
    "one more": lambda array, rng: np.append(array, array.max() + rng.integers(-2, 3)),
}


def _in_layer(network: Network, rng: Generator, change: Callable[[Attention, Generator], Layer]) -> Network:
    """One layer of attention changed; where there is none, a residual is asked of nothing, which is refused."""
    places = [i for i, layer in enumerate(network.layers) if isinstance(layer, Attention)]
    if not places:
        return replace(network, layers=(Attention(()),))
    at, layers = int(rng.choice(places)), list(network.layers)
    layer = layers[at]
    assert isinstance(layer, Attention)
    layers[at] = change(layer, rng)
    return replace(network, layers=tuple(layers))


def _in_head(change: Callable[[Head, Generator, Network], Head]) -> Callable[[Network, Generator], Network]:
    def mutate(network: Network, rng: Generator) -> Network:
        def changed(layer: Attention, rng: Generator) -> Layer:
            at, heads = int(rng.integers(len(layer.heads))), list(layer.heads)
            heads[at] = change(heads[at], rng, network)
            return replace(layer, heads=tuple(heads))

        return _in_layer(network, rng, changed)

    return mutate


def _rows(rng: Generator, source: str = "state") -> Rows:
    kind = rng.choice(["all", "own", "some", "one"])
    if kind in ("all", "own"):
        return Rows(str(kind), None, source)  # type: ignore[arg-type]
    count = int(rng.integers(1, 5))
    return Rows.some(rng.permutation(count)[: 1 if kind == "one" else count], source)  # type: ignore[arg-type]


def _query_rows(head: Head, rng: Generator, _: Network) -> Head:
    return replace(head, query_rows=_rows(rng))


def _key_rows(head: Head, rng: Generator, network: Network) -> Head:
    rows = _rows(rng, str(rng.choice(["state", "state", "context"])))
    if head.key is None and rng.random() < 0.7:  # with both matrices, so that it can be made
        width = len(head.query) if rows.source == "state" or network.context is None else network.context[1]
        scale = 2.0 ** rng.integers(-8, 4)
        key, value = (rng.normal(size=(width, n)) * scale for n in (head.query.shape[1], len(head.output)))
        return replace(head, key_rows=rows, key=key, value=value)
    return replace(head, key_rows=rows)


def _no_key_rows(head: Head, rng: Generator, _: Network) -> Head:
    return replace(head, key_rows=None, **({} if rng.random() < 0.5 else {"key": None, "value": None}))


def _memory(head: Head, rng: Generator, _: Network) -> Head:
    """Memory taken away, made longer, or given to a head that has none."""
    if head.memory_keys is not None and rng.random() < 0.4:
        return replace(head, memory_keys=None, memory_values=None)
    more = int(rng.integers(1, 3))
    keys = rng.normal(size=(more, head.query.shape[1])) * 2.0 ** rng.integers(-6, 6)
    values = rng.normal(size=(more, len(head.output)))
    if head.memory_keys is not None and head.memory_values is not None:
        keys, values = np.vstack([head.memory_keys, keys]), np.vstack([head.memory_values, values])
    return replace(head, memory_keys=keys, memory_values=values)


def _claims(head: Head, rng: Generator, _: Network) -> Head:
    claims = head.claims
    if claims is None or rng.random() < 0.2:
        return replace(head, claims=None)
    match rng.choice(["sharpness", "roles", "construction", "positions"]):
        case "sharpness":
            factor = float(rng.choice([0.0, -1.0, 0.5, 2.0, 1e6, np.inf, np.nan]))
            return replace(head, claims=replace(claims, sharpness=claims.sharpness * factor))
        case "roles":
            known = ["anchor", "sentinel", "ghost", "low", "self", "high", "padding"]
            roles = tuple(str(rng.choice(known)) for _ in range(len(claims.roles) + int(rng.integers(-1, 2))))
            return replace(head, claims=replace(claims, roles=roles))
        case "construction":
            return replace(head, claims=replace(claims, construction=str(rng.choice(CONSTRUCTIONS))))
    return replace(head, claims=replace(claims, positions=claims.positions[:: int(rng.choice([-1, 2]))]))


def _residual(layer: Attention, _: Generator) -> Layer:
    return replace(layer, residual=not layer.residual)


def _heads(layer: Attention, rng: Generator) -> Layer:
    at = int(rng.integers(len(layer.heads)))
    one, rest = layer.heads[at], layer.heads[:at] + layer.heads[at + 1 :]
    return replace(layer, heads=rest if rng.random() < 0.5 else (*layer.heads, one))


def _layers(network: Network, rng: Generator) -> Network:
    """A layer left out, doubled, moved, or one put in between."""
    layers, at = list(network.layers), int(rng.integers(len(network.layers)))
    match rng.choice(["left out", "doubled", "moved", "softmax", "identity", "scaled", "shifted"]):
        case "left out":
            del layers[at]
        case "doubled":
            layers.insert(at, layers[at])
        case "moved":
            layers.insert(int(rng.integers(len(layers))), layers.pop(at))
        case "softmax":
            layers.insert(at, Softmax())
        case "identity":
            layers.insert(at, Linear((Term(),)))
        case "scaled":
            layers.insert(at, Linear((Term(), Term())))
        case "shifted":
            layers.append(Linear((Term(),), np.full((1, int(rng.integers(1, 3))), 2.0 ** rng.integers(-8, 2))))
    return replace(network, layers=tuple(layers))


def _terms(network: Network, rng: Generator) -> Network:
    """A linear map with a term or its constant left out, doubled or given."""
    places = [i for i, layer in enumerate(network.layers) if isinstance(layer, Linear)]
    layers = list(network.layers)
    if not places:
        return replace(network, layers=(Linear(()),))
    at = int(rng.choice(places))
    layer = layers[at]
    assert isinstance(layer, Linear)
    match rng.choice(["constant", "term", "doubled", "map"]):
        case "constant":
            layers[at] = replace(layer, constant=None)
        case "term":
            layers[at] = replace(layer, terms=layer.terms[1:])
        case "doubled":
            layers[at] = replace(layer, terms=(*layer.terms, layer.terms[0]))
        case "map":
            layers[at] = replace(layer, terms=(replace(layer.terms[0], mix=None), *layer.terms[1:]))
    return replace(network, layers=tuple(layers))


def _context(network: Network, rng: Generator) -> Network:
    context = None if rng.random() < 0.3 else (int(rng.integers(1, 5)), int(rng.integers(1, 4)))
    layers = network.context_layers[:: int(rng.choice([-1, 1]))][: int(rng.integers(0, 3))]
    return replace(network, context=context, context_layers=layers)


FIELDS: dict[str, Callable[[Network, Generator], Network]] = {
    "construction": lambda network, rng: replace(network, construction=str(rng.choice(CONSTRUCTIONS))),
    "tokens": lambda network, rng: replace(network, tokens=[None, 1, 2, 3, 4][rng.integers(5)]),
    "features": lambda network, rng: replace(network, features=int(rng.integers(0, 5))), "context": _context,
    "layers": _layers, "terms and constants": _terms,
    "residual": lambda network, rng: _in_layer(network, rng, _residual),
    "heads": lambda network, rng: _in_layer(network, rng, _heads), "query rows": _in_head(_query_rows),
    "key rows": _in_head(_key_rows), "no key rows": _in_head(_no_key_rows), "memory": _in_head(_memory),
    "claims": _in_head(_claims),
}  # fmt: skip
