"""``formula``: a Python function, run once on symbols, as formulas."""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError, TargetError
from attnforge.targets.domain import Box
from attnforge.targets.expression import Node, program_text
from attnforge.targets.expression.tree import name_problem
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas, formula_target
from attnforge.targets.target import Target
from attnforge.targets.tracing.arrays import Nodes, nodes_of
from attnforge.targets.tracing.symbol import Symbol
from attnforge.targets.tracing.tidying import tidied

Array = npt.NDArray[np.float64]
T = TypeVar("T", bound=Target)
Names = Mapping[str, int | None] | Sequence[str]

POINTS = 100  # at which a function and its formula are compared
AGREE = 1e-6  # of the largest value: roundings of float32 are smaller, another function is hardly as close everywhere
OURS = str(Path(__file__).parents[2])  # frames in here, NumPy or torch are not the user's
TINY = float(np.finfo(np.float64).tiny)
LIBRARIES = re.compile(r"[/\\](numpy|torch|scipy)[/\\]")


@dataclass(frozen=True, eq=False)
class Traced:
    """The formulas that a function was found to be, of named inputs; ``print`` shows them.

    ``scalar``: it returns a number and not an array. ``arguments`` are the inputs' names, argument by argument, one
    name for a number and a tuple of them for a vector.
    """

    trees: tuple[Node, ...]
    names: tuple[str, ...]
    scalar: bool
    function: Callable[..., Any] = field(repr=False)
    arguments: tuple[str | tuple[str, ...], ...] = field(repr=False)

    @property
    def text(self) -> str:
        """The formulas, as a straight-line program where parts are used twice."""
        return program_text(self.trees, self.names, scalar=self.scalar)

    def __str__(self) -> str:
        return self.text

    def on(self, domain: Box) -> Formula | Formulas:
        """The target on a box, after the formulas were compared with the function at random points of it."""
        if domain.shape not in ((), (len(self.names),)):
            got = f"a domain of shape {domain.shape}"
            raise DomainError(f"The inputs are {', '.join(self.names)}", got, "Give each of them an interval")
        target = formula_target(self.trees, domain.fixed((len(self.names),)), self.names, self.scalar)
        return compared(target, lambda points: np.stack([self._value(point) for point in points]))

    def _value(self, point: Array) -> Array:
        """What the function itself gives at a point."""
        at = dict(zip(self.names, point, strict=True))
        inputs = [at[each] if isinstance(each, str) else np.array([at[n] for n in each]) for each in self.arguments]
        return _numbers(self.function, inputs)


def formula(f: Callable[..., Any], names: Names | None = None) -> Traced:
    """The formula of a Python function, which is run once, on symbols.

    The function may use operators, functions of NumPy, SciPy's `special` and torch that formulas have, sums, products
    of matrices, and Python of any kind that does not depend on values. Everything else is refused, with its line.

    Args:
        f: a function whose parameters are the inputs, numbers each; those with a default value keep it.
        names: ``{"x": 3}`` for a parameter x that is a vector of 3 inputs x[0], x[1], x[2]; or all names in their
            order, as ``("x[0]", "x[1]", "y")``. A function of one parameter takes several plain names as a vector.

    >>> print(formula(lambda x, y: np.sin(x) * y + np.sin(x) ** 2))
    t1 = sin(x); t1*y + t1^2
    >>> print(formula(lambda x: np.sqrt(np.sum(x**2)), {"x": 3}))
    sqrt(x[0]^2 + x[1]^2 + x[2]^2)
    """
    arguments = _arguments(f, names)
    flat = tuple(name for each in arguments for name in ([each] if isinstance(each, str) else each))
    _check_names(flat)
    symbols = [Symbol.variables([each])[0] if isinstance(each, str) else Symbol.variables(each) for each in arguments]
    nodes = trace(f, *symbols)
    ordered = tuple(names) if names is not None and not isinstance(names, Mapping) else flat
    return Traced(tidied(nodes.ravel().tolist()), ordered, nodes.ndim == 0, f, arguments)


def trace(f: Callable[..., Any], *symbols: Symbol) -> Nodes:
    """The nodes of what a function returns, a number or a vector; errors name the function's line."""
    try:
        nodes = nodes_of(f(*symbols))
    except Exception as error:
        raise _located(error) from error
    if nodes.size == 0 or max(nodes.shape, default=1) != nodes.size:
        raise TargetError("A traced function returns a number or a vector", f"shape {nodes.shape}", "Return a vector")
    return nodes


def compared(target: T, function: Callable[[Array], Array], agree: float = AGREE) -> T:
    """The target, if at random points of its domain its values are those of a function of (N, d) points.

    ``agree`` is the part of the largest value by which they may differ. A sequence's tokens are points.
    """
    lower, upper = target.domain.lower, target.domain.upper
    points = np.random.default_rng(0).uniform(lower, upper, (POINTS, *lower.shape)).reshape(-1, lower.shape[-1])
    expected, found = (_rows(values, len(points)) for values in (function(points), target.values(points)))
    with np.errstate(invalid="ignore"):
        off = np.abs(found - expected).max(axis=1) if found.shape == expected.shape else np.full(len(points), np.inf)
    if not np.all(off <= agree * np.max(np.abs(expected), where=np.isfinite(expected), initial=TINY)):
        i = int(np.argmax(np.where(np.isfinite(off), off, np.inf)))
        names = target.names or tuple(f"x[{j}]" for j in range(points.shape[1]))
        where = ", ".join(f"{name}={value:.6g}" for name, value in zip(names, points[i], strict=True))
        got = f"{_shown(expected[i])} at {where[:200]}, where the formula is {_shown(found[i])}"
        remedy = "Leave out what depends on values, randomness or state, compute in float64, or shrink the domain"
        raise TargetError("A function must be finite, and what was read of it", got, remedy)
    return target


