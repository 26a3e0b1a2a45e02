r"""A formula as Taylor models on cells: sums and products of models, and functions of one argument composed with them.

With $u = u_0 + v$ and $|v| \le V$ on a cell, $g(u) = \sum_{j \le K} g_j v^j + R$, $|R| \le |G| V^{K+1}$: $g_j$ are
Taylor coefficients at $u_0$, G encloses those of degree K + 1 over all of $u_0 \pm V$.

Kinks have a chord: with $w = u - v$ between l and h, and any $\lambda \in [0, 1]$,
$$ 0 \le \max(u, v) - (\lambda u + (1 - \lambda) v) = \max(w, 0) - \lambda w
   \le \max(-\lambda l, (1 - \lambda) h, 0) , $$
which is smallest for $\lambda = h/(h - l)$ if w changes its sign. Where there is no model at all, the range is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_series

from attnforge.balls import Up, precision
from attnforge.certification.enclosure.formula_jets import BITS, Univariate, coefficients, numbers, power
from attnforge.certification.enclosure.taylor_models import Models
from attnforge.errors import CertificateError
from attnforge.targets.expression import series
from attnforge.targets.expression.evaluate import bounds
from attnforge.targets.expression.functions import function_of
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.tree import Apply, Constant, Node, Variable, fold

Array = npt.NDArray[np.float64]

SHORT = 2.0**20  # slopes of chords are multiples of one over it


def formula_models(tree: Node, inputs: Mapping[str, Models]) -> Models:
    """Models (C,) of the formula, its inputs being models (C,).

    >>> from attnforge.certification.enclosure.jets import degrees
    >>> from attnforge.targets.expression.parse import parse
    >>> x = Models(degrees(1, 2), np.array([[1.0], [0.5], [0.0]]), Up.zeros(1))
    >>> formula_models(parse("x^2"), {"x": x}).c.ravel().tolist()  # (1 + t/2)^2
    [1.0, 1.0, 0.25]
    """
    some = next(iter(inputs.values()))

    def visit(node: Node, arguments: Sequence[Models]) -> Models:
        if isinstance(node, Constant):
            return Models.constant(some.table, np.full(some.shape, float(node.value)))
        return inputs[node.name] if isinstance(node, Variable) else _apply(node, arguments, some)

    with np.errstate(all="ignore"), precision(BITS):
        found = fold(tree, visit)
        for cell in np.flatnonzero(~np.isfinite(found.size().values)).tolist():
            ends = {name: Interval(*(arb(end[cell]) for end in x.range())) for name, x in inputs.items()}
            found = _ranged(found, cell, bounds(tree, ends))
    return found


def _ranged(found: Models, cell: int, span: Interval) -> Models:
    """With the range on one cell."""
    middle, radius = numbers(span.lower.union(span.upper))
    c, rest = found.c.copy(), found.rest.values.copy()
    c[:, cell], rest[cell] = 0.0, radius if np.isfinite(middle) and np.isfinite(radius) else np.inf
    c[0, cell] = middle if np.isfinite(rest[cell]) else 0.0
    return Models(found.table, c, Up(rest))


def _apply(node: Apply, arguments: Sequence[Models], some: Models) -> Models:
    """One function of the table."""
    if node.function == "^":
        return power(node, *arguments, composed=_composed, exp=Models.exp)
    if node.function in _RULES:
        found: Models = _RULES[node.function](*arguments)
        return found
    rule = function_of(node).series
    if len(arguments) > 1:
        raise CertificateError("Models know the functions of several arguments by name", node.function)
    if arguments:
        return _composed(rule, arguments[0])
    middle, radius = numbers(rule()[0])
    return Models.constant(some.table, np.full(some.shape, middle)).wider(radius)


def _composed(rule: Univariate, u: Models) -> Models:
    degree, swing = u.table.degree, u.swing()
    at = coefficients(rule, u.c[0], np.zeros(u.shape), degree)
    last = coefficients(rule, u.c[0], swing.values, degree + 1)[degree + 1]
    rest = u.less(u.c[0])
    found = Models.constant(u.table, at.mid[degree]).wider(at.rad[degree])
    for j in range(degree - 1, -1, -1):
        found = (found * rest).less(-at.mid[j]).wider(at.rad[j])
    return found.wider(Up.of(last) * swing ** (degree + 1))


def _divide(above: Models, below: Models) -> Models:
    return above * _composed(lambda u: series.divide(arb_series([arb(1)]), u), below)


def _larger(u: Models, v: Models) -> Models:
    """By the chord; its slope is a short number, so that both shares are exact."""
    low, high = (u - v).range()
    slope = np.clip(np.nan_to_num(high / (high - low), nan=0.5), 0.0, 1.0)
    share = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, np.round(slope * SHORT) / SHORT))
    most = (Up.of(np.minimum(low, 0.0)) * share).larger(Up.of(np.maximum(high, 0.0)) * (1 - share)) * 0.5
    return (u.scaled(share) + v.scaled(1 - share)).less(-most.values).wider(most)


def _jump(u: Models, left: float, at: float, right: float) -> Models:
    """The constant of the side on which u is, or what lies between both."""
    low, high = u.range()
    decided = [low > 0, high < 0, (low == 0) & (high == 0)]
    found = Models.constant(u.table, np.select(decided, [right, left, at], (left + right) / 2))
    return found.wider(np.where(np.any(decided, axis=0), 0.0, (right - left) / 2))


def _level(u: Models, value: float) -> Models:
    return Models.constant(u.table, np.full(u.shape, value))


def _smaller(u: Models, v: Models) -> Models:
    return -_larger(-u, -v)


_RULES: dict[str, Any] = {
    "+": lambda *terms: reduce(Models.__add__, terms),
    "*": lambda *factors: reduce(Models.__mul__, factors),
    "-": Models.__neg__,
    "/": _divide,
    "exp": Models.exp,
    "abs": lambda u: _larger(u, -u),
    "max": lambda *each: reduce(_larger, each),
    "min": lambda *each: reduce(_smaller, each),
    "relu": lambda u: _larger(u, _level(u, 0.0)),
    "clamp": lambda u, a, b: _smaller(_larger(u, a), b),
    "sign": lambda u: _jump(u, -1.0, 0.0, 1.0),
    "step": lambda u: _jump(u, 0.0, 0.5, 1.0),
}
