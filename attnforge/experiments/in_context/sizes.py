"""The size of the prompt: drift for more examples, and for more inputs."""

from __future__ import annotations

from typing import Any

from attnforge.experiments.experiment import Case, Finding, Row
from attnforge.experiments.in_context.curves import curve
from attnforge.experiments.in_context.drift import along_the_stack
from attnforge.experiments.in_context.problems import EXAMPLES, FEATURES, problem
from attnforge.experiments.in_context.settings import InContextSettings
from attnforge.experiments.table import Table

SIZED = ("least squares", "logistic")


def cases(settings: InContextSettings) -> list[Case]:
    """More examples of the usual number of inputs, and more inputs for the usual number of examples."""
    pairs = [*((n, FEATURES) for n in settings.examples), *((EXAMPLES, d) for d in settings.features)]
    rest = {"steps": settings.fewer_steps, "draws": settings.draws, "seed": settings.seed}
    return [{"part": "size", "kind": k, "n": n, "d": d, **rest} for k in SIZED for n, d in dict.fromkeys(pairs)]


def sized(kind: str, examples: int, features: int, steps: int, draws: int, seed: int) -> Row:
    """Largest drift and error of a block over some prompts of one size; the bound of the worst."""
    found = [
        along_the_stack(problem(kind, examples, features, seed=1000 * seed + draw), "float64", steps, [steps])[0]
        for draw in range(draws)
    ]
    worst = max(found, key=lambda row: float(row["drift"] or 0.0))
    return {name: worst[name] for name in ("drift", "bound", "block_error")}


def finding(table: Table) -> Finding:
    """How drift depends on either size."""
    parts = []
    for kind in SIZED:
        spans = [_span(rows, column) for column, rows in _by_size(table, kind).items()]
        blocks = table.where(part="size", kind=kind).numbers("block_error").max()
        parts.append(f"{kind} {', '.join(spans)}, blocks to {blocks:.1e}")
    return Finding("drift against the size of the prompt, float64", "measured", "; ".join(parts))


def _span(rows: Table, column: str) -> str:
    size, drift = rows.points(column, "drift")
    return f"{drift[0]:.1e} to {drift[-1]:.1e} for {column} = {size[0]:.0f} to {size[-1]:,.0f}"


def _by_size(table: Table, kind: str) -> dict[str, Table]:
    """The rows of one regression by the size that grows."""
    rows = table.where(part="size", kind=kind)
    return {"n": rows.where(d=FEATURES).ordered("n"), "d": rows.where(n=EXAMPLES).ordered("d")}


def curves(table: Table) -> list[Any]:
    """Drift against either size."""
    return [
        curve(f"{kind}, {column}", rows, column, "drift")
        for kind in SIZED
        for column, rows in _by_size(table, kind).items()
    ]
