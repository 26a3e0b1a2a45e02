r"""When two expressions are the same function: equal canonical forms, in exact arithmetic.

An expression becomes a sum of monomials with rational coefficients; a monomial is a product of powers of *atoms*, with
rational exponents, times one exponential. Atoms are variables, functions of canonical forms, and sums that stand as
factors, what their terms have in common taken out. A product of sums stays one until something is added to it. Every
rule used is an identity of real functions where both sides are defined:
$$ e^{a}e^{b} = e^{a+b}, \quad e^{q \log a} = a^q, \quad \log \prod a_i^{q_i} = \sum q_i \log a_i, \quad
   \Bigl(\prod a_i^{q_i}\Bigr)^r = \prod a_i^{q_i r}, $$
the last two for integer r or atoms that are positive on the domain, which is asked of an enclosure; kinks are all
written in relu, with relu(-u) = relu(u) - u and relu(c u) = c relu(u) for c > 0. Two expressions that are the same
function may have different forms: then nothing is claimed. A quotient whose factors cancel stands for its continuous
extension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce

from flint import arb

from attnforge.expression.evaluate import bounds
from attnforge.expression.simplify import over, plus, raised, times
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold, varies

Monomial = tuple[tuple[tuple[int, Fraction], ...], "Sum"]  # powers of atoms, by number, and what exp is taken of
Sum = tuple[tuple["Monomial", Fraction], ...]

ZERO: Sum = ()
UNIT: Monomial = ((), ZERO)
MOST_DIGITS = 900  # bits of a rational number, as float64 has them; beyond, powers stay as they are
MOST_TERMS = 2000  # of a product of sums that is multiplied out
BITS = 53
TWO = Constant(2.0)


class Canonical:
    """Canonical forms over common tables: equal expressions get equal forms.

    ``least`` gives a lower bound of an expression wherever it is evaluated; minus infinity will do.

    >>> from attnforge.expression.parse import parse
    >>> forms = Canonical(lambda node: 1.0)
    >>> forms.same(parse("sqrt(x*y^3)/y"), parse("exp(log(x)/2 + 0.5*log(y))"))
    True
    >>> forms = Canonical(lambda node: float("-inf"))
    >>> forms.same(parse("max(x, y)"), parse("y + relu(x - y)")), forms.same(parse("x*(y + 1)"), parse("x*y + x"))
    (True, True)
    """

    def __init__(self, least: Callable[[Node], float]) -> None:
        self._least = least
        self._numbers: dict[object, int] = {}
        self._trees: list[Node] = []
        self._signs: dict[int, bool] = {}
        self._rationals: dict[int, Fraction] = {}
        self._sums: dict[int, Sum] = {}  # atoms that are sums, and those that are logarithms: of what
        self._logs: dict[int, Sum] = {}
        self._rules: Mapping[str, Callable[..., Sum]] = {
            "+": self._add,
            "*": lambda *factors: reduce(self._multiply, factors),
            "-": lambda u: _scaled(u, Fraction(-1)),
            "/": lambda u, v: self._multiply(u, self._power(v, Fraction(-1))),
            "^": self._raised,
            "sqrt": lambda u: self._power(u, Fraction(1, 2)),
            "atan2": self._angle,
            "asin": self._arc,
            "acos": lambda u: self._add(_scaled(self._arc(u), Fraction(-1)), _scaled(self._pi, Fraction(1, 2))),
            "hypot": lambda *each: self._power(self._add(*(self._power(u, Fraction(2)) for u in each)), Fraction(1, 2)),
            "exp": self._exponential,
            "log": self._logarithm,
            "relu": self._relu,
            "abs": lambda u: self._add(_scaled(self._relu(u), Fraction(2)), _scaled(u, Fraction(-1))),
            "max": lambda *each: reduce(self._largest, each),
            "min": lambda *each: _scaled(reduce(self._largest, [_scaled(u, Fraction(-1)) for u in each]), Fraction(-1)),
            "clamp": self._clamp,
        }

    def of(self, node: Node) -> Sum:
        """The canonical form."""

        def visit(each: Node, parts: Sequence[Sum]) -> Sum:
            if isinstance(each, Constant):
                return _constant(Fraction(each.value))
            if isinstance(each, Variable):
                return self._atom(each.name, each)
            rule = self._rules.get(each.function)
            return self._function(each.function, *parts) if rule is None else rule(*parts)

        return fold(node, visit)

    def same(self, one: Node, other: Node) -> bool:
        """Whether both have one form, products multiplied out."""
        return self._open(self.of(one)) == self._open(self.of(other))

    def multiple(self, one: Node, other: Node) -> bool:
        """Whether one is a positive multiple of the other."""
        return (self.ratio(one, other) or 0) > 0

    def ratio(self, one: Node, other: Node) -> Fraction | None:
        """By which the other is multiplied where one is a multiple of it; None where it is not."""
        u, v = self._open(self.of(one)), self._open(self.of(other))
        ratio = u[0][1] / v[0][1] if u and v else Fraction(0)
        return ratio if ratio and u == _scaled(v, ratio) else None

    def difference(self, one: Node, other: Node) -> list[tuple[arb, Node]]:
        """Terms that add up to the difference of both: coefficients, as balls, and expressions without constants."""
        rest = _collected([self._open(self.of(one)), _scaled(self._open(self.of(other)), Fraction(-1))])
        total: dict[Monomial, arb] = {}
        for (powers, exponent), coefficient in rest:
            varying = tuple(pair for pair in powers if varies(self._trees[pair[0]]))
            fixed = tuple(pair for pair in powers if not varies(self._trees[pair[0]]))
            constant = not varies(self._tree(exponent))
            value = bounds(self._term((fixed, exponent if constant else ZERO), coefficient), {})
            key = (varying, ZERO if constant else exponent)
            total[key] = total.get(key, arb(0)) + value.lower.union(value.upper)
        return [
            (coefficient, self._term(monomial, Fraction(1)))
            for monomial, coefficient in total.items()
            if not coefficient.is_zero()
        ]

    def _open(self, u: Sum) -> Sum:
        return _collected(self._expanded(monomial, coefficient) for monomial, coefficient in u)

    def simplified(self, node: Node) -> Node:
        """An expression of the same form: what cancels is gone."""
        return self._tree(self.of(node))

    def factored(self, node: Node) -> Node:
        """An expression of the same form, what all terms have in common taken out."""
        found = self.of(node)
        return self._term(*self._monomial(found)) if found else self._tree(found)

    def _number(self, key: object, tree: Callable[[], Node]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._trees)
            self._trees.append(tree())
        return self._numbers[key]

    def _atom(self, key: object, tree: Node) -> Sum:
        return ((((((self._number(key, lambda: tree), Fraction(1)),), ZERO)), Fraction(1)),)

    def _function(self, name: str, *parts: Sum) -> Sum:
        parts = tuple(map(self._open, parts))
        number = self._number((name, parts), lambda: Apply(name, tuple(map(self._tree, parts))))
        return ((((number, Fraction(1)),), ZERO), Fraction(1)),  # fmt: skip

    def _add(self, *parts: Sum) -> Sum:
        """One term stays a product; of several, factors that are sums multiply out."""
        terms = _collected(parts)
        if len(terms) <= 1:
            return terms
        opened = [self._expanded(monomial, coefficient) for monomial, coefficient in terms]
        return _collected(opened) if sum(map(len, opened)) <= MOST_TERMS else terms

    def _expanded(self, monomial: Monomial, coefficient: Fraction) -> Sum:
        """A product of sums, term by term."""
        powers, exponent = monomial
        factor = next((atom for atom, power in powers if power == 1 and atom in self._sums), None)
        if factor is None:
            return ((monomial, coefficient),)
        rest = tuple(pair for pair in powers if pair[0] != factor), exponent
        found: list[Sum] = []
        for inner, scale in self._sums[factor]:
            found.append(self._expanded(self._merged(rest, inner), coefficient * scale))
            if sum(map(len, found)) > MOST_TERMS:
                return ((monomial, coefficient),)
        return _collected(found)

    def _multiply(self, u: Sum, v: Sum) -> Sum:
        if not u or not v:
            return ZERO
        for number, other in ((u, v), (v, u)):
            if len(number) == 1 and number[0][0] == UNIT:
                return _scaled(other, number[0][1])
        (a, s), (b, t) = self._monomial(u), self._monomial(v)
        return self._unwrapped(self._merged(a, b), s * t)

    def _merged(self, a: Monomial, b: Monomial) -> Monomial:
        powers = dict(a[0])
        for atom, power in b[0]:
            powers[atom] = powers.get(atom, Fraction(0)) + power
        return tuple(sorted((atom, power) for atom, power in powers.items() if power)), self._add(a[1], b[1])

    def _unwrapped(self, monomial: Monomial, coefficient: Fraction) -> Sum:
        """A sum alone is no factor, and whole powers of numbers are numbers."""
        powers, exponent = monomial
        for atom, power in powers:
            if atom in self._rationals and power.denominator == 1 and abs(power) <= MOST_DIGITS:
                coefficient *= self._rationals[atom] ** power.numerator
                powers = tuple(pair for pair in powers if pair[0] != atom)
        monomial = powers, exponent
        if not exponent and len(powers) == 1 and powers[0][1] == 1:
            terms = self._sums.get(powers[0][0])
            if terms is not None:
                return _scaled(terms, coefficient)
        return ((monomial, coefficient),)

    def _monomial(self, u: Sum) -> tuple[Monomial, Fraction]:
        """The only term; or what all terms have in common, times the sum of the rest as an atom."""
        if len(u) == 1:
            return u[0]
        common = _common([dict(powers) for (powers, _), _ in u])
        inverse = tuple((atom, -power) for atom, power in common), ZERO
        rest = _ordered({self._merged(monomial, inverse): coefficient for monomial, coefficient in u})
        first = rest[0][1]
        terms = _scaled(rest, 1 / first)
        number = self._number(("sum", terms), lambda: self._tree(terms))
        self._sums[number] = terms
        return self._merged((common, ZERO), (((number, Fraction(1)),), ZERO)), first

    def _is_positive(self, atom: int) -> bool:
        if atom not in self._signs:
            self._signs[atom] = self._least(self._trees[atom]) > 0
        return self._signs[atom]

    def _power(self, u: Sum, q: Fraction) -> Sum:
        if q == 1:
            return u
        if not u:
            return _constant(Fraction(0 if q > 0 else 1)) if q >= 0 else self._function("^", u, _constant(q))
        monomial, coefficient = self._monomial(u)
        whole = q.denominator == 1
        signed = () if whole else tuple(pair for pair in monomial[0] if not self._is_positive(pair[0]))
        powers = tuple((atom, power * q) for atom, power in monomial[0] if (atom, power) not in signed)
        raised_up = self._unwrapped((powers, _scaled(monomial[1], q)), Fraction(1))
        if len(signed) == 1 and signed[0][1] == 1 and coefficient > 0:
            raised_up = self._multiply(raised_up, (((((signed[0][0], q),), ZERO), Fraction(1)),))
        elif signed or (not whole and coefficient < 0):  # what is positive comes out of a root, the rest stays within
            rest = self._unwrapped((signed, ZERO), Fraction(1 if coefficient > 0 else -1))
            raised_up = self._multiply(raised_up, self._function("^", rest, _constant(q)))
            coefficient = abs(coefficient)
        return self._multiply(self._number_power(coefficient, q), raised_up)

    def _number_power(self, c: Fraction, q: Fraction) -> Sum:
        if c == 1:
            return _constant(c)
        size = max(c.numerator.bit_length(), c.denominator.bit_length()) * abs(q)
        if q.denominator == 1 and size <= MOST_DIGITS:
            return _constant(c**q.numerator)
        if c.numerator != 1 and c.denominator != 1:
            parts = (self._number_power(each, q) for each in (Fraction(c.numerator), Fraction(1, c.denominator)))
            return self._multiply(*parts)
        base, power = (c, q) if c.denominator == 1 else (1 / c, -q)
        number = self._number(("number", base), lambda: _rational(base))
        self._rationals[number] = base
        return (((((number, power),), ZERO)), Fraction(1)),  # fmt: skip

    def _raised(self, u: Sum, v: Sum) -> Sum:
        """A rational exponent is one; other powers are exponentials."""
        if not v:
            return _constant(Fraction(1))
        if len(v) == 1 and v[0][0] == UNIT:
            return self._power(u, v[0][1])
        return self._exponential(self._multiply(v, self._logarithm(u)))

    def _exponential(self, u: Sum) -> Sum:
        """Logarithms with rational coefficients become powers."""
        product, rest = _constant(Fraction(1)), ZERO
        for monomial, coefficient in u:
            powers, exponent = monomial
            base = self._logs.get(powers[0][0]) if not exponent and len(powers) == 1 and powers[0][1] == 1 else None
            if base is None:
                rest = self._add(rest, ((monomial, coefficient),))
            else:
                product = self._multiply(product, self._power(base, coefficient))
        return self._multiply(product, ((((), rest), Fraction(1)),))

    def _logarithm(self, u: Sum) -> Sum:
        if not u:
            return self._log_atom(u)
        monomial, coefficient = self._monomial(u)
        if not (coefficient > 0 and all(self._is_positive(atom) for atom, _ in monomial[0])):
            return self._log_atom(u)
        parts = [] if coefficient == 1 else [self._log_atom(_constant(coefficient))]
        for atom, power in monomial[0]:
            base = self._unwrapped((((atom, Fraction(1)),), ZERO), Fraction(1))
            parts.append(_scaled(self._log_atom(base), power))
        return self._add(monomial[1], *parts)

    def _log_atom(self, u: Sum) -> Sum:
        number = self._number(("log", u), lambda: Apply("log", (self._tree(u),)))
        self._logs[number] = u
        return ((((number, Fraction(1)),), ZERO), Fraction(1)),  # fmt: skip

    def _relu(self, u: Sum) -> Sum:
        """Of a number a number; else with the first coefficient one."""
        if not u or (len(u) == 1 and u[0][0] == UNIT):
            return u if u and u[0][1] > 0 else ZERO
        if self._least(self._tree(u)) >= 0:
            return u
        if self._least(self._tree(_scaled(u, Fraction(-1)))) >= 0:
            return ZERO
        first = u[0][1]
        plain = self._function("relu", _scaled(u, 1 / first))
        return _scaled(plain, first) if first > 0 else self._add(_scaled(plain, -first), u)

    @property
    def _pi(self) -> Sum:
        return self._function("pi")

    def _arc(self, u: Sum) -> Sum:
        """An odd function; of a root by that of its square, asin(sqrt(w)) = pi/4 - asin(1 - 2 w)/2."""
        (powers, _), coefficient = u[0] if u else (UNIT, Fraction(0))
        root = len(u) == 1 and coefficient > 0 and any(power.denominator == 2 for _, power in powers)
        if not root or not all(power.denominator == 2 or self._is_positive(atom) for atom, power in powers):
            sign = Fraction(-1 if coefficient < 0 else 1)
            return _scaled(self._function("asin", _scaled(u, sign)), sign)
        inner = self._add(_constant(Fraction(1)), _scaled(self._power(u, Fraction(2)), Fraction(-2)))
        return self._add(_scaled(self._pi, Fraction(1, 4)), _scaled(self._arc(inner), Fraction(-1, 2)))

    def _angle(self, u: Sum, v: Sum) -> Sum:
        """Of the right half-plane, by the quotient."""
        if self._least(self._tree(v)) > 0:
            return self._function("atan", self._multiply(u, self._power(v, Fraction(-1))))
        return self._function("atan2", u, v)

    def _largest(self, u: Sum, v: Sum) -> Sum:
        """V + relu(u - v), the order of both chosen by the forms."""
        first, second = sorted((u, v))
        return self._add(second, self._relu(self._add(first, _scaled(second, Fraction(-1)))))

    def _clamp(self, u: Sum, a: Sum, b: Sum) -> Sum:
        """min(max(u, a), b); of numbers a < b the two kinks add up."""
        below = self._relu(self._add(u, _scaled(a, Fraction(-1))))
        numbers = all(not end or (len(end) == 1 and end[0][0] == UNIT) for end in (a, b))
        if numbers and _value(a) < _value(b):
            above = self._relu(self._add(u, _scaled(b, Fraction(-1))))
            return self._add(a, self._add(below, _scaled(above, Fraction(-1))))
        inner = self._largest(u, a)
        return _scaled(self._largest(_scaled(inner, Fraction(-1)), _scaled(b, Fraction(-1))), Fraction(-1))

    def _tree(self, u: Sum) -> Node:
        """An expression of this form."""
        return plus(Constant(0.0), *(self._term(monomial, coefficient) for monomial, coefficient in u))

    def _term(self, monomial: Monomial, coefficient: Fraction) -> Node:
        powers, exponent = monomial
        parts = [raised(self._trees[atom], _rational(power)) for atom, power in powers]
        parts += [Apply("exp", (self._tree(exponent),))] if exponent else []
        return times(_rational(coefficient), *parts)


def _constant(value: Fraction) -> Sum:
    return ((UNIT, value),) if value else ZERO


def _collected(parts: Iterable[Sum]) -> Sum:
    """Terms of equal monomials added up."""
    terms: dict[Monomial, Fraction] = {}
    for part in parts:
        for monomial, coefficient in part:
            terms[monomial] = terms.get(monomial, Fraction(0)) + coefficient
    return _ordered(terms)


def _common(powers: Sequence[Mapping[int, Fraction]]) -> tuple[tuple[int, Fraction], ...]:
    """The powers that all monomials have in common: the least of each atom's, or none where it is missing."""
    least = {}
    for atom in sorted(set().union(*powers)):
        found = [each.get(atom, Fraction(0)) for each in powers]
        shared = min(found) if min(found) > 0 else max(found) if max(found) < 0 else Fraction(0)
        if shared:
            least[atom] = shared
    return tuple(least.items())


def _value(u: Sum) -> Fraction:
    return u[0][1] if u else Fraction(0)


def _scaled(u: Sum, factor: Fraction) -> Sum:
    return tuple((monomial, coefficient * factor) for monomial, coefficient in u) if factor else ZERO


def _ordered(terms: Mapping[Monomial, Fraction]) -> Sum:
    return tuple(sorted((monomial, coefficient) for monomial, coefficient in terms.items() if coefficient))


def _rational(value: Fraction) -> Node:
    """A number as an expression, exactly: floats of 53 bits each, added up and divided."""
    above, below = _whole(value.numerator), _whole(value.denominator)
    return over(above, below)


def _whole(number: int) -> Node:
    sign, size = -1 if number < 0 else 1, abs(number)
    parts: list[Node] = [Constant(0.0)]
    for place in range(0, size.bit_length(), BITS):
        digits = sign * ((size >> place) % 2**BITS)
        small = place <= MOST_DIGITS
        parts.append(
            Constant(float(digits << place))
            if small
            else times(Constant(float(digits)), raised(TWO, Constant(float(place))))
        )
    return plus(*parts)
