"""Other networks made of one: a head exchanged, dropped or sharpened, keys left out, an array moved.

Nothing is changed in place, and what results is checked as every network is. Layers are counted among all layers, heads
in their layer, both as Python counts, from 0 and -1 the last; :func:`head_places` lists them. Where a layer is applied
several times the one application is changed, unless the function says otherwise. Claims describe what was built and
stay as they are, so that :func:`attnforge.diagnose` can name the difference; no proof believes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import FileFormatError, TargetError, is_number, is_whole
from attnforge.network.flatten import flatten
from attnforge.network.layers import Attention, Head, Layer
from attnforge.network.network import Network, unflatten

AnyArray = npt.NDArray[Any]
Change = Callable[[AnyArray], AnyArray]

SHOWN = 200  # characters of a list of names in a remedy


def head_places(network: Network) -> tuple[tuple[int, int], ...]:
    """Layer and number of every head, in the order of ``network.heads``.

    >>> import attnforge as af
    >>> head_places(af.constructions.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=3).network)
    ((1, 0), (1, 1), (1, 2))
    """
    layers = enumerate(_checked(network).layers)
    return tuple((i, j) for i, layer in layers if isinstance(layer, Attention) for j in range(len(layer.heads)))


def with_head(network: Network, layer: int, head: int, replacement: Head | None = None, **changes: Any) -> Network:
    """The network with another head in the place of one, or with that one and some of its fields changed.

    >>> import attnforge as af
    >>> network = af.constructions.gate([1.0], 0.0, -1, 1).network  # clamp(x, -1, 1)
    >>> with_head(network, -1, 0, output=2 * network.heads[0].output)(np.ones((1, 1)))
    array([[2.]])
    """
    attention, at = _attention(network, layer, head)
    names = [each.name for each in fields(Head)]
    if unknown := [name for name in changes if name not in names]:
        raise TargetError("What is changed are fields of a head", ", ".join(unknown), f"Use {', '.join(names)}")
    other: Any = attention.heads[at] if replacement is None else replacement
    heads = list(attention.heads)
    heads[at] = replace(other, **changes) if changes and isinstance(other, Head) else other  # no head is refused below
    return _with_layer(network, layer, replace(attention, heads=tuple(heads)))


def with_heads(network: Network, change: Callable[[Head], Head]) -> Network:
    """The network with every head changed; a layer that is applied several times remains one.

    >>> import attnforge as af
    >>> network = af.constructions.gate([1.0], 0.0, -1, 1).network  # clamp(x, -1, 1)
    >>> with_heads(network, lambda head: replace(head, claims=None)).heads[0].claims is None
    True
    """
    distinct = {id(layer): layer for layer in _checked(network).layers}
    changed = {key: _each_head(layer, change) for key, layer in distinct.items()}
    return replace(network, layers=tuple(changed[id(layer)] for layer in network.layers))


def without_head(network: Network, layer: int, head: int) -> Network:
    """The network without what a head adds; the only head of a layer stays in its place, and writes zeros.

    >>> import attnforge as af
    >>> network = af.constructions.gate([1.0], 0.0, -1, 1).network  # clamp(x, -1, 1)
    >>> without_head(network, -1, 0)(np.ones((1, 1)))
    array([[0.]])
    """
    attention, at = _attention(network, layer, head)
    if len(attention.heads) == 1:
        return with_head(network, layer, at, output=np.zeros_like(attention.heads[0].output))
    return _with_layer(network, layer, replace(attention, heads=attention.heads[:at] + attention.heads[at + 1 :]))


def without_keys(network: Network, role: str) -> Network:
    """The network without the constant keys that the claims of its heads call so, such as ``"ghost"``.

    >>> import attnforge as af
    >>> network = af.constructions.max_affine("x", {"x": (0, 1)}, cells=8).network
    >>> network.heads[0].memory_size, without_keys(network, "ghost").heads[0].memory_size
    (16, 8)
    """
    roles = sorted({each for head in _checked(network).heads for each in _roles(head)})
    if role not in roles:
        remedy = f"Take one of {', '.join(roles)}" if roles else "Use `moved` with the keys that remain"
        raise TargetError("Constant keys are left out by a role that is claimed", f"{role!r:.80}", remedy)
    return with_heads(network, lambda head: _without_role(head, role))


def scaled(network: Network, layer: int, head: int, factor: float) -> Network:
    """The network with all scores of one head multiplied, by way of its query map: its inverse temperature.

    >>> import attnforge as af
    >>> network = af.constructions.gate([1.0], 0.0, -1, 1).network  # clamp(x, -1, 1)
    >>> scaled(network, -1, 0, 0)(np.ones((1, 1)))  # the mean of -1, 1 and x
    array([[0.33333333]])
    """
    if not is_number(factor):
        raise TargetError("The factor of scores is a number", f"{factor!r:.80}", "Use 0.5 for half as sharp")
    attention, at = _attention(network, layer, head)
    with np.errstate(over="ignore"):  # what overflows is no weight, and is refused as such
        return with_head(network, layer, at, query=attention.heads[at].query * float(factor))


def moved(network: Network, place: str | Sequence[str | int], change: Change) -> Network:
    """The network with one array changed: by a function of a copy of it, which returns the array to take.

    Args:
        network: where the array is.
        place: its name, as :func:`flatten` and files have it, ``"layer1.head0.memory_keys"``: distinct layers count,
            and one that is applied several times is changed everywhere; or the way there through the fields,
            ``("layers", 1, "heads", 0, "memory_keys")``.
        change: from the array to another.

    >>> import attnforge as af
    >>> network = af.constructions.gate([1.0], 0.0, -1, 1).network  # clamp(x, -1, 1)
    >>> moved(network, "layer1.head0.memory_values", lambda values: 0.5 * values)(np.full((1, 1), 9.0))
    array([[0.5]])
    """
    if not callable(change):
        raise TargetError("A change is a function of an array", f"{change!r:.80}", "Write lambda array: 2 * array")
    if not isinstance(place, str):
        changed: Network = _along(_checked(network), _path(place), change)
        return changed
    skeleton, arrays = flatten(_checked(network))
    if place not in arrays:
        raise TargetError("An array has a name in the network", f"{place!r:.80}", _one_of(list(arrays)))
    try:
        return unflatten(skeleton, {**arrays, place: _result(arrays[place], change)})
    except FileFormatError as error:  # what is wrong is the array, and no file
        raise TargetError(error.requirement, error.got, "Return an array that fits the others") from error


def _checked(network: Any) -> Network:
    if not isinstance(network, Network):
        raise TargetError("What is edited is a Network", type(network).__name__, "Pass net.network")
    return network


def _attention(network: Network, layer: int, head: int) -> tuple[Attention, int]:
    """The layer, and which of its heads is meant, from 0."""
    layers, places = _checked(network).layers, sorted({i for i, _ in head_places(network)})
    found = layers[layer] if _counts(layer, layers) else None
    if not isinstance(found, Attention):
        raise TargetError("Heads are in layers of attention", f"layer {layer!r:.40}", f"Take one of {places}")
    if not _counts(head, found.heads):
        got = f"head {head!r:.40} of {len(found.heads)}"
        raise TargetError("The heads of a layer count from 0", got, f"Take one below {len(found.heads)}")
    return found, head % len(found.heads)


def _counts(index: Any, parts: Sequence[Any]) -> bool:
    return is_whole(index) and -len(parts) <= index < len(parts)


def _with_layer(network: Network, at: int, layer: Layer) -> Network:
    layers = list(network.layers)
    layers[at] = layer
    return replace(network, layers=tuple(layers))


def _each_head(layer: Layer, change: Callable[[Head], Head]) -> Layer:
    return replace(layer, heads=tuple(map(change, layer.heads))) if isinstance(layer, Attention) else layer


def _roles(head: Head) -> tuple[str, ...]:
    """What constant keys are called; nothing where keys that are tokens are called something, too."""
    return () if head.claims is None or len(head.claims.roles) != head.memory_size else head.claims.roles


def _without_role(head: Head, role: str) -> Head:
    roles, claims, keys, values = _roles(head), head.claims, head.memory_keys, head.memory_values
    if role not in roles or claims is None or keys is None or values is None:
        return head
    kept = np.array([each != role for each in roles])
    left = tuple(each for each in roles if each != role)
    positions = claims.positions[kept] if len(claims.positions) == len(kept) else claims.positions
    claims = replace(claims, positions=positions, roles=left)
    return replace(head, memory_keys=keys[kept], memory_values=values[kept], claims=claims)


def _path(place: Any) -> tuple[str | int, ...]:
    if not isinstance(place, Sequence):
        remedy = 'Write "layer1.head0.query" or ("layers", 1, "heads", 0, "query")'
        raise TargetError("An array has a name, or a way that leads to it", f"{place!r:.80}", remedy)
    return tuple(place)


def _along(part: Any, path: tuple[str | int, ...], change: Change) -> Any:
    if not path:
        return _result(part, change)
    (name, *rest), parts = path, part if isinstance(part, tuple) else ()
    if _counts(name, parts):
        found = list(parts)
        found[int(name)] = _along(found[int(name)], tuple(rest), change)
        return tuple(found)
    names = [each.name for each in fields(part)] if is_dataclass(part) else [str(i) for i in range(len(parts))]
    if parts or name not in names:
        raise TargetError("The way to an array leads through the network's fields", repr(name)[:80], _one_of(names))
    return replace(part, **{str(name): _along(getattr(part, str(name)), tuple(rest), change)})


def _result(array: Any, change: Change) -> AnyArray:
    """What a change makes of an array."""
    if not isinstance(array, np.ndarray):
        raise TargetError("The way through the network ends at an array", type(array).__name__, "Go on to one")
    found = change(array.copy())
    if not isinstance(found, np.ndarray):
        raise TargetError("A change returns the array to take", type(found).__name__, "End it with `return`")
    return found


def _one_of(names: Sequence[str]) -> str:
    listed = ", ".join(names)
    return f"Take one of {listed if len(listed) <= SHOWN else listed[:SHOWN] + ' ...'}" if names else "Stop before it"
