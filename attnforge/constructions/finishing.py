"""What all constructions by name do: check counts and costs, then build and certify."""

from __future__ import annotations

import math
import operator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.compiler.budget import Asked, budget
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford, announce
from attnforge.compiler.targets import as_target
from attnforge.errors import DomainError, RefusalError
from attnforge.targets import Function, Target, as_box, as_lipschitz
from attnforge.theorems.construction import Construction
from attnforge.theorems.truncated_linear import Layout

Array = npt.NDArray[np.float64]
P = TypeVar("P")


def finish(construction: Construction[P], target: Target, plan: P, dtype: str, asked: Asked) -> Compiled:
    """Check the cost, then build and certify, within what was asked for."""
    cost = construction.cost(target, plan)
    afford(cost, construction.name, max_bytes=asked.get("max_bytes"))
    with budget(**asked) as given:
        announce(cost, construction.name, given.effort, given.watch)
        network = construction.build(target, plan)
        compiled = certified(network, target, construction.name, dtype, given)
    given.accepted(compiled.certificate, construction.name)
    return compiled


def target_of(f: Any, domain: Any, lipschitz: Any = None) -> Target:
    """A callable, which takes (..., d) whatever d is, on a box or on named intervals; or a formula, or a target."""
    if not callable(f) or isinstance(f, Target):
        return as_target(f, domain, lipschitz)
    box, names = as_box(domain)
    return Function(f, box, lipschitz=as_lipschitz(lipschitz), names=names)


def count_of(name: str, value: Any) -> int:
    """A whole number that float64 can count to."""
    try:
        count = operator.index(value)
    except TypeError:
        raise RefusalError(f"`{name}` must be a whole number", repr(value), "Round it") from None
    if count > 2**53:
        raise RefusalError(f"`{name}` must be countable in float64", f"about 10^{len(str(count)) - 1}", "Ask for fewer")
    return count


def positions_of(name: str, values: Any, lower: float = -math.inf, upper: float = math.inf) -> Array:
    """Given positions of anchors along an axis: at least two increasing numbers, between the ends."""
    try:
        at = np.array(float64(values))
    except DomainError:
        at = np.empty(0)
    apart = at.ndim == 1 and len(at) > 1 and bool(np.all(np.diff(at) > 0))  # NaN is not
    if not (apart and np.isfinite(at).all() and lower <= at[0] and at[-1] <= upper):
        within = f" in [{lower:g}, {upper:g}]" if math.isfinite(lower) else ""
        requirement = f"`{name}` is a number of anchors, or their positions: two or more increasing numbers{within}"
        raise RefusalError(requirement, repr(values)[:200], "Sort them, and list each once")
    return at


def as_layout(layout: str) -> Layout:
    """One of the two layouts."""
    if layout not in ("memory", "literal"):
        raise RefusalError("`layout` must be 'memory' or 'literal'", repr(layout), "Use 'memory' unless you compare")
    return "memory" if layout == "memory" else "literal"
