r"""Forms: sums of monomials with rational coefficients, to which formulas are brought by rules that extend them.

A monomial is a product of powers $a^p$, p rational, of *atoms*: variables, functions of forms, exponentials $e^m$ of
monomials, and *sums*, which are forms that are raised to powers. A form has a value at a point where all its powers
have one: $a^p$ for $a \ge 0$ if p is no whole number, for $a \ne 0$ if p < 0; $a^0 = 1$.

**Statement.** At every point of the box where a formula has a value, its form has it, too. *Proof.* By induction over
the formula: each rule replaces what has a value at a point by what has the same one. Some need nothing,
$$ a^p a^q = a^{p + q}, \quad e^{q \log u} = u^q, \quad \log e^m = m, \quad
   S^{p + k} = S^p S^k \text{ multiplied out, } k \in \mathbb N , $$
and $(a^p)^q = a^{pq}$ for whole q or p that is not even: else $a^p \ge 0$ says that $a \ge 0$. For a broken q, and for
logarithms, a product comes apart, $(\prod a_i^{p_i})^q = \prod a_i^{p_i q}$ and
$\log \prod a_i^{p_i} = \sum p_i \log a_i$, if all $a_i$ are shown to be not negative on the box, or if all are shown to
be positive but for one, whose $p_i$ is not even; else only those that are shown to be positive come out: the product
may be zero by one factor while another is negative. Powers with exponents that vary are $e^{v \log u}$ where u is shown
to be positive. Kinks are written in relu: relu(u) is u or 0 where the sign of u is shown, relu(-u) = relu(u) - u, and
relu(c u) = c relu(u) for c > 0. For $u \ge 0$ shown, $\arcsin u = \pi/4 - \arcsin(1 - 2u^2)/2$.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import UNDEFINED, Interval
from attnforge.expression.tree import Apply, Constant, Node, size, variables
from attnforge.kernel.defined import Test, cover, is_finite, is_not_negative, is_positive, width

Monomial = tuple[tuple[int, Fraction], ...]  # atoms by number, and their powers
Form = tuple[tuple[Monomial, Fraction], ...]

ZERO: Form = ()
ONE: Form = (((), Fraction(1)),)
HALF, TWO, MINUS = Fraction(1, 2), Fraction(2), Fraction(-1)
POSITIVE, NOT_NEGATIVE, UNKNOWN = 2, 1, 0  # signs on the box
CELLS = 64  # for the sign of an atom, and for the value of a node
MOST_TERMS = 2000  # of a product that is multiplied out
MOST_TIMES = 64  # that a sum is multiplied by itself
MOST_BITS = 2000  # of a power of a number that is computed
LARGE = 1000  # nodes of a tree beyond which it is not cut into cells, nor written a second time
FACTORS = frozenset(("+", "-", "*", "/", "^", "sqrt", "hypot", "log"))  # that take products as they are
ODD = frozenset(("sin", "tan", "sinh", "tanh", "asin", "atan", "erf", "sphericalj1", "besselj1"))
EVEN = frozenset(("cos", "cosh", "sinc", "besselj0", "besselj2"))


@dataclass(frozen=True)
class Atom:
    """What powers are taken of: its function ("sum" for a form itself), of which forms, and a tree of its values."""

    function: str
    arguments: tuple[Form, ...]
    tree: Node


@dataclass(frozen=True, eq=False)
class Value:
    """A form, a tree and an interval on the box: each is, or holds, a formula's value wherever the formula has one."""

    form: Form
    tree: Node
    span: Interval = UNDEFINED


