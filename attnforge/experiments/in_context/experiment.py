"""Gradient descent in the prompt: the parts of the experiment, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.in_context import (
    convergence,
    drift,
    figures,
    interpolation,
    kernel,
    prompts,
    sharpness,
    sizes,
)
from attnforge.experiments.in_context.problems import problem
from attnforge.experiments.in_context.settings import InContextSettings
from attnforge.experiments.table import Table


class InContext(Experiment[InContextSettings]):
    """Hu et al. 2025, section 4, and what it leaves open."""

    name: ClassVar[str] = "in-context"
    summary: ClassVar[str] = "gradient descent in the prompt: drift, convergence, routes, sizes"
    question: ClassVar[str] = (
        "Does softmax attention with frozen weights take steps of gradient descent on the examples of its prompt, and "
        "do T stacked blocks converge to the minimiser? Eight regressions, d = 10 inputs and n = 300 examples unless "
        "said otherwise; exact iteration is done in float64, by code that shares nothing with the networks."
    )
    settings = InContextSettings

    def cases(self, settings: InContextSettings) -> Sequence[Case]:
        """Stacks of steps, both routes, sizes of the prompt, functions as prompts and kernel regression."""
        return [
            *drift.cases(settings),
            *sharpness.cases(settings),
            *interpolation.cases(settings),
            *sizes.cases(settings),
            *prompts.cases(settings),
            *kernel.cases(settings),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """The rows of one part."""
        match case["part"]:
            case "steps":
                task = problem(case["kind"], seed=case["seed"])
                return drift.along_the_stack(task, case["dtype"], case["steps"])
            case "sharpness":
                task = problem("least squares", seed=case["seed"])
                return sharpness.by_sharpness(task, case["dtype"], case["heads"], case["count"])
            case "interpolation":
                found = interpolation.interpolated(case["kind"], case["asked"], case["p"], case["steps"], case["seed"])
            case "size":
                found = sizes.sized(case["kind"], case["n"], case["d"], case["steps"], case["draws"], case["seed"])
            case "prompt":
                found = prompts.prompted(case["function"], case["tol"])
            case _:
                found = kernel.averaged(case["kernel"], case["dtype"], case["draws"], case["seed"])
        return [found]

    def findings(self, table: Table, settings: InContextSettings) -> Sequence[Finding]:
        """The paper's claim, the question it leaves open, and ours."""
        return [
            *convergence.findings(table),
            *sharpness.findings(table),
            *interpolation.findings(table),
            sizes.finding(table),
            prompts.finding(table),
            kernel.finding(table),
        ]

    def notes(self, table: Table, settings: InContextSettings) -> Sequence[str]:
        """One line a regression, after all steps."""
        said = (
            f"After {settings.steps:,} steps, in the Euclidean norm; factors a step are fitted to the distances from "
            "the minimiser above the floor, of attention and of exact iteration."
        )
        return [said, convergence.summary(table)]

    def figures(self, table: Table, settings: InContextSettings) -> Mapping[str, Any]:
        """Distance to the minimiser, drift below its bound, and what routes and sizes cost."""
        return {
            "in-context-convergence": figures.convergence_figure(table),
            "in-context-drift": figures.drift_figure(table),
            "in-context-routes": figures.routes_figure(table),
        }
