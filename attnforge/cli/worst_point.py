"""How a worst point is told: where it is, and what it says about the stored bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from attnforge import Certificate, Compiled


def within_bound(error: float, certificate: Certificate) -> bool | None:
    """Whether the error keeps the bound; None where there is no bound. What is not a number does not keep it."""
    return None if certificate.bound is None else bool(error <= certificate.bound)


def bound_facts(error: float, certificate: Certificate) -> dict[str, str]:
    """The stored bound and the verdict, for a report."""
    bound = certificate.bound
    return {
        "stored bound": "none" if bound is None else f"{bound:.6g} ({certificate.status})",
        "verdict": _verdict(error, bound),
    }


def verdict_style(error: float, certificate: Certificate) -> dict[str, str]:
    """Red where the bound is beaten."""
    return {"verdict": "bold red" if within_bound(error, certificate) is False else "bold green"}


def bound_data(error: float, certificate: Certificate) -> dict[str, Any]:
    """The same for a program."""
    return {
        "bound": certificate.bound,
        "status": certificate.status,
        "within_bound": within_bound(error, certificate),
    }


def place(model: Compiled, at: npt.NDArray[np.float64]) -> str:
    """The point, its inputs by name where they are few."""
    import numpy as np

    from attnforge.cli.points import input_names

    if at.ndim == 1 and at.size <= 8:
        return ", ".join(f"{name} = {value:.6g}" for name, value in zip(input_names(model), at, strict=True))

    return np.array2string(at, precision=6, threshold=8, separator=", ").replace("\n", "")


def finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity: a broken network has no largest error."""
    return value if value is not None and math.isfinite(value) else None


def _verdict(error: float, bound: float | None) -> str:
    if bound is None:
        return "nothing to compare with: the file states no bound"
    if not error <= bound:
        return "ABOVE the bound: the stored certificate is wrong"
    return f"within the bound ({error / bound:.0%} of it)" if bound > 0 else "within the bound"