@dataclass(eq=False)
class Forms:
    """Forms on a box, over one table of atoms."""

    box: Mapping[str, Interval]
    atoms: list[Atom] = field(default_factory=list)
    numbers: dict[Hashable, int] = field(default_factory=dict)
    signs: dict[int, int] = field(default_factory=dict)

    def of(self, node: Apply, parts: Sequence[Value]) -> Form:
        """The form of a function of values; sums and products are not multiplied out before they have to be."""
        rule = RULES.get(node.function)
        if rule is None or node.function not in FACTORS:
            parts = [Value(self.opened(part.form), part.tree) for part in parts]
        return self.function(node.function, *parts) if rule is None else rule(self, *parts)

    def value(self, form: Form, tree: Node, span: Interval = UNDEFINED) -> Value:
        """With the tree of the form in place of the tree, if that is narrower on the box."""
        if size(tree) > LARGE or len(form) > LARGE:
            return Value(form, tree, span)
        other = self.tree(form)
        within = bounds(other, self.box)
        better = is_finite(within) and not (is_finite(span) and width(span) <= width(within))
        return Value(form, other, within) if better else Value(form, tree, span)

    def made(self, form: Form) -> Value:
        """A form as a value."""
        return Value(form, self.tree(form))

    def cells(self, tree: Node, accepted: Test) -> list[Interval] | None:
        """Accepted intervals of a tree, on cells that cover the box."""
        if size(tree) > LARGE:
            return None
        return cover(lambda cell: bounds(tree, cell), accepted, self.box, variables(tree), CELLS)

    def sign(self, tree: Node) -> int:
        """What is shown of the sign of a tree on the box."""
        if self.cells(tree, is_positive) is not None:
            return POSITIVE
        return UNKNOWN if self.cells(tree, is_not_negative) is None else NOT_NEGATIVE

    def atom(self, function: str, arguments: tuple[Form, ...], tree: Node, key: Hashable = None) -> Form:
        """The form that is an atom, which gets its number and its tree when it is first met."""
        return (((self.number_of(function, arguments, tree, key), Fraction(1)),), Fraction(1)),  # fmt: skip

    def number_of(self, function: str, arguments: tuple[Form, ...], tree: Node, key: Hashable = None) -> int:
        """The number of an atom."""
        key = (function, arguments, key)
        if key not in self.numbers:
            self.numbers[key] = len(self.atoms)
            self.atoms.append(Atom(function, arguments, tree))
        return self.numbers[key]

    def atom_sign(self, number: int) -> int:
        """What is shown of the sign of an atom."""
        if number not in self.signs:
            atom = self.atoms[number]
            self.signs[number] = POSITIVE if atom.function == "exp" else self.sign(atom.tree)
        return self.signs[number]

    # Sums and products

    def sum(self, *forms: Form) -> Form:
        """The sum; products of sums are multiplied out where there is something to add."""
        some = [form for form in forms if form]
        return some[0] if len(some) == 1 else plus(*map(self.opened, some))

    def opened(self, form: Form) -> Form:
        """Whole powers of sums multiplied out, unless that is too long."""
        return plus(*(self._opened(monomial, c) for monomial, c in form))

    def _opened(self, monomial: Monomial, c: Fraction) -> Form:
        atom, p = next(((a, p) for a, p in monomial if p >= 1 and self._is_sum(a)), (0, Fraction(0)))
        if not p:
            return ((monomial, c),)
        rest = self.single(_joined(monomial, ((atom, -Fraction(int(p))),)), c)
        found = self.expanded(rest, atom, int(p))
        return ((monomial, c),) if found is None else self.opened(found)

    def expanded(self, form: Form, atom: int, times: int) -> Form | None:
        """Times a whole power of a sum, term by term; None where that is too long."""
        inner = self.atoms[atom].arguments[0]
        for _ in range(min(times, MOST_TIMES + 1)):
            if len(form) * len(inner) > MOST_TERMS:
                return None
            form = plus(*(self.single(_joined(m, n), a * b) for m, a in form for n, b in inner))
        return form if times <= MOST_TIMES else None

    def _is_sum(self, number: int) -> bool:
        return self.atoms[number].function == "sum"

    def times(self, *values: Value) -> Form:
        """The product of what is left of each when common factors are taken out."""
        if not all(value.form for value in values):
            return ZERO
        contents = [self.content(value.form, value.tree) for value in values]
        return self.single(_joined(*(m for _, m in contents)), math.prod((c for c, _ in contents), start=Fraction(1)))

    def single(self, powers: Mapping[int, Fraction], c: Fraction) -> Form:
        """A product of powers: of sums with one term what is whole comes out, and a sum alone is no factor."""
        for atom, p in powers.items():
            inner = self.atoms[atom].arguments[0] if p >= 1 and self._is_sum(atom) else ZERO
            if len(inner) == 1 and _bits(inner[0][1]) * p <= MOST_BITS:
                whole = Fraction(int(p))
                rest = _joined(powers.items(), ((atom, -whole),), _powered(inner[0][0], whole))
                return self.single(rest, c * inner[0][1] ** int(p))
            if inner and p == 1 and sum(map(bool, powers.values())) == 1:
                return scaled(inner, c)
        return ((_ordered(powers), c),)

    def content(self, u: Form, tree: Node | None = None) -> tuple[Fraction, Monomial]:
        """A form as a number times a monomial: what its terms have in common, and the rest as a sum."""
        if len(u) == 1:
            return u[0][1], u[0][0]
        powers = [dict(monomial) for monomial, _ in u]
        every = sorted(set().union(*powers))
        common = tuple((atom, min(each.get(atom, Fraction(0)) for each in powers)) for atom in every)
        rest = plus(*(((_ordered(_joined(m, _powered(common, MINUS))), c),) for m, c in u))
        first = rest[0][1]
        rest = scaled(rest, 1 / first)
        plain = tree is not None and not any(p for _, p in common)
        number = self.number_of("sum", (rest,), _over(tree, first) if tree and plain else self.tree(rest))
        return first, _ordered(_joined(common, ((number, Fraction(1)),)))

    # Powers, exponentials, logarithms

    def power(self, u: Value, q: Fraction) -> Form:
        """A rational power."""
        if q == 0:
            return ONE
        if not u.form:
            return ZERO if q > 0 else self._sum_power(ZERO, q)
        c, monomial = self.content(u.form, u.tree)
        if q.denominator == 1:
            return self._scaled_by(c, q, _powered(monomial, q))
        apart, rest = self._apart(c, monomial)
        stays = () if rest == ONE else self._sum_power(rest, q)[0][0]
        return self._scaled_by(abs(c), q, _ordered(_joined(_powered(apart, q), stays)))

    def _sum_power(self, u: Form, q: Fraction) -> Form:
        return ((((self.number_of("sum", (u,), self.tree(u)), q),), Fraction(1)),)

    def _scaled_by(self, c: Fraction, q: Fraction, monomial: Monomial) -> Form:
        """A power of a number, times a monomial."""
        if c == 1 or (q.denominator == 1 and _bits(c) * abs(q) <= MOST_BITS):
            return self.single(dict(monomial), c ** int(q) if c != 1 else c)
        return self.single(_joined(monomial, self._sum_power(number(c), q)[0][0]), Fraction(1))

    def _apart(self, c: Fraction, monomial: Monomial) -> tuple[Monomial, Form]:
        """The factors that come out of a root or a logarithm, and the product that stays, with the sign of c."""
        signs = {atom: self.atom_sign(atom) for atom, _ in monomial}
        rest = tuple((atom, p) for atom, p in monomial if signs[atom] != POSITIVE)
        alone = len(rest) == 1 and rest[0][1] % 2 != 0
        if c > 0 and (alone or all(signs[atom] == NOT_NEGATIVE or p.denominator > 1 for atom, p in rest)):
            return monomial, ONE
        known = tuple(pair for pair in monomial if signs[pair[0]] == POSITIVE)
        return known, self.opened(self.single(dict(rest), Fraction(1 if c > 0 else -1)))

    def raised(self, u: Value, v: Value) -> Form:
        """A power: with a rational exponent, or of what is positive."""
        if not v.form or (v.form[0][0] == () and len(v.form) == 1):
            return self.power(u, v.form[0][1] if v.form else Fraction(0))
        if self.sign(u.tree) == POSITIVE:
            return self.exponential(self.opened(self.times(v, self.made(self.logarithm(u)))))
        return self.function("^", u, v)

    def exponential(self, u: Form) -> Form:
        """A product of exponentials of monomials; those of logarithms are powers."""
        return self.times(*(self.made(self._exponential(monomial, c)) for monomial, c in u))

    def _exponential(self, monomial: Monomial, c: Fraction) -> Form:
        if len(monomial) == 1 and monomial[0][1] == 1 and self.atoms[monomial[0][0]].function == "log":
            log = self.atoms[monomial[0][0]]
            return self.power(self._under(log), c)
        inner: Form = ((monomial, Fraction(1)),)
        number = self.number_of("exp", (inner,), Apply("exp", (self.tree(inner),)))
        return (((number, c),), Fraction(1)),  # fmt: skip

    def _under(self, log: Atom) -> Value:
        """What a logarithm is taken of."""
        tree = log.tree.arguments[0] if isinstance(log.tree, Apply) else log.tree
        return Value(log.arguments[0], tree)

    def logarithm(self, u: Value) -> Form:
        """A sum of logarithms of atoms, as far as signs are shown."""
        if not u.form:
            return self.function("log", u)
        c, monomial = self.content(u.form, u.tree)
        apart, rest = self._apart(c, monomial)
        parts = [scaled(self._log_of(atom), p) for atom, p in apart]
        parts += [self.function("log", self.made(each)) for each in (number(abs(c)), rest) if each != ONE]
        return plus(*parts)

    def _log_of(self, number: int) -> Form:
        atom = self.atoms[number]
        if atom.function == "exp":
            return atom.arguments[0]
        inner = atom.arguments[0] if atom.function == "sum" else ((((number, Fraction(1)),), Fraction(1)),)
        return self.atom("log", (inner,), Apply("log", (atom.tree,)))

    # Other functions

    def function(self, name: str, *values: Value) -> Form:
        """A function of the table; odd and even ones with the first coefficient positive."""
        if len(values) == 1 and name in ODD | EVEN and leads(values[0].form) < 0:
            found = self.function(name, negative(values[0]))
            return scaled(found, MINUS) if name in ODD else found
        tree = Apply(name, tuple(value.tree for value in values))
        return self.atom(name, tuple(value.form for value in values), tree)

    def relu(self, u: Value) -> Form:
        """Of what keeps its sign that or nothing; else of an argument whose first coefficient is one."""
        if not u.form or self.cells(u.tree, is_not_negative):
            return u.form
        if self.cells(Apply("-", (u.tree,)), is_not_negative):
            return ZERO
        first = u.form[0][1]
        plain = self.function("relu", Value(scaled(u.form, 1 / first), _over(u.tree, first)))
        return scaled(plain, first) if first > 0 else plus(scaled(plain, -first), u.form)

    def larger(self, u: Value, v: Value) -> Value:
        """max(u, v) = v + relu(u - v)."""
        apart = self.value(plus(u.form, scaled(v.form, MINUS)), Apply("+", (u.tree, Apply("-", (v.tree,)))))
        return self.value(plus(v.form, self.relu(apart)), Apply("max", (u.tree, v.tree)))

    def smaller(self, u: Value, v: Value) -> Value:
        """min(u, v) = -max(-u, -v)."""
        return negative(self.larger(negative(u), negative(v)))

    def clamp(self, u: Value, a: Value, b: Value) -> Form:
        """min(max(u, a), b) = a + relu(u - a) - relu(u - b) for numbers a < b."""
        if all(form == number(leads(form)) for form in (a.form, b.form)) and leads(a.form) < leads(b.form):
            above = scaled(self.larger(u, b).form, MINUS)
            return plus(self.larger(u, a).form, above, b.form)
        return self.smaller(self.larger(u, a), b).form

    def arc(self, u: Value) -> Form:
        """The arc sine; of a root that is not negative by that of its square."""
        root = len(u.form) == 1 and any(p.denominator == 2 for _, p in u.form[0][0])
        if not root or self.sign(u.tree) == UNKNOWN:
            return self.function("asin", u)
        inner = self.sum(ONE, scaled(self.power(u, TWO), -TWO))
        return plus(scaled(self.function("pi"), HALF / 2), scaled(self.arc(self.made(inner)), -HALF))

    def angle(self, y: Value, x: Value) -> Form:
        """The angle to the right of the cut by the quotient."""
        if self.sign(x.tree) != POSITIVE:
            return self.function("atan2", y, x)
        return self.function("atan", self.made(self.opened(self.times(y, self.made(self.power(x, MINUS))))))

    # Trees

    def tree(self, form: Form) -> Node:
        """A formula that has the value of the form wherever that has one; roots are cut off at zero."""
        terms = tuple(self.term(monomial, c) for monomial, c in form) or (Constant(0.0),)
        return terms[0] if len(terms) == 1 else Apply("+", terms)

    def term(self, monomial: Monomial, c: Fraction = Fraction(1)) -> Node:
        """The same of one term, its exponentials together."""
        exponent = plus(*(scaled(self.atoms[a].arguments[0], p) for a, p in monomial if self._is_exponential(a)))
        factors = [_raised(self.atoms[a].tree, p) for a, p in monomial if not self._is_exponential(a)]
        factors += [Apply("exp", (self.tree(exponent),))] if exponent else []
        factors += [rational(c)] if c != 1 or not factors else []
        return factors[0] if len(factors) == 1 else Apply("*", tuple(factors))

    def _is_exponential(self, number: int) -> bool:
        return self.atoms[number].function == "exp"


