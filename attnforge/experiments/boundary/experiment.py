"""The question, its cases, and where they are measured, judged and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnforge.experiments.boundary.cells import CELLS, fitted_errors, smooth_errors, transition_errors
from attnforge.experiments.boundary.findings import (
    against_middle,
    borders_between_heads,
    fitted_anywhere,
    jump_at_the_end,
    orders,
    shapes,
    spike,
    worse_near_the_end,
)
from attnforge.experiments.boundary.heads import KINDS, PLACES, border_errors
from attnforge.experiments.boundary.settings import NEAR, BoundarySettings
from attnforge.experiments.boundary.targets import SMOOTH, title
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.table import Table, markdown


class Boundary(Experiment[BoundarySettings]):
    """A check that the summary of Hu et al. 2025 asks for next: transitions near the ends of the domain."""

    name: ClassVar[str] = "boundary"
    summary: ClassVar[str] = "transitions near the ends, with and without ghosts"
    question: ClassVar[str] = (
        "How do errors near the ends of the domain compare with those inside, for smooth targets and for sharp "
        "transitions, kinks and jumps near an end, with and without ghosts (keys beyond the ends)? And between heads, "
        "with correct, shifted and missing sentinels? Cells divide [0, 1] into steps h."
    )
    settings = BoundarySettings

    def cases(self, settings: BoundarySettings) -> Sequence[Case]:
        """Smooth targets by size; transitions by distance; heads by their sentinels."""
        sharp = [*(("tanh", width) for width in settings.widths), ("kink", 0.0), ("jump", 0.0)]
        moved = {"cells": settings.distances, "fitted": settings.fitted}
        return [
            *({"part": "smooth", "target": target, "cells": cells} for target in SMOOTH for cells in settings.sizes),
            *(
                {"part": "near", "by": by, "target": name, "width": width, "distance": at, "cells": settings.cells}
                for by, distances in moved.items()
                for name, width in sharp
                for at in distances
                if not (by == "fitted" and name == "jump")  # refused: no continuous network follows a jump
            ),
            *(
                {"part": "heads", "kind": kind, "sentinels": place, "heads": settings.heads, "keys": settings.keys}
                for kind in KINDS
                for place in PLACES
            ),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Largest errors near the ends (or borders) and elsewhere."""
        match case["part"]:
            case "heads":
                return [border_errors(case["kind"], case["sentinels"], case["heads"], case["keys"])]
            case "smooth":
                return smooth_errors(case["target"], case["cells"])
        near = case["target"], case["width"], case["distance"], case["cells"]
        return [fitted_errors(*near)] if case["by"] == "fitted" else transition_errors(*near)

    def findings(self, table: Table, settings: BoundarySettings) -> Sequence[Finding]:
        """Where errors spike, how fast they fall, and what a transition near the end costs."""
        return [
            *(spike(table, method) for method in CELLS),
            *orders(table),
            *(worse_near_the_end(table, settings, *shape) for shape in shapes(table)),
            jump_at_the_end(table),
            fitted_anywhere(table),
            *(borders_between_heads(table, place) for place in PLACES),
        ]

    def notes(self, table: Table, settings: BoundarySettings) -> Sequence[str]:
        """What every transition costs near the end, against the same in the interior."""
        rows = [
            [title(name, width), *(against_middle(table, name, width, method) for method in CELLS)]
            for name, width in shapes(table)
        ]
        text = (
            f"Largest error with the transition within {NEAR:g} steps of the end, as a multiple of the largest with "
            f"the same transition in the interior; in brackets that one. {settings.cells} cells:"
        )
        return [text, markdown(["target", *CELLS], rows)]

    def figures(self, table: Table, settings: BoundarySettings) -> Mapping[str, Any]:
        """Smooth targets; transitions; borders between heads."""
        from attnforge.experiments.boundary.figures import heads_figure, smooth_figure, transition_figure

        return {
            "boundary": smooth_figure(table, settings),
            "boundary-transitions": transition_figure(table),
            "boundary-heads": heads_figure(settings),
        }