def _rows(values: Array, count: int) -> Array:
    return np.asarray(values, np.float64).reshape(count, -1)


def _shown(values: Array) -> str:
    return f"{values[0]:.6g}" if len(values) == 1 else "[" + ", ".join(f"{value:.6g}" for value in values[:5]) + "]"


def _numbers(function: Callable[..., Any], inputs: list[Any]) -> Array:
    """Values of a function of NumPy's numbers, or where it does not take these, of torch's, in its precision."""
    failure: Exception | None = None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of the function, at numbers that we chose
        for converted in (_as_given, _as_doubles, _as_floats):
            try:
                return _flat(function(*converted(inputs)))
            except Exception as error:
                failure = failure or error
    raise _located(failure or TypeError()) from failure


def _as_given(inputs: list[Any]) -> list[Any]:
    return inputs


def _as_doubles(inputs: list[Any]) -> list[Any]:
    import torch

    return [torch.as_tensor(each, dtype=torch.float64) for each in inputs]


def _as_floats(inputs: list[Any]) -> list[Any]:
    return [each.float() for each in _as_doubles(inputs)]


def _flat(value: Any) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().double().numpy()
    parts = [_flat(each) for each in value] if isinstance(value, list | tuple) else [np.asarray(value, np.float64)]
    return np.concatenate([part.ravel() for part in parts])


def _arguments(f: Callable[..., Any], names: Names | None) -> tuple[str | tuple[str, ...], ...]:
    """The inputs' names, one or a tuple of them a parameter."""
    parameters = _parameters(f)
    if isinstance(names, Mapping):
        widths = {stem: None if count is None else int(count) for stem, count in names.items()}
        given = {stem: stem if n is None else tuple(f"{stem}[{i}]" for i in range(n)) for stem, n in widths.items()}
        return _matched(parameters, {name: name for name in parameters} | given)
    if names is None:
        return tuple(parameters)
    stems = dict.fromkeys(name.partition("[")[0] for name in names)
    if len(parameters) == 1 and set(stems) != set(parameters):
        return (tuple(names),)
    return _matched(parameters, {stem: _of_stem(stem, names) for stem in stems})


def _of_stem(stem: str, names: Sequence[str]) -> str | tuple[str, ...]:
    if stem in names:
        return stem
    count = sum(name.startswith(f"{stem}[") for name in names)
    entries = tuple(f"{stem}[{i}]" for i in range(count))
    if not set(entries) <= set(names):
        raise TargetError("Entries of a vector are named x[0], x[1], ..", ", ".join(names)[:200], "Name all of them")
    return entries


def _matched(
    parameters: Sequence[str], given: Mapping[str, str | tuple[str, ...]]
) -> tuple[str | tuple[str, ...], ...]:
    if set(given) != set(parameters):
        got = f"{', '.join(given) or 'none'} for the parameters {', '.join(parameters) or 'none'}"
        raise TargetError("`names` are those of the function's parameters", got, 'Write names={"x": 3} for a vector x')
    return tuple(given[name] for name in parameters)


def _parameters(f: Callable[..., Any]) -> list[str]:
    try:
        found = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        raise TargetError("A function with a signature is needed", f"{f!r:.80}", "Wrap it in a lambda") from None
    required = [each for each in found if each.default is each.empty]
    if not required or any(each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in required):
        got = ", ".join(map(str, found)) or "none"
        raise TargetError("A traced function has named parameters, an input each", got, "Write def f(x, y): ...")
    return [each.name for each in required]


def _check_names(names: Sequence[str]) -> None:
    problems = [f"{name!r}: {problem}" for name in names if (problem := name_problem(name))]
    if problems or len(set(names)) != len(names):
        raise TargetError("Inputs have different plain names", "; ".join(problems) or str(names), "Rename them")


def _located(error: Exception) -> TargetError:
    """The error with the innermost line of the traceback that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each for each in frames if not each.filename.startswith(OURS) and not LIBRARIES.search(each.filename)]
    place = f", in line {lines[-1].lineno} of {Path(lines[-1].filename).name}" if lines else ""
    text = f": `{lines[-1].line}`" if lines and lines[-1].line else ""
    if isinstance(error, TargetError):
        remedy = error.remedy
        if used := re.search(r"\bmath\.(\w+)", text):
            remedy = f"Use np.{used[1]} instead of math.{used[1]}"
        return TargetError(error.requirement, f"{error.got}{place}{text}", remedy)
    got = f"{type(error).__name__}: {str(error)[:200]}{place}{text}"
    return TargetError(
        "A traced function must run on symbols and numbers", got, "Use operators, and functions of NumPy or torch"
    )
