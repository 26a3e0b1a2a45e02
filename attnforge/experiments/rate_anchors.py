"""Error against the number of anchors of one head: constructed and trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import attnforge as af
from attnforge.experiments.claims import falls_as, within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table

LOWER, UPPER, REACH = -1.0, 1.0, 2.0  # clamp(y, -1, 1) for y in [-2, 2]
CONSTRUCTED = ("hard", "tuned")
TRAINING, BATCH = 4096, 512  # points, and points a step
FRESH = 100_000  # points that errors are measured on: random ones and a search from the worst, or evenly spaced ones


@dataclass(frozen=True)
class RateAnchorsSettings(Settings):
    """How many anchors, and how long the trained heads are trained."""

    anchors: tuple[int, ...] = setting(
        (8, 16, 32, 64, 128, 256, 512, 1024), (8, 32, 128, 512), explain="Numbers p of anchors of constructed heads."
    )
    trained: tuple[int, ...] = setting(
        (8, 16, 32, 64, 128), (8, 32, 128), explain="Numbers p of keys of trained heads."
    )
    repeats: int = setting(5, 2, explain="Trained heads a number, from different starts.")
    epochs: int = setting(400, 40, explain="Of training.")


class RateAnchors(Experiment[RateAnchorsSettings]):
    """The first experiment that the summary of Hu et al. 2025 asks for."""

    name: ClassVar[str] = "rate-anchors"
    summary: ClassVar[str] = "error against anchors p, constructed and trained"
    question: ClassVar[str] = (
        "Does the error of one head fall as O(1/p) in the number p of its interpolation points, when the weights are "
        "constructed and when they are trained? The target is clamp(y, -1, 1) for y in [-2, 2]."
    )
    settings = RateAnchorsSettings

    def cases(self, settings: RateAnchorsSettings) -> Sequence[Case]:
        """Hard and tuned heads for every p; trained ones for some, from several starts."""
        constructed: list[Case] = [{"kind": kind, "p": p} for kind in CONSTRUCTED for p in settings.anchors]
        return constructed + [
            {"kind": "trained", "p": p, "start": start, "epochs": settings.epochs, "seed": settings.seed}
            for p in settings.trained
            for start in range(settings.repeats)
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Mean square and largest error; the bound, where there is one."""
        if case["kind"] == "trained":
            return [_trained(case["p"], case["epochs"], 1000 * case["seed"] + case["start"])]
        net = af.constructions.truncated_linear(
            [1.0], 0.0, LOWER, UPPER, anchors=case["p"], sharpness=case["kind"], domain=af.Box(-REACH, REACH)
        )
        found = af.measure(net, points=FRESH)
        return [{"mse": found.rms**2, "error": found.sup, "bound": net.certificate.bound}]

    def findings(self, table: Table, settings: RateAnchorsSettings) -> Sequence[Finding]:
        """Slopes against the rate of the theorem."""
        largest = max(set(settings.trained) & set(settings.anchors), default=max(settings.trained))
        hard = table.where(kind="hard", p=largest).numbers("error")
        factor = trained_middle(table)[largest] / hard[0] if len(hard) else np.nan
        compared = f"at p = {largest} the median trained head errs {factor:.2g} times as much as hard selection"
        return [
            *(
                falls_as(f"{kind} heads: error O(1/p)", *table.where(kind=kind).points("p", "error"), -1, slack=0.02)
                for kind in CONSTRUCTED
            ),
            within_bounds(table),
            falls_as(
                "trained heads: error O(1/p)", *table.where(kind="trained").points("p", "error"), -1, more=compared
            ),
        ]

    def figures(self, table: Table, settings: RateAnchorsSettings) -> Mapping[str, Any]:
        """Sup error and mean square error against p."""
        from attnforge.plot.rates import draw_rates, legend_below, page_wide

        figure = page_wide(3.2)
        panels = figure.subplots(1, 2)
        for axes, column, label, slope in zip(
            panels, ("error", "mse"), ("largest error", "mean square error"), (-1, -2), strict=True
        ):
            draw_rates(axes, _curves(table, column), x_label="anchors p", y_label=label, slopes=[slope])
        legend_below(figure, panels[0])
        return {"rate-anchors": figure}


def trained_middle(table: Table, column: str = "error") -> dict[int, float]:
    """The median over the starts, for every p that was trained."""
    found = table.where(kind="trained").grouped("p", column)
    return {int(p): float(np.median(values)) for p, values in found.items()}


def _curves(table: Table, column: str) -> list[Any]:
    from attnforge.plot.rates import Curve

    curves = [Curve(f"constructed, {kind}", *table.where(kind=kind).points("p", column)) for kind in CONSTRUCTED]
    found = table.where(kind="trained").grouped("p", column)
    low, high = [values.min() for values in found.values()], [values.max() for values in found.values()]
    middle = trained_middle(table, column)
    return [*curves, Curve("trained: median and range", list(middle), list(middle.values()), low, high)]


def _trained(p: int, epochs: int, seed: int) -> Row:
    """A head of p keys trained on uniform points, and judged on others."""
    import torch

    from attnforge.experiments.training import MemoryHeads, train

    generator = torch.Generator().manual_seed(seed)
    inputs = REACH * (2 * torch.rand(TRAINING, 1, generator=generator) - 1)
    module = MemoryHeads(1, p, seed=seed)
    fit = train(module, inputs, inputs[:, 0].clamp(LOWER, UPPER), epochs=epochs, batch=BATCH, seed=seed)
    fresh = torch.linspace(-REACH, REACH, FRESH)[:, None]
    with torch.no_grad():
        error = module(fresh) - fresh[:, 0].clamp(LOWER, UPPER)
    return {"mse": float(error.square().mean()), "error": float(error.abs().max()), "seconds": fit.seconds}
