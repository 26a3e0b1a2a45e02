"""A head of ours that is called again and again, as in a network that iterates: does it stay what it was built for?

The heads of an in-context algorithm work in a narrow range of scores: barely sharp ones are nearly linear in their
scores, those over a row of anchors are exact on the row. If the iteration diverges, the state leaves that range: a head
that shared its weight among many keys at its first call selects one at its last. In a converging one scores shrink.
"""

from __future__ import annotations

from attnforge.measurement.diagnosis.findings import Finding
from attnforge.measurement.diagnosis.precision import place
from attnforge.measurement.diagnosis.statistics import HeadStatistics
from attnforge.measurement.diagnosis.view import HeadView

FEWEST = 4  # keys
SOFT = 1.0  # gap of the two best scores at the first call: below, the head does not select
LEFT = 0.5  # of the keys it looked at


def call_findings(view: HeadView, first: HeadStatistics, last: HeadStatistics) -> list[Finding]:
    """The state left the range of scores in which the head works; equal scores at first say nothing about that."""
    if not view.ours or view.constant or first.keys < FEWEST or not 0 < first.gap < SOFT:
        return []
    if not last.effective_keys < LEFT * first.effective_keys:
        return []
    evidence = {
        "keys looked at, first call": first.effective_keys,
        "keys looked at, last call": last.effective_keys,
        "gap of the two best scores, first call": first.gap,
        "gap of the two best scores, last call": last.gap,
    }
    cause = "The state grew from call to call, out of the range in which the head works: the iteration diverges"
    remedy = "Take a smaller step (learning_rate), scale the data, or give the network a larger data_bound"
    return [Finding("interpolation drift", "warning", place(view), evidence, cause, remedy)]
