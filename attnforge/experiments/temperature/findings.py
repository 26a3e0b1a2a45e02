"""The best sharpness, and what becomes of sharper and of softer heads."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attnforge.anchors import tuned
from attnforge.experiments.experiment import Finding
from attnforge.experiments.table import Array, Table, listed, span
from attnforge.experiments.temperature.heads import BEYOND, DTYPES, FITTED, HEADS

SMALLEST = {"float64": 2.0**-1074, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}  # above zero
LARGEST = 65504.0  # number of float16
AROUND_TWO = (1.6, 2.0, 2.4)
LOST = 0.01  # of the queries with another winner: then the argmax counts as lost


def curve(table: Table, head: str, dtype: str) -> Table:
    """A head's rows in a dtype, from soft to sharp."""
    return table.where(part="curve", head=head, dtype=dtype).ordered("c")


def largest_error_optimum(table: Table) -> Finding:
    """Where the largest error is smallest."""
    found = {(head, d): _best(curve(table, head, d), "error") for head in HEADS for d in DTYPES}
    right = all(2.2 <= c <= 3.0 and 0.055 <= error <= 0.066 for (_, d), (c, error) in found.items() if d == "float64")
    seen = "; ".join(
        f"{head}: " + ", ".join(f"{d} {found[head, d][1]:.3g} h at {found[head, d][0]:.3g}" for d in DTYPES)
        for head in HEADS
    )
    optimum = f"smallest at c = {tuned():.2g}, where it is 0.063 h: eight times below hard"
    return Finding.judged(f"in float64 the largest error is {optimum}", right, seen)


def mean_square_optimum(table: Table) -> Finding:
    """Where the mean square error is smallest."""
    found = {head: _best(curve(table, head, "float64"), "mse") for head in HEADS}
    seen = "; ".join(f"{head}: {mse:.2g} h^2 at c = {c:.3g}, where hard has 1/12" for head, (c, mse) in found.items())
    claim = "the mean square error is smallest at c = 1.4 (authors' setting, float64)"
    return Finding.judged(claim, 1.2 <= found["authors"][0] <= 1.6, seen)


def sharper_is_better(table: Table) -> Finding:
    """Whether it is: the papers let beta grow without bound."""
    rows = table.where(part="named", dtype="float64")
    errors = {head: rows.where(head=head).ordered("beta") for head in HEADS}
    falls = all(np.all(np.diff(at.numbers("error")) < 0) for at in errors.values())
    seen = "; ".join(
        f"{head}, beta = {listed(at.numbers('beta'), 'g')}: {listed(at.numbers('error'), '.3g')} h"
        for head, at in errors.items()
    )
    return Finding.judged("the larger beta, the smaller the largest error", falls, seen)


def underflow(table: Table) -> Finding:
    """The neighbour's weight e^-c is zero in the dtype once it is below half its smallest number."""
    parts, right = [], True
    for dtype in DTYPES:
        rows = curve(table, "authors", dtype).having("neighbour")
        predicted = math.log(2) - math.log(SMALLEST[dtype])
        as_predicted, where = _begins(rows.numbers("c"), rows.numbers("neighbour") == 0, predicted)
        right &= as_predicted
        parts.append(f"{dtype} {where} (predicted {predicted:.3g})")
    claim = "an unselected neighbour's weight e^-c becomes zero where it is below the smallest number of the dtype"
    return Finding.judged(claim, right, "; ".join(parts) + ". Nothing is lost by it: the selected key has it all")


def overflow(table: Table) -> Finding:
    """Scores are 2 c u kappa - c kappa^2, u up to 1.2 p / 2: the query 2 c u leaves float16 first."""
    parts, right = [], True
    for head, (_, p) in HEADS.items():
        limit = LARGEST / (BEYOND * p)
        rows = curve(table, head, "float16")
        as_predicted, where = _begins(rows.numbers("c"), rows.numbers("not_finite") > 0, limit)
        right &= as_predicted
        parts.append(f"{head}: NaN from {where} on (predicted {limit:.3g})")
    others = [
        d for d in DTYPES if d != "float16" and table.where(part="curve", dtype=d).numbers("not_finite").max() > 0
    ]
    right &= not others
    text = "; ".join(parts) + f"; other dtypes up to c = {table.where(part='curve').numbers('c').max():.3g}: none"
    return Finding.judged("scores overflow in float16 alone, where queries 2 c u exceed 65504", right, text)


