r"""Expressions that are affine, or affine and then truncated.

$\mathrm{clamp}(w \cdot x + t, a, b)$, the affine function cut off at $a$ and $b$, is what one softmax head can compute.
An affine image of it, and a further truncation of it, are again of this form:

$$ s\,\mathrm{clamp}(L, a, b) + k = \mathrm{clamp}(s L + k,\ s a + k,\ s b + k), $$
$$ \max(\mathrm{clamp}(L, a, b), c) = \mathrm{clamp}(L, \max(a, c), b), $$

where the bounds swap for $s < 0$, and the maximum is the constant $c$ unless $c < b$.

So one walk bottom up, with a `_Piece` (affine function and optional bounds) or a `_Refusal` for every subexpression,
recognises all nestings. Coefficients are balls, so constants such as ``sqrt(2)/3`` stay rigorous.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flint import arb

from attnforge.errors import TargetError
from attnforge.expression.functions import of_numbers
from attnforge.expression.text import to_text
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold
from attnforge.outward.real import precision

COEFFICIENT_BITS = 128  # float64 inputs combine exactly, or with errors far below float64's own
FLOAT64_BITS = 53
SHOWN = 80  # characters of a subexpression quoted in a reason


@dataclass(frozen=True, eq=False)
class LinearForm:
    """The function ``weights . x + offset``, with balls that contain the exact coefficients."""

    weights: tuple[arb, ...]
    offset: arb


@dataclass(frozen=True, eq=False)
class TruncatedForm:
    """The function ``clamp(weights . x + offset, lower, upper)`` with ``lower < upper``, all balls."""

    weights: tuple[arb, ...]
    offset: arb
    lower: arb
    upper: arb


def linear_form(node: Node, names: Sequence[str]) -> LinearForm | None:
    """The affine function of the named variables that the expression is, or None.

    Seen through are sums, products and quotients with constants, first powers, functions of constants, and
    truncations that leave a constant: clamp(u, a, b) = min(max(u, a), b) is b where a >= b.

    >>> from attnforge.expression.parse import parse
    >>> linear_form(parse("(x - 3)/2 + y"), ["x", "y"])
    LinearForm(weights=(0.500000000000000, 1.00000000000000), offset=-1.50000000000000)
    """
    piece = _recognise(node, names)
    if isinstance(piece, _Refusal) or piece.is_truncated:
        return None
    return LinearForm(_dense(piece, names), piece.offset)


def truncated_linear_form(
    node: Node, names: Sequence[str], lower: Sequence[float], upper: Sequence[float]
) -> TruncatedForm | None:
    """The truncated affine function that the expression is on the box from ``lower`` to ``upper``, or None.

    A missing bound (of relu, max, min, or a plain affine expression) is set so that it never acts on the box: to the
    range there, rounded outward to float64. Constants are not of this form: without weights there is no direction.

    >>> from attnforge.expression.parse import parse
    >>> form = truncated_linear_form(parse("1 - 2*relu(x)"), ["x"], [-1.0], [3.0])
    >>> form.weights, form.lower, form.upper
    ((-2.00000000000000,), -5.00000000000000, 1.00000000000000)
    """
    piece = _recognise(node, names)
    if isinstance(piece, _Refusal) or piece.is_constant:
        return None
    low, high = _range(_dense(piece, names), piece.offset, lower, upper)
    with precision(FLOAT64_BITS):
        width = high - low if high > low else arb(1)
        bottom = _inactive_below(low, piece.upper, width) if piece.lower is None else piece.lower
        top = _inactive_above(high, piece.lower, width) if piece.upper is None else piece.upper
    return TruncatedForm(_dense(piece, names), piece.offset, bottom, top) if bottom < top else None


def why_not_truncated_linear(node: Node, names: Sequence[str]) -> str:
    """The subexpression that keeps the expression from being truncated linear, in a sentence; empty if it is.

    >>> from attnforge.expression.parse import parse
    >>> why_not_truncated_linear(parse("1 + 2*sin(x)"), ["x"])
    '`sin(x)` is not affine: `sin` is applied to something that varies'
    """
    piece = _recognise(node, names)
    if isinstance(piece, _Refusal):
        return piece.reason
    return f"{_quote(node)} is constant, there is no direction to attend along" if piece.is_constant else ""


@dataclass(frozen=True, eq=False)
class _Piece:
    """``clamp(weights . x + offset, lower, upper)``, where None means no bound on that side.

    Weights by name, of the variables that occur: a sum of many terms of one variable each takes so many additions.
    """

    weights: Mapping[str, arb]
    offset: arb
    lower: arb | None = None
    upper: arb | None = None

    @property
    def is_truncated(self) -> bool:
        return self.lower is not None or self.upper is not None

    @property
    def is_constant(self) -> bool:
        """Whether no variable has weight; bounds are then gone too, because they are applied at once."""
        return all(weight.is_zero() for weight in self.weights.values())

    def plus(self, constant: arb) -> _Piece:
        return self._map(lambda value: value + constant, self.weights)

    def times(self, factor: arb) -> _Piece:
        scaled = self._map(
            lambda value: value * factor, {name: weight * factor for name, weight in self.weights.items()}
        )
        return replace(scaled, lower=scaled.upper, upper=scaled.lower) if factor < 0 else scaled

    def _map(self, function: Callable[[arb], arb], weights: Mapping[str, arb]) -> _Piece:
        low, high = (None if bound is None else function(bound) for bound in (self.lower, self.upper))
        return _Piece(weights, function(self.offset), low, high)


@dataclass(frozen=True)
class _Refusal:
    reason: str


_Result = _Piece | _Refusal


def _recognise(node: Node, names: Sequence[str]) -> _Result:
    known = {*names}

    def visit(each: Node, arguments: Sequence[_Result]) -> _Result:
        if isinstance(each, Constant):
            return _Piece({}, arb(each.value))
        if isinstance(each, Variable):
            return _variable(each, known)
        refusal = next((argument for argument in arguments if isinstance(argument, _Refusal)), None)
        return refusal or _application(each, [piece for piece in arguments if isinstance(piece, _Piece)])

    with precision(COEFFICIENT_BITS):
        return fold(node, visit)


def _dense(piece: _Piece, names: Sequence[str]) -> tuple[arb, ...]:
    return tuple(piece.weights.get(name, arb(0)) for name in names)


def _variable(node: Variable, names: Collection[str]) -> _Result:
    if node.name not in names:
        return _Refusal(f"`{node.name}` is not one of the variables")
    return _Piece({node.name: arb(1)}, arb(0))


def _application(node: Apply, pieces: Sequence[_Piece]) -> _Result:
    if all(piece.is_constant for piece in pieces):
        value = of_numbers(node, [piece.offset for piece in pieces])
        return _Piece({}, value) if value.is_finite() else _Refusal(f"{_quote(node)} is not a finite number")
    rule = RULES.get(node.function)
    if rule is None:
        return _Refusal(f"{_quote(node)} is not affine: `{node.function}` is applied to something that varies")
    return rule(node, pieces)


def _sum(node: Node, pieces: Sequence[_Piece]) -> _Result:
    truncated = [piece for piece in pieces if piece.is_truncated]
    affine = [piece for piece in pieces if not piece.is_truncated]
    weights: dict[str, arb] = {}
    for piece in affine:
        for name, weight in piece.weights.items():
            weights[name] = weights[name] + weight if name in weights else weight
    offset = sum((piece.offset for piece in affine), arb(0))
    if not truncated:
        return _Piece(weights, offset)
    if len(truncated) > 1 or not all(weight.is_zero() for weight in weights.values()):
        return _Refusal(f"{_quote(node)} adds a truncated term to another one that varies")
    return truncated[0].plus(offset)


def _product(node: Node, pieces: Sequence[_Piece]) -> _Result:
    varying = [piece for piece in pieces if not piece.is_constant]
    if len(varying) > 1:
        return _Refusal(f"{_quote(node)} multiplies two factors that vary")
    factor = arb(1)
    for piece in pieces:
        factor = factor if piece is varying[0] else factor * piece.offset
    return _scaled(node, varying[0], factor)


def _quotient(node: Node, pieces: Sequence[_Piece]) -> _Result:
    above, below = pieces
    if not below.is_constant:
        return _Refusal(f"{_quote(node)} divides by something that varies")
    inverse = 1 / below.offset
    return _scaled(node, above, inverse) if inverse.is_finite() else _Refusal(f"{_quote(node)} may divide by zero")


def _power(node: Node, pieces: Sequence[_Piece]) -> _Result:
    base, exponent = pieces
    if exponent.is_constant and exponent.offset == 1:
        return base
    return _Refusal(f"{_quote(node)} is not affine: a power of, or with, something that varies")


def _scaled(node: Node, piece: _Piece, factor: arb) -> _Result:
    if factor.is_zero():
        return _Piece({}, arb(0))
    if piece.is_truncated and factor.contains(0):
        return _Refusal(f"{_quote(node)} scales a truncated term by a number whose sign is not certain")
    return piece.times(factor)


def _largest(node: Node, pieces: Sequence[_Piece]) -> _Result:
    varying = [piece for piece in pieces if not piece.is_constant]
    if len(varying) > 1:
        return _Refusal(f"{_quote(node)} compares two terms that vary")
    first, *others = (piece.offset for piece in pieces if piece.is_constant)
    for other in others:
        first = first.max(other)
    return _cut_below(node, varying[0], first)


def _smallest(node: Node, pieces: Sequence[_Piece]) -> _Result:
    mirrored = _largest(node, [piece.times(arb(-1)) for piece in pieces])
    return mirrored.times(arb(-1)) if isinstance(mirrored, _Piece) else mirrored


def _relu(node: Node, pieces: Sequence[_Piece]) -> _Result:
    return _cut_below(node, pieces[0], arb(0))


def _clamp(node: Node, pieces: Sequence[_Piece]) -> _Result:
    value, low, high = pieces
    if not (low.is_constant and high.is_constant):
        return _Refusal(f"{_quote(node)} has bounds that vary")
    if low.offset >= high.offset:  # min(max(u, a), b) = b
        return _Piece({}, high.offset)
    if not low.offset < high.offset:
        return _Refusal(f"{_quote(node)} has bounds too close to tell which is larger")
    raised = _cut_below(node, value, low.offset)
    if isinstance(raised, _Refusal) or raised.is_constant:
        return raised
    return _smallest(node, [raised, high])


def _cut_below(node: Node, piece: _Piece, bound: arb) -> _Result:
    """``max(piece, bound)``."""
    if piece.upper is not None and bound >= piece.upper:
        return _Piece({}, bound)
    lower = bound if piece.lower is None else piece.lower.max(bound)
    if piece.upper is not None and not lower < piece.upper:
        return _Refusal(f"{_quote(node)} has bounds too close to tell which is larger")
    return replace(piece, lower=lower)


RULES: dict[str, Callable[[Node, Sequence[_Piece]], _Result]] = {
    "+": _sum,
    "-": lambda node, pieces: pieces[0].times(arb(-1)),
    "*": _product,
    "/": _quotient,
    "^": _power,
    "max": _largest,
    "min": _smallest,
    "relu": _relu,
    "clamp": _clamp,
}


def _range(weights: Sequence[arb], offset: arb, lower: Sequence[float], upper: Sequence[float]) -> tuple[arb, arb]:
    """The range of ``weights . x + offset`` on the box, rounded outward to float64."""
    if not len(lower) == len(upper) == len(weights):
        got = f"{len(weights)} names, {len(lower)} lower and {len(upper)} upper ends"
        raise TargetError("Every variable needs a lower and an upper end", got, "Give one of each per variable")
    low = high = offset
    with precision(COEFFICIENT_BITS):
        for weight, left, right in zip(weights, lower, upper, strict=True):
            ends = weight * arb(float(left)), weight * arb(float(right))
            low, high = low + ends[0].min(ends[1]), high + ends[0].max(ends[1])
    if not (low.is_finite() and high.is_finite()):
        raise TargetError("The box must be finite", f"{list(lower)} to {list(upper)}"[:200], "Give finite ends")
    with precision(FLOAT64_BITS):
        return low.lower(), high.upper()


def _inactive_above(high: arb, lower: arb | None, width: arb) -> arb:
    """An upper bound that does not act on the box; above ``lower`` even if the whole box is cut off there."""
    return high if lower is None or high > lower else (lower + width).max(high).upper()


def _inactive_below(low: arb, upper: arb | None, width: arb) -> arb:
    return low if upper is None or low < upper else (upper - width).min(low).lower()


def _quote(node: Node) -> str:
    text = to_text(node)
    return f"`{text}`" if len(text) <= SHOWN else f"`{text[:SHOWN]}...`"
