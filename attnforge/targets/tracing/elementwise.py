"""Functions of numbers that NumPy, SciPy and torch have, as nodes of the grammar, by their names there.

What is a function of the grammar under the same name is that; everything else is listed here once. Nothing is
flattened: a part that is used twice stays one object.
"""

from __future__ import annotations

from collections.abc import Callable

from attnforge.errors import TargetError
from attnforge.expression.functions import FUNCTIONS, NAMES
from attnforge.expression.limits import exponent_problem
from attnforge.expression.simplify import ONE, TWO, ZERO, minus, of, over, raised
from attnforge.expression.tree import Apply, Constant, Node

MINUS_ONE, HALF, THREE, SIX, TEN = (Constant(value) for value in (-1.0, 0.5, 3.0, 6.0, 10.0))
SELU_ALPHA, SELU_SCALE = Constant(1.6732632423543772848170429916717), Constant(1.0507009873554804934193349852946)


def total(*terms: Node) -> Node:
    """The sum of the terms, without those that are zero."""
    kept = tuple(term for term in terms if term != ZERO)
    return Apply("+", kept) if len(kept) > 1 else kept[0] if kept else ZERO


def product(*factors: Node) -> Node:
    """The product of the factors, without those that are one; of a factor with itself, its square."""
    kept = tuple(factor for factor in factors if factor != ONE)
    if len(kept) < 2:
        return kept[0] if kept else ONE
    if len(kept) == 2 and MINUS_ONE in kept:
        return minus(kept[kept[0] == MINUS_ONE])
    return raised(kept[0], TWO) if len(kept) == 2 and kept[0] is kept[1] else Apply("*", kept)


def subtract(a: Node, b: Node) -> Node:
    """The difference."""
    return total(a, minus(b))


def power(base: Node, exponent: Node) -> Node:
    """The power; 1/2 is the square root."""
    if exponent == HALF:
        return of("sqrt", base)
    if problem := exponent_problem(exponent):
        raise TargetError("A constant exponent must be small", problem, "Use exp and log")
    return raised(base, exponent)


def apply(name: str, *arguments: Node) -> Node:
    """A function, by a name that NumPy, SciPy, torch or the grammar has for it."""
    if name in WRITTEN_OUT:
        return WRITTEN_OUT[name](*arguments)
    known = NAMES.get(name)
    if known is None or not FUNCTIONS[known].takes(len(arguments)):
        raise TargetError("A traced function is made of functions of the grammar", f"`{name}`", "Rewrite it with these")
    return of(known, *arguments)


def is_elementwise(name: str) -> bool:
    """Whether there is such a function of numbers."""
    return name in WRITTEN_OUT or (name in NAMES and FUNCTIONS[NAMES[name]].arity > 0)


def elu(u: Node, alpha: Node = ONE) -> Node:
    """U for positive u, and alpha (exp(u) - 1) elsewhere: a sum of two functions that are one of these or zero."""
    return total(of("relu", u), product(alpha, subtract(of("exp", of("min", u, ZERO)), ONE)))


def leaky_relu(u: Node, slope: Node) -> Node:
    """U for positive u, and slope u elsewhere."""
    return subtract(of("relu", u), product(slope, of("relu", minus(u))))


def where(condition: Node, a: Node, b: Node) -> Node:
    """``a`` where the condition holds; a comparison, which is ``where(u, v, 1, 0)``, lends its sides."""
    if isinstance(condition, Apply) and condition.function == "where" and condition.arguments[2:] == (ONE, ZERO):
        return of("where", *condition.arguments[:2], a, b)
    if isinstance(condition, Apply) and condition.function == "where" and condition.arguments[2:] == (ZERO, ONE):
        return of("where", *condition.arguments[:2], b, a)
    return of("where", condition, HALF, b, a)


def less(u: Node, v: Node) -> Node:
    """One where u < v, else zero."""
    return of("where", u, v, ONE, ZERO)


def at_least(u: Node, v: Node) -> Node:
    """One where u >= v, else zero."""
    return of("where", u, v, ZERO, ONE)


def _sinc(u: Node) -> Node:
    """NumPy's and torch's: sin(pi u) / (pi u)."""
    return of("sinc", product(of("pi"), u))


def _heaviside(u: Node, at_zero: Node) -> Node:
    if at_zero != HALF:
        raise TargetError(
            "The step function of the grammar is 1/2 at zero", "another value", "Use np.heaviside(x, 0.5)"
        )
    return of("step", u)


WRITTEN_OUT: dict[str, Callable[..., Node]] = {
    "add": total,
    "subtract": subtract,
    "sub": subtract,
    "rsub": lambda a, b: subtract(b, a),
    "multiply": product,
    "mul": product,
    "divide": over,
    "true_divide": over,
    "div": over,
    "negative": minus,
    "neg": minus,
    "positive": lambda u: u,
    "power": power,
    "pow": power,
    "float_power": power,
    "square": lambda u: power(u, TWO),
    "reciprocal": lambda u: over(ONE, u),
    "rsqrt": lambda u: over(ONE, of("sqrt", u)),
    "absolute": lambda u: of("abs", u),
    "fabs": lambda u: of("abs", u),
    "maximum": lambda a, b: of("max", a, b),
    "minimum": lambda a, b: of("min", a, b),
    "fmax": lambda a, b: of("max", a, b),
    "fmin": lambda a, b: of("min", a, b),
    "heaviside": _heaviside,
    "less": less,
    "lt": less,
    "greater": lambda u, v: less(v, u),
    "gt": lambda u, v: less(v, u),
    "greater_equal": at_least,
    "ge": at_least,
    "less_equal": lambda u, v: at_least(v, u),
    "le": lambda u, v: at_least(v, u),
    "logical_and": product,
    "bitwise_and": product,
    "exp2": lambda u: raised(TWO, u),
    "expm1": lambda u: subtract(of("exp", u), ONE),
    "log1p": lambda u: of("log", total(ONE, u)),
    "log2": lambda u: over(of("log", u), of("log", TWO)),
    "log10": lambda u: over(of("log", u), of("log", TEN)),
    "logaddexp": lambda a, b: total(a, of("softplus", subtract(b, a))),
    "expit": lambda u: of("sigmoid", u),
    "ndtr": lambda u: of("normcdf", u),
    "gammaln": lambda u: of("lgamma", u),
    "psi": lambda u: of("digamma", u),
    "j0": lambda u: of("besselj0", u),
    "j1": lambda u: of("besselj1", u),
    "sinc": _sinc,
    "mish": lambda u: product(u, of("tanh", of("softplus", u))),
    "relu6": lambda u: of("clamp", u, ZERO, SIX),
    "hardsigmoid": lambda u: over(of("clamp", total(u, THREE), ZERO, SIX), SIX),
    "hardswish": lambda u: over(product(u, of("clamp", total(u, THREE), ZERO, SIX)), SIX),
    "log_sigmoid": lambda u: minus(of("softplus", minus(u))),
    "softsign": lambda u: over(u, total(ONE, of("abs", u))),
    "tanhshrink": lambda u: subtract(u, of("tanh", u)),
    "selu": lambda u: product(SELU_SCALE, elu(u, SELU_ALPHA)),
}
