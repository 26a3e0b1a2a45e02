"""What a user may hand in as a target, turned into a Target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attnforge.errors import DomainError, TargetError
from attnforge.expression import Node, from_sympy, parse_program
from attnforge.expression.program import is_list, is_program
from attnforge.targets import Formula, Formulas, Function, OpenFormula, Target, as_box, as_lipschitz
from attnforge.targets.domain import in_order
from attnforge.targets.evaluation import Evaluation
from attnforge.targets.relu_network import is_torch_module
from attnforge.targets.table import Table, as_table
from attnforge.targets.tracing.onnx_network import from_onnx, is_onnx_file
from attnforge.targets.tracing.sklearn_network import from_sklearn, is_sklearn
from attnforge.targets.tracing.torch_network import from_torch

NETWORKS: tuple[tuple[Callable[[Any], bool], Callable[..., Target]], ...] = (
    (is_torch_module, from_torch),
    (is_sklearn, from_sklearn),
    (is_onnx_file, from_onnx),
)


def as_target(target: Any, domain: Any = None, lipschitz: Any = None, evaluation: Evaluation | None = None) -> Target:
    """A Target from what a user has: see :func:`attnforge.compile`; or a Target.

    A table brings its own domain, the bounding box of its points; all but tables and Targets need one.
    """
    if isinstance(target, Target):
        return target if domain is None else target.on(in_order(domain, target.names))
    if _is_table(target):
        return as_table(target, domain)
    if domain is None:
        raise DomainError("A target needs a domain", "none", 'Write compile("clamp(x, 0, 1)", {"x": (-1, 2)})')
    if isinstance(target, OpenFormula):
        return target.on(in_order(domain, target.names))
    box, names = as_box(domain)
    if isinstance(target, tuple | list):
        return Formulas([_one_formula(each, place, names) for place, each in enumerate(target)], box, names)
    if isinstance(target, str) and is_program(target):
        return Formulas.from_text(target, box, names)
    if isinstance(target, str) or _is_sympy(target):
        return Formula(target, box, names)
    for applies, reader in NETWORKS:
        if applies(target):
            return reader(target, box, names)
    if callable(target):
        return Function(target, box, lipschitz=as_lipschitz(lipschitz), names=names, plain=True, evaluation=evaluation)
    kind = type(target).__name__
    wanted = (
        "A target is text, a list of texts, a sympy expression, a traced or other callable, a network of torch, "
        "scikit-learn or ONNX, or a pair (points, values)"
    )
    raise TargetError(wanted, kind, "Pass one of these")


def compared_with(own: Target, target: Any = None, domain: Any = None) -> Target:
    """What a network made for ``own`` is compared with: that, or another target on the same domain.

    A table is compared where it is listed, wherever that is.
    """
    if _is_table(target):
        return as_table(target, domain)
    if target is None:
        return own if domain is None else as_target(own, domain)
    if isinstance(target, Table) and domain is None:
        return target
    return as_target(target, domain or named_domain(own))


def _is_table(target: Any) -> bool:
    """Whether a tuple or list is one of points and values; else it is one of formulas."""
    return isinstance(target, tuple | list) and not any(isinstance(each, str) or _is_sympy(each) for each in target)


def _one_formula(formula: Any, place: int, names: Sequence[str] | None) -> Node:
    """One entry of a list of formulas: text, a program of one output, or a sympy expression."""
    if _is_sympy(formula):
        return from_sympy(formula)
    if not isinstance(formula, str):
        got = f"{type(formula).__name__} at place {place}"
        raise TargetError("A list of formulas holds texts or sympy expressions", got, 'Write ["sin(x)", "cos(x)"]')
    if is_list(formula):
        got = f"{formula!r:.80} at place {place}"
        raise TargetError("Every formula of a list has one output", got, "Give its parts as entries of their own")
    return parse_program(formula, names)[0]


def named_domain(target: Target) -> Any:
    """The target's domain with the names of its inputs, where it has any: what a new text target needs to know."""
    box, names = target.domain, target.names
    if names is None:
        return box
    return {name: (a, b) for name, a, b in zip(names, box.lower.tolist(), box.upper.tolist(), strict=True)}


def _is_sympy(target: Any) -> bool:
    # an undefined function's type is made by sympy in no module
    return any((base.__module__ or "").split(".")[0] == "sympy" for base in type(target).__mro__)
