"""What the experiment can be told, and what counts as near an end."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.experiments.settings import Settings, setting

NEAR = 2.0  # steps from an end that count as near it
MIDDLE = 16.0  # steps from both ends, at least, that count as the interior


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
