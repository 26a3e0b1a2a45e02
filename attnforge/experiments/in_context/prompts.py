"""Functions as prompts: one frozen network that computes each of them to the tolerance of its prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import attnforge as af
from attnforge.experiments.experiment import Finding, Row
from attnforge.experiments.in_context.drift import FLOOR
from attnforge.experiments.panels import curve
from attnforge.experiments.table import Array, Table
from attnforge.plot.rates import Curve
from attnforge.plot.style import GREY

FRESH = 100_000  # points at which a function of a prompt is measured
FUNCTIONS: dict[str, tuple[float, float, Callable[[Array], Array]]] = {  # ends of the domain, values
    "sin(8*x)": (-1.0, 1.0, lambda x: np.sin(8 * x)),
    "1/(1 + 25*x^2)": (-1.0, 1.0, lambda x: 1 / (1 + 25 * x**2)),
    "log(x)": (0.5, 4.0, np.log),
    "abs(x)": (-1.0, 1.0, np.abs),
}


def prompted(function: str, tol: float) -> Row:
    """A function as a prompt of the frozen network; refused where one head cannot have the tolerance."""
    low, high, f = FUNCTIONS[function]
    try:
        net, prompt = af.in_context.function_prompt(function, {"x": (low, high)}, tol=tol)
    except (af.RefusalError, af.ToleranceError):
        return {"tokens": None, "error": None, "bound": None, "digest": None}
    x = np.random.default_rng(0).uniform(low, high, size=FRESH)
    error = float(np.abs(net(x, prompt) - f(x)).max())
    return {"tokens": len(prompt.tokens), "error": error, "bound": prompt.certificate.bound, "digest": net.digest}


def finding(table: Table) -> Finding:
    """Whether all networks are the same, and every function is within its tolerance."""
    rows = table.where(part="prompt")
    made = rows.having("error")
    digests, ratio, tokens = made.distinct("digest"), made.ratios("error", "tol"), made.numbers("tokens")
    refused = ", ".join(f"{row['function']} at {row['tol']:g}" for row in rows.rows if row.get("error") is None)
    evidence = (
        f"{len(digests)} SHA-256 for {len(made)} prompts of {len(made.by('function'))} functions, largest error / tol "
        f"{ratio.max():.2f}, {tokens.min():.0f} to {tokens.max():,.0f} tokens; refused: {refused or 'none'}"
    )
    claim = "one frozen network computes every function it is prompted with, each within its tolerance"
    return Finding.judged(claim, len(digests) == 1 and np.all(ratio <= 1), evidence)


def curves(table: Table) -> list[Any]:
    """Errors against the tolerance, and the tolerance itself."""
    rows = table.where(part="prompt")
    made = rows.having("error").ordered("tol")
    tols = np.unique(rows.numbers("tol"))
    return [
        *(curve(text, made.where(function=text), "tol", "error", floor=FLOOR) for text in FUNCTIONS),
        Curve("tolerance", tols, tols, look=(GREY, "", ":")),
    ]
