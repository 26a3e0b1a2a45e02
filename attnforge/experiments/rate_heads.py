"""Error against the number of heads: with as many anchors in each, with as many in all, constructed and trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.claims import falls_as, within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table, markdown

LOWER, UPPER, REACH = -1.0, 1.0, 2.0  # clamp(y, -1, 1) for y in [-2, 2]
SENTINELS = {"hard": 1, "tuned": 2}  # a side: hard heads leak e^(-2c) with one, tuned ones need a second
TRAINING, BATCH = 4096, 512  # points, and points a step
FRESH = 20_000  # points that errors are measured on; constructed heads are searched between all anchors besides
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

    name: ClassVar[str] = "rate-heads"
    summary: ClassVar[str] = "error against heads H and keys n, constructed and trained"
    question: ClassVar[str] = (
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
        if case["kind"] == "trained":
            return [_trained(case["keys"], case["heads"], case["epochs"], 1000 * case["seed"] + case["start"])]
        net = af.constructions.multihead_truncated_linear(
            [1.0],
            0.0,
            LOWER,
            UPPER,
            tokens=case["keys"],
            heads=case["heads"],
            sharpness=case["kind"],
            sentinels=SENTINELS[case["kind"]],
            domain=af.Box(-REACH, REACH),
        )
        found, bound = af.measure(net, points=FRESH), net.certificate.bound
        return [{"mse": found.rms**2, "error": found.sup, "bound": bound, "keys_in_all": net.anchors}]

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
        rows = [
            [
                str(heads),
                *(_ratio(table.where(kind=kind, fixed="all"), heads, "error") for kind in SENTINELS),
                *(_ratio(table.where(kind=kind, fixed="all"), heads, "keys_in_all") for kind in SENTINELS),
            ]
            for heads in sorted(table.where(kind="hard", fixed="all").distinct("heads"))
        ]
        header = ["H", "hard: error", "tuned: error", "hard: keys stored", "tuned: keys stored"]
        text = f"{settings.total} anchors in all, dealt out to H heads. Numbers are multiples of those of one head:"
        return [text, markdown(header, rows)]

    def figures(self, table: Table, settings: RateHeadsSettings) -> Mapping[str, Any]:
        """Error against n H, and against H with p fixed either way."""
        from attnforge.plot.rates import draw_rates, legend_below, page_wide, ticks_at

        rate = page_wide(3.3)
        panels = rate.subplots(1, 2, sharey=True)
        for axes, kind in zip(panels, SENTINELS, strict=True):
            draw_rates(
                axes,
                _rate_curves(table, kind),
                x_label="keys a head times heads, n H",
                y_label="largest error",
                slopes=[-1],
                title=f"constructed, {kind}, sentinels a side: {SENTINELS[kind]}",
            )
            axes.set_ylabel("largest error" if kind == "hard" else "")
        legend_below(rate, panels[0], 5)

        fixed = page_wide(3.3)
        panels = fixed.subplots(1, 2, sharey=True)
        titles = {"each": "anchors of every head fixed", "all": "anchors of all heads together fixed"}
        for axes, (which, title) in zip(panels, titles.items(), strict=True):
            draw_rates(
                axes, _fixed_curves(table, which, settings), x_label="heads H", y_label="largest error", title=title
            )
            ticks_at(axes, settings.heads)
        panels[1].set_ylabel("")
        legend_below(fixed, panels[0], 3)
        return {"rate-heads": rate, "rate-heads-fixed": fixed}


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
    return [
        {
            "kind": "trained",
            "fixed": fixed,
            "keys": keys,
            "heads": heads,
            "start": start,
            "epochs": settings.epochs,
            "seed": settings.seed,
        }
        for keys, heads in sizes
        for start in range(settings.repeats)
    ]


def _products(table: Table) -> npt.NDArray[np.float64]:
    return np.asarray(table.numbers("keys") * table.numbers("heads"), dtype=np.float64)


def _pooled(table: Table, kind: str) -> Finding:
    """Against n H over all n and H: O(1/(nH)) allows what falls faster.

    The law is h E(c) with h = (b - a) / (H (n - 2r) - 1). Sentinels are no anchors, so small n lose more.
    """
    rows = table.where(kind=kind, fixed="each")
    own, error = rows.numbers("heads") * (rows.numbers("keys") - 2 * SENTINELS[kind]) - 1, rows.numbers("error")
    slope, steps = fit_slope(_products(rows), error), error * own / (UPPER - LOWER)
    evidence = (
        f"slope {slope}; error times n H at most {(error * _products(rows)).max():.3g}. Sentinels are no anchors: "
        f"in steps h = (b - a) / (H (n - 2r) - 1) the error is {steps.min():.3f} to {steps.max():.3f} "
        "whatever n and H"
    )
    claim = f"{kind} heads: error O(1/(nH)), over all n and H"
    return Finding.judged(claim, slope.low <= -1, evidence)


def _against_heads(table: Table, kind: str) -> Finding:
    """The slope against H for the largest n, where the missing last step of the row matters least."""
    rows = table.where(kind=kind, fixed="each")
    keys = max(rows.distinct("keys"))
    at = rows.where(keys=keys)
    claim = f"{kind} heads: error O(1/H) with the anchors of every head fixed"
    return falls_as(claim, *at.points("heads", "error"), -1, slack=0.02, more=f"n = {keys}")


def _fixed_total(table: Table, kind: str) -> Finding:
    """Heads that share a fixed number of anchors compute what one head does."""
    rows = table.where(kind=kind, fixed="all").ordered("heads")
    error, keys, heads = rows.numbers("error"), rows.numbers("keys_in_all"), rows.numbers("heads")
    within = float((error / error[0]).max()), float((error / error[0]).min())
    evidence = (
        f"from {heads[0]:.0f} to {heads[-1]:.0f} heads the error changes by factors {within[1]:.3f} to "
        f"{within[0]:.3f}, while sentinels raise the keys stored from {keys[0]:.0f} to {keys[-1]:.0f}"
    )
    claim = f"{kind} heads: with the anchors of all heads together fixed, more heads do not lower the error"
    return Finding.judged(claim, within[0] <= STEADY and within[1] >= 1 / STEADY, evidence)


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
    return (
        f"; at n H = {products.max():.0f} that is {factor:.2g} times hard selection at {_products(hard)[nearest]:.0f}"
    )


def _trained_total(table: Table) -> Finding:
    evidence = _medians_seen(table.where(kind="trained", fixed="all"))
    return Finding("trained heads with the keys of all heads together fixed", "measured", evidence)


def _medians_seen(trained: Table) -> str:
    errors = trained.grouped("heads", "error")
    seen = ", ".join(f"{np.median(each):.2g}" for each in errors.values())
    return f"median largest errors {seen} at H = {', '.join(str(heads) for heads in errors)}"


def _ratio(rows: Table, heads: int, column: str) -> str:
    first = rows.ordered("heads").numbers(column)[0]
    return f"{rows.where(heads=heads).numbers(column)[0] / first:.3f}"


def _rate_curves(table: Table, kind: str) -> list[Any]:
    from attnforge.plot.rates import Curve

    rows = table.where(kind=kind, fixed="each")
    curves = [
        Curve(f"n = {keys}", _products(rows.where(keys=keys)), rows.where(keys=keys).numbers("error"))
        for keys in rows.distinct("keys")
    ]
    bounds = [
        Curve(
            "certified bound" if not i else "_",  # matplotlib's legends leave out names that begin so
            _products(rows.where(keys=keys)),
            rows.where(keys=keys).numbers("bound"),
            look=("#000000", "", ":"),
        )
        for i, keys in enumerate(rows.distinct("keys"))
    ]
    return [*curves, *bounds]


def _fixed_curves(table: Table, fixed: str, settings: RateHeadsSettings) -> list[Any]:
    """One n of constructed heads, the nearest to the trained ones', and the trained ones with their range."""
    from attnforge.plot.rates import Curve

    keys = {"each": min(settings.keys)}
    curves = []
    for kind in SENTINELS:
        rows = table.where(kind=kind, fixed=fixed, **({"keys": keys[fixed]} if fixed in keys else {})).ordered("heads")
        curves.append(Curve(f"constructed, {kind}", *rows.points("heads", "error")))
    spread = table.where(kind="trained", fixed=fixed).grouped("heads", "error")
    middle, low, high = ([float(end(each)) for each in spread.values()] for end in (np.median, np.min, np.max))
    return [*curves, Curve("trained: median and range", list(spread), middle, low, high)]


def _trained(keys: int, heads: int, epochs: int, seed: int) -> Row:
    """A layer trained on uniform points, and judged on others."""
    import torch

    from attnforge.experiments.training import MemoryHeads, train

    generator = torch.Generator().manual_seed(seed)
    inputs = REACH * (2 * torch.rand(TRAINING, 1, generator=generator) - 1)
    module = MemoryHeads(1, keys, heads, seed=seed)
    fit = train(module, inputs, inputs[:, 0].clamp(LOWER, UPPER), epochs=epochs, batch=BATCH, seed=seed)
    fresh = torch.linspace(-REACH, REACH, FRESH + 1)[:, None]
    with torch.no_grad():
        error = module(fresh) - fresh[:, 0].clamp(LOWER, UPPER)
    worst, mean = float(error.abs().max()), float(error.square().mean())
    return {"mse": mean, "error": worst, "keys_in_all": keys * heads, "seconds": fit.seconds}
