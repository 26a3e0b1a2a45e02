r"""Values on the way from a formula to registers, and what can be read off their expressions.

A value is an expression of registers: a constant, an affine form, or a *ridge*, a function of one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from attnforge.errors import RefusalError
from attnforge.expression.simplify import ONE, minus, of, over, plus, raised, times
from attnforge.expression.text import to_text
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold, varies
from attnforge.targets.graph import Step

T = TypeVar("T")

ALIKE = 1e-13  # two forms whose weights agree so far are one, as float64 weights have it
HALF = Fraction(1, 2)


@dataclass(frozen=True, eq=False)
class Value:
    """An expression of registers: constant (no direction), affine, or a function of one form along its direction."""

    tree: Node
    direction: dict[int, float]
    affine: bool

    @property
    def constant(self) -> bool:
        """Whether it reads no register."""
        return not self.direction


def constant(tree: Node) -> Value:
    """A value that reads no register."""
    return Value(tree, {}, True)


def scaled(factor: Node, value: Value) -> Value:
    """A constant times a value; zero times anything is a constant."""
    if isinstance(factor, Constant) and not factor.value:
        return constant(factor)
    return Value(times(factor, value.tree), value.direction, value.affine)


def negated(value: Value) -> Value:
    """Minus a value."""
    return scaled(Constant(-1.0), value)


def replaced(tree: Node, part: Node, by: Node) -> Node:
    """An expression with another one in place of a part."""

    def visit(each: Node, parts: Sequence[Node]) -> Node:
        if each == part:
            return by
        return Apply(each.function, tuple(parts)) if isinstance(each, Apply) else each

    return fold(tree, visit)


def exponential_part(tree: Node) -> tuple[Node, Node | None]:
    """A constant and an affine exponent, if that is what an expression is: c exp(l), or a power of it."""
    if not isinstance(tree, Apply):
        return tree, None
    if tree.function == "exp" and is_affine(tree.arguments[0]):
        return ONE, tree.arguments[0]
    if tree.function == "-":
        scale, exponent = exponential_part(tree.arguments[0])
        return minus(scale), exponent
    if tree.function == "*":
        varying = [each for each in tree.arguments if varies(each)]
        found = [exponential_part(each) for each in varying]
        if all(exponent is not None for _, exponent in found):
            constants = [each for each in tree.arguments if not varies(each)]
            scale = times(*constants, *(factor for factor, _ in found))
            return scale, plus(*(exponent for _, exponent in found if exponent is not None))
    if tree.function == "^" and (power := rational(tree.arguments[1])) is not None:
        scale, exponent = exponential_part(tree.arguments[0])
        if exponent is not None and scale == ONE:
            return ONE, times(number(power), exponent)
    return tree, None


def multiple(tree: Node) -> tuple[Node, Node]:
    """A constant and the expression that it multiplies."""
    if isinstance(tree, Apply) and tree.function == "-":
        scale, rest = multiple(tree.arguments[0])
        return minus(scale), rest
    factors = tree.arguments if isinstance(tree, Apply) and tree.function == "*" else (tree,)
    constants = [each for each in factors if not varies(each)]
    return times(*constants), times(*(each for each in factors if varies(each)))


def power_of(tree: Node, power: Fraction) -> Node:
    """A power, or a root where it is one."""
    return of("sqrt", tree) if power == HALF else raised(tree, number(power))


def rational(node: Node) -> Fraction | None:
    """The number an exponent is, if it is one."""
    if isinstance(node, Constant):
        return Fraction(node.value)
    if isinstance(node, Apply) and node.function in ("-", "/"):
        parts = [rational(each) for each in node.arguments]
        if all(part is not None for part in parts):
            numbers = [part for part in parts if part is not None]
            return -numbers[0] if len(numbers) == 1 else numbers[0] / numbers[1] if numbers[1] else None
    return None


def number(power: Fraction) -> Node:
    """A fraction as an expression, exactly."""
    whole = Constant(float(power))
    if Fraction(whole.value) == power:
        return whole
    return over(Constant(float(power.numerator)), Constant(float(power.denominator)))


def is_affine(tree: Node) -> bool:
    """Whether an expression of registers is one form."""
    return isinstance(Step.of(tree).function, Variable)


def direction_of(tree: Node) -> dict[int, float]:
    """The weights of an affine expression."""
    step = Step.of(tree) if varies(tree) else None
    if step is None or not step.forms:
        return {}
    (form,) = step.forms.values()
    return {p: float(weight) for p, weight in form.weights.items()}


def affine_value(tree: Node) -> Value:
    """An affine expression; refused where all of it cancels, since what is left is a number known to some digits."""
    along = direction_of(tree)
    if varies(tree) and not along:
        raise RefusalError("Parts of a formula do not cancel", to_text(tree)[:80], "Simplify it")
    return Value(tree, along, True)


def first_form(tree: Node) -> Node:
    """The first form of an expression along one."""
    return next(iter(Step.of(tree).forms.values())).tree


def grouped(items: Iterable[T], direction: Callable[[T], dict[int, float]]) -> list[list[T]]:
    """Items along one form together, in the order of the first of each."""
    groups: list[list[T]] = []
    for item in items:
        group = next((each for each in groups if parallel(direction(each[0]), direction(item))), None)
        if group is None:
            groups.append([item])
        else:
            group.append(item)
    return groups


def parallel(a: dict[int, float], b: dict[int, float]) -> bool:
    """Whether two directions are one, up to a factor."""
    if not a or a.keys() != b.keys():
        return False
    pivot = max(a, key=lambda p: abs(a[p]))
    ratio = b[pivot] / a[pivot]
    return all(abs(b[p] - ratio * a[p]) <= ALIKE * abs(ratio * a[pivot]) for p in a)
