r"""Do the branches of ``where(u < v, a, b)`` meet where u = v? An algebraic proof, or none.

Every expression is a polynomial with fractions as coefficients in *atoms*: variables, and functions of polynomials,
of which nothing else is known. Both are exact. Then a = b wherever u = v if

- a - b is a multiple of u - v, because its remainder modulo u - v vanishes; or
- u - v is affine in the variables, and a - b vanishes identically once one of them is replaced by what it is on the
  border, also within atoms. Functions of numbers are computed where their value is a float64 number, so that
  exp(x + y) - 1 is zero where y is -x.

Even powers are those of the absolute value, $x^2 = |x|^2$, in a second attempt: then x^2/2 meets abs(x) - 1/2 at
abs(x) = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction

from flint import arb

from attnforge.expression.tree import Apply, Constant, Node, Variable, fold

Monomial = tuple[tuple[int, int], ...]  # atoms and their exponents, by atom
Polynomial = dict[Monomial, Fraction]
Value = Callable[[Apply, Sequence[arb]], arb]

MOST_TERMS = 64  # of a polynomial: people write far fewer
LARGEST_POWER = 16
STEPS = 256  # of a division


class _TooLargeError(ArithmeticError):
    """The proof is given up."""


def branches_meet(u: Node, v: Node, a: Node, b: Node, value: Value) -> bool:
    """Whether a = b is proved where u = v; ``value`` is a function's value at numbers."""
    try:
        return any(_meet(_Ring(value, even), u, v, a, b) for even in (False, True))
    except _TooLargeError:
        return False


def _meet(ring: _Ring, u: Node, v: Node, a: Node, b: Node) -> bool:
    border = ring.difference(u, v)
    solved = ring.solved(border)
    if solved is not None:
        return not _Ring(ring.value, ring.even, *solved).difference(a, b)
    return border.keys() <= ring.constants or not ring.remainder(ring.difference(a, b), border)


