"""Kernel regression against its closed form."""

from __future__ import annotations

import pytest

from attnforge.experiments.in_context.kernel import averaged


@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_kernel_regression_is_its_closed_form(kernel: str) -> None:
    assert 0 < float(averaged(kernel, "float64", 1, 0)["error"] or 0) < 1e-13
    assert float(averaged(kernel, "float32", 1, 0)["error"] or 0) > 1e-9
