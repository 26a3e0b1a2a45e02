r"""Where a head's keys stand: what it claims, against its scores.

The scores of constant keys are affine in what the query is a form of: $s_k = a_k \cdot u + b_k$. Three readings of
these numbers settle a claim:

- **rows and grids** (:mod:`.rows`): ties of neighbours give positions along an axis. A claim of positions along forms
  that it names is compared as it stands. One of positions along a form that is not said is compared after the affine
  map that fits most of them, as :func:`off_in_steps` does; it takes four keys to say anything. Less than a hundredth of
  a gap apart is agreed.
- **gates**: a low or high key stands where its score ties with that of the token itself, which is 0.
- **anything else**: a key stands where it says if no other scores higher there. Of rows of fewer than five keys, from
  which positions cannot be told, neighbours must tie half-way, too, or nothing is said.

Where none of these applies, a claim is a claim.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.labels.columns import Columns
from attnforge.labels.forms import form_text
from attnforge.labels.rows import KeyAxis, key_axes
from attnforge.network import Claims, Head

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Evidence = Literal["weights", "claim", "confirmed", "contradicted"]

OFF = 0.01  # gaps between a claimed and a seen position
EXACT = 1e-9  # relative: what sums of weights that are exact in theory leave
MOST_PAIRS = 2**24  # scores of keys at each other's places: 4096 keys


@dataclass(frozen=True, eq=False)
class Places:
    """Positions (p, r) of keys along r forms, in words, and how each is known, (p,).

    ``forms`` (r, D + 1) are the weights and offsets of the forms of all inputs, as claimed; None where none are.
    """

    along: tuple[str, ...]
    positions: Array
    evidence: npt.NDArray[np.object_]
    forms: Array | None = None


def _all(evidence: Evidence, count: int) -> npt.NDArray[np.object_]:
    return np.full(count, evidence, dtype=object)


def _judged(agree: Flags) -> npt.NDArray[np.object_]:
    return np.where(agree, "confirmed", "contradicted").astype(object)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores a . u + b of constant keys: slopes (p, S), offsets (p,), the names of the symbols u."""

    slopes: Array
    offsets: Array
    names: tuple[str, ...]


def constant_scores(head: Head, columns: Columns) -> Scores | None:
    """The scores of the first token that asks; None where keys depend on the input."""
    keys = _constant_keys(head, columns)
    if keys is None:
        return None
    asks = 0 if head.query_rows.indices is None else int(head.query_rows.indices[0])
    with np.errstate(over="ignore", invalid="ignore"):
        found = columns.row(asks) @ head.query @ keys.T
    return Scores(found[:-1].T, found[-1], columns.symbols) if np.isfinite(found).all() else None


def _constant_keys(head: Head, columns: Columns) -> Array | None:
    """Keys (p, r) in the head's order, the token itself left out where it asks for nothing."""
    if head.key_rows is None or head.key is None:
        return head.memory_keys
    if head.key_rows.kind == "own":
        return head.memory_keys if not head.key.any() else None
    if head.key_rows.source == "context" or len(columns.reader) == 1:
        return None
    listed = slice(None) if head.key_rows.indices is None else head.key_rows.indices
    keys = columns.reader[listed] @ head.key
    if keys[:, :-1].any():
        return None
    return keys[:, -1] if head.memory_keys is None else np.concatenate([head.memory_keys, keys[:, -1]])


def places(head: Head, columns: Columns) -> Places | None:
    """Where the keys stand, as claimed or seen; None where nothing is said and nothing is to be seen."""
    claims, scores = head.claims, constant_scores(head, columns)
    if claims is None or claims.formula is not None or not claims.roles or len(claims.roles) != len(claims.positions):
        return None if scores is None else _seen(scores)
    if "self" in claims.roles:
        return _gate(head, claims, scores, columns)
    flat = claims.positions.reshape(len(claims.positions), -1)
    if scores is None or len(scores.offsets) != len(flat):
        found = Places(_along(claims, columns.symbols), flat, _all("claim", len(flat)))
    else:
        found = _row(claims, scores) if claims.positions.ndim == 1 else _grid(claims, scores)
    return found if claims.positions.ndim == 1 else replace(found, forms=_forms(claims))


