"""What a user may hand in as a target, turned into a Target."""

from __future__ import annotations

from typing import Any

from attnforge.errors import DomainError, TargetError
from attnforge.targets import Box, Formula, Function, ReluNetwork, Target, as_box, as_lipschitz
from attnforge.targets.evaluation import Evaluation
from attnforge.targets.relu_network import is_torch_module
from attnforge.targets.table import Table, as_table


def as_target(target: Any, domain: Any = None, lipschitz: Any = None, evaluation: Evaluation | None = None) -> Target:
    """A Target from text, a sympy expression, a torch network, a callable, a table (points, values), or a Target.

    A table brings its own domain, the bounding box of its points; all but tables and Targets need one.
    """
    if isinstance(target, Target):
        return target if domain is None else target.on(_in_order(target, domain))
    if isinstance(target, tuple | list):
        return as_table(target, domain)
    if domain is None:
        raise DomainError("A target needs a domain", "none", 'Write compile("clamp(x, 0, 1)", {"x": (-1, 2)})')
    if isinstance(target, str) or _is_sympy(target):
        box, names = as_box(domain)
        return Formula(target, box, names)
    if is_torch_module(target):
        return ReluNetwork.from_torch(target, as_box(domain)[0])
    if callable(target):
        box, names = as_box(domain)
        return Function(target, box, lipschitz=as_lipschitz(lipschitz), names=names, plain=True, evaluation=evaluation)
    kind = type(target).__name__
    wanted = "A target is text, a sympy expression, a torch network, a callable or a pair (points, values)"
    raise TargetError(wanted, kind, "Pass one of these")


def compared_with(own: Target, target: Any = None, domain: Any = None) -> Target:
    """What a network made for ``own`` is compared with: that, or another target on the same domain.

    A table is compared where it is listed, wherever that is.
    """
    if isinstance(target, tuple | list):
        return as_table(target, domain)
    if target is None:
        return own if domain is None else as_target(own, domain)
    if isinstance(target, Table) and domain is None:
        return target
    return as_target(target, domain or named_domain(own))


def named_domain(target: Target) -> Any:
    """The target's domain with the names of its inputs, where it has any: what a new text target needs to know."""
    box, names = target.domain, target.names
    if names is None:
        return box
    return {name: (a, b) for name, a, b in zip(names, box.lower.tolist(), box.upper.tolist(), strict=True)}


def _in_order(target: Target, domain: Any) -> Box:
    """The box, its axes in the target's order where the domain names them."""
    box, names = as_box(domain)
    if names is None or names == target.names:
        return box
    if target.names is None or set(names) != set(target.names):
        raise DomainError(f"The inputs of the target are {target.names}", f"a domain of {names}", "Use these names")
    order = [names.index(name) for name in target.names]
    return Box(box.lower[order], box.upper[order])


def _is_sympy(target: Any) -> bool:
    return type(target).__module__.split(".")[0] == "sympy"
