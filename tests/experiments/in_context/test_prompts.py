"""Functions as prompts, and refusals."""

from __future__ import annotations

from attnforge.experiments.in_context.prompts import prompted


def test_prompts_and_refusals() -> None:
    one, other = prompted("log(x)", 1e-3), prompted("abs(x)", 1e-2)
    assert one["digest"] == other["digest"]
    assert float(one["error"] or 1) <= float(one["bound"] or 0) <= 1e-3
    assert prompted("log(x)", 1e-18)["error"] is None
