"""The diagnosis: look at every head, then, where the target is known, at errors. A table of contents."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.labels.rows import KeyAxis
from attnforge.measurement.diagnosis.calls import call_findings
from attnforge.measurement.diagnosis.claims import claim_findings, claimed_sharpness
from attnforge.measurement.diagnosis.duplicates import duplicate_findings
from attnforge.measurement.diagnosis.edges import edge_findings
from attnforge.measurement.diagnosis.findings import Diagnosis, Finding, Place, ordered
from attnforge.measurement.diagnosis.geometry import input_axes, seen_axis
from attnforge.measurement.diagnosis.network_views import affordable, network_views
from attnforge.measurement.diagnosis.precision import precision_findings
from attnforge.measurement.diagnosis.sentinels import sentinel_findings
from attnforge.measurement.diagnosis.sharpness import sharpness_findings
from attnforge.measurement.diagnosis.spread import uniform_findings
from attnforge.measurement.diagnosis.statistics import HeadStatistics, statistics
from attnforge.measurement.diagnosis.subject import Subject
from attnforge.measurement.diagnosis.view import HeadView
from attnforge.network import Attention, Network
from attnforge.targets import Box
from attnforge.targets.table import Table

Array = npt.NDArray[np.float64]

NO_TARGET = "errors, missing ghosts and the best sharpness: these need the target, and a domain"
NOT_STORED = (
    "errors, missing ghosts and the best sharpness: these need the target, and a callable is not stored in a file"
)
ROUNDING = 1e-11  # of the target's size
SPECIAL = 8  # points that are never left out: ends and kinks


def diagnose_views(views: Iterable[HeadView]) -> Diagnosis:
    """What can be known from heads alone; one that comes twice is seen at its first and its last call."""
    first: dict[tuple[int, int], HeadStatistics] = {}
    heads, findings, points, dtypes, unknown = [], list[Finding](), 0, list[str](), {NO_TARGET: None}
    for view in views:
        dtypes.append(view.dtype)
        if view.blind:
            unknown[f"{view.blind:,} queries{_at(view)} to which a mask forbids every key: no softmax is defined"] = (
                None
            )
        axis = seen_axis(view)
        found = statistics(view, None if axis is None else axis.sharpness)
        heads.append(found)
        findings += _of_one_head(view, found, () if axis is None else (axis,), judged_by_errors=False)
        before = first.setdefault((view.layer, view.head), found)
        findings += [] if before is found else call_findings(view, before, found)
        points = max(points, found.queries)
    return Diagnosis(ordered(findings), tuple(heads), dtypes[0], points, tuple(unknown))


def diagnose_network(
    subject: Subject, points: Array | None = None, context: Array | None = None, *, count: int = 1024, seed: int = 0
) -> Diagnosis:
    """The heads of one of our networks, and where its target is known also its errors.

    ``points`` are points of the target, (N, d), (N, n, d) or flat joint ones, or for a bare network its tokens
    (N, n, m) and ``context``.
    """
    if count < 1:
        raise TargetError("`points` must be at least 1", str(count), "Ask for more points")
    if points is None:
        points = subject.points(count, seed)
    tokens, told = subject.inputs(points)
    told = context if context is not None else told
    kept = _thinned(len(tokens), affordable(subject.network, len(tokens), _longest(subject.network, tokens.shape[1])))
    tokens, told, points = tokens[kept], None if told is None else told[kept], points[kept]
    box = subject.box if subject.target is not None else _hull(tokens)
    along = input_axes(subject.network, box) if box is not None else {}
    heads, findings = _look_at_heads(subject, tokens, told, along)
    findings += sentinel_findings(0, along, _values(subject.network))
    if subject.is_judged:
        findings += _look_at_errors(subject, points, along, heads, findings, seed)
    unknown = () if subject.is_judged else (NO_TARGET if subject.target is None else NOT_STORED,)
    return Diagnosis(ordered(_settled(findings)), tuple(heads), subject.dtype, len(points), unknown)


def _look_at_heads(
    subject: Subject, tokens: Array, context: Array | None, along: dict[int, tuple[KeyAxis, ...]]
) -> tuple[list[HeadStatistics], list[Finding]]:
    heads, findings = [], list[Finding]()
    for view in network_views(subject.network, subject.dtype, tokens, context):
        axes = along.get(view.head, ()) if view.layer == 0 else ()
        if not axes:
            seen = seen_axis(view)
            axes = () if seen is None else (seen,)
        found = statistics(view, axes[0].sharpness if axes else None)
        heads.append(found)
        findings += _of_one_head(view, found, axes, judged_by_errors=subject.is_judged)
    return heads, findings


def _of_one_head(
    view: HeadView, found: HeadStatistics, axes: tuple[KeyAxis, ...], judged_by_errors: bool
) -> list[Finding]:
    return [
        *precision_findings(view, found),
        *uniform_findings(view, found, judged_by_errors),
        *duplicate_findings(view),
        *claim_findings(view, axes),
    ]


def _look_at_errors(
    subject: Subject,
    points: Array,
    along: dict[int, tuple[KeyAxis, ...]],
    heads: list[HeadStatistics],
    before: list[Finding],
    seed: int,
) -> list[Finding]:
    """Ghosts, then sharpness: a boundary that is wrong is not mended by sharpness, so then it is not asked."""
    beyond = [] if any(f.severity == "fault" for f in before) else _above_the_bound(subject, points)
    at_edges = [] if isinstance(subject.target, Table) or subject.norm != "sup" else edge_findings(subject, along, seed)
    if at_edges or any(f.signature == "boundary artefact" and f.severity == "fault" for f in before):
        return at_edges
    if beyond:
        return [*beyond, *_sharpness(subject, points, heads)]
    return _sharpness(subject, points, heads)


def _above_the_bound(subject: Subject, points: Array) -> list[Finding]:
    """An error that the certificate rules out: it belongs to another network."""
    if subject.bound is None or subject.norm != "sup":
        return []
    wanted = subject.wanted(points)
    found = float(np.nan_to_num(subject.errors(points, wanted), nan=np.inf).max())
    rounding = ROUNDING * float(np.abs(np.where(np.isfinite(wanted), wanted, 0.0)).max(initial=0.0))
    if found <= subject.bound + rounding:
        return []
    evidence = {"error found": found, "bound of the certificate": subject.bound}
    cause = "The error exceeds the bound: the weights are not those that were certified"
    remedy = "Build the network anew, or certify it as it is: af.certify"
    return [Finding("contradicted claims", "fault", Place(), evidence, cause, remedy)]


def _sharpness(subject: Subject, points: Array, heads: list[HeadStatistics]) -> list[Finding]:
    claims = _claimed(subject.network)

    def sharpness(layer: int) -> float | None:
        return next((h.sharpness for h in heads if h.layer == layer and h.sharpness is not None), None)

    def claimed_softer(layer: int) -> bool:
        seen, wanted = sharpness(layer), claims.get(layer)
        return seen is not None and wanted is not None and seen > 1.05 * wanted

    def spread(layer: int) -> float:
        return max((h.effective_keys / h.keys for h in heads if h.layer == layer and h.keys > 3), default=0.0)

    return sharpness_findings(subject, points, sharpness, claimed_softer, spread)


def _claimed(network: Network) -> dict[int, float]:
    """The c that the first head of each layer of attention claims."""
    layers = [layer for layer in network.layers if isinstance(layer, Attention)]
    found = {i: claimed_sharpness(layer.heads[0].claims) for i, layer in enumerate(layers)}
    return {i: c for i, c in found.items() if c is not None}


def _settled(findings: list[Finding]) -> list[Finding]:
    """Without warnings and notes that a fault of the same signature at the same layer already explains."""
    faults = [f for f in findings if f.severity == "fault"]
    same = {(f.signature, f.where.layer) for f in faults}
    named = {(f.where.layer, f.where.head, f.where.keys) for f in faults}
    explained = [
        f.signature == "contradicted claims" and (f.where.layer, f.where.head, f.where.keys) in named for f in findings
    ]
    return [
        f
        for f, known in zip(findings, explained, strict=True)
        if f.severity == "fault" or not (known or (f.signature, f.where.layer) in same)
    ]


def _values(network: Network) -> dict[int, Array | None]:
    """Values of constant keys of the first layer of attention, as they are written to the output."""
    first = next((layer for layer in network.layers if isinstance(layer, Attention)), None)
    heads = () if first is None else first.heads
    return {i: None if h.memory_values is None else h.memory_values @ h.output for i, h in enumerate(heads)}


def _at(view: HeadView) -> str:
    return f" of {view.name}" if view.name else ""


def _hull(tokens: Array) -> Box | None:
    return None if not len(tokens) else Box(tokens.min(axis=0), tokens.max(axis=0))


def _longest(network: Network, tokens: int) -> int:
    """The largest number of tokens on the way: linear maps may lengthen the sequence."""
    longest = tokens
    for layer in network.layers:
        for term in getattr(layer, "terms", ()):
            longest = max(longest, 0 if term.mix is None else len(term.mix))
    for layer in network.context_layers:
        for term in layer.terms:
            longest = max(longest, 0 if term.mix is None else len(term.mix))
    return longest


def _thinned(count: int, kept: int) -> npt.NDArray[np.intp]:
    """Indices of ``kept`` of ``count`` points: the first ones, which are special, then evenly over their order."""
    even = np.linspace(0, count - 1, min(count, kept)).astype(np.intp)
    return np.unique(np.concatenate([np.arange(min(SPECIAL, count)), even]))
