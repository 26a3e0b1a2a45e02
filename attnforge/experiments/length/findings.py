"""Rates at every length, whether length or width matter, and how costs grow."""

from __future__ import annotations

from attnforge.experiments.claims import have_rate
from attnforge.experiments.experiment import Finding
from attnforge.experiments.length.costs import FLOOR
from attnforge.experiments.length.networks import LOWER, UPPER
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table, change, listed, span

LONG = 500  # tokens from which on times are fitted: shorter calls are overhead


def anchor_rate(table: Table, n: int) -> Finding:
    """Slopes in p, one a width."""
    rows = table.where(kind="anchors", n=n)
    slopes = {f"d = {d}": fit_slope(*each.points("p", "error")) for d, each in rows.by("d").items()}
    return have_rate(f"n = {n:,}: error O(1/p)", slopes, -1, 0.02)  # h = (b - a) / (p - 1) falls a little faster


def head_rate(table: Table, n: int, sentinels: int) -> Finding:
    """The slope in H; where borders make heads sharper, the error in steps tells by how much."""
    rows = table.where(kind="heads", n=n, sentinels=sentinels).ordered("H")
    steps = rows.numbers("error") * (rows.numbers("p") - 1) / (UPPER - LOWER)
    slope, last = fit_slope(*rows.points("H", "error")), rows.rows[-1]
    evidence = (
        f"slope {slope} in H; from {change(steps, '.3f')} steps; {last['error']:.3g} with {last['H']} heads "
        f"and {last['p']:,} anchors"
    )
    claim = f"n = {n:,} keys a head, {sentinels} sentinels a side: error O(1/(nH))"
    return Finding.judged(claim, slope.meets(-1, 0.05) and abs(slope.value + 1) < 0.1, evidence)


def length_and_width(table: Table) -> Finding:
    """Whether the error for a number of anchors is the same for all lengths and widths."""
    same_p = table.where(kind="anchors").grouped("p", "error").values()
    spread = max((float(errors.max() / errors.min() - 1) for errors in same_p), default=0.0)
    evidence = (
        f"same p, all n and d, forms drawn anew for each: errors within {100 * spread:.2g} % of each other; a head "
        "reads a token through w . x + t only"
    )
    return Finding.judged("the error depends neither on n nor on d", spread < 0.02, evidence)


def growth(table: Table) -> list[Finding]:
    """Exponents of time and memory in n, at the narrowest width."""
    rows = table.where(kind="cost")
    narrow = rows.where(d=min(rows.distinct("d")))
    found = []
    for layout, rate, word in (("memory", 1, "linear"), ("literal", 2, "quadratic")):
        long = narrow.where(layout=layout).only(lambda row: row["n"] >= LONG)
        slope = fit_slope(*long.points("n", "seconds"))
        claim = f"{layout} layout: time {word} in n"
        close = slope.meets(rate, 0.1) and abs(slope.value - rate) < 0.4
        found.append(Finding.judged(claim, close, f"exponent {slope} {_over(long)}"))
        wide = rows.where(layout=layout, d=max(rows.distinct("d")))
        seen = wide.only(lambda row: row["peak"] > FLOOR)
        if len(seen.distinct("n")) > 1:
            evidence = f"exponent {fit_slope(*seen.points('n', 'peak'))} {_over(seen)}"
            found.append(Finding(f"{layout} layout: growth of peak memory with n", "measured", evidence))
    return found


def feasible(table: Table) -> Finding:
    """What the longest sequences cost, and what the padded form costs more."""
    rows = table.where(kind="cost")
    memory, literal = rows.where(layout="memory"), rows.where(layout="literal")
    n = max(set(memory.distinct("n")) & set(literal.distinct("n")))
    d, longest = max(rows.distinct("d")), max(memory.distinct("n"))
    pair = [t.where(n=n, d=d).rows[0] for t in (literal, memory)]
    far = memory.where(n=longest, d=d).rows[0]
    held = f" and {far['peak'] / 1e6:.0f} MB" if far["peak"] else ""  # some systems do not tell
    evidence = (
        f"n = {n:,}, d = {d}: the padded sequence takes {pair[0]['seconds'] / pair[1]['seconds']:.0f} times as long "
        f"and {pair[0]['weights'] / pair[1]['weights']:.0f} times the weights of the memory form; the latter takes "
        f"{1e3 * far['seconds']:.0f} ms{held} for n = {longest:,}"
    )
    return Finding("cost of long sequences, one thread", "measured", evidence)


def _over(rows: Table) -> str:
    return f"over n = {span(rows.numbers('n'), ',.0f')}, d = {listed(rows.distinct('d'))}"
