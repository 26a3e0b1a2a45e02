r"""Removable singularities: sin(u)^k / u^k as sinc(u)^k, its continuous extension to u = 0.

In a product of powers, $\sin(u) = u\,\mathrm{sinc}(u)$ with the factors of $u$ cancelled against the denominator: exact
wherever the product is defined, and continuous where $u = 0$. Thus sin(x/2)/x is sinc(x/2)/2, and sin(x*y)/x is
y*sinc(x*y). Only factors of $u$ are cancelled, so that every other singularity is still seen and refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from attnforge.expression import Apply, Constant, Node, Variable, evaluate
from attnforge.expression.evaluate import bounds
from attnforge.expression.limits import MAX_EXPONENT
from attnforge.expression.simplify import of, over, raised, times
from attnforge.expression.tree import bottom_up, fold, varies
from attnforge.outward import precision
from attnforge.targets.defined import cells, shown
from attnforge.targets.domain import Box

POINTS = 256  # at random: a formula without a value at one of them lacks it on more than a thin set
PRODUCTS = ("*", "/", "^", "-")
EXPONENTS = range(-MAX_EXPONENT, MAX_EXPONENT + 1)

Factors = tuple[Counter[Node], Counter[Node]]  # powers above and below a fraction bar


def continuous(tree: Node, names: Sequence[str], domain: Box) -> tuple[Node, str | None]:
    """The tree, or its continuous extension where it is not known to be finite on the domain; and what is said of it.

    An extension fills a thin set: at random points of the domain the formula itself must have values.

    >>> from attnforge.expression import parse, to_text
    >>> found, said = continuous(parse("sin(x)/x"), ("x",), Box([-1], [1]))
    >>> to_text(found), said
    ('sinc(x)', 'sin(x)/x is taken as its continuous extension at 0')
    """
    extended, notes = extension(tree) if any(map(_is_sine, bottom_up(tree))) else (tree, [])
    if not notes or _is_finite(tree, names, domain) or not _has_values(tree, names, domain):
        return tree, None
    return extended, "; ".join(notes)


def extension(tree: Node) -> tuple[Node, list[str]]:
    """The tree with all quotients of sin(u) and u replaced, and what was."""
    notes: dict[str, None] = {}

    def visit(node: Node, arguments: Sequence[Node]) -> Node:
        if not isinstance(node, Apply):
            return node
        same = Apply(node.function, tuple(arguments))
        if node.function not in PRODUCTS:
            return same
        found, zeros = _replaced(_factors(same))
        notes.update(dict.fromkeys(_note(same, u) for u in zeros))
        return found if zeros else same

    return fold(tree, visit), list(notes)


def _replaced(factors: Factors) -> tuple[Node, list[Node]]:
    """A fraction in which no sine meets its argument below the bar; and the arguments of those that did."""
    above, below = factors
    zeros: list[Node] = []
    for sine in filter(_is_sine, tuple(above)):
        (u,) = sine.arguments
        over_u, under_u = _factors(u)
        while above[sine] > 0 and any(varies(factor) and below[factor] > 0 for factor in over_u):
            above[sine] -= 1
            above[of("sinc", u)] += 1
            _multiply(above, below, over_u)
            constants = Counter({factor: power for factor, power in under_u.items() if not varies(factor)})
            _multiply(below, above, constants)
            below.update(under_u - constants)
            zeros += [u] if u not in zeros else []
    return over(_product(above), _product(below)), zeros


def _is_sine(node: Node) -> TypeGuard[Apply]:
    return isinstance(node, Apply) and node.function == "sin"


def _multiply(above: Counter[Node], below: Counter[Node], factors: Counter[Node]) -> None:
    """Multiply a fraction with the factors: first cancel, then write the others above."""
    for factor, power in factors.items():
        cancelled = min(power, below[factor])
        below[factor] -= cancelled
        above[factor] += power - cancelled


def _factors(node: Node) -> Factors:
    """A node as a fraction of products of powers with natural exponents."""
    return fold(node, _fraction)


def _fraction(node: Node, parts: Sequence[Factors]) -> Factors:
    match node, parts:
        case Apply(function="*"), _:
            return sum((above for above, _ in parts), Counter()), sum((below for _, below in parts), Counter())
        case Apply(function="/"), [(above, below), (above_, below_)]:
            return above + below_, below + above_
        case Apply(function="-"), [(above, below)]:
            return above + Counter([Constant(-1.0)]), below
        case Apply(function="^", arguments=(_, Constant(value=power))), [(above, below), _] if power in EXPONENTS:
            above, below = (above, below) if power > 0 else (below, above)
            return _raised(above, abs(int(power))), _raised(below, abs(int(power)))
    return Counter([node]), Counter()


def _raised(factors: Counter[Node], power: int) -> Counter[Node]:
    return Counter({factor: power * k for factor, k in factors.items() if power})


def _product(powers: Counter[Node]) -> Node:
    return times(*(raised(factor, Constant(float(power))) for factor, power in powers.items() if power))


def _note(quotient: Node, u: Node) -> str:
    where = "at 0" if isinstance(u, Variable) else f"where {shown(u)} = 0"
    return f"{shown(quotient)} is taken as its continuous extension {where}"


def _is_finite(tree: Node, names: Sequence[str], domain: Box) -> bool:
    with precision():
        found = (bounds(tree, cell) for cell in cells(names, domain))
        return all(each.lower.is_finite() and each.upper.is_finite() for each in found)


def _has_values(tree: Node, names: Sequence[str], domain: Box) -> bool:
    points = np.random.default_rng(0).uniform(domain.lower, domain.upper, size=(POINTS, len(names)))
    return bool(np.isfinite(evaluate(tree, dict(zip(names, points.T, strict=True)))).all())