class _Ring:
    """Polynomials in atoms, which are numbered as they come.

    ``replaced`` is a variable that stands for an affine form of others: their names, "" for the constant, and weights.
    """

    constants = frozenset([()])

    def __init__(
        self, value: Value, even: bool, replaced: str = "", form: Mapping[str, Fraction] | None = None
    ) -> None:
        self.value, self.even, self.replaced, self.form = value, even, replaced, form or {}
        self.atoms: dict[Hashable, int] = {}
        self.sizes: dict[int, int] = {}  # of an atom, the atom that is its absolute value

    def difference(self, left: Node, right: Node) -> Polynomial:
        """The difference of two expressions."""
        first, second = fold(left, self._visit), fold(right, self._visit)
        return _sum([first, _scaled(second, Fraction(-1))])

    def solved(self, border: Polynomial) -> tuple[str, Mapping[str, Fraction]] | None:
        """A variable of an affine border, and the form that it is there."""
        weights: dict[str, Fraction] = {}
        for monomial, weight in border.items():
            name = "" if not monomial else list(self.atoms)[monomial[0][0]]
            if not isinstance(name, str) or monomial[1:] or (monomial and monomial[0][1] > 1):
                return None
            weights[name] = weight
        first = next((name for name in weights if name), None)
        return None if first is None else (first, {n: -w / weights[first] for n, w in weights.items() if n != first})

    def remainder(self, p: Polynomial, divisor: Polynomial) -> Polynomial:
        """Of the division, atoms that came first counting most."""
        lead = max(divisor, key=lambda m: [dict(m).get(i, 0) for i in range(len(self.atoms))])
        for _ in range(STEPS):
            found = next((m for m in p if _divides(lead, m)), None)
            if found is None:
                return p
            rest = {i: e - dict(lead).get(i, 0) for i, e in found}
            factor = {_monomial(rest): -p[found] / divisor[lead]}
            p = _sum([p, self._product(factor, divisor)])
        raise _TooLargeError

    def _visit(self, node: Node, forms: Sequence[Polynomial]) -> Polynomial:
        if isinstance(node, Constant):
            return _number(Fraction(node.value))
        if isinstance(node, Variable):
            return self._variable(node.name)
        match node.function, forms:
            case "+", _:
                return _sum(forms)
            case "-", [u]:
                return _scaled(u, Fraction(-1))
            case "*", _:
                return self._power_product([(form, 1) for form in forms])
            case "/", [u, v] if v.keys() == self.constants:
                return _scaled(u, 1 / v[()])
            case "/", [u, v] if v:
                return self._product(u, self._atom(("/", frozenset(v.items()))))
            case "^", [u, v] if (n := _whole(v)) is not None:
                return self._power_product([(u, n)])
            case "abs", [u] if len(u) == 1 and (m := next(iter(u))) and m[0][1] == 1 and not m[1:]:
                return {((self._size(m[0][0]), 1),): abs(u[m])}
        known = self._number_of(node, forms)
        return self._atom((node.function, *(frozenset(f.items()) for f in forms))) if known is None else known

    def _variable(self, name: str) -> Polynomial:
        if name != self.replaced:
            return self._atom(name)
        return _sum([_scaled(self._atom(n) if n else _number(Fraction(1)), w) for n, w in self.form.items()])

    def _number_of(self, node: Apply, forms: Sequence[Polynomial]) -> Polynomial | None:
        """A function of float64 numbers whose value is one."""
        numbers = [form.get((), Fraction(0)) for form in forms]
        if not all(form.keys() <= self.constants for form in forms) or any(_float(n) is None for n in numbers):
            return None
        found = self.value(node, [arb(float(n)) for n in numbers])
        exact = found.is_finite() and found == arb(float(found.mid()))
        return _number(Fraction(float(found.mid()))) if exact else None

    def _atom(self, key: Hashable) -> Polynomial:
        return {((self.atoms.setdefault(key, len(self.atoms)), 1),): Fraction(1)}

    def _size(self, atom: int) -> int:
        """The atom that is the absolute value of an atom; that of an absolute value is itself."""
        if atom in self.sizes.values():
            return atom
        if atom not in self.sizes:
            self.sizes[atom] = self.atoms.setdefault(("abs", atom), len(self.atoms))
        return self.sizes[atom]

    def _power_product(self, factors: Sequence[tuple[Polynomial, int]]) -> Polynomial:
        total = _number(Fraction(1))
        for form, exponent in factors:
            for _ in range(exponent):
                total = self._product(total, form)
        return total

    def _product(self, left: Polynomial, right: Polynomial) -> Polynomial:
        if len(left) * len(right) > MOST_TERMS**2:
            raise _TooLargeError
        return _sum([{self._joined(m, n): a * b} for m, a in left.items() for n, b in right.items()])

    def _joined(self, left: Monomial, right: Monomial) -> Monomial:
        powers: dict[int, int] = {}
        for atom, exponent in (*left, *right):
            powers[atom] = powers.get(atom, 0) + exponent
        for atom, exponent in list(powers.items()) if self.even else ():
            size = self._size(atom)
            if size != atom and exponent > 1:
                powers[size] = powers.get(size, 0) + exponent // 2 * 2
                powers[atom] = exponent % 2
        return _monomial(powers)


def _monomial(powers: Mapping[int, int]) -> Monomial:
    return tuple(sorted((atom, exponent) for atom, exponent in powers.items() if exponent))


def _divides(divisor: Monomial, m: Monomial) -> bool:
    return all(dict(m).get(atom, 0) >= exponent for atom, exponent in divisor)


def _number(value: Fraction) -> Polynomial:
    return {(): value} if value else {}


def _scaled(form: Polynomial, factor: Fraction) -> Polynomial:
    return {monomial: coefficient * factor for monomial, coefficient in form.items()}


def _sum(terms: Sequence[Polynomial]) -> Polynomial:
    total: Polynomial = {}
    for term in terms:
        for monomial, coefficient in term.items():
            total[monomial] = total.get(monomial, Fraction(0)) + coefficient
    if len(total) > MOST_TERMS:
        raise _TooLargeError
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def _whole(form: Polynomial) -> int | None:
    value = form.get((), Fraction(0))
    whole = form.keys() <= {()} and value.denominator == 1 and 0 <= value <= LARGEST_POWER
    return int(value) if whole else None


def _float(number: Fraction) -> float | None:
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if Fraction(value) == number else None
