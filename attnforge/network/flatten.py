"""A network as a JSON skeleton and named arrays: the one traversal behind digests, counts, casts and files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import FileFormatError
from attnforge.network.layers import Attention, Claims, Head, Layer, Linear, Rows, Softmax, Term

if TYPE_CHECKING:
    from attnforge.network.network import Network

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]

MAX_TERMS = 100_000  # a file may claim terms without arrays; more than this is no network of ours
MAX_LAYERS = 100_000  # and the same layer again and again
CLAIMED = {"construction", "sharpness", "roles"}  # what is said of claims beside their arrays
FORMULA = "formula"  # said of heads that write a register
CLAIM = "claims."  # arrays under this name describe the network, they are not weights
HEAD_WEIGHTS = ("query", "key", "value", "output", "memory_keys", "memory_values")


def flatten(network: Network) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """A JSON-able skeleton and the arrays it refers to by name.

    A layer that is applied several times is listed once, and then ``order`` says which of the listed ones come when.
    Layers are the same when their content is, whichever objects hold it: equal networks have equal skeletons.
    """
    arrays: dict[str, AnyArray] = {}
    distinct, order = _distinct(network.layers)
    layers = [_flatten_layer(layer, f"layer{i}.", arrays) for i, layer in enumerate(distinct)]
    context = None if network.context is None else list(network.context)
    skeleton: dict[str, Any] = {
        "layers": layers,
        "features": network.features,
        "tokens": network.tokens,
        "context": context,
        "construction": network.construction,
    }
    if len(distinct) < len(order):  # left out where no layer repeats, like the next: older digests and files stay valid
        skeleton["order"] = order
    if network.context_layers:
        told = enumerate(network.context_layers)
        skeleton["context_layers"] = [_flatten_layer(layer, f"context{i}.", arrays) for i, layer in told]
    return skeleton, arrays


def _distinct(layers: tuple[Layer, ...]) -> tuple[list[Layer], list[int]]:
    """Layers of distinct content, as they come, and which of them stands at each place.

    Arrays are compared where skeletons and shapes agree, and no object is looked at twice.
    """
    held: dict[str, list[tuple[int, dict[str, AnyArray]]]] = {}
    places: dict[int, int] = {}
    distinct: list[Layer] = []
    for layer in layers:
        if id(layer) in places:
            continue
        arrays: dict[str, AnyArray] = {}
        entry = _flatten_layer(layer, "", arrays)
        outline = json.dumps([entry, [[name, *array.shape] for name, array in arrays.items()]], sort_keys=True)
        alike = held.setdefault(outline, [])
        place = next((i for i, others in alike if all(_same(a, others[name]) for name, a in arrays.items())), None)
        if place is None:
            place = len(distinct)
            distinct.append(layer)
            alike.append((place, arrays))
        places[id(layer)] = place
    return distinct, [places[id(layer)] for layer in layers]


def _same(a: AnyArray, b: AnyArray) -> bool:
    """Whether two arrays hold the same bits: zeros of different sign are two numbers."""
    return bool(np.array_equal(np.ascontiguousarray(a).view(np.int64), np.ascontiguousarray(b).view(np.int64)))


def digest(network: Network) -> str:
    """SHA-256 of the network: its structure, every weight, every claim."""
    skeleton, arrays = flatten(network)
    return content_digest(skeleton, arrays)


def content_digest(skeleton: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> str:
    """SHA-256 of canonical JSON followed by the named arrays in order of name."""
    hasher = hashlib.sha256(json.dumps(skeleton, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hasher.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()


def count_parameters(network: Network) -> tuple[int, int]:
    """Number of weights: all of them, and those that are not zero. Those of a layer applied again count once."""
    weights = [array for name, array in flatten(network)[1].items() if is_weight(name)]
    return sum(array.size for array in weights), sum(int(np.count_nonzero(array)) for array in weights)


def is_weight(name: str) -> bool:
    """Whether an array of this name is a weight, rather than a claim or a set of rows."""
    return CLAIM not in name and not name.endswith("_rows")


def _flatten_layer(layer: Layer, prefix: str, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    match layer:
        case Linear(terms, constant):
            _keep(arrays, prefix + "constant", constant)
            for i, term in enumerate(terms):
                _keep(arrays, f"{prefix}term{i}.map", term.map)
                _keep(arrays, f"{prefix}term{i}.mix", term.mix)
            return {"kind": "linear", "terms": len(terms)}
        case Attention(heads, residual):
            entries = [_flatten_head(head, f"{prefix}head{i}.", arrays) for i, head in enumerate(heads)]
            return {"kind": "attention", "residual": residual, "heads": entries}
        case Softmax():
            return {"kind": "softmax"}


def _flatten_head(head: Head, prefix: str, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    for name in HEAD_WEIGHTS:
        _keep(arrays, prefix + name, getattr(head, name))
    entry: dict[str, Any] = {
        "query_rows": _flatten_rows(head.query_rows, prefix + "query_rows", arrays),
        "key_rows": None if head.key_rows is None else _flatten_rows(head.key_rows, prefix + "key_rows", arrays),
        "claims": None,
    }
    if head.claims is not None:
        _keep(arrays, f"{prefix}{CLAIM}positions", head.claims.positions)
        _keep(arrays, f"{prefix}{CLAIM}forms", head.claims.forms)
        sharpness = float(head.claims.sharpness).hex()
        roles = list(head.claims.roles)
        formula = {} if head.claims.formula is None else {FORMULA: head.claims.formula}
        said = {"construction": head.claims.construction, "sharpness": sharpness, "roles": roles}
        entry["claims"] = {**said, **formula}
    return entry


def _flatten_rows(rows: Rows, name: str, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    _keep(arrays, name, rows.indices)
    return {"kind": rows.kind, "source": rows.source}


def _keep(arrays: dict[str, AnyArray], name: str, array: AnyArray | None) -> None:
    if array is not None:
        arrays[name] = array


def unflatten_layers(skeleton: Mapping[str, Any], arrays: dict[str, AnyArray]) -> tuple[Layer, ...]:
    """The layers, in the order of their application; one that is applied again is the same object. Arrays are used up.

    The order is capped: a file of a few bytes may not stand for a network of any length.
    """
    entries = skeleton["layers"]
    listed = [_unflatten_layer(entry, f"layer{i}.", arrays) for i, entry in enumerate(entries)]
    order = skeleton.get("order", list(range(len(listed))))
    if not isinstance(order, list) or not all(type(i) is int and 0 <= i < len(listed) for i in order):
        raise FileFormatError("The order of layers counts those listed", str(order)[:40], "Build it anew")
    if len(order) > MAX_LAYERS:
        raise FileFormatError(f"A network has at most {MAX_LAYERS:,} layers", f"{len(order):,}", "Build it anew")
    return tuple(listed[i] for i in order)


def unflatten_context(skeleton: Mapping[str, Any], arrays: dict[str, AnyArray]) -> tuple[Linear, ...]:
    """The linear maps of the second input; none where the skeleton lists none. Arrays are used up."""
    entries = enumerate(skeleton.get("context_layers", ()))
    found = [_unflatten_layer(entry, f"context{i}.", arrays) for i, entry in entries]
    layers = tuple(layer for layer in found if isinstance(layer, Linear))
    if len(layers) != len(found):
        raise FileFormatError("The second input passes linear maps only", "another layer", "Build it anew")
    return layers


def _unflatten_layer(entry: Mapping[str, Any], prefix: str, arrays: dict[str, AnyArray]) -> Layer:
    match entry["kind"]:
        case "linear":
            if int(entry["terms"]) > MAX_TERMS:
                raise FileFormatError(f"A linear map has at most {MAX_TERMS:,} terms", str(entry["terms"])[:40])
            names = [f"{prefix}term{i}." for i in range(int(entry["terms"]))]
            terms = tuple(Term(arrays.pop(name + "map", None), arrays.pop(name + "mix", None)) for name in names)
            return Linear(terms, arrays.pop(prefix + "constant", None))
        case "attention":
            heads = (_unflatten_head(e, f"{prefix}head{i}.", arrays) for i, e in enumerate(entry["heads"]))
            return Attention(tuple(heads), entry["residual"])
        case "softmax":
            return Softmax()
        case other:
            raise FileFormatError("A layer is linear, attention or softmax", repr(other))


def _unflatten_head(entry: Mapping[str, Any], prefix: str, arrays: dict[str, AnyArray]) -> Head:
    weights = {name: arrays.pop(prefix + name, None) for name in HEAD_WEIGHTS}
    if weights["query"] is None or weights["output"] is None:
        raise FileFormatError("A head has a query map and an output map", f"none at {prefix}")
    asked, told = entry["query_rows"], entry["key_rows"]
    return Head(
        **weights,  # type: ignore[arg-type]
        query_rows=_unflatten_rows(asked, prefix + "query_rows", arrays),
        key_rows=None if told is None else _unflatten_rows(told, prefix + "key_rows", arrays),
        claims=_unflatten_claims(entry["claims"], prefix + CLAIM, arrays),
    )


def _unflatten_claims(entry: Any, prefix: str, arrays: dict[str, AnyArray]) -> Claims | None:
    """The claims of a head; none where they are of a kind that is not known: no reader needs them."""
    if not isinstance(entry, dict) or set(entry) - {FORMULA} != CLAIMED:
        return None
    forms = arrays.pop(prefix + "forms", None)
    sharpness, roles = float.fromhex(entry["sharpness"]), tuple(entry["roles"])
    positions = arrays.pop(prefix + "positions")
    return Claims(entry["construction"], sharpness, positions, roles, forms, entry.get(FORMULA))


def _unflatten_rows(entry: Mapping[str, Any], name: str, arrays: dict[str, AnyArray]) -> Rows:
    return Rows(entry["kind"], arrays.pop(name, None), entry["source"])
