"""Constant keys that occur twice: they share their weight for every query, so the head sees their values' mean."""

from __future__ import annotations

import numpy as np

from attnforge.measurement.diagnosis.findings import Finding, Severity
from attnforge.measurement.diagnosis.precision import place
from attnforge.measurement.diagnosis.view import HeadView


def duplicate_findings(view: HeadView) -> list[Finding]:
    """A warning where equal keys have different values, a note where they agree."""
    if not view.constant or view.keys.ndim != 2 or view.count < 2:
        return []
    _, inverse, counts = np.unique(view.keys, axis=0, return_inverse=True, return_counts=True)
    if len(counts) == view.count:
        return []
    inverse = inverse.ravel()
    twice = np.flatnonzero(counts[inverse] > 1)
    differ = view.values is not None and _differ(view.values[twice], inverse[twice])
    evidence = {"keys": float(view.count), "distinct keys": float(len(counts))}
    cause = "Keys coincide" + (
        " with different values: the head returns their mean" if differ else ", as do their values"
    )
    remedy = "Remove the copies" if not differ else "Keep one of each, or move them apart"
    severity: Severity = "warning" if differ else "note"
    return [Finding("duplicate keys", severity, place(view, tuple(twice.tolist())), evidence, cause, remedy)]


def _differ(values: object, groups: object) -> bool:
    """Whether members of one group have different values."""
    array, labels = np.asarray(values), np.asarray(groups)
    _, first = np.unique(labels, return_index=True)
    reference = dict(zip(labels[first].tolist(), array[first], strict=True))
    return any(not np.array_equal(row, reference[label]) for row, label in zip(array, labels.tolist(), strict=True))