def _forms(claims: Claims) -> Array:
    """Weights and offsets (r, D + 1) of the forms that a claim of positions (p, r) is about."""
    rank = claims.positions.shape[1]
    return np.eye(rank, rank + 1) if claims.forms is None else claims.forms


def _along(claims: Claims, symbols: tuple[str, ...]) -> tuple[str, ...]:
    """The forms that a claim names, in words."""
    if claims.positions.ndim == 1:
        return ("w · x + t",)
    rank = claims.positions.shape[1]
    if claims.forms is None:
        return symbols if len(symbols) == rank else tuple(f"x{i}" for i in range(rank))
    return tuple(
        form_text(form[:-1], float(form[-1]), symbols if len(symbols) == len(form) - 1 else None)
        for form in claims.forms
    )


def _seen(scores: Scores) -> Places | None:
    """A row of keys that nobody claims, along a form of length one."""
    rank = np.zeros(scores.slopes.shape[1])
    axes = key_axes(scores.slopes, scores.offsets, rank, rank)
    if len(axes) != 1 or not axes[0].regular:
        return None
    axis = axes[0]
    positions = axis.positions[axis.place][:, None]
    return Places((form_text(axis.direction, 0.0, scores.names),), positions, _all("weights", len(positions)))


def _row(claims: Claims, scores: Scores) -> Places:
    """Positions along a form that is not said: fitted by the affine map that agrees with most of the keys."""
    nowhere, claimed = np.zeros(scores.slopes.shape[1]), claims.positions
    axes = key_axes(scores.slopes, scores.offsets, nowhere, nowhere)
    if len(axes) != 1 or len(claimed) < 4 or len(axes[0].positions) != len(claimed):
        return Places(("w · x + t",), claimed[:, None], _all("claim", len(claimed)))
    axis = axes[0]
    seen = axis.positions[axis.place]
    scale, shift = affine_fit(claimed, seen)
    if not (np.isfinite(scale) and scale):
        return Places(("w · x + t",), claimed[:, None], _all("contradicted", len(claimed)))
    agree = np.abs(off_in_steps(claimed, seen)) <= OFF
    form = form_text(_rounded(axis.direction / scale), _rounded(np.array(-shift / scale)).item(), scores.names)
    return Places((form,), np.where(agree, claimed, (seen - shift) / scale)[:, None], _judged(agree))


def _grid(claims: Claims, scores: Scores) -> Places:
    """Positions along forms that are said, or along the inputs."""
    claimed = claims.positions
    (count, rank), inputs = claimed.shape, scores.slopes.shape[1]
    forms, along = _forms(claims), _along(claims, scores.names)
    if forms.shape != (rank, inputs + 1):
        return Places(along, claimed, _all("claim", count))
    weights, offsets = forms[:, :-1], forms[:, -1]
    solved = np.linalg.lstsq(weights.T, scores.slopes.T, rcond=None)[0]
    slopes = np.asarray(solved.T, dtype=np.float64)  # of the forms, not of the inputs
    left = scores.slopes - slopes @ weights
    if np.abs(left - left[0]).max() > EXACT * max(np.abs(scores.slopes).max(), np.finfo(np.float64).tiny):
        return Places(along, claimed, _all("contradicted", count))  # along other forms
    level, nowhere = scores.offsets - slopes @ offsets, np.zeros(rank)
    axes = key_axes(slopes, level, nowhere, nowhere)
    if len(axes) == rank and all(axis.regular for axis in axes):
        seen = sum((np.outer(axis.positions[axis.place], axis.direction) for axis in axes), np.zeros((1, rank)))
        agree = _is_near(claimed, seen, axes)
        return Places(along, np.where(agree[:, None], claimed, seen), _judged(agree))
    if count**2 > MOST_PAIRS:
        return Places(along, claimed, _all("claim", count))
    found = _judged(_wins(slopes, level, claimed))
    if len(axes) == rank:
        found[(found == "confirmed") & ~_ties(claimed, axes)] = "claim"
    return Places(along, claimed, found)


def _is_near(claimed: Array, seen: Array, axes: tuple[KeyAxis, ...]) -> Flags:
    agree = np.ones(len(claimed), dtype=bool)
    for axis in axes:
        gaps = np.minimum(np.append(axis.steps, np.inf), np.insert(axis.steps, 0, np.inf))[axis.place]
        agree &= np.abs((claimed - seen) @ axis.direction) <= OFF * gaps
    return agree


