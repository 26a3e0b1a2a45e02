"""The question, its settings and cases, and where they are measured, judged and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnforge.experiments.boundary import findings, networks
from attnforge.experiments.boundary.figures import heads_figure, smooth_figure, transition_figure
from attnforge.experiments.boundary.networks import CELLS, KINDS, NEAR, PLACES, SMOOTH, title
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table, markdown


@dataclass(frozen=True)
class BoundarySettings(Settings):
    """Targets, cells, heads."""

    cells: int = setting(64, explain="Cells of [0, 1] under a target with a sharp transition.")
    widths: tuple[float, ...] = setting((1.0, 0.1, 0.01, 0.001), (0.1, 0.01), explain="Widths w of tanh((x - t) / w).")
    distances: tuple[float, ...] = setting(
        (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 32.0, 32.25, 32.5, 32.75),
        (0.0, 0.5, 1.0, 2.0, 32.0, 32.5),
        explain="Steps from the end to the transition; those of 16 and more are the interior to compare with.",
    )
    fitted: tuple[float, ...] = setting((0.0, 0.5, 2.0, 8.0, 32.0), (0.5, 32.0), explain="As above, for fitted heads.")
    sizes: tuple[int, ...] = setting(
        (32, 64, 128, 256, 512), (32, 64, 128), explain="Numbers of cells under a smooth target."
    )
    heads: int = setting(8, explain="Heads that share a row of anchors.")
    keys: int = setting(12, explain="Keys of each of them, two sentinels a side counted.")


class Boundary(Experiment[BoundarySettings]):
    """A check that the summary of Hu et al. 2025 asks for next: transitions near the ends of the domain."""

    name = "boundary"
    summary = "transitions near the ends, with and without ghosts"
    question = (
        "How do errors near the ends of the domain compare with those inside, for smooth targets and for sharp "
        "transitions, kinks and jumps near an end, with and without ghosts (keys beyond the ends)? And between heads, "
        "with correct, shifted and missing sentinels? Cells divide [0, 1] into steps h."
    )
    settings = BoundarySettings

    def cases(self, settings: BoundarySettings) -> Sequence[Case]:
        """Smooth targets by size; transitions by distance; heads by their sentinels."""
        sharp = [*(("tanh", width) for width in settings.widths), ("kink", 0.0), ("jump", 0.0)]
        moved = {"cells": settings.distances, "fitted": settings.fitted}
        near = [
            {"part": "near", "by": by, "target": name, "width": width, "distance": at, "cells": settings.cells}
            for by, distances in moved.items()
            for name, width in sharp
            for at in distances
            if not (by == "fitted" and name == "jump")  # refused: no continuous network follows a jump
        ]
        sizes = {"heads": settings.heads, "keys": settings.keys}
        return [
            *crossed(part="smooth", target=SMOOTH, cells=settings.sizes),
            *near,
            *crossed(part="heads", kind=KINDS, sentinels=PLACES, **sizes),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Largest errors near the ends (or borders) and elsewhere."""
        match case["part"]:
            case "heads":
                return [networks.border_errors(case["kind"], case["sentinels"], case["heads"], case["keys"])]
            case "smooth":
                return networks.smooth_errors(case["target"], case["cells"])
        near = case["target"], case["width"], case["distance"], case["cells"]
        return [networks.fitted_errors(*near)] if case["by"] == "fitted" else networks.transition_errors(*near)

    def findings(self, table: Table, settings: BoundarySettings) -> Sequence[Finding]:
        """Where errors spike, how fast they fall, and what a transition near the end costs."""
        return [
            *(findings.spike(table, method) for method in CELLS),
            *findings.orders(table),
            *(findings.worse_near_the_end(table, settings.cells, *shape) for shape in findings.shapes(table)),
            findings.jump_at_the_end(table),
            findings.fitted_anywhere(table),
            *(findings.borders_between_heads(table, place) for place in PLACES),
        ]

    def notes(self, table: Table, settings: BoundarySettings) -> Sequence[str]:
        """What every transition costs near the end, against the same in the interior."""
        rows = [
            [title(name, width), *(findings.against_middle(table, name, width, method) for method in CELLS)]
            for name, width in findings.shapes(table)
        ]
        text = (
            f"Largest error with the transition within {NEAR:g} steps of the end, as a multiple of the largest with "
            f"the same transition in the interior; in brackets that one. {settings.cells} cells:"
        )
        return [text, markdown(["target", *CELLS], rows)]

    def figures(self, table: Table, settings: BoundarySettings) -> Mapping[str, Any]:
        """Smooth targets; transitions; borders between heads."""
        return {
            "boundary": smooth_figure(table, settings.cells, settings.sizes),
            "boundary-transitions": transition_figure(table),
            "boundary-heads": heads_figure(settings.heads, settings.keys),
        }
