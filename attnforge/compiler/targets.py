"""What a user may hand in as a target, turned into a Target."""

from __future__ import annotations

from typing import Any

from attnforge.errors import DomainError, TargetError
from attnforge.targets import Formula, Target, as_box


def as_target(target: Any, domain: Any = None) -> Target:
    """A Target from text, a sympy expression, or a Target."""
    if isinstance(target, Target):
        return target
    if domain is None:
        raise DomainError("A target needs a domain", "none", 'Write compile("clamp(x, 0, 1)", {"x": (-1, 2)})')
    if isinstance(target, str) or _is_sympy(target):
        box, names = as_box(domain)
        return Formula(target, box, names)
    kind = type(target).__name__
    raise TargetError("This version compiles text and sympy expressions", kind, "Write the function as an expression")


def _is_sympy(target: Any) -> bool:
    return type(target).__module__.split(".")[0] == "sympy"
