r"""Uniform attention: weights spread over all keys, $H \ge \ln(0.95\,N)$ at the median query, N at least 4.

What that means depends on the head. Over constant keys it selects nothing, whatever its purpose. Over the tokens of one
of our networks it is an average, which some constructions want (scores all zero, or a tiny sharpness): a note. In
somebody's own module it is the first failure signature of the papers, also where all scores are equal: a warning. Soft
attention is not uniform: a fitted head of sharpness c = 0.3 shares its weight among 5.3 keys,
$e^H = \sqrt{\pi e / c}$, however many there are.
"""

from __future__ import annotations

import math

from attnforge.measurement.diagnosis.findings import Finding
from attnforge.measurement.diagnosis.precision import place
from attnforge.measurement.diagnosis.statistics import HeadStatistics
from attnforge.measurement.diagnosis.view import HeadView

NEARLY_ALL = 0.95  # of the keys, effectively looked at
FEWEST = 4  # keys of which it makes sense to say so


def uniform_findings(view: HeadView, found: HeadStatistics, judged_by_errors: bool) -> list[Finding]:
    """The head looks at all its keys alike. A note where errors decide whether that is a fault."""
    if found.entropy_if_uniform < math.log(FEWEST) - 1e-9:
        return []
    if not found.entropy >= found.entropy_if_uniform + math.log(NEARLY_ALL):
        return []
    evidence = {
        "entropy": found.entropy,
        "ln(number of keys)": found.entropy_if_uniform,
        "largest weight": found.largest_weight,
        "range of scores": found.score_range,
    }
    if found.score_range == 0 and view.ours:
        return [_note(view, evidence, "All scores are equal: the head averages its keys, by construction")]
    if judged_by_errors or (view.ours and not view.constant):
        return [_note(view, evidence, "The sharpness is so small that the head averages its keys")]
    if found.score_range == 0:
        cause = "All scores are equal: the query map, the key map or the scale is zero, so no key is ever selected"
        remedy = "Initialise both maps with random numbers; a factor does not help"
        return [Finding("uniform attention", "warning", place(view), evidence, cause, remedy)]
    wanted = found.sharpness
    cause = "The scores hardly differ: the sharpness (inverse temperature) is too low to select a key"
    factor = math.log(found.keys) / max(found.gap, 1e-300)
    remedy = f"Multiply the query map by {_round(factor)} or more, so that the best key leads by ln(number of keys)"
    if wanted:
        remedy = (
            f"Multiply the query map by about {_round(2.7 / wanted)}: c = {wanted:.3g} becomes 2.7, tuned for a row"
        )
    return [Finding("uniform attention", "warning", place(view), evidence, cause, remedy)]


def _note(view: HeadView, evidence: dict[str, float], cause: str) -> Finding:
    remedy = "Nothing to do if an average is meant; else multiply the query map"
    return Finding("uniform attention", "note", place(view), evidence, cause, remedy)


def _round(factor: float) -> str:
    return f"{factor:.2g}"
