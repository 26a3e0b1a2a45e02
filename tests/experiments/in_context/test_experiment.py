"""Cases, findings that confirm and that can fail, figures and notes."""

from __future__ import annotations

from typing import Any

import pytest

from attnforge.experiments.in_context import InContext, InContextSettings
from attnforge.experiments.in_context.problems import KINDS
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table
from tests.experiments.in_context.made_up import rows


def verdicts(table: Table) -> dict[str, str]:
    return {each.claim: each.verdict for each in InContext().findings(table, InContextSettings())}


@pytest.mark.parametrize("settings", [InContextSettings(), quick(InContextSettings)])
def test_cases_are_distinct_and_plain(settings: InContextSettings) -> None:
    cases = InContext().cases(settings)
    assert len({tuple(sorted(case.items())) for case in cases}) == len(cases)
    assert all(isinstance(cell, str | int | float) for case in cases for cell in case.values())


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
