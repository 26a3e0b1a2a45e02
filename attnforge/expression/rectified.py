r"""Piecewise affine expressions as ReLU networks: the same function, with the same numbers.

Affine functions, and relu, abs, min, max and clamp of them, nested and added up in any way, are affine functions of
inputs and *units* relu(form), because
$$ |v| = \mathrm{relu}(v) + \mathrm{relu}(-v), \quad \max(u, v) = v + \mathrm{relu}(u - v), \quad
   \min(u, v) = v - \mathrm{relu}(v - u), $$
$$ \mathrm{clamp}(v, a, b) = a + \mathrm{relu}(v - a) - \mathrm{relu}(v - b) \quad (a \le b) . $$
A unit whose form has units in it lies one layer deeper than these. What such a form needs of the inputs themselves is
carried through the first layer, L = relu(L) - relu(-L), and a unit, which is not negative, through any layer: u =
relu(u). All identities hold for all real numbers, and coefficients are fractions, computed exactly; each must in the
end be a float64 number. So the network *is* the expression, and a proof about the one is a proof about the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.errors import TargetError
from attnforge.expression.functions import of_numbers
from attnforge.expression.text import to_text
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold

Array = npt.NDArray[np.float64]
Layer = tuple[Array, Array]  # W (m_in, m_out) and b (m_out,)

MOST_UNITS = 2048  # a head each, and a layer's maps are square in them: a gigabyte and more beyond
LARGEST_POWER = 64  # of a constant: no exact power grows beyond what a parser would take as one
SHOWN = 80  # characters of a subexpression quoted in a reason


@dataclass(frozen=True)
class Form:
    """offset + sum of coefficients times inputs (names) and units (numbers), in a fixed order; exact."""

    offset: Fraction
    terms: tuple[tuple[str | int, Fraction], ...] = ()

    @classmethod
    def of(cls, offset: Fraction, terms: Mapping[str | int, Fraction]) -> Form:
        """Without terms that vanish."""
        return cls(offset, tuple(sorted(((k, c) for k, c in terms.items() if c), key=lambda term: str(term[0]))))

    @classmethod
    def total(cls, forms: Sequence[Form]) -> Form:
        """Their sum."""
        terms: dict[str | int, Fraction] = {}
        for form in forms:
            for key, coefficient in form.terms:
                terms[key] = terms.get(key, Fraction(0)) + coefficient
        return cls.of(sum((form.offset for form in forms), Fraction(0)), terms)

    def __add__(self, other: Form) -> Form:
        return Form.total((self, other))

    def __mul__(self, factor: Fraction | int) -> Form:
        return Form.of(self.offset * factor, {key: coefficient * factor for key, coefficient in self.terms})

    def __sub__(self, other: Form) -> Form:
        return self + other * -1

    @property
    def inputs(self) -> Form:
        """The part that is linear in the inputs."""
        return Form(Fraction(0), tuple(term for term in self.terms if isinstance(term[0], str)))

    @property
    def units(self) -> tuple[int, ...]:
        """The units in it."""
        return tuple(key for key, _ in self.terms if isinstance(key, int))


@dataclass
class Units:
    """The forms under every relu so far, each once, and how deep it lies."""

    forms: list[Form] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    known: dict[Form, int] = field(default_factory=dict)

    def relu(self, form: Form) -> Form:
        """A form that is relu of this one."""
        if not form.terms:
            return Form(max(form.offset, Fraction(0)))
        form = self.carried(form) if form.units else form
        if form not in self.known:
            if len(self.forms) == MOST_UNITS:
                raise _refusal(f"at most {MOST_UNITS:,} units", "more")
            self.known[form] = len(self.forms)
            self.depths.append(1 + self.depth(form))
            self.forms.append(form)
        return Form(Fraction(0), ((self.known[form], Fraction(1)),))

    def carried(self, form: Form) -> Form:
        """The same function of units alone: the inputs' part L is relu(L) - relu(-L); of one input, up to a factor."""
        linear = form.inputs
        if not linear.terms:
            return form
        factor = linear.terms[0][1] if len(linear.terms) == 1 else Fraction(1)
        unit = linear * (1 / factor)
        return form - linear + (self.relu(unit) - self.relu(unit * -1)) * factor

    def largest(self, forms: Sequence[Form]) -> Form:
        """The maximum, by halves: as few layers as can be."""
        if len(forms) == 1:
            return forms[0]
        half = len(forms) // 2
        left, right = self.largest(forms[:half]), self.largest(forms[half:])
        return right + self.relu(left - right)

    def smallest(self, forms: Sequence[Form]) -> Form:
        """min(u, ..) = -max(-u, ..)."""
        return self.largest([form * -1 for form in forms]) * -1

    def clamp(self, value: Form, low: Form, high: Form) -> Form:
        """Two units of the same depth between constants in order; else as min(max(value, low), high) says."""
        if low.terms or high.terms or low.offset > high.offset:
            return self.smallest([self.largest([value, low]), high])
        return low + self.relu(value - low) - self.relu(value - high)

    def depth(self, form: Form) -> int:
        """Layers below the form."""
        return max((self.depths[unit] for unit in form.units), default=0)


