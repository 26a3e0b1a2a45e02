"""Error against the number of heads: with as many anchors in each, with as many in all, constructed and trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import attnforge as af
from attnforge.experiments.claims import falls_as, within_bounds
from attnforge.experiments.clamp import LOWER, REACH, UPPER, judged, several_heads, trained
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, band, curve, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Array, Table, change, listed, markdown, span
from attnforge.plot.rates import Curve

SENTINELS = {"hard": 1, "tuned": 2}  # a side: hard heads leak e^(-2c) with one, tuned ones need a second
FRESH = 20_000  # points that errors are measured on; constructed heads are searched between all anchors besides
DOTTED = ("#000000", "", ":")  # bounds
STEADY = 1.1  # factor within which an error that "stays" stays


@dataclass(frozen=True)
class RateHeadsSettings(Settings):
    """How many heads, of how many keys, and how long the trained ones are trained."""

    heads: tuple[int, ...] = setting((1, 2, 4, 8, 16, 32), (1, 2, 4, 8), explain="Numbers H of heads.")
    keys: tuple[int, ...] = setting((10, 20, 50, 100), (10, 50), explain="Numbers n of keys a head, sentinels counted.")
    total: int = setting(192, explain="Anchors that are dealt out to more and more heads; H must divide it.")
    trained_heads: tuple[int, ...] = setting((1, 2, 4, 8, 16), (1, 4, 16), explain="Numbers H of trained heads.")
    trained_keys: int = setting(8, explain="Keys of every trained head.")
    trained_total: int = setting(64, explain="Keys that are dealt out to more and more trained heads.")
    repeats: int = setting(3, 2, explain="Trained layers a number, from different starts.")
    epochs: int = setting(300, 20, explain="Of training.")


class RateHeads(Experiment[RateHeadsSettings]):
    """The third experiment that the summary of Hu et al. 2025 asks for: keep p fixed, increase H."""

    name = "rate-heads"
    summary = "error against heads H and keys n, constructed and trained"
    question = (
        "Does the error of H heads of n keys fall as O(1/(nH))? And what do heads do when p is kept fixed: the anchors "
        "of each head, or the anchors of all heads together? The target is clamp(y, -1, 1) for y in [-2, 2]."
    )
    settings = RateHeadsSettings

    def cases(self, settings: RateHeadsSettings) -> Sequence[Case]:
        """Hard and tuned heads for every n and H, and for the total dealt out; trained ones, from several starts."""
        return [
            *_constructed("each", [(n, heads) for n in settings.keys for heads in settings.heads]),
            *_constructed("all", _dealt(settings.total, settings.heads)),
            *_to_train("each", [(settings.trained_keys, heads) for heads in settings.trained_heads], settings),
            *_to_train("all", _dealt(settings.trained_total, settings.trained_heads), settings),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Largest and mean square error; the bound, where there is one; keys in all."""
        kind, keys, heads = case["kind"], case["keys"], case["heads"]
        if kind == "trained":
            row = trained(keys, heads, case["epochs"], 1000 * case["seed"] + case["start"], FRESH + 1)
            return [{**row, "keys_in_all": keys * heads}]
        net = several_heads(heads, keys, SENTINELS[kind], kind, domain=af.Box(-REACH, REACH))
        return [{**judged(net, FRESH), "keys_in_all": net.anchors}]

    def findings(self, table: Table, settings: RateHeadsSettings) -> Sequence[Finding]:
        """Slopes against n H and against H; what the error does when the total is fixed."""
        return [
            *(_pooled(table, kind) for kind in SENTINELS),
            *(_against_heads(table, kind) for kind in SENTINELS),
            within_bounds(table),
            *(_fixed_total(table, kind) for kind in SENTINELS),
            _trained_rate(table),
            _trained_total(table),
        ]

    def notes(self, table: Table, settings: RateHeadsSettings) -> Sequence[str]:
        """The ablation with the total fixed, in numbers."""
        dealt = {kind: table.where(kind=kind, fixed="all").ordered("heads") for kind in SENTINELS}
        columns = {
            f"{kind}: {name}": rows.numbers(column) / rows.value(column)
            for name, column in (("error", "error"), ("keys stored", "keys_in_all"))
            for kind, rows in dealt.items()
        }
        found = zip(dealt["hard"].numbers("heads"), *columns.values(), strict=True)
        lines = [[f"{heads:.0f}", *(f"{each:.3f}" for each in ratios)] for heads, *ratios in found]
        text = f"{settings.total} anchors in all, dealt out to H heads. Numbers are multiples of those of one head:"
        return [text, markdown(["H", *columns], lines)]

    def figures(self, table: Table, settings: RateHeadsSettings) -> Mapping[str, Any]:
        """Error against n H, and against H with p fixed either way."""
        titles = {"each": "anchors of every head fixed", "all": "anchors of all heads together fixed"}
        made = {kind: f"constructed, {kind}, sentinels a side: {count}" for kind, count in SENTINELS.items()}
        rates = [
            Panel(_rate_curves(table, kind), "keys a head times heads, n H", "largest error", title, slopes=[-1])
            for kind, title in made.items()
        ]
        fixed = [
            Panel(_fixed_curves(table, which, settings), "heads H", "largest error", title, ticks=settings.heads)
            for which, title in titles.items()
        ]
        return {
            "rate-heads": page(rates, 3.3, legend=5, sharey=True),
            "rate-heads-fixed": page(fixed, 3.3, sharey=True),
        }


