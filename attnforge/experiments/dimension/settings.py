"""What the experiment can be told."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.experiments.settings import Settings, setting


@dataclass(frozen=True)
class DimensionSettings(Settings):
    """Which inputs and tolerances, and how large networks may be."""

    inputs: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (1, 2, 3, 5, 6, 7), explain="Numbers d of inputs."
    )
    many: tuple[int, ...] = setting(
        (15, 20, 30, 50), (10, 20), explain="Further numbers of inputs, for constructions that use structure."
    )
    tolerances: tuple[float, ...] = setting((1e-1, 1e-2, 1e-3, 1e-4), (1e-1, 1e-2), explain="Asked for.")
    cells: int = setting(4000, 1000, explain="Keys up to which hard cells and two layers are built, not just counted.")
    points: int = setting(10_000, 2000, explain="Fresh random points that errors are measured on.")
