"""One construction tried: built, certified, and sized again where rounding spends part of the tolerance."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from attnforge.certification import Certificate
from attnforge.compiler.budget import UNLIMITED, Budget
from attnforge.compiler.certifying import certified
from attnforge.compiler.choice import why
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.compiler.finest import Finest, finest, rounded_up
from attnforge.effort import TIME, UNFINISHED, check_time, time_is_up
from attnforge.errors import OutOfTimeError, RefusalError, ToleranceError
from attnforge.outward import machine
from attnforge.targets import Target
from attnforge.theorems.construction import Construction

FAR = 10.0  # times tol: what float64 misses by more is not for the sake of rounding, unless the proof says so


def attempt(
    candidate: Construction[Any],
    plan: Any,
    target: Target,
    tol: float,
    dtype: str,
    *,
    max_anchors: int | None = None,
    budget: Budget = UNLIMITED,
) -> Compiled:
    """Build and certify; where rounding or the proof spends part of the tolerance, size again for what is left.

    Near the roundoff of float64 no proof can keep fitted heads below tol, since it must assume the worst rounding
    everywhere; around kinks of several inputs an enclosure is loose. There tol is met as measured, and the bound, which
    is proved, is larger. The reason says so. Where no size will do, the plan is taken that keeps the smallest tolerance
    in this dtype; if that is not enough either, the error's ``smallest_tol`` is what it keeps. When time is up, what
    measures within tol is returned whatever its bound, and the reason says so.
    """
    left, nearly = tol, None
    for _ in range(budget.effort.sizings):
        afford(candidate.cost(target, plan), candidate.name, max_anchors, budget.max_bytes)
        check_time("building")
        network = candidate.build(target, plan)
        compiled = certified(network, target, candidate.name, dtype, budget)
        certificate = compiled.certificate
        seen = certificate.estimate.error if certificate.estimate is not None else math.inf
        stated = seen if certificate.bound is None else certificate.bound
        compiled = replace(compiled, reason=why(compiled, candidate, plan, tol))
        if stated <= tol:
            return _accepted(compiled, budget)
        if time_is_up():
            if not seen <= tol:
                got = f"an error of {seen:.3g} {UNFINISHED}"
                raise OutOfTimeError(f"`{candidate.name}` must reach tol={tol:g}", got, "Raise timeout, or tol")
            return _accepted(_adding(compiled, f"; tol is met as measured, the proof ended at {TIME}"), budget)
        rounding = certificate.parts.get("rounding", 0.0)
        enclosed = candidate.fitted and (certificate.bound is None or "fit" in certificate.parts)
        if enclosed and dtype == "float64" and seen <= tol and (tol < 2 * rounding or stated > 2 * tol):
            nearly = nearly or _adding(compiled, _as_measured(certificate, tol))
        left = 0.7 * left * tol / stated if enclosed else tol - 1.1 * rounding
        if nearly is not None or left <= tol / 10:
            break
        try:
            plan = candidate.size(target, left, dtype)
        except (RefusalError, ToleranceError):  # what was reached says more than what the last attempt asked for
            break
    if nearly is not None:
        return _accepted(nearly, budget)
    rounds = dtype != "float64" or stated <= FAR * tol or rounding >= tol
    best = finest(candidate, target, dtype, max_anchors=max_anchors, budget=budget) if rounds else None
    if best is not None and best.tol <= tol:
        return _accepted(finished(best, candidate, target, tol, dtype, budget), budget)
    raise _too_fine(candidate.name, tol, dtype, certificate, best)


def _adding(compiled: Compiled, text: str) -> Compiled:
    return replace(compiled, reason=compiled.reason + text)


def _accepted(compiled: Compiled, budget: Budget) -> Compiled:
    budget.accepted(compiled.certificate, compiled.construction)
    return compiled


def finished(
    best: Finest, candidate: Construction[Any], target: Target, tol: float, dtype: str, budget: Budget = UNLIMITED
) -> Compiled:
    """What keeps the smallest tolerance, measured, with its reason."""
    compiled = certified(best.network, target, candidate.name, dtype, budget)
    reason = why(compiled, candidate, best.plan, tol) + f"; about the best that {dtype} can do"
    bound = compiled.certificate.bound
    if bound is not None and bound > tol:
        reason += _as_measured(compiled.certificate, tol)
    return replace(compiled, reason=reason)


def advice(smallest: float, tol: float, dtype: str) -> str:
    """What to do where tol is too fine for a dtype: rounding shrinks as the roundoff does, so float64 may reach it.

    >>> advice(3e-5, 1e-6, "float32"), advice(3e-5, 1e-20, "float32")
    ('Ask for tol >= 3e-05, or compile with dtype="float64"', 'Ask for tol >= 3e-05')
    """
    helps = smallest * machine("float64").roundoff / machine(dtype).roundoff <= tol
    finer = ', or compile with dtype="float64"' if dtype != "float64" and helps else ""
    return f"Ask for tol >= {smallest:.2g}{finer}"


def _as_measured(certificate: Certificate, tol: float) -> str:
    loose = tol >= 2 * certificate.parts.get("rounding", 0.0)
    cause = "an enclosure that is loose here" if loose else "worst-case rounding"
    return f"; tol is met as measured, the proved bound includes {cause}"


def _too_fine(name: str, tol: float, dtype: str, certificate: Certificate, best: Finest | None) -> ToleranceError:
    """The refusal: by the best that was found, else by what was reached when tol was asked for."""
    reached = certificate if best is None else best.certificate
    rounding = reached.parts.get("rounding", 0.0)
    if reached.bound is None or (best is not None and best.tol < reached.bound):
        seen = math.inf if reached.estimate is None else reached.estimate.error
        got, least = f"an error of {seen:.3g}", seen
    else:
        got, least = f"a bound of {reached.bound:.3g}, of which rounding alone is {rounding:.3g}", reached.bound
    smallest = None if best is None else rounded_up(best.tol)
    remedy = advice(smallest or 1.05 * max(least, 2 * rounding), tol, dtype)
    return ToleranceError(f"`{name}` must reach tol={tol:g} in {dtype}", got, remedy, smallest_tol=smallest)
