"""Which cell a point lies in: the key that attends most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.errors import RefusalError

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled

CHUNK = 2**23  # weights held at once


def partition(compiled: Compiled, x: Any) -> npt.NDArray[np.int64]:
    """The index of the cell of every point, in the order of ``compiled.network.heads[0].claims.positions``.

    Args:
        compiled: a network made by ``constructions.max_affine``.
        x: points as for a call: (..., d), (..., n, d), or numbers where there is one input.

    Returns:
        One index a point, (...). Ghosts beyond the domain have an index too; hard cells have none.

    >>> from attnforge.constructions import max_affine
    >>> net = max_affine("x^2", {"x": (0, 1)}, cells=4, sharpness="hard")
    >>> partition(net, [0.1, 0.3, 0.9]).tolist()
    [0, 1, 3]
    """
    if compiled.network.construction != "max_affine":
        got = f"a network of {compiled.network.construction or 'no construction'}"
        raise RefusalError("Only max_affine divides its domain into cells", got, "Use net.attention(x)")
    shape, points = compiled.domain.shape, float64(x, compiled.target.names)
    if shape == (1,) and points.ndim <= 1:
        points = points[..., None]
    batch = points.shape[: max(points.ndim - len(shape), 0)]
    flat = points.reshape(-1, *points.shape[len(batch) :])
    tokens = compiled.network.tokens or 1
    keys, step = compiled.anchors, max(1, CHUNK // (compiled.anchors * tokens))
    parts = [compiled.attention(flat[i : i + step])[0][0] for i in range(0, max(len(flat), 1), step)]
    winners = [part[..., 0, :].argmax(axis=-1) for part in parts]  # all tokens select the same cell
    return np.asarray(np.concatenate(winners).reshape(batch) % (keys // tokens), dtype=np.int64)
