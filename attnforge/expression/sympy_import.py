"""sympy expressions into our trees, node by node: nothing is printed and parsed, and nothing is evaluated."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from attnforge.errors import TargetError
from attnforge.expression.functions import FUNCTIONS, NAMES, Function
from attnforge.expression.limits import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_INDEX,
    MAX_NODES,
    exponent_problem,
)
from attnforge.expression.parse import COMPARED
from attnforge.expression.reductions import REDUCTIONS
from attnforge.expression.simplify import ONE, minus, of, over, raised
from attnforge.expression.text import to_text
from attnforge.expression.tree import Constant, Node, Variable, depth, name_problem, size

if TYPE_CHECKING:
    import sympy

RESERVED = {*NAMES, *REDUCTIONS}
ORDERED = {"besselj": {n: f"besselj{n}" for n in range(3)}, "polygamma": {0: "digamma", 1: "trigamma"}}


def from_sympy(expr: sympy.Expr, names: Collection[str] = ()) -> Node:
    """The tree of a sympy expression.

    Symbols become variables, ``IndexedBase("x")[3]`` becomes ``x[3]``, rational numbers become quotients of exact
    constants, floating-point numbers the nearest float64. What has no counterpart is refused by name. A symbol may be
    named as a function is if it is among the ``names`` of the inputs.

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> to_text(from_sympy(2 * sympy.sqrt(x) / 3))
    '2/3*sqrt(x)'
    """
    import sympy

    if not isinstance(expr, sympy.Basic):
        raise TargetError("A sympy expression is needed", type(expr).__name__, "Build it with sympy, or give a string")
    done: dict[Any, Node] = {}
    stack: list[tuple[Any, bool]] = [(expr, False)]
    while stack:
        each, ready = stack.pop()
        if each in done:
            continue
        name, parts = _read(each)
        if ready or not parts:
            done[each] = _check_size(_convert(each, name, [done[part] for part in parts], names))
        else:
            stack.append((each, True))
            stack.extend((part, False) for part in parts)
    return _check_text(done[expr])


def _read(expr: Any) -> tuple[str | None, tuple[Any, ...]]:
    """Our name for the class of the expression, and the arguments to be converted first.

    It must be sympy's own class and not one that looks like it. Numbers and symbols have neither, nor has what is
    refused.
    """
    import sympy

    if type(expr) is sympy.Piecewise:
        return _piecewise(expr)
    if type(expr) is sympy.Heaviside and expr.args[1:] == (sympy.Rational(1, 2),):
        return "step", expr.args[:1]
    if type(expr) in (sympy.besselj, sympy.polygamma) and expr.args[0] in range(3):
        name = ORDERED[type(expr).__name__].get(int(expr.args[0]))
        return name, expr.args[1:] if name else ()
    for name, function in FUNCTIONS.items():
        if function.sympy is not None and type(expr) is getattr(sympy, function.sympy):
            return name, expr.args
    return None, ()


def _piecewise(expr: Any) -> tuple[str | None, tuple[Any, ...]]:
    """The first branch, and the others as the other branch, of which the last must be for all that is left."""
    import sympy

    (value, condition), *others = expr.args
    if not others or others[-1][1] != True or getattr(condition, "rel_op", None) not in COMPARED:  # noqa: E712
        return None, ()
    rest = others[0][0] if len(others) == 1 else sympy.Piecewise(*others, evaluate=False)
    four = (condition.lhs, condition.rhs, value, rest)
    return "where", tuple(four[i] for i in COMPARED[condition.rel_op])


def _convert(expr: Any, name: str | None, arguments: list[Node], names: Collection[str]) -> Node:
    if name is None:
        return _leaf(expr, names)
    if name == "^":
        return _power(*arguments)
    if name == "*" and arguments[0] == Constant(-1.0):
        return minus(_collect(name, arguments[1:]))
    return _collect(name, arguments)


def _collect(name: str, arguments: list[Node]) -> Node:
    """The function applied; sympy also has sums, products, minima and maxima of a single term."""
    function: Function = FUNCTIONS[name]
    if len(arguments) == 1 and function.variadic:
        return arguments[0]
    if not function.takes(len(arguments)):
        raise TargetError(f"`{name}` takes {function.arguments_text()}", f"{len(arguments)}", "Rewrite the expression")
    return of(name, *arguments)


def _power(base: Node, exponent: Node) -> Node:
    """Powers -1, 1/2 and -1/2 are written 1/u, sqrt(u) and 1/sqrt(u), which enclose more tightly."""
    half = over(ONE, Constant(2.0))
    if exponent in (half, Constant(0.5)):
        return of("sqrt", base)
    if exponent in (minus(half), over(Constant(-1.0), Constant(2.0)), Constant(-0.5)):
        return over(ONE, of("sqrt", base))
    if exponent == Constant(-1.0):
        return over(ONE, base)
    if problem := exponent_problem(exponent):
        requirement = f"A constant exponent must lie between -{MAX_EXPONENT} and {MAX_EXPONENT}"
        raise TargetError(requirement, problem, "Use a smaller exponent, or exp and log")
    return raised(base, exponent)


def _leaf(expr: Any, names: Collection[str]) -> Node:
    import sympy

    if expr is sympy.pi or expr is sympy.E:
        return of("pi" if expr is sympy.pi else "e")
    if isinstance(expr, sympy.Integer):
        return _integer(int(expr))
    if isinstance(expr, sympy.Rational):
        return over(_integer(int(expr.p)), _integer(int(expr.q)))
    if isinstance(expr, sympy.Float):
        return Constant(float(expr))
    if type(expr) in (sympy.Symbol, sympy.Dummy):
        return _variable(str(expr.name), names)
    if isinstance(expr, sympy.Indexed):
        return _entry(expr, names)
    known = ", ".join(function.sympy for function in FUNCTIONS.values() if function.sympy is not None)
    remedy = f"Rewrite it with numbers, symbols, pi, E and {known}"
    raise TargetError("A sympy expression must be made of known parts", f"`{type(expr).__name__}`", remedy)


def _integer(value: int) -> Node:
    try:
        constant = Constant(float(value))
    except OverflowError:
        constant = None
    if constant is None or int(constant.value) != value:
        shown = f"an integer of {value.bit_length()} bits"
        raise TargetError("An exact number must be a float64", shown, "Use sympy.Float for the nearest one")
    return constant


def _entry(expr: Any, names: Collection[str]) -> Node:
    import sympy

    index, *others = expr.indices
    if others or not (isinstance(index, sympy.Integer) and 0 <= int(index) <= MAX_INDEX):
        requirement = f"An index must be one whole number from 0 to {MAX_INDEX}"
        raise TargetError(requirement, str(expr)[:80], "Write, for example, `x[0]`")
    return _variable(str(expr.base.label), names, f"[{int(index)}]")


def _variable(name: str, names: Collection[str], index: str = "") -> Node:
    taken = name in RESERVED and name + index not in names
    problem = f"`{name}` is a function or constant" if taken else name_problem(name)
    if problem:
        raise TargetError(f"A symbol needs a plain name: {problem}", repr(name)[:80], "Rename the symbol")
    return Variable(name + index)


def _check_size(node: Node) -> Node:
    if size(node) > MAX_NODES or depth(node) > MAX_DEPTH:
        requirement = f"An expression may have at most {MAX_NODES} nodes, nested at most {MAX_DEPTH} deep"
        raise TargetError(requirement, f"{size(node)} nodes, {depth(node)} deep", "Simplify it, or give a callable")
    return node


def _check_text(node: Node) -> Node:
    if (length := len(to_text(node))) > MAX_CHARACTERS:
        requirement = f"An expression may have at most {MAX_CHARACTERS} characters when written out"
        raise TargetError(requirement, str(length), "Simplify it, or give a callable")
    return node