def argmax_and_sharpness(table: Table) -> Finding:
    """Rounding of scores grows with c as their gaps do."""
    parts = []
    for head in HEADS:
        for dtype in DTYPES:
            rows = curve(table, head, dtype).where(not_finite=0.0)
            lost = 100 * rows.numbers("lost")[rows.numbers("c") >= 1]
            if len(lost) and lost.max() > 0:
                parts.append(f"{head}, {dtype}: {span(lost)} % of the queries")
    claim = "lost argmax against sharpness, from c = 1 on until scores overflow: it depends on it little"
    return Finding(claim, "measured", "; ".join(parts) or "no query loses its key")


def argmax_and_anchors(table: Table) -> Finding:
    """From how many anchors on neighbouring scores are rounded to the same."""
    parts, start = [], {}
    for dtype in DTYPES:
        p, lost = table.where(part="row", dtype=dtype).points("p", "lost")
        start[dtype] = p[lost > LOST].min(initial=math.inf)
        seen = start[dtype] < math.inf
        parts.append(f"{dtype} " + (f"from p = {start[dtype]:.0f} on" if seen else f"not up to {p.max():.0f}"))
    claim = "too many anchors lose the argmax (of more than 1 % of random queries): in float32 about 4000"
    return Finding.judged(claim, 1024 < start["float32"] <= 4096, "; ".join(parts))


def powers_of_two(table: Table) -> Finding:
    """Multiplying by a power of two rounds nothing: one rounding of queries 2 c u less than beside it.

    The other, of u = y / h, stays unless 1 / h is a number of the dtype too, as 127.5 is for p = 256 on [-1, 1]; only
    there the gain is large.
    """
    parts = []
    for head in HEADS:
        for dtype in ("float16", "bfloat16"):
            rows = curve(table, head, dtype)
            found = ", ".join(f"{rows.where(c=c).value('mse'):.2g} at c = {c:g}" for c in AROUND_TWO)
            parts.append(f"{head}, {dtype}: {found}")
    claim = "narrow dtypes: mean square error / h^2 where c is a power of two, and beside"
    return Finding(claim, "measured", "; ".join(parts))


def softer_fits(table: Table) -> Finding:
    """Whether fitted values gain from softness."""
    rows = table.where(part="fitted").ordered("c")
    c, error = rows.points("c", "error")
    best, middle = int(np.argmin(error)), int(np.argmin(np.abs(np.log(c / 2.7))))
    falls = bool(np.all(np.diff(error[best:]) > 0))
    evidence = (
        f"{error[best]:.2g} at c = {c[best]:g}, {error[middle]:.2g} at {c[middle]:g}, {error[-1]:.2g} at {c[-1]:g}; "
        f"at {c[0]:g}, where weights of neighbours hardly differ, {error[0]:.2g} with values up to "
        f"{rows.numbers('largest_value')[0]:.2g}; sampled values never reach "
        f"{rows.numbers('sampled_error').min():.2g}"
    )
    claim = f"fitted values ({FITTED} anchors, sin(8x)): the softer the better, until the fit is ill-conditioned"
    return Finding.judged(claim, falls and c[best] < 1, evidence)


def _begins(c: Array, seen: npt.NDArray[np.bool_], predicted: float) -> tuple[bool, str]:
    """Whether something is seen above the predicted c, give or take a factor of 1.3, and not below; and from where."""
    right = bool(np.all(seen[c > 1.3 * predicted])) and not bool(np.any(seen[c < predicted / 1.3]))
    before, after = c[~seen].max(initial=0.0), c[seen].min(initial=math.inf)
    return right, f"between c = {before:.3g} and {after:.3g}"


def _best(rows: Table, column: str) -> tuple[float, float]:
    """The c with the smallest number, and that number."""
    at = int(np.nanargmin(rows.numbers(column)))
    return float(rows.numbers("c")[at]), float(rows.numbers(column)[at])
