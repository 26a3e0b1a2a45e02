"""Results of the experiment on prompts as they would be if all claims held."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from attnforge.experiments.in_context.problems import KINDS
from attnforge.experiments.table import Table


def rows(**changes: Any) -> Table:
    """What every part would find if all claims held; ``changes`` replace columns of the part they are named after."""
    found: list[dict[str, Any]] = []
    for kind in KINDS:
        for dtype in ("float64", "float32"):
            for step in (1, 10, 20, 30, 100):
                distance = max(0.5**step, 1e-12)
                cells = {"step": step, "drift": 1e-13, "bound": 1e-9, "block_error": 1e-13, "distance": distance}
                exact = {"exact_distance": max(0.5**step, 1e-16)}
                found.append({"part": "steps", "kind": kind, "dtype": dtype} | cells | exact)
    for heads, dtype in product((1, 2), ("float64", "float32")):
        for beta in np.geomspace(1e-6, 1e-1, 26):
            error = max(beta ** (2 * heads), 1e-15 / beta)
            found.append({"part": "sharpness", "dtype": dtype, "heads": heads, "beta": beta, "error": error})
            found[-1]["chosen"] = False
        found.append(found[-1] | {"chosen": True})
    for kind in ("least squares", "Huber", "logistic"):
        for asked in ("hard", "tuned"):
            for p in (11, 21, 41):
                cells = {"p": p, "error": 1 / (p - 1), "drift": 0.1 / p}
                found.append({"part": "interpolation", "kind": kind, "asked": asked} | cells)
    for kind in ("least squares", "logistic"):
        for n, d in ((10, 10), (300, 10), (300, 2)):
            found.append({"part": "size", "kind": kind, "n": n, "d": d, "drift": 1e-13, "block_error": 1e-13})
    for tol in (1e-2, 1e-4):
        cells = {"error": tol / 2, "bound": tol, "tokens": 9, "digest": "a"}
        found.append({"part": "prompt", "function": "log(x)", "tol": tol} | cells)
    found += [{"part": "kernel", "dtype": dtype, "error": 1e-16} for dtype in ("float64", "float32")]
    return Table.of(row | changes.get(row["part"], {}) for row in found)