def _ties(claimed: Array, axes: tuple[KeyAxis, ...]) -> Flags:
    """Whether keys tie with a neighbour half-way between the claimed places, on every axis."""
    agree = np.ones(len(claimed), dtype=bool)
    for axis in axes:
        along = claimed @ axis.direction
        count = len(axis.positions)
        places = np.array([np.median(along[axis.place == j]) for j in range(count)])
        ties = np.concatenate([[np.nan], axis.ties, [np.nan]])
        near = np.zeros(len(claimed), dtype=bool)
        for side in (0, 1):
            at = axis.place + 2 * side - 1  # of the neighbour
            known = (at >= 0) & (at < count)
            other = places[np.clip(at, 0, count - 1)]
            off = np.abs((along + other) / 2 - ties[axis.place + side])
            near |= known & (off <= OFF / 2 * np.abs(along - other))
        agree &= near
    return agree


def _wins(slopes: Array, level: Array, positions: Array) -> Flags:
    """Whether no key scores higher than each does at its own place, up to what float64 loses."""
    scores = positions @ slopes.T + level
    slack = EXACT * max(float(np.abs(scores).max()), np.finfo(np.float64).tiny)
    return np.asarray(np.diagonal(scores) >= scores.max(axis=1) - slack)


def _gate(head: Head, claims: Claims, scores: Scores | None, columns: Columns) -> Places:
    """Ends of a gate: queries (beta y, beta) and keys (k, l) score 0, as the token does, at y = -l/k."""
    flat = claims.positions.reshape(len(claims.positions), -1)
    asks = 0 if head.query_rows.indices is None else int(head.query_rows.indices[0])
    asked, ends = columns.row(asks) @ head.query, head.memory_keys
    fits = scores is not None and ends is not None and ends.shape == (len(flat) - 1, 2) and flat.shape[1] == 1
    if not fits or ends is None or asked[:-1, 1].any() or not asked[-1, 1] > 0 or claims.roles[-1] != "self":
        return Places(_along(claims, columns.symbols), flat, _all("claim", len(flat)))
    form = asked[:, 0] / asked[-1, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ties = -ends[:, 1] / ends[:, 0]
    wanted = flat[:-1, 0]
    signs = np.array([-1.0 if role == "low" else 1.0 for role in claims.roles[:-1]])
    agree = np.abs(ties - wanted) <= EXACT * np.maximum(np.abs(wanted), 1.0)
    agree = np.append(agree & (np.sign(ends[:, 0]) == signs), True)
    seen = np.append(np.where(np.isfinite(ties), ties, wanted), flat[-1, 0])
    along = form_text(_rounded(form[:-1]), _rounded(form[-1:]).item(), columns.symbols)
    return Places((along,), np.where(agree, flat[:, 0], seen)[:, None], _judged(agree))


def affine_fit(claimed: Array, seen: Array) -> tuple[float, float]:
    """Scale and shift with seen = scale * claimed + shift for most keys: medians, which a few displaced do not move."""
    order = np.argsort(claimed)
    gaps = np.diff(claimed[order])
    if not (gaps > 0).any():
        return np.nan, np.nan
    scale = float(np.median(np.diff(seen[order])[gaps > 0] / gaps[gaps > 0]))
    return scale, float(np.median(seen[order] - scale * claimed[order]))


def off_in_steps(claimed: Array, seen: Array) -> Array:
    """How far each seen position is from the claimed one after the affine map that fits most of them, in steps."""
    order = np.argsort(claimed)
    claimed_along, seen_along = claimed[order], seen[order]
    gaps = np.diff(claimed_along)
    scale, shift = affine_fit(claimed, seen)
    local = np.abs(scale) * np.minimum(np.append(gaps, gaps[-1]), np.append(gaps[0], gaps))
    off = np.empty(len(claimed))
    off[order] = (seen_along - scale * claimed_along - shift) / np.where(local > 0, local, 1.0)
    return np.asarray(np.nan_to_num(off))


def _rounded(values: Array) -> Array:
    """Without what sums of weights that are exact in theory leave: for words."""
    largest = max(float(np.abs(values).max(initial=0.0)), 1.0)
    return np.asarray(np.where(np.abs(values) < EXACT * largest, 0.0, values))
