"""The comparison, its times, and training from the construction as tables of Markdown, with a word of explanation."""

from __future__ import annotations

from attnforge.experiments.constructed_vs_trained.findings import TIMES, journeys, middle, plain, ratios
from attnforge.experiments.constructed_vs_trained.task import CONSTRUCTED, PARTS
from attnforge.experiments.table import Table, change, markdown

SHOWN = {"hard": "hard", "tuned": "tuned", "mean": "c = 1.4"}  # in the table of ratios
WHY = (
    "Hard selection is not drawn towards softer selection, though c = 1.4 is a thousand times better, and the column "
    "*undecided* (the mean of 1 minus the sum of squared softmax weights) hardly changes. The likely reason is the "
    "coordinates, not a vanishing gradient: a softer head differs in two query weights, 2c and c, that must fall in "
    "step, and a change of one alone shifts where the head sees y, the more the further the key is from the middle; "
    "Adam changes each by itself. For the same reason large steps shake the weights. The table does not separate "
    "these causes. A bound is that of `certify`, proved with outward rounding for all inputs of the domain. The "
    "theorem's rows of anchors charge every change at its worst and are refused once all weights have moved; then the "
    "head is enclosed on boxes of what it reads, for all tokens at once, and what each token's features are off a "
    "common linear form is added (`attnforge.certification.enclosure.shared_head`). The best of several trainings is "
    "chosen on the data that its error is reported on."
)


def ratio_table(table: Table) -> str:
    """Error and time of training, and how many times less either is when constructed: a line for every H."""
    mse, seconds = middle(table, "trained", "mse"), middle(table, "trained", "seconds")
    found = {f"MSE lower: {name}": ratios(table, kind, "mse") for kind, name in SHOWN.items()}
    found["sooner: weights and proof"] = ratios(table, "mean", "proved_seconds")
    found["sooner: the library's call"] = ratios(table, "mean", "library_seconds")
    lines = [[str(h), f"{mse[h]:.2g}", f"{seconds[h]:.2g}", *(plain(of[h]) for of in found.values())] for h in mse]
    return markdown(["H", "trained: MSE", "seconds", *found], lines)


def comparison(table: Table) -> str:
    """Mean square and largest errors and bounds, a line for every H."""
    trained, worst = middle(table, "trained", "mse"), middle(table, "trained", "error")
    built = {kind: [middle(table, kind, column) for column in ("mse", "error", "bound")] for kind in CONSTRUCTED}
    named = (f"{name}: MSE, largest error, bound" for name in CONSTRUCTED.values())
    lines = [
        [str(h), f"{trained[h]:.3g}, {worst[h]:.3g}"]
        + [f"{m[h]:.2g} ({plain(trained[h] / m[h])}), {e[h]:.2g}, {bound[h]:.2g}" for m, e, bound in built.values()]
        for h in trained
    ]
    return markdown(["H", "trained: MSE, largest error", *named], lines)


def times(table: Table) -> str:
    """Seconds, a line for every H, and how many times sooner."""
    trained = middle(table, "trained", "seconds")
    built = [middle(table, kind, column) for kind, column, _ in TIMES]
    lines = [
        [str(h), f"{trained[h]:.2g}", *(f"{each[h]:.2g} ({plain(trained[h] / each[h])})" for each in built)]
        for h in trained
    ]
    return markdown(["H", "trained", *(what for _, _, what in TIMES)], lines)


def journey(table: Table) -> str:
    """First and last epoch of every training from the construction."""
    header = ["start", "trained", "step size", "MSE", "largest error", "bound"]
    lines = []
    for way in journeys(table):
        last = way.rows[-1]
        changes = [change(way.having(column).numbers(column)) for column in ("mse", "error", "bound")]
        if last["bound"] is None:
            changes[-1] = "none"
        moved = [last["proof"], f"{last['moved']:.2g}", change(way.numbers("undecided"))]
        lines.append([last["start"], PARTS[last["part"]], f"{last['rate']:g}", *changes, *moved])
    return markdown([*header, "proved by", "largest change", "undecided"], lines)
