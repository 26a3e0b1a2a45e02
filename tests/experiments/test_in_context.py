from itertools import product
from typing import Any

import numpy as np
import pytest

from attnforge.anchors import hard
from attnforge.experiments.descent import KINDS, problem
from attnforge.experiments.in_context import (
    InContext,
    InContextSettings,
    along_the_stack,
    averaged,
    by_sharpness,
    factor_a_step,
    interpolated,
    prompted,
    sized,
)
from attnforge.experiments.settings import quick
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


def verdicts(table: Table) -> dict[str, str]:
    return {each.claim: each.verdict for each in InContext().findings(table, InContextSettings())}


@pytest.mark.parametrize("settings", [InContextSettings(), quick(InContextSettings)])
def test_cases_are_distinct_and_plain(settings: InContextSettings) -> None:
    cases = InContext().cases(settings)
    assert len({tuple(sorted(case.items())) for case in cases}) == len(cases)
    assert all(isinstance(cell, str | int | float) for case in cases for cell in case.values())


def test_along_the_stack() -> None:
    task = problem("ridge", 50, 3)
    first, last = along_the_stack(task, "float64", 60, [1, 60])
    assert first["step"] == 1
    assert 0 < float(first["drift"] or 0) < 1e-11
    assert float(last["drift"] or 1) < float(last["bound"] or 0) < 1e-6
    start = np.linalg.norm(task.iterates(1)[0] - task.minimiser()) / np.linalg.norm(task.minimiser())
    assert first["exact_distance"] == pytest.approx(start)
    assert float(last["distance"] or 1) < 1e-11 < float(first["distance"] or 0)


def test_bounds_that_do_not_exist_are_empty() -> None:
    (row,) = along_the_stack(problem("Huber", 50, 3), "float32", 100, [100])
    assert row["bound"] is None
    assert float(row["drift"] or 1) < 1e-4


def test_one_head_is_worse_than_two() -> None:
    task = problem("least squares", 50, 3)
    one, two = (by_sharpness(task, "float64", heads, 3) for heads in (1, 2))
    assert [row["chosen"] for row in one] == [False, False, False, True]
    assert float(two[-1]["error"] or 1) < float(one[-1]["error"] or 0) < 1e-9


def test_hard_links_are_half_a_step_off() -> None:
    found = interpolated("least squares", "hard", 13, 2, 0)  # anchors a step of 1 apart
    off = np.arange(11) / 21  # the residuals looked at, from an anchor to the middle
    expected = (off - 1 / (1 + np.exp(hard("float64") * (1 - 2 * off)))).max()  # two anchors share the weight
    assert found["error"] == pytest.approx(expected, abs=1e-6)
    assert "error" not in interpolated("logistic", "hard", 13, 2, 0)


def test_sizes() -> None:
    found = sized("logistic", 20, 2, 10, 2, 0)
    assert float(found["drift"] or 1) < 1e-9


def test_prompts_and_refusals() -> None:
    one, other = prompted("log(x)", 1e-3), prompted("abs(x)", 1e-2)
    assert one["digest"] == other["digest"]
    assert float(one["error"] or 1) <= float(one["bound"] or 0) <= 1e-3
    assert prompted("log(x)", 1e-18)["error"] is None


@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_kernel_regression_is_its_closed_form(kernel: str) -> None:
    assert 0 < float(averaged(kernel, "float64", 1, 0)["error"] or 0) < 1e-13
    assert float(averaged(kernel, "float32", 1, 0)["error"] or 0) > 1e-9


def test_factors_leave_out_the_floor() -> None:
    steps = np.arange(1, 41)
    distances = np.maximum(0.5**steps, 1e-9)
    assert factor_a_step(steps, distances, 1e-9).value == pytest.approx(0.5)
    assert factor_a_step(steps, distances, 0.0).value > 0.55


def test_claims_that_hold_are_confirmed() -> None:
    found = verdicts(rows())
    assert sorted(found.values()) == ["confirmed"] * 10 + ["measured"] * 2


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("one block", {"steps": {"block_error": 1e-9}}),
        ("T stacked", {"steps": {"distance": 1e-3}}),
        ("no drift above", {"steps": {"bound": 1e-14}}),
        ("small-sharpness route, 1 head", {"sharpness": {"heads": 1, "error": 1.0}}),
        ("interpolation route, hard, Huber", {"interpolation": {"error": 1.0}}),
        ("one frozen network", {"prompt": {"error": 0.5}}),
        ("kernel regression", {"kernel": {"error": 1e-9}}),
    ],
)
def test_claims_that_fail_are_refuted(claim: str, changes: dict[str, Any]) -> None:
    if claim.startswith("T stacked"):  # the distances fall, but not far enough
        table = Table.of(
            row | ({"distance": max(row["distance"], 1e-6)} if "distance" in row else {}) for row in rows().rows
        )
    elif claim.startswith("small"):
        table = Table.of(
            row | ({"error": float(row["beta"])} if row["part"] == "sharpness" else {}) for row in rows().rows
        )
    else:
        table = rows(**changes)
    (found,) = [verdict for name, verdict in verdicts(table).items() if name.startswith(claim)]
    assert found == "refuted"


def test_errors_that_add_up_are_seen() -> None:
    table = Table.of(row | ({"drift": 1e-13 * row["step"]} if row["part"] == "steps" else {}) for row in rows().rows)
    assert (
        verdicts(table)["errors of the blocks do not add up: drift grows slower than the square root of their number"]
        == "refuted"
    )


def test_another_network_a_function_is_seen() -> None:
    table = Table.of(row | ({"digest": str(row["tol"])} if row["part"] == "prompt" else {}) for row in rows().rows)
    (found,) = [verdict for name, verdict in verdicts(table).items() if name.startswith("one frozen")]
    assert found == "refuted"


def test_figures_and_notes() -> None:
    figures = InContext().figures(rows(), InContextSettings())
    assert list(figures) == ["in-context-convergence", "in-context-drift", "in-context-routes"]
    for figure in figures.values():
        figure.draw_without_rendering()
    assert [axes.get_title() for axes in figures["in-context-drift"].axes] == list(KINDS)
    said, table = InContext().notes(rows(), InContextSettings())
    assert said.startswith("After 1,000 steps")
    assert "| lasso | 0.5000 | 0.5000 | 1.0e-12 | 1.0e-13 | 1.0e-09 | 1.0e-13 |" in table
