"""What the errors near ends and borders say."""

from __future__ import annotations

import numpy as np

from attnforge.experiments.boundary.networks import BARE, ENDS, MIDDLE, NEAR, TOL, TUNED, title
from attnforge.experiments.claims import falls_as
from attnforge.experiments.experiment import Finding
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table, span

SPIKE = 2.0  # times the interior's error: then errors spike


def shapes(table: Table) -> list[tuple[str, float]]:
    """The transitions, each by name and width."""
    rows = table.where(part="near", by="cells").rows
    return list(dict.fromkeys((row["target"], row["width"]) for row in rows))


def against_middle(table: Table, name: str, width: float, method: str) -> str:
    """The largest error near the end as a multiple of the interior's, with that one in brackets."""
    near, middle = _near_and_middle(table, name, width, method)
    return f"{near / middle:.2f} ({middle:.2g})"


def spike(table: Table, method: str) -> Finding:
    """Whether errors do at the ends: at the finest grid, under a smooth target."""
    finest = _smooth(table, method)
    end, inside, cells = (finest.value(column, -1) for column in ("end", "inside", "cells"))
    evidence = f"e^x, {cells:.0f} cells: {end:.2g} near the end, {inside:.2g} inside, {end / inside:.3g} times as much"
    if method == BARE:
        evidence += f"; ghosts lower the error near the end {end / _smooth(table, TUNED).value('end', -1):.3g} times"
    return Finding.judged(f"{method}: errors spike at the edges of the domain", end > SPIKE * inside, evidence)


def orders(table: Table) -> list[Finding]:
    """How fast errors near the end fall with the number of cells."""
    bare, tuned, root = (_smooth(table, *of) for of in ((BARE, "exp"), (TUNED, "exp"), (TUNED, "root")))
    first = f"{BARE}: the error near the end of a smooth target is of order 1 in the cells"
    half = f"{TUNED}: at an end with infinite slope, sqrt(1 - x), it is of order 1/2"
    return [
        falls_as(first, *bare.points("cells", "end"), -1, slack=0.02),
        _as_inside(tuned),
        falls_as(half, *root.points("cells", "end"), -0.5, slack=0.02),
    ]


def worse_near_the_end(table: Table, cells: int, name: str, width: float) -> Finding:
    """Whether a transition near the end is followed worse than in the interior."""
    near, middle = _near_and_middle(table, name, width, TUNED)
    bare, _ = _near_and_middle(table, name, width, BARE)
    steep = f", {width * cells:.2g} steps wide" if name == "tanh" else ""
    evidence = (
        f"largest error {near:.2g} near the end, {middle:.2g} inside: {near / middle:.2f} times; "
        f"without ghosts {bare:.2g} near the end"
    )
    claim = f"{title(name, width)}{steep}: tuned cells with ghosts err {SPIKE:g} times as much near the end"
    return Finding.judged(claim, near >= SPIKE * middle, evidence)


def jump_at_the_end(table: Table) -> Finding:
    """What a jump does that is no more than the value at the end point itself."""
    rows = table.where(part="near", target="jump", distance=0.0)
    evidence = "; ".join("{method}: {error:.2g}".format_map(row) for row in rows.rows)
    claim = "jump at the very end, where ghosts are reflected about the value after it: error elsewhere"
    return Finding(claim, "measured", evidence)


def fitted_anywhere(table: Table) -> Finding:
    """Whether fitted heads keep their tolerance, and with how many anchors."""
    rows = table.where(part="near", by="fitted")
    near, inside = rows.numbers("distance") <= NEAR, rows.numbers("distance") >= MIDDLE
    anchors, error = rows.numbers("anchors"), rows.numbers("error")
    evidence = (
        f"{len(rows)} heads, error at most {error.max():.2g}; {span(anchors[near], '.0f')} anchors with the transition "
        f"near the end, {span(anchors[inside], '.0f')} inside"
    )
    claim = f"fitted heads follow transitions and kinks to {TOL:g} wherever they are"
    return Finding.judged(claim, error.max() <= TOL, evidence)


def borders_between_heads(table: Table, place: str) -> Finding:
    """Whether errors spike there, with sentinels in this place."""
    rows = table.where(part="heads", sentinels=place)
    border, inside = rows.points("border", "inside")
    in_steps = zip(rows.texts("kind"), rows.ratios("border", "step"), rows.ratios("inside", "step"), strict=True)
    evidence = "; ".join(f"{kind}: {b:.3g} h near a border, {i:.3g} h inside" for kind, b, i in in_steps)
    healthy = table.where(part="heads", sentinels="correct").numbers("inside").max(initial=0.0)
    if place != "correct":
        evidence += f" (largest {border.max():.2g}, where max(|a|, |b|) = {max(map(abs, ENDS)):g})"
    if inside.max() > SPIKE * healthy:
        evidence += ": wrong everywhere, not only there"
    claim = f"sentinels {place}: errors spike between heads"
    return Finding.judged(claim, np.any(border > SPIKE * inside), evidence)


def _near_and_middle(table: Table, name: str, width: float, method: str) -> tuple[float, float]:
    """The largest errors over all distances near the end, and over those in the interior."""
    rows = table.where(part="near", target=name, width=width, method=method)
    distance, error = rows.points("distance", "error")
    return float(error[distance <= NEAR].max()), float(error[distance >= MIDDLE].max())


def _smooth(table: Table, method: str, target: str = "exp") -> Table:
    return table.where(part="smooth", target=target, method=method).ordered("cells")


def _as_inside(rows: Table) -> Finding:
    """Order 2 as long as the ripple of the tuned row, which is of order 1, is small against it."""
    end, inside = (fit_slope(*rows.points("cells", column)) for column in ("end", "inside"))
    claim = f"{TUNED}: near the end the error of a smooth target falls as fast as inside"
    ripple = "-2 until the row's ripple, of order 1, shows at about 1000 cells"
    evidence = f"slope {end} near the end, {inside} inside; {ripple}"
    return Finding.judged(claim, end.low <= inside.high and inside.low <= end.high, evidence)