RULES: Mapping[str, Callable[..., Form]] = {
    "+": lambda forms, *each: forms.sum(*(u.form for u in each)),
    "-": lambda forms, u: scaled(u.form, MINUS),
    "*": Forms.times,
    "/": lambda forms, u, v: forms.times(u, forms.made(forms.power(v, MINUS))),
    "^": Forms.raised,
    "sqrt": lambda forms, u: forms.power(u, HALF),
    "hypot": lambda forms, *each: forms.power(forms.made(forms.sum(*(forms.power(u, TWO) for u in each))), HALF),
    "e": lambda forms: forms.exponential(ONE),
    "exp": lambda forms, u: forms.exponential(u.form),
    "log": Forms.logarithm,
    "relu": Forms.relu,
    "abs": lambda forms, u: plus(scaled(forms.relu(u), TWO), scaled(u.form, MINUS)),
    "max": lambda forms, *each: reduce(forms.larger, each).form,
    "min": lambda forms, *each: reduce(forms.smaller, each).form,
    "clamp": Forms.clamp,
    "asin": Forms.arc,
    "acos": lambda forms, u: plus(scaled(forms.function("pi"), HALF), scaled(forms.arc(u), MINUS)),
    "atan2": Forms.angle,
}  # fmt: skip


def number(value: Fraction) -> Form:
    """The form of a number."""
    return (((), value),) if value else ZERO


