"""Refuse what cannot be afforded, before memory is spent."""

from __future__ import annotations

from attnforge.errors import RefusalError
from attnforge.theorems.construction import Cost

MAX_BYTES = 2**31  # a network larger than this is asked for by `max_bytes=`, not by accident


def afford(cost: Cost, name: str, max_anchors: int | None = None, max_bytes: int | None = None) -> None:
    """Raise unless the plan fits the limits."""
    limit = MAX_BYTES if max_bytes is None else max_bytes
    if max_anchors is not None and cost.anchors > max_anchors:
        got = f"{cost.anchors:,} anchors needed"
        raise RefusalError(f"`{name}` may use at most max_anchors={max_anchors:,}", got, "Raise it, or tol")
    if cost.bytes > limit:
        size = f"{cost.anchors:,} anchors, {cost.parameters:,} parameters, about {cost.bytes / 2**30:,.1f} GiB"
        got = f"{size} and {cost.flops:.2g} operations a point"
        remedy = "Ask for fewer anchors or a larger tol, or raise max_bytes"
        raise RefusalError(f"`{name}` may use at most {limit / 2**30:,.1f} GiB", got, remedy)
