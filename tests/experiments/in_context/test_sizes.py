"""Prompts of another size."""

from __future__ import annotations

from attnforge.experiments.in_context.sizes import sized


def test_sizes() -> None:
    found = sized("logistic", 20, 2, 10, 2, 0)
    assert float(found["drift"] or 1) < 1e-9
