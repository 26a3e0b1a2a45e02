"""The rows of keys that a head's scores form along the inputs, or along whatever its queries move on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.labels.rows import KeyAxis, key_axes
from attnforge.measurement.diagnosis.network_views import affine_queries
from attnforge.measurement.diagnosis.view import HeadView
from attnforge.network import Attention, Head, Network
from attnforge.targets import Box

Array = npt.NDArray[np.float64]

RANK = 1e-9  # of the largest singular value: below it, queries do not move in that direction


def input_axes(network: Network, box: Box) -> dict[int, tuple[KeyAxis, ...]]:
    """The axes of each head of the first layer of attention, along the inputs; heads whose keys move have none."""
    probed = affine_queries(network, box.middle)
    first = next((layer for layer in network.layers if isinstance(layer, Attention)), None)
    if probed is None or first is None:
        return {}
    start, slopes, _ = probed
    lower, upper = box.lower.ravel(), box.upper.ravel()
    return {i: _head_axes(head, start, slopes, lower, upper) for i, head in enumerate(first.heads)}


def _head_axes(head: Head, start: Array, slopes: Array, lower: Array, upper: Array) -> tuple[KeyAxis, ...]:
    """Scores of the first query row: q(x) . k with q affine and k constant."""
    keys = _constant_keys(head, start, slopes)
    if keys is None:
        return ()
    row = 0 if head.query_rows.indices is None else int(head.query_rows.indices[0])
    with np.errstate(over="ignore", invalid="ignore"):
        moves = slopes[:, row] @ head.query  # (D, r)
        along, offsets = keys @ moves.T, keys @ (start[row] @ head.query)
    return key_axes(along, offsets, lower, upper)


def _constant_keys(head: Head, start: Array, slopes: Array) -> Array | None:
    if head.key_rows is None:
        return head.memory_keys
    if head.key_rows.kind == "own" or head.key_rows.source == "context" or head.key is None or head.value is None:
        return None
    if (head.key_rows.take(slopes) @ head.key).any() or (head.key_rows.take(slopes) @ head.value).any():
        return None
    keys = head.key_rows.take(start) @ head.key
    return keys if head.memory_keys is None else np.concatenate([head.memory_keys, keys])


def seen_axis(view: HeadView) -> KeyAxis | None:
    """The row that constant keys form along the one direction in which the queries seen move; None if they do not."""
    if not view.constant or view.keys.ndim != 2 or len(view.queries) < 3 or not np.isfinite(view.queries).all():
        return None
    middle = view.queries.mean(axis=0)
    moved = view.queries - middle
    _, sizes, directions = np.linalg.svd(moved[:: max(1, len(moved) // 512)], full_matrices=False)
    if not len(sizes) or sizes[0] == 0 or (len(sizes) > 1 and sizes[1] > RANK * sizes[0]):
        return None
    along = moved @ directions[0]
    found = key_axes(
        (view.keys @ directions[0])[:, None], view.keys @ middle, np.array([along.min()]), np.array([along.max()])
    )
    return found[0] if found else None