def rectified(node: Node, names: Sequence[str]) -> list[Layer]:
    """The affine maps of a ReLU network that equals the expression; a TargetError with the reason where it has none.

    >>> from attnforge.expression.parse import parse
    >>> [weight.tolist() for weight, _ in rectified(parse("abs(x - y)"), ["x", "y"])]
    [[[1.0, -1.0], [-1.0, 1.0]], [[1.0], [1.0]]]
    """
    units = Units()
    found = fold(node, lambda each, arguments: _form(units, each, arguments))
    if not found.units:  # also where those there were cancel, as in clamp(x, a, a)
        raise _refusal("at least one kink", "none")
    found = units.carried(found)
    return _layers(units, found, names)


def _form(units: Units, node: Node, forms: Sequence[Form]) -> Form:
    if isinstance(node, Constant):
        return Form(Fraction(node.value))
    if isinstance(node, Variable):
        return Form(Fraction(0), ((node.name, Fraction(1)),))
    rule = RULES.get(node.function)
    found = None if rule is None else rule(units, forms)
    if found is None:
        found = _number(node, forms)
    if found is None:
        raise _refusal("sums, multiples, abs, relu, min, max, clamp and where", _quote(node))
    return found


def _product(units: Units, forms: Sequence[Form]) -> Form | None:
    varying, factor = [form for form in forms if form.terms], Fraction(1)
    for form in forms:
        factor *= 1 if form.terms else form.offset
    if len(varying) > 1:
        return None
    return varying[0] * factor if varying else Form(factor)


def _quotient(units: Units, forms: Sequence[Form]) -> Form | None:
    above, below = forms
    return above * (1 / below.offset) if not below.terms and below.offset else None


def _power(units: Units, forms: Sequence[Form]) -> Form | None:
    base, exponent = forms
    n = exponent.offset
    if exponent.terms or n.denominator != 1 or not 0 < n <= LARGEST_POWER:
        return None
    return base if n == 1 else Form(base.offset**n.numerator) if not base.terms else None


def _choice(units: Units, forms: Sequence[Form]) -> Form | None:
    """where(u < v, a, b) = b + c min(u - v, 0), if a - b = c (u - v)."""
    border, gap = forms[0] - forms[1], forms[2] - forms[3]
    if not border.terms:
        return forms[2] if border.offset < 0 else forms[3]
    key, weight = border.terms[0]
    factor = dict(gap.terms).get(key, Fraction(0)) / weight
    return forms[3] - units.relu(border * -1) * factor if gap == border * factor else None


def _number(node: Apply, forms: Sequence[Form]) -> Form | None:
    """A function of numbers whose value is a number that float64 holds, such as sqrt(4)."""
    if any(form.terms or _float(form.offset) is None for form in forms):
        return None
    value = of_numbers(node, [arb(float(form.offset)) for form in forms])
    return Form(Fraction(float(value.mid()))) if value.is_exact() and value == arb(float(value.mid())) else None


RULES: dict[str, Callable[[Units, Sequence[Form]], Form | None]] = {
    "+": lambda units, forms: Form.total(forms),
    "-": lambda units, forms: forms[0] * -1,
    "*": _product,
    "/": _quotient,
    "^": _power,
    "abs": lambda units, forms: units.relu(forms[0]) + units.relu(forms[0] * -1),
    "relu": lambda units, forms: units.relu(forms[0]),
    "max": lambda units, forms: units.largest(forms),
    "min": lambda units, forms: units.smallest(forms),
    "clamp": lambda units, forms: units.clamp(*forms),
    "where": _choice,
}


def _layers(units: Units, found: Form, names: Sequence[str]) -> list[Layer]:
    """One layer a depth: its own units, and those from below that something further up still reads."""
    forms, deepest = units.forms, max(units.depths)
    needed = dict.fromkeys(found.units, deepest + 1)
    for depth, form in zip(units.depths, forms, strict=True):
        needed |= {unit: max(depth, needed.get(unit, 0)) for unit in form.units}
    layers: list[Layer] = []
    below: list[str | int] = list(names)
    for layer in range(1, deepest + 1):
        here = [unit for unit, depth in enumerate(units.depths) if depth <= layer < needed.get(unit, 0)]
        own = [forms[u] if units.depths[u] == layer else Form(Fraction(0), ((u, Fraction(1)),)) for u in here]
        layers.append(_map(own, below))
        below = list(here)
    return [*layers, _map([found], below)]


def _map(forms: Sequence[Form], below: Sequence[str | int]) -> Layer:
    place = {key: i for i, key in enumerate(below)}
    weight, bias = np.zeros((len(below), len(forms))), np.zeros(len(forms))
    for j, form in enumerate(forms):
        bias[j] = _exactly(form.offset)
        for key, coefficient in form.terms:
            weight[place[key], j] = _exactly(coefficient)
    return weight, bias


def _exactly(number: Fraction) -> float:
    value = _float(number)
    if value is None:
        raise _refusal("coefficients that are float64 numbers", f"{str(number)[:40]}, which is none")
    return value


def _float(number: Fraction) -> float | None:
    """The number in float64, if it is one."""
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if Fraction(value) == number else None


def _refusal(wanted: str, got: str) -> TargetError:
    return TargetError(f"A piecewise affine formula is made of {wanted}", got, "Use another construction")


def _quote(node: Node) -> str:
    text = to_text(node)
    return f"`{text}`" if len(text) <= SHOWN else f"`{text[:SHOWN]}...`"
