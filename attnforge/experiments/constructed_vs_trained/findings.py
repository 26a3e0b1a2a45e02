"""What the results say: how many times better and sooner, and what became of training from the construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attnforge.experiments.constructed_vs_trained.task import CONSTRUCTED, ENCLOSURE, PARTS, STARTS, THEOREM
from attnforge.experiments.experiment import Finding
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table, change, listed, span

RATIO = 100.0  # what the comparison is expected to exceed
GAIN = 0.99  # of the mean square error: what is not below it is no gain
TIMES = (
    ("mean", "seconds", "the weights, given w and t"),
    ("mean", "proved_seconds", "the weights and their proof, given w and t"),
    ("estimated", "seconds", "w, t and the weights, from the training data"),
    ("estimated", "proved_seconds", "w, t, the weights and their proof, from the training data"),
    ("mean", "library_seconds", "the library's call, which also searches for the worst point"),
)


def lower(table: Table, kind: str) -> Finding:
    """Whether the mean square error is so many times lower for every H."""
    claim = f"mean square error at least {RATIO:g} times lower than trained: {CONSTRUCTED[kind]}"
    return _many_times(claim, ratios(table, kind, "mse"), "lower")


def sooner(table: Table, kind: str, column: str, what: str, epochs: int) -> Finding:
    """Whether the weights are there so many times sooner for every H."""
    claim = f"at least {RATIO:g} times sooner than {epochs} epochs of training: {what}"
    return _many_times(claim, ratios(table, kind, column), "sooner")


def _many_times(claim: str, found: Mapping[int, float], word: str) -> Finding:
    return Finding.judged(claim, min(found.values(), default=0.0) >= RATIO, f"{_listed(found)} times {word}")


def _listed(found: Mapping[int, float]) -> str:
    return f"H = {listed(found)}: {', '.join(map(plain, found.values()))}"


def falls_with_heads(table: Table) -> list[Finding]:
    """Whether the exponent of the error in H is below zero with 95 % confidence; single runs differ a lot."""
    rows = table.where(kind="trained")
    if len(rows.distinct("heads")) < 2:
        return []
    slope = fit_slope(*rows.points("heads", "mse"))
    spans = ", ".join(f"{heads}: {span(values)}" for heads, values in rows.grouped("heads", "mse").items())
    medians = _listed(middle(table, "trained", "mse"))
    evidence = f"slope {slope} over {len(rows)} runs; H = {spans}; medians {medians}"
    judged = Finding.judged("trained: the mean square error falls with H (Hu et al.)", slope.high < 0, evidence)
    return [judged if slope.points > 2 else replace(judged, verdict="measured")]


def printed(table: Table) -> Finding:
    """How much larger than the printed loss the error of the one feature with a target is."""
    rows = table.where(kind="trained")
    ratio = span(rows.ratios("mse", "printed"), ".1f")
    evidence = f"the error of the feature that has a target is {ratio} times what is printed"
    return Finding("the loss averages 32 output features, 31 of which have target 0", "measured", evidence)


def stays(table: Table) -> Finding:
    """How far all weights go, and what that does to the error, for every step size."""
    ways = [way for way in journeys(table) if way.texts("part")[0] == "all"]
    parts = []
    for rate in dict.fromkeys(way.value("rate") for way in ways):
        found = [way for way in ways if way.value("rate") == rate]
        moved = max(way.value("moved", -1) for way in found)
        worse = [way.value("mse", -1) / way.value("mse") for way in found]
        parts.append(f"step size {rate:g}: no weight moves by more than {moved:.2g}, MSE times {span(worse)}")
    return Finding("training of all weights from the construction stays near it", "measured", "; ".join(parts))


def went(table: Table, start: str) -> Finding:
    """Whether some training from this start ends with a smaller mean square error than it began with."""
    ways = journeys(table, start)
    way = min(ways, key=lambda each: each.value("mse", -1))
    claim = f"training from the construction lowers its mean square error: {CONSTRUCTED[start]}"
    where = f"{PARTS[way.rows[0]['part']]}, step size {way.value('rate'):g}"
    mse, error, bound = (change(way.having(column).numbers(column)) for column in ("mse", "error", "bound"))
    evidence = f"best of {len(ways)} ({where}): {mse}; largest error {error}; bound {bound}"
    return Finding.judged(claim, way.value("mse", -1) < GAIN * way.value("mse"), evidence)


def bounded_again(table: Table) -> Finding:
    """Whether a bound of what every training ends with is proved."""
    ends = Table.of(each.rows[-1] for each in journeys(table))
    bounded = ends.having("bound")
    by = {proof: len(bounded.where(proof=proof)) for proof in (THEOREM, ENCLOSURE)}
    evidence = (
        f"{len(bounded)} of {len(ends)} proved again, with outward rounding: {by[THEOREM]} by the theorem's rows of "
        f"anchors, {by[ENCLOSURE]} by enclosure"
    )
    claim = "what training makes of the construction can be bounded again"
    return Finding.judged(claim, len(bounded) == len(ends), evidence)


def middle(table: Table, kind: str, column: str) -> dict[int, float]:
    """The median over the tasks for every H; only of rows that have the column."""
    return table.where(kind=kind).having(column).medians("heads", column)


def ratios(table: Table, kind: str, column: str) -> dict[int, float]:
    """How many times less than trained: median trained over median constructed, for every H."""
    base = "mse" if column == "mse" else "seconds"
    trained, built = middle(table, "trained", base), middle(table, kind, column)
    return {h: trained[h] / built[h] for h in built if h in trained}


def journeys(table: Table, *starts: str) -> list[Table]:
    """The rows of every training from these starts (by default all), each in order of epochs."""
    return [
        rows.where(part=part, rate=rate).ordered("epoch")
        for start in starts or STARTS
        for rows in [table.where(kind="continued", start=start)]
        for part in PARTS
        for rate in rows.where(part=part).distinct("rate")
    ]


def plain(value: float) -> str:
    """Two digits, with commas rather than powers of ten up to a billion.

    >>> plain(156_400.0), plain(77.3), plain(0.0123)
    ('160,000', '77', '0.012')
    """
    if not 10 <= abs(value) < 1e9:
        return f"{value:.2g}"
    digits = len(str(int(abs(value)))) - 2
    return f"{round(value, -digits):,.0f}"