def leads(form: Form) -> Fraction:
    """The first coefficient; zero of zero."""
    return form[0][1] if form else Fraction(0)


def plus(*forms: Form) -> Form:
    """The sum, terms of equal monomials added up, in order."""
    if len(forms) == 1:
        return forms[0]
    total: dict[Monomial, Fraction] = {}
    for monomial, c in (term for form in forms for term in form):
        total[monomial] = total.get(monomial, Fraction(0)) + c
    return tuple(sorted((monomial, c) for monomial, c in total.items() if c))


def scaled(form: Form, factor: Fraction) -> Form:
    """Times a number."""
    return tuple((monomial, c * factor) for monomial, c in form) if factor else ZERO


def negative(u: Value) -> Value:
    """The value with the other sign."""
    return Value(scaled(u.form, MINUS), Apply("-", (u.tree,)))


def _joined(*parts: Iterable[tuple[int, Fraction]]) -> dict[int, Fraction]:
    """The powers of a product of monomials."""
    powers: dict[int, Fraction] = {}
    for atom, p in (pair for part in parts for pair in part):
        powers[atom] = powers.get(atom, Fraction(0)) + p
    return powers


def _bits(c: Fraction) -> int:
    return max(c.numerator.bit_length(), c.denominator.bit_length())


def _ordered(powers: Mapping[int, Fraction]) -> Monomial:
    return tuple(sorted((atom, p) for atom, p in powers.items() if p))


def _powered(monomial: Monomial, q: Fraction) -> Monomial:
    return tuple((atom, p * q) for atom, p in monomial)


def _over(tree: Node, c: Fraction) -> Node:
    return tree if c == 1 else Apply("/", (tree, rational(c)))


def _raised(tree: Node, p: Fraction) -> Node:
    """A power; broken ones of what lies above zero, as others have no value."""
    base = tree if p.denominator == 1 else Apply("relu", (tree,))
    return base if p == 1 else Apply("^", (base, rational(p)))


def rational(value: Fraction) -> Node:
    """A formula without variables that is the number."""
    above, below = _whole(value.numerator), _whole(value.denominator)
    return above if value.denominator == 1 else Apply("/", (above, below))


def _whole(value: int) -> Node:
    """A whole number: exact as a float64 number, or by its halves."""
    if abs(value) < 2**53:
        return Constant(float(value))
    places = value.bit_length() // 2
    above, below = divmod(value, 2**places)
    power = Apply("^", (Constant(2.0), Constant(float(places))))
    return Apply("+", (Apply("*", (_whole(above), power)), _whole(below)))