def _dealt(total: int, heads: Sequence[int]) -> list[tuple[int, int]]:
    """Anchors a head, and heads, where the total can be dealt out evenly."""
    return [(total // count, count) for count in heads if total % count == 0]


def _constructed(fixed: str, sizes: Sequence[tuple[int, int]]) -> list[Case]:
    """Cases of n keys and H heads; with the total fixed, numbers are those of anchors and sentinels come on top."""
    return [
        {"kind": kind, "fixed": fixed, "keys": n + 2 * sentinels * (fixed == "all"), "heads": heads}
        for kind, sentinels in SENTINELS.items()
        for n, heads in sizes
    ]


def _to_train(fixed: str, sizes: Sequence[tuple[int, int]], settings: RateHeadsSettings) -> list[Case]:
    training = {"start": range(settings.repeats), "epochs": settings.epochs, "seed": settings.seed}
    return [
        case
        for keys, heads in sizes
        for case in crossed(kind="trained", fixed=fixed, keys=keys, heads=heads, **training)
    ]


def _products(table: Table) -> Array:
    return np.asarray(table.numbers("keys") * table.numbers("heads"))


def _pooled(table: Table, kind: str) -> Finding:
    """Against n H over all n and H: O(1/(nH)) allows what falls faster.

    The law is h E(c) with h = (b - a) / (H (n - 2r) - 1). Sentinels are no anchors, so small n lose more.
    """
    rows = table.where(kind=kind, fixed="each")
    own, error = rows.numbers("heads") * (rows.numbers("keys") - 2 * SENTINELS[kind]) - 1, rows.numbers("error")
    slope, steps = fit_slope(_products(rows), error), error * own / (UPPER - LOWER)
    evidence = (
        f"slope {slope}; error times n H at most {(error * _products(rows)).max():.3g}. Sentinels are no anchors: "
        f"in steps h = (b - a) / (H (n - 2r) - 1) the error is {span(steps, '.3f')} whatever n and H"
    )
    return Finding.judged(f"{kind} heads: error O(1/(nH)), over all n and H", slope.low <= -1, evidence)


def _against_heads(table: Table, kind: str) -> Finding:
    """The slope against H for the largest n, where the missing last step of the row matters least."""
    rows = table.where(kind=kind, fixed="each")
    keys = max(rows.distinct("keys"))
    claim = f"{kind} heads: error O(1/H) with the anchors of every head fixed"
    return falls_as(claim, *rows.where(keys=keys).points("heads", "error"), -1, slack=0.02, more=f"n = {keys}")


def _fixed_total(table: Table, kind: str) -> Finding:
    """Heads that share a fixed number of anchors compute what one head does."""
    rows = table.where(kind=kind, fixed="all").ordered("heads")
    error, keys, heads = rows.numbers("error"), rows.numbers("keys_in_all"), rows.numbers("heads")
    factors = error / error[0]
    evidence = (
        f"from {change(heads, '.0f')} heads the error changes by factors {span(factors, '.3f')}, while sentinels raise "
        f"the keys stored from {change(keys, '.0f')}"
    )
    claim = f"{kind} heads: with the anchors of all heads together fixed, more heads do not lower the error"
    return Finding.judged(claim, factors.max() <= STEADY and factors.min() >= 1 / STEADY, evidence)


def _trained_rate(table: Table) -> Finding:
    rows = table.where(kind="trained", fixed="each")
    claim = "trained heads: error O(1/H) with the keys of every head fixed"
    more = _medians_seen(rows) + _beside_constructed(table, rows)
    return falls_as(claim, *rows.points("heads", "error"), -1, more=more)


def _beside_constructed(table: Table, trained: Table) -> str:
    """The largest trained layer beside a hard one of as many keys in all, or the nearest there is."""
    products, hard = _products(trained), table.where(kind="hard", fixed="each")
    if not len(hard):
        return ""
    nearest = int(np.argmin(np.abs(np.log(_products(hard) / products.max()))))
    errors = trained.numbers("error")[products == products.max()]
    factor = float(np.median(errors)) / hard.numbers("error")[nearest]
    beside = f"{factor:.2g} times hard selection at {_products(hard)[nearest]:.0f}"
    return f"; at n H = {products.max():.0f} that is {beside}"


def _trained_total(table: Table) -> Finding:
    evidence = _medians_seen(table.where(kind="trained", fixed="all"))
    return Finding("trained heads with the keys of all heads together fixed", "measured", evidence)


def _medians_seen(trained: Table) -> str:
    errors = trained.medians("heads", "error")
    return f"median largest errors {listed(errors.values(), '.2g')} at H = {listed(errors)}"


def _rate_curves(table: Table, kind: str) -> list[Curve]:
    groups = table.where(kind=kind, fixed="each").by("keys")
    errors = [Curve(f"n = {keys}", _products(each), each.numbers("error")) for keys, each in groups.items()]
    bounds = [Curve("_", _products(each), each.numbers("bound"), look=DOTTED) for each in groups.values()]
    # matplotlib's legends leave out names that begin with a dash: the bounds have one name
    return [*errors, replace(bounds[0], name="certified bound"), *bounds[1:]]


def _fixed_curves(table: Table, fixed: str, settings: RateHeadsSettings) -> list[Curve]:
    """One n of constructed heads, the nearest to the trained ones', and the trained ones with their range."""
    rows = table.where(fixed=fixed).ordered("heads")
    sizes = {"keys": min(settings.keys)} if fixed == "each" else {}
    made = [curve(f"constructed, {kind}", rows.where(kind=kind, **sizes), "heads", "error") for kind in SENTINELS]
    return [*made, band("trained: median and range", rows.where(kind="trained"), "heads", "error")]
