"""Where formulas are defined and continuous: what is refused before anything is built."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

import numpy as np
from flint import arb

from attnforge.errors import TargetError
from attnforge.expression import Apply, Node, to_text, variables
from attnforge.expression.evaluate import bounds
from attnforge.expression.functions import function_of, is_joined
from attnforge.expression.intervals import Interval, is_undefined
from attnforge.expression.limits import MAX_NODES
from attnforge.expression.tree import bottom_up, children, joined, size
from attnforge.outward import precision
from attnforge.targets.domain import Box

CELLS = 1024  # of the box, on which formulas and derivatives are enclosed
SHOWN = 80  # characters of a subexpression quoted in a reason


def cells(names: Sequence[str], domain: Box) -> Iterator[dict[str, Interval]]:
    """Some boxes that cover the domain."""
    per_axis = max(1, int(CELLS ** (1 / len(names))))
    edges = [np.linspace(a, b, per_axis + 1) for a, b in zip(domain.lower, domain.upper, strict=True)]
    for cell in itertools.product(range(per_axis), repeat=len(edges)):
        pairs = zip(names, cell, edges, strict=True)
        yield {name: Interval(arb(edge[i]), arb(edge[i + 1])) for name, i, edge in pairs}


def check_defined(trees: Sequence[Node], names: Sequence[str], domain: Box) -> None:
    """Refuse formulas that may leave where gamma, atan2 and the like are defined, with the reason."""
    if not any(_needs(node) for node in bottom_up(joined(trees))[:-1]):
        return
    with precision():
        for box, tree in itertools.product(cells(names, domain), trees):
            if is_undefined(bounds(tree, box)) and (reason := _undefined(tree, box)):
                where = ", ".join(f"{x} in [{float(i.lower):g}, {float(i.upper):g}]" for x, i in box.items())
                raise TargetError(reason, f"no value is known for {where}", "Shrink the domain")


def has_values(tree: Node, box: Mapping[str, Interval], most: int = CELLS) -> bool:
    """Whether a formula is proved to have a value everywhere in a box: by intervals, on at most so many boxes.

    A box on which some function may leave its domain is halved along the widest input of that function's argument.

    >>> from attnforge.expression import parse
    >>> box = {"x": Interval(arb(-1), arb(1))}
    >>> has_values(parse("log(x^2 - x + 1)"), box), has_values(parse("exp(log((x - 0.2)^2 - 1e-10))"), box)
    (True, False)
    """
    left, looked = [dict(box)], 0
    with precision():
        while left and looked < most:
            part, looked = left.pop(), looked + 1
            if not is_undefined(bounds(tree, part)):
                continue
            at_fault = next(node for node in bottom_up(tree) if is_undefined(bounds(node, part)))
            read = [name for name in variables(at_fault) if part[name].lower < part[name].upper]
            if not read:
                return False
            name = max(read, key=lambda each: float((part[each].upper - part[each].lower).mid()))
            low, high = part[name]
            middle = ((low + high) / 2).mid()
            left += [part | {name: Interval(low, middle)}, part | {name: Interval(middle, high)}]
    return not left


def check_joined(trees: Sequence[Node]) -> None:
    """Refuse a `where` whose branches are not known to meet: no continuous network follows a jump closely."""
    apart = (node for node in bottom_up(joined(trees)) if _is_choice(node) and not is_joined(node))
    if (node := next(apart, None)) is not None:
        requirement = "The branches of where(...) must meet at the border, and this must be seen from the formula"
        remedy = "Write it with max, min, abs or clamp, as branches that agree there, or use max_affine with norm=1"
        raise TargetError(requirement, f"`{shown(node)}`", remedy)


def shown(node: Node) -> str:
    """The beginning of the text of a node, which may be shared so often that all of it has no room."""
    return to_text(node)[:SHOWN] if size(node) <= MAX_NODES else repr(node)


def _is_choice(node: Node) -> TypeGuard[Apply]:
    return isinstance(node, Apply) and node.function == "where"


def _needs(node: Node) -> str:
    """Where a function is defined, if a formula that may leave it is refused."""
    return function_of(node).defined if isinstance(node, Apply) else ""


def _undefined(tree: Node, box: Mapping[str, Interval]) -> str:
    """What the first function needs that has no value on a box although its arguments have."""
    for node in bottom_up(tree):
        needs = _needs(node)
        if needs and is_undefined(bounds(node, box)) and not any(is_undefined(bounds(u, box)) for u in children(node)):
            return f"{needs}: `{shown(node)}`"
    return ""
