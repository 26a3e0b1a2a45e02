"""One construction tried: built, certified, and sized again where rounding spends part of the tolerance."""

from __future__ import annotations

import math
from typing import Any

from attnforge.certification import Certificate
from attnforge.compiler.certifying import certified
from attnforge.compiler.choice import why
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.errors import RefusalError, ToleranceError
from attnforge.targets import Target
from attnforge.theorems.construction import Construction

ROUNDS = 4  # sizing again with less tolerance, to leave room for rounding


def attempt(
    candidate: Construction[Any],
    plan: Any,
    target: Target,
    tol: float,
    dtype: str,
    *,
    max_anchors: int | None = None,
    max_bytes: int | None = None,
) -> Compiled:
    """Build and certify; where rounding or the proof spends part of the tolerance, size again for what is left.

    Near the roundoff of float64 no proof can keep fitted heads below tol, since it must assume the worst rounding
    everywhere; around kinks of several inputs an enclosure is loose. There tol is met as measured, and the bound, which
    is proved, is larger. The reason says so.
    """
    left, nearly = tol, None
    for _ in range(ROUNDS):
        afford(candidate.cost(target, plan), candidate.name, max_anchors, max_bytes)
        compiled = certified(candidate.build(target, plan), target, candidate.name, dtype)
        certificate = compiled.certificate
        seen = certificate.estimate.error if certificate.estimate is not None else math.inf
        stated = seen if certificate.bound is None else certificate.bound
        compiled.reason = why(compiled, candidate, plan, tol)
        if stated <= tol:
            return compiled
        rounding = certificate.parts.get("rounding", 0.0)
        enclosed = certificate.bound is None or "fit" in certificate.parts
        if enclosed and dtype == "float64" and seen <= tol and (tol < 2 * rounding or stated > 2 * tol):
            cause = "worst-case rounding" if tol < 2 * rounding else "an enclosure that is loose here"
            compiled.reason += f"; tol is met as measured, the proved bound includes {cause}"
            nearly = nearly or compiled
        left = 0.7 * left * tol / stated if enclosed else tol - 1.1 * rounding
        if nearly is not None or left <= tol / 10:
            break
        try:
            plan = candidate.size(target, left, dtype)
        except (RefusalError, ToleranceError):  # what was reached says more than what the last attempt asked for
            break
    if nearly is not None:
        return nearly
    raise _too_fine(candidate.name, tol, dtype, certificate)


def _too_fine(name: str, tol: float, dtype: str, certificate: Certificate) -> ToleranceError:
    finer = "" if dtype == "float64" else ', or compile with dtype="float64"'
    if certificate.bound is None:
        seen = math.inf if certificate.estimate is None else certificate.estimate.error
        got, reached = f"an error of {seen:.3g}", seen
    else:
        rounding = certificate.parts.get("rounding", 0.0)
        got = f"a bound of {certificate.bound:.3g}, of which rounding alone is {rounding:.3g}"
        reached = max(certificate.bound, 2 * rounding)
    return ToleranceError(
        f"`{name}` must reach tol={tol:g} in {dtype}", got, f"Ask for tol >= {1.05 * reached:.2g}{finer}"
    )
