"""One input: target, output, anchors, error, and how much attention every key gets along the way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.network import Head
from attnforge.plot.sampling import Sample
from attnforge.progress import Told
from attnforge.web.calls import SKETCH, call_for
from attnforge.web.packing import finite, packed, packed_weights
from attnforge.web.requests import Network
from attnforge.web.sampling import sample_at

Array = npt.NDArray[np.float64]

EVEN = 801  # inputs from end to end
BETWEEN = 6  # inputs to a gap between anchors: a staircase needs its corners
COLUMNS = 161  # inputs of the attention map
ROWS = 560  # keys of the map, one row each: all of ANCHORS and their ghosts; of more, the first ones


def line(asked: Network, tell: Told) -> dict[str, Any]:
    """Everything that the view of one input draws."""
    call = call_for(asked)
    net = call.run(effort=SKETCH, progress=tell)
    heads = first_heads(net)
    along = inputs_along(asked, heads)
    sample = sample_along(net, along)
    return {
        "x": packed(along),
        "target": packed(sample.wanted[:, 0]),
        "output": packed(sample.found[:, 0]),
        "error": packed(sample.error),
        "worst": worst(along, sample),
        "keys": [keys_of(head) for head in heads],
        "parts": packed(contributions(net, along)) if len(heads) > 1 else None,
        "map": attention_along(net, asked),
        "facts": facts(net),
        "python": call.lines("print(net)"),
    }


def first_heads(net: af.Compiled) -> tuple[Head, ...]:
    """The heads of the first layer of attention."""
    return next((layer.heads for layer in net.network.layers if hasattr(layer, "heads")), ())


def inputs_along(asked: Network, heads: tuple[Head, ...]) -> Array:
    """Inputs from end to end, evenly, and some in every gap between anchors."""
    ((lower, upper),) = asked.domain.values()
    even = np.linspace(lower, upper, EVEN)
    placed = np.unique(np.concatenate([np.empty(0), *(_positions(head) for head in heads)]))
    inside = placed[(placed > lower) & (placed < upper)]
    if len(inside) < 2:
        return even
    starts, steps = inside[:-1, None], np.diff(inside)[:, None]
    return np.union1d(even, (starts + steps * np.arange(BETWEEN) / BETWEEN).ravel())


def as_points(net: af.Compiled, along: Array) -> Array:
    """Inputs as the network's points: of one input, or a token each."""
    return along[:, None, None] if net.target.layout == "tokens" else along[:, None]


def sample_along(net: Any, along: Array) -> Sample:
    """Target and output at these inputs."""
    return sample_at(net, as_points(net, along))


def worst(along: Array, sample: Sample) -> dict[str, float | None]:
    """The largest error among the inputs drawn, which is no bound; None where the network overflows."""
    at = int(np.argmax(np.where(np.isfinite(sample.error), sample.error, math.inf)))
    return {"at": float(along[at]), "error": finite(sample.error[at])}


def keys_of(head: Head) -> dict[str, Any]:
    """Where a head's keys sit, in what role, and with what value; keys that sit nowhere have no place."""
    claims, values = head.claims, head.memory_values
    if claims is None or values is None:
        return {"x": [], "value": [], "role": []}
    at, held = _positions(head), (values @ head.output)[:, 0]
    if len(at) != len(held):
        return {"x": [], "value": [], "role": []}
    return {"x": at.tolist(), "value": held.tolist(), "role": list(claims.roles)}


def contributions(net: af.Compiled, along: Array) -> Array:
    """What each head of the first layer adds to the output, (heads, inputs)."""
    weights = net.attention(as_points(net, along))[0]
    parts = []
    for head, given in zip(first_heads(net), weights, strict=True):
        held = np.zeros((given.shape[-1], 1)) if head.memory_values is None else head.memory_values @ head.output
        parts.append(given.reshape(len(along), -1)[:, : len(held)] @ held[:, 0])
    return np.array(parts)


def attention_along(net: af.Compiled, asked: Network) -> dict[str, Any]:
    """Weights (inputs, keys) of the first layer's heads side by side, and where each head's keys begin."""
    ((lower, upper),) = asked.domain.values()
    along = np.linspace(lower, upper, COLUMNS)
    parts = [given.reshape(COLUMNS, -1) for given in net.attention(as_points(net, along))[0]]
    starts = np.cumsum([0, *(part.shape[1] for part in parts[:-1])])
    labels = [label for head, part in zip(first_heads(net), parts, strict=True) for label in _labels(head, part)]
    table = np.concatenate(parts, axis=1)[:, :ROWS]
    return {"x": packed(along), "weights": packed_weights(table), "starts": starts.tolist(), "labels": labels[:ROWS]}


def facts(net: af.Compiled) -> dict[str, Any]:
    """The network in numbers."""
    return {
        "construction": net.construction,
        "target": net.target.describe(),
        "reason": net.reason,
        "layers": net.layers,
        "heads": net.heads,
        "keys": net.anchors,
        "parameters": net.parameters,
        "dtype": net.dtype,
        "sharpness": sharpness_of(net),
    }


def sharpness_of(net: af.Compiled) -> float | None:
    """The c = beta h^2 of the first head; None where keys are no row. Truncated linear heads claim beta itself."""
    head = next(iter(first_heads(net)), None)
    if head is None or head.claims is None or not head.claims.sharpness or net.construction == "gate":
        return None
    if "truncated_linear" not in net.construction:
        return finite(head.claims.sharpness)
    gaps = np.diff(np.sort(_positions(head)))
    return finite(head.claims.sharpness * float(gaps.min()) ** 2) if len(gaps) else None


def _positions(head: Head) -> Array:
    """Places (p,) of a head's keys along the input; none where they are not placed along it."""
    claims = head.claims
    if claims is None or claims.forms is not None or claims.positions.size != len(claims.positions):
        return np.empty(0)
    return np.asarray(claims.positions, dtype=np.float64).ravel()


def _labels(head: Head, weights: Array) -> list[str]:
    """What a row of the map is: a role, and a place where there is one."""
    claims, count = head.claims, weights.shape[1]
    if claims is None or len(claims.roles) != count:
        return [f"key {k}" for k in range(count)]
    at = _positions(head)
    return [f"{role} {at[k]:.4g}" if len(at) == count else role for k, role in enumerate(claims.roles)]
