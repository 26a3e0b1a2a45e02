r"""Two formulas are the same function on a box, up to coefficients, whose differences are charged.

**Statement.** Let f and g have values at a point of the box. Their forms (:mod:`.forms`) have the same ones, so that
$f - g = \sum_j c_j m_j$, the difference of the forms, and $|f - g| \le \sum_j |c_j| \sup |m_j|$ with suprema over the
box, of which roundings of coefficients are left if f and g are the same. A multiple of the target may be taken out
first. Powers of a sum that differ by whole numbers are brought to the least one that occurs in the difference,
$S^{e + k} = S^e S^k$, where the sum has that power: then terms cancel that have been divided by it.

**Values.** Forms say nothing about where formulas have values, as what has none there may cancel: U/U, exp(log(U)),
log(U) - log(U). That is shown from the leaves on: a node has a value where its arguments have if its interval is finite
on cells, whatever their values are. Of an argument there are a tree and the tree of its form: both hold it wherever it
has a value. A node of which that is not shown has a value at least wherever the target has one if a node of the target
needs the same: that a positive multiple is not negative, or a value of the same function of the same forms. A target
with branches says nothing so, as those that are not chosen need no values.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from attnforge.expression.evaluate import bounds
from attnforge.expression.functions import function_of
from attnforge.expression.intervals import UNDEFINED, Interval, absolute, is_undefined, to_ball
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold, varies
from attnforge.kernel.defined import box_of, defined, is_finite, joined
from attnforge.kernel.forms import (
    HALF,
    MINUS,
    ONE,
    Form,
    Forms,
    Monomial,
    Value,
    leads,
    number,
    plus,
    scaled,
)
from attnforge.outward import Up, precision, upper

Sides = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Sameness:
    """How far two formulas are apart at most, where the formulas ``needs``, parts of the target, have values."""

    bound: float
    needs: tuple[Node, ...] = ()


def same(composed: Node, target: Node, box: Sides) -> float:
    """A bound of |composed - target| on a box on which both have values everywhere; infinite where none is shown.

    >>> from attnforge.expression.parse import parse
    >>> same(parse("y*exp(-log(x + y))*x"), parse("x*y/(x + y)"), {"x": (1, 2), "y": (1, 2)})
    0.0
    >>> same(parse("exp(log(x))"), parse("x"), {"x": (0, 1)})
    inf
    """
    found = compared(composed, target, box)
    return math.inf if found.needs else found.bound


def compared(composed: Node, target: Node, box: Sides) -> Sameness:
    """The same where those parts of the target have values that are not shown to have one everywhere.

    >>> from attnforge.expression.parse import parse
    >>> found = compared(parse("sqrt(2*x - 2*y)"), parse("sqrt(2)*sqrt(x - y)"), {"x": (0, 1), "y": (0, 1)})
    >>> found.bound, [node.function for node in found.needs]
    (0.0, ['sqrt'])
    """
    with precision():
        forms = Forms(box_of(box, composed, target))
        wanted, made = _Reading(forms, target), _Reading(forms, composed)
        needs = () if not wanted.unknown or defined(target, box) else tuple(wanted.unknown)
        strict = not any(isinstance(node, Apply) and function_of(node).chooses for node in bottom_up(target))
        given = wanted.conditions if strict else frozenset[Hashable]()
        implied = all(made.unknown[node] <= given for node in made.unknown)
        if not (implied or defined(composed, box)):
            return Sameness(math.inf)
        return Sameness(size(forms, made.value.form, wanted.value), needs)


class _Reading:
    """A formula as a value; its nodes' conditions, and those nodes that are not shown to have a value.

    A node has a value where its arguments have one and its conditions hold.
    """

    def __init__(self, forms: Forms, tree: Node) -> None:
        self.forms = forms
        self.conditions: frozenset[Hashable] = frozenset()
        self.unknown: dict[Node, frozenset[Hashable]] = {}
        self.value = fold(tree, self._visit)

    def _visit(self, node: Node, parts: Sequence[Value]) -> Value:
        if isinstance(node, Constant):
            return Value(number(Fraction(node.value)), node, bounds(node, {}))
        if isinstance(node, Variable):
            return Value(self.forms.atom("", (), node, node.name), node, self.forms.box[node.name])
        tree = Apply(node.function, tuple(part.tree for part in parts))
        span, conditions = self._span(tree, parts), frozenset(_conditions(node.function, [part.form for part in parts]))
        self.conditions |= conditions
        if not is_finite(span):
            self.unknown[node] = conditions
        return self.forms.value(self.forms.of(node, parts), tree, span)

    def _span(self, node: Apply, parts: Sequence[Value]) -> Interval:
        """The interval of a function of values, on the box or on cells; undefined where it may have no value."""
        function, spans = function_of(node), [part.span for part in parts]
        known = function.chooses or not any(map(is_undefined, spans))
        span = function.interval(*spans) if known else UNDEFINED
        if is_finite(span):
            return span
        return joined(self.forms.cells(node, is_finite))


def _conditions(name: str, forms: Sequence[Form]) -> Iterator[Hashable]:
    """Under which a function has a value where its arguments have."""
    exponent = HALF if name == "sqrt" else leads(forms[1]) if name == "^" else Fraction(0)
    if name in ("asin", "acos"):
        yield "not negative", _unit(plus(ONE, forms[0]))
        yield "not negative", _unit(plus(ONE, scaled(forms[0], MINUS)))
    elif exponent > 0 and exponent.denominator > 1 and (name == "sqrt" or forms[1] == number(exponent)):
        yield "not negative", _unit(forms[0])
    else:
        yield (name, *forms)


def _unit(form: Form) -> Form:
    """The positive multiple whose first coefficient is one or minus one."""
    return scaled(form, 1 / abs(leads(form))) if form else form


def size(forms: Forms, made: Form, wanted: Value) -> float:
    """A bound of |made - wanted|: by the terms of the difference, or by a multiple of what is wanted and the rest."""
    target = forms.opened(wanted.form)
    difference = plus(forms.opened(made), scaled(target, MINUS))
    plain, level, whole = (_balls(forms, form) for form in (difference, _levelled(forms, difference), target))
    multiple = next((plain[m] / whole[m] for m in whole if m in plain and whole[m] != 0), arb(0))
    rest = {m: plain.get(m, arb(0)) - multiple * whole.get(m, arb(0)) for m in plain.keys() | whole.keys()}
    relative = Up.of(upper(abs(multiple) * absolute(wanted.span).upper)) + _charge(forms, rest)
    return min(float(each) for each in (_charge(forms, plain), _charge(forms, level), relative))


def _balls(forms: Forms, form: Form) -> dict[Monomial, arb]:
    """The coefficients of a form, constant factors among them, by what varies of the monomials."""
    balls: dict[Monomial, arb] = {}
    for monomial, c in form:
        moving = tuple(pair for pair in monomial if varies(forms.atoms[pair[0]].tree))
        fixed = bounds(forms.term(tuple(pair for pair in monomial if pair not in moving)), {})
        balls[moving] = balls.get(moving, arb(0)) + to_ball(fixed) * arb(fmpq(c.numerator, c.denominator))
    return balls


def _charge(forms: Forms, balls: Mapping[Monomial, arb]) -> Up:
    """Above the sum of coefficients times what their monomials are at most."""
    some = [(monomial, ball) for monomial, ball in balls.items() if not ball.is_zero()]
    return sum((Up.of(upper(abs(ball) * _largest(forms, forms.term(m)))) for m, ball in some), start=Up.of(0.0))


def _largest(forms: Forms, tree: Node) -> arb:
    """The supremum of |tree| on the box, at most."""
    span = bounds(tree, forms.box)
    span = span if is_finite(span) else joined(forms.cells(tree, is_finite))
    return absolute(span).upper if is_finite(span) else arb.pos_inf()


def _levelled(forms: Forms, form: Form) -> Form:
    """Powers of each sum that differ by whole numbers brought to the least of them, the latest sums first."""
    form = forms.opened(form)
    for atom in reversed(range(len(forms.atoms))):
        powers = [dict(monomial).get(atom, Fraction(0)) for monomial, _ in form]
        if forms.atoms[atom].function == "sum" and any(powers):
            least = {p % 1: min(each for each in powers if each % 1 == p % 1) for p in powers}
            form = plus(*(_raised(forms, term, atom, least) for term in form))
    return form


def _raised(forms: Forms, term: tuple[Monomial, Fraction], atom: int, least: Mapping[Fraction, Fraction]) -> Form:
    """A term with the least power of a sum, and the rest of its power multiplied out."""
    powers = dict(term[0])
    p = powers.get(atom, Fraction(0))
    powers[atom] = least[p % 1]
    low = tuple(sorted((a, each) for a, each in powers.items() if each))
    found = forms.expanded(((low, term[1]),), atom, int(p - least[p % 1]))
    return (term,) if found is None else found
