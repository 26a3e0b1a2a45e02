r"""Borders between heads that share a row of anchors: sentinels must sit exactly on the neighbours' anchors.

A sentinel is a key of value zero at an end of a head's keys: it takes the weight when the query belongs to the
neighbour. Where it coincides with the neighbour's anchor the two heads' weights are complementary; $\delta$ steps off,
the sum of the heads errs by about $\frac{c\,\delta}{2}$ of the value there, however fine the row. This is seen
from keys and values alone: no claim and no target is needed. Sentinels beyond the ends of the row are ghosts, and may
stand anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.labels.rows import KeyAxis
from attnforge.measurement.diagnosis.findings import Finding, Place

Array = npt.NDArray[np.float64]

ON = 1e-3  # steps: closer is on the anchor


@dataclass(frozen=True, eq=False)
class _Block:
    """One head's keys along the row: number of the head, positions, and which keys are sentinels."""

    head: int
    positions: Array
    sentinel: npt.NDArray[np.bool_]


def sentinel_findings(
    layer: int, axes: Mapping[int, tuple[KeyAxis, ...]], values: Mapping[int, Array | None]
) -> list[Finding]:
    """Misplaced and missing sentinels of the heads of one layer."""
    findings: list[Finding] = []
    for members in _sharing_a_row(axes):
        blocks = [_block(h, axes[h][0], values.get(h)) for h in members]
        if any(block.sentinel.any() for block in blocks):
            step = float(np.median([axes[h][0].step for h in members]))
            findings += _misplaced(layer, blocks, step, axes[members[0]][0].sharpness)
            findings += _missing(layer, blocks, step)
    return findings


def _sharing_a_row(axes: Mapping[int, tuple[KeyAxis, ...]]) -> list[list[int]]:
    """Heads with one axis each, along the same direction."""
    groups: list[list[int]] = []
    for head, found in axes.items():
        if len(found) != 1:
            continue
        for group in groups:
            if np.allclose(axes[group[0]][0].direction, found[0].direction, rtol=0, atol=1e-9):
                group.append(head)
                break
        else:
            groups.append([head])
    return [group for group in groups if len(group) > 1]


def _block(head: int, axis: KeyAxis, values: Array | None) -> _Block:
    """Sentinels: the keys of value zero before the first and after the last one that is not."""
    positions = axis.positions[axis.place]
    sentinel = np.zeros(len(positions), dtype=bool)
    if values is not None and len(values) == len(positions):
        order = np.argsort(positions)
        worth = np.flatnonzero(np.abs(values[order]).sum(axis=1) > 0)
        if len(worth):
            sentinel[order[: worth[0]]] = True
            sentinel[order[worth[-1] + 1 :]] = True
    return _Block(head, positions, sentinel)


def _misplaced(layer: int, blocks: list[_Block], step: float, c: float) -> list[Finding]:
    findings = []
    worth = np.concatenate([block.positions[~block.sentinel] for block in blocks])
    low, high = worth.min() - ON * step, worth.max() + ON * step
    for block in blocks:
        others = np.sort(np.concatenate([other.positions for other in blocks if other is not block]))
        for key in np.flatnonzero(block.sentinel).tolist():
            at = block.positions[key]
            free = _unoccupied(others, np.delete(block.positions, key), step)
            nearest = free[np.abs(free - at).argmin()]
            off = float((at - nearest) / step)
            if not low < at < high or abs(off) <= ON:
                continue
            evidence = {
                "distance from the neighbour's nearest anchor in steps": off,
                "expected": 0.0,
                "share of the value counted wrongly, about": min(1.0, c * abs(off) / 2),
            }
            cause = f"Key {key} of head {block.head} is a sentinel that does not sit on its neighbour's anchor: shifted"
            remedy = f"Move the sentinel by {-off:.3g} steps onto the anchor; ghosts or more sharpness do not help here"
            findings.append(
                Finding("boundary artefact", "fault", Place(layer, block.head, (key,)), evidence, cause, remedy)
            )
    return findings


def _unoccupied(others: Array, own: Array, step: float) -> Array:
    """The other heads' places on which this head has no other key: where a sentinel may belong; all if none."""
    near = np.abs(others[:, None] - own).min(axis=1, initial=np.inf)
    return others[near > ON * step] if (near > ON * step).any() else others


def _missing(layer: int, blocks: list[_Block], step: float) -> list[Finding]:
    """A head whose last key has a value although the row goes on answers for all of the neighbours' interval."""
    findings = []
    worth = np.concatenate([block.positions[~block.sentinel] for block in blocks])
    for block in blocks:
        for side, end in (("lower", -1.0), ("upper", 1.0)):
            last = int((end * block.positions).argmax())
            left = end * ((worth.max() if end > 0 else worth.min()) - block.positions[last]) / step
            if block.sentinel[last] or left < 0.5:
                continue
            evidence = {"steps by which the row goes on": float(left), "sentinels there": 0.0, "expected at least": 1.0}
            cause = f"Head {block.head} has no sentinel at its {side} end: it answers for its neighbours' queries too"
            remedy = f"Add a key of value zero on the neighbour's first anchor at the {side} end (two are better)"
            findings.append(
                Finding("boundary artefact", "fault", Place(layer, block.head, (last,)), evidence, cause, remedy)
            )
    return findings
