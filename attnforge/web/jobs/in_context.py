"""In context: examples in the prompt, the iterate after every block, and its drift from exact descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnforge import in_context as algorithms
from attnforge.errors import AttnforgeError
from attnforge.progress import Told
from attnforge.web.jobs.certificate import described
from attnforge.web.packing import finite
from attnforge.web.requests import Examples

PENALISED = ("Ridge", "Lasso", "Logistic")


def in_context(asked: Examples, tell: Told) -> dict[str, Any]:
    """Weights after every block, by attention and exactly, and what is proved of this prompt."""
    tell(0.0, "building")
    options: dict[str, Any] = {"steps": asked.steps, "learning_rate": asked.learning_rate, "fit_intercept": True}
    if asked.algorithm in PENALISED:
        options["alpha"] = asked.alpha
    x, y = np.array(asked.x), np.array(asked.y)
    net = getattr(algorithms, asked.algorithm)(**options).build(features=x.shape[1])
    found, exact = (
        net.trajectory(x, y),
        np.asarray(net.target.trajectory(x.astype(np.longdouble), y.astype(np.longdouble))),
    )
    drift = np.abs(found - exact).max(axis=-1)
    tell(0.5, "proving")
    try:
        certificate = described(net.certify(x, y))
    except AttnforgeError as error:
        certificate = {"status": "sampled", "bound": None, "statement": str(error), "parts": {}, "assumptions": []}
    facts = {"construction": asked.algorithm, "layers": net.layers, "heads": net.heads, "parameters": net.parameters}
    return {
        "weights": [[finite(value) for value in row] for row in found],
        "exact": [[finite(value) for value in row] for row in exact],
        "drift": [finite(value) for value in drift],
        "certificate": certificate,
        "facts": facts | {"dtype": net.dtype},
        "python": _lines(asked, options),
    }


def _lines(asked: Examples, options: dict[str, Any]) -> str:
    written = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return "\n".join(
        [
            "import numpy as np",
            "import attnforge as af",
            "",
            f"X = np.array({[list(point) for point in asked.x]})",
            f"y = np.array({list(asked.y)})",
            f"net = af.in_context.{asked.algorithm}({written}).build(features={len(asked.x[0])})",
            "net.trajectory(X, y)  # the iterate after every block",
            "net.certify(X, y)",
        ]
    )
