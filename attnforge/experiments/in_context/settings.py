"""What the experiment on prompts can be told."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.experiments.settings import Settings, setting


@dataclass(frozen=True)
class InContextSettings(Settings):
    """How many steps, sharpnesses, anchors and sizes."""

    steps: int = setting(1000, 200, explain="Blocks of the stack.")
    sharpnesses: int = setting(36, 15, explain="Sharpnesses of the aggregation head between 1e-7 and 1.")
    anchors: tuple[int, ...] = setting(
        (10, 20, 40, 80, 160, 320), (10, 20, 40, 80), explain="Numbers p of anchors of the interpolation route."
    )
    examples: tuple[int, ...] = setting(
        (10, 30, 100, 300, 1000, 3000), (10, 100, 1000), explain="Numbers n of examples, of 10 features."
    )
    features: tuple[int, ...] = setting((1, 2, 5, 10, 20, 50), (1, 5, 20), explain="Numbers d of inputs, n = 300.")
    draws: int = setting(5, 2, explain="Prompts a size, and of kernel regression.")
    tolerances: tuple[float, ...] = setting(
        (1e-2, 1e-4, 1e-6, 1e-8, 1e-10), (1e-2, 1e-6), explain="Asked of functions as prompts."
    )

    @property
    def fewer_steps(self) -> int:
        """Blocks of the stacks of which there are many."""
        return min(self.steps, 200)
