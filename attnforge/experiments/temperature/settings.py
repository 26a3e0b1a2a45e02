"""What the experiment can be told."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.experiments.settings import Settings, setting


@dataclass(frozen=True)
class TemperatureSettings(Settings):
    """Which sharpness and how many queries."""

    named: tuple[float, ...] = setting(
        (10.0, 50.0, 100.0, 1000.0), explain="Values of beta that the papers' summary names."
    )
    lowest: float = setting(0.01, explain="The least c = beta h^2 of the curves.")
    highest: float = setting(1e5, explain="The largest c of the curves.")
    points: int = setting(
        33, 13, explain="Values of c from the least to the largest; some more lie around the optimum."
    )
    queries: int = setting(20_001, 2001, explain="Queries, equally spaced for the largest error, drawn for the mean.")
    anchors: tuple[int, ...] = setting(
        (16, 64, 256, 1024, 4096, 16384), (16, 64, 256, 1024, 4096), explain="Numbers p for which winners are compared."
    )
    fitted: tuple[float, ...] = setting(
        (0.01, 0.02, 0.04, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.7, 4.0, 7.0, 12.0, 20.0, 40.0),
        (0.02, 0.1, 0.3, 0.7, 2.0, 7.0, 40.0),
        explain="Values of c at which values are fitted anew.",
    )
