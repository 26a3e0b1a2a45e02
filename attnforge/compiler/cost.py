"""Refuse what cannot be afforded, before memory is spent."""

from __future__ import annotations

import warnings

from attnforge.effort import UNFINISHED, Effort, seconds_left
from attnforge.errors import OutOfTimeError, RefusalError
from attnforge.progress import SILENT, Watch
from attnforge.theorems.construction import Cost

PAIR, PRODUCT = 6e-9, 5e-10  # seconds for one point and one key, and for one product between tokens, on one core
BUILT = 1e-5  # seconds a key, to build and to prove
PARAMETER = 1e-6  # seconds in which one parameter is built, read by a proof and measured
WORTH_SAYING = 10.0  # seconds
MAX_BYTES = 2**31  # a network larger than this is asked for by `max_bytes=`, not by accident


def afford(cost: Cost, name: str, max_anchors: int | None = None, max_bytes: int | None = None) -> None:
    """Raise unless the plan fits the limits, and the time that is left."""
    limit = MAX_BYTES if max_bytes is None else max_bytes
    if max_anchors is not None and cost.anchors > max_anchors:
        got = f"{cost.anchors:,} anchors needed"
        raise RefusalError(f"`{name}` may use at most max_anchors={max_anchors:,}", got, "Raise it, or tol")
    if cost.bytes > limit:
        size = f"{cost.anchors:,} anchors, {cost.parameters:,} parameters, about {cost.bytes:,} bytes"
        got = f"{size} and {cost.flops:.2g} operations a point"
        remedy = "Ask for fewer anchors or a larger tol, or raise max_bytes"
        raise RefusalError(f"`{name}` may use at most {limit:,} bytes", got, remedy)
    if PARAMETER * cost.parameters > seconds_left():
        got = f"{cost.anchors:,} keys, about {PARAMETER * cost.parameters:.0f} s on one core, {UNFINISHED}"
        raise OutOfTimeError(f"`{name}` must be built and proved within its timeout", got, "Raise timeout, or tol")


def announce(cost: Cost, name: str, effort: Effort, watch: Watch) -> None:
    """Say what building, proving and measuring will take, before it starts; refuse what cannot end within its timeout.

    A watch is told in any case; without one, a warning tells of what takes long.
    """
    evaluations = effort.beside(cost.anchors).evaluations
    seconds = BUILT * cost.anchors + evaluations * (PAIR * cost.anchors + PRODUCT * cost.pairs)
    text = f"{name}: {cost.anchors:,} keys, about {cost.bytes / 2**30:.2g} GiB and {seconds:.0f} s"
    if seconds > seconds_left():
        requirement = f"`{name}` must be built, proved and measured within its timeout"
        got = f"{cost.anchors:,} keys, about {seconds:.0f} s on one core"
        raise OutOfTimeError(requirement, got, "Raise timeout, lower effort, or ask for fewer keys")
    watch.say(f"building {text}")
    if watch is SILENT and seconds > WORTH_SAYING:
        warnings.warn(f"building {text}; progress=True shows how far it is", UserWarning, stacklevel=4)
