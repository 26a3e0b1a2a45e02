"""Gradient descent in the prompt: the parts of the experiment, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.in_context import drift, figures, kernel, prompts, routes
from attnforge.experiments.in_context.problems import DTYPES, EXAMPLES, FEATURES, KINDS, problem
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table


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


class InContext(Experiment[InContextSettings]):
    """Hu et al. 2025, section 4, and what it leaves open."""

    name = "in-context"
    summary = "gradient descent in the prompt: drift, convergence, routes, sizes"
    question = (
        "Does softmax attention with frozen weights take steps of gradient descent on the examples of its prompt, and "
        "do T stacked blocks converge to the minimiser? Eight regressions, d = 10 inputs and n = 300 examples unless "
        "said otherwise; exact iteration is done in float64, by code that shares nothing with the networks."
    )
    settings = InContextSettings

    def cases(self, settings: InContextSettings) -> Sequence[Case]:
        """Stacks of steps, both routes, sizes of the prompt, functions as prompts and kernel regression."""
        draws, seed = settings.draws, settings.seed
        routed = {"steps": settings.fewer_steps, "seed": seed}
        sized = {"steps": settings.fewer_steps, "draws": draws, "seed": seed}
        sizes = [*((n, FEATURES) for n in settings.examples), *((EXAMPLES, d) for d in settings.features)]
        return [
            *crossed(part="steps", kind=KINDS, dtype=DTYPES, steps=settings.steps, seed=seed),
            *crossed(part="sharpness", dtype=DTYPES, heads=routes.ORDERS, count=settings.sharpnesses, seed=seed),
            *crossed(
                part="interpolation", kind=routes.INTERPOLATED, asked=("hard", "tuned"), p=settings.anchors, **routed
            ),
            *(
                {"part": "size", "kind": kind, "n": n, "d": d, **sized}
                for kind in drift.SIZED
                for n, d in dict.fromkeys(sizes)
            ),
            *crossed(part="prompt", function=prompts.FUNCTIONS, tol=settings.tolerances),
            *crossed(part="kernel", kernel=kernel.KERNELS, dtype=DTYPES, draws=draws, seed=seed),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """The rows of one part."""
        match case["part"]:
            case "steps":
                task = problem(case["kind"], seed=case["seed"])
                return drift.along_the_stack(task, case["dtype"], case["steps"])
            case "sharpness":
                task = problem("least squares", seed=case["seed"])
                return routes.by_sharpness(task, case["dtype"], case["heads"], case["count"])
            case "interpolation":
                found = routes.interpolated(case["kind"], case["asked"], case["p"], case["steps"], case["seed"])
            case "size":
                found = drift.sized(case["kind"], case["n"], case["d"], case["steps"], case["draws"], case["seed"])
            case "prompt":
                found = prompts.prompted(case["function"], case["tol"])
            case _:
                found = kernel.averaged(case["kernel"], case["dtype"], case["draws"], case["seed"])
        return [found]

    def findings(self, table: Table, settings: InContextSettings) -> Sequence[Finding]:
        """The paper's claim, the question it leaves open, and ours."""
        return [
            *drift.findings(table),
            *routes.findings(table),
            drift.by_size(table),
            prompts.finding(table),
            kernel.finding(table),
        ]

    def notes(self, table: Table, settings: InContextSettings) -> Sequence[str]:
        """One line a regression, after all steps."""
        said = (
            f"After {settings.steps:,} steps, in the Euclidean norm; factors a step are fitted to the distances from "
            "the minimiser above the floor, of attention and of exact iteration."
        )
        return [said, drift.summary(table)]

    def figures(self, table: Table, settings: InContextSettings) -> Mapping[str, Any]:
        """Distance to the minimiser, drift below its bound, and what routes and sizes cost."""
        return {
            "in-context-convergence": figures.convergence_figure(table),
            "in-context-drift": figures.drift_figure(table),
            "in-context-routes": figures.routes_figure(table),
        }
