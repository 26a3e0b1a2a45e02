"""``formula``: text as it is written, a Python function as it is run once on symbols."""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.expression import parse_program, variables
from attnforge.expression.program import is_list
from attnforge.expression.tree import joined, name_problem
from attnforge.targets.open_formula import OpenFormula
from attnforge.targets.tracing.arrays import Nodes, nodes_of
from attnforge.targets.tracing.symbol import Symbol
from attnforge.targets.tracing.tidying import tidied

Array = npt.NDArray[np.float64]
Names = Mapping[str, int | None] | Sequence[str]

OURS = str(Path(__file__).parents[2])  # frames in here, NumPy or torch are not the user's
LIBRARIES = re.compile(r"[/\\](numpy|torch|scipy)[/\\]")


def formula(f: str | Callable[..., Any], names: Names | None = None) -> OpenFormula:
    """The formula of a text, or of a Python function, which is run once, on symbols.

    It is printed, evaluated as ``formula(...)(x=0.5, y=2)`` on numbers, arrays or one array (..., d) of all inputs,
    and enclosed on a box, ``formula(...).enclose({"x": (0, 1), "y": (-1, 2)})``: a lower and an upper end, proved.
    ``compile`` takes it as a target.

    A function may use operators, functions of NumPy, SciPy's `special` and torch that formulas have, sums, products
    of matrices, and Python of any kind that does not depend on values. Everything else is refused, with its line.

    Args:
        f: a text; or a function whose parameters are the inputs, numbers each; those with a default value keep it.
        names: ``{"x": 3}`` for a parameter x that is a vector of 3 inputs x[0], x[1], x[2]; or all names in their
            order, as ``("x[0]", "x[1]", "y")``. A function of one parameter takes several plain names as a vector.
            Without them, a text has its inputs in the order in which they appear.

    >>> print(formula(lambda x, y: np.sin(x) * y + np.sin(x) ** 2))
    t1 = sin(x); t1*y + t1^2
    >>> print(formula(lambda x: np.sqrt(np.sum(x**2)), {"x": 3}))
    sqrt(x[0]^2 + x[1]^2 + x[2]^2)
    >>> wave = formula("x^2 - y")
    >>> float(wave(x=3, y=1)), wave.enclose({"x": (-1, 2), "y": (0, 1)})
    (8.0, (-1.0, 4.0))
    """
    if isinstance(f, str):
        return _read(f, names)
    arguments = _arguments(f, names)
    flat = _flattened(arguments)
    _check_names(flat)
    symbols = [Symbol.variables([each])[0] if isinstance(each, str) else Symbol.variables(each) for each in arguments]
    nodes = trace(f, *symbols)
    ordered = tuple(names) if names is not None and not isinstance(names, Mapping) else flat

    def value(point: Array) -> Array:
        """What the function itself gives."""
        at = dict(zip(ordered, point, strict=True))
        inputs = [at[each] if isinstance(each, str) else np.array([at[n] for n in each]) for each in arguments]
        return _numbers(f, inputs)

    return OpenFormula(tidied(nodes.ravel().tolist()), ordered, nodes.ndim == 0, value)


def _read(text: str, names: Names | None) -> OpenFormula:
    """Of a text: its inputs as they appear, vectors with all their entries; a number alone is one of x."""
    given = None
    if names is not None:
        given = _flattened(list(_widths(names).values())) if isinstance(names, Mapping) else tuple(names)
        _check_names(given)
    trees = parse_program(text, given)
    return OpenFormula(trees, given or _whole(variables(joined(trees))) or ("x",), not is_list(text))


def _whole(found: Sequence[str]) -> tuple[str, ...]:
    """Names with all entries of the vectors among them."""
    lengths: dict[tuple[str, str], int] = {}
    for name in found:
        stem, bracket, index = name.partition("[")
        lengths[stem, bracket] = max(lengths.get((stem, bracket), 0), int(index[:-1]) + 1 if bracket else 0)
    return _flattened([_entries(stem, length) if length else stem for (stem, _), length in lengths.items()])


def _entries(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}[{i}]" for i in range(count))


def _flattened(arguments: Sequence[str | tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for each in arguments for name in ([each] if isinstance(each, str) else each))


def trace(f: Callable[..., Any], *symbols: Symbol) -> Nodes:
    """The nodes of what a function returns, a number or a vector; errors name the function's line."""
    try:
        nodes = nodes_of(f(*symbols))
    except Exception as error:
        raise _located(error) from error
    if nodes.size == 0 or max(nodes.shape, default=1) != nodes.size:
        raise TargetError("A traced function returns a number or a vector", f"shape {nodes.shape}", "Return a vector")
    return nodes


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
        return _matched(parameters, {name: name for name in parameters} | _widths(names))
    if names is None:
        return tuple(parameters)
    stems = dict.fromkeys(name.partition("[")[0] for name in names)
    if len(parameters) == 1 and set(stems) != set(parameters):
        return (tuple(names),)
    return _matched(parameters, {stem: _of_stem(stem, names) for stem in stems})


def _widths(names: Mapping[str, int | None]) -> dict[str, str | tuple[str, ...]]:
    """Every parameter by its name, or by those of its entries."""
    return {stem: stem if count is None else _entries(stem, int(count)) for stem, count in names.items()}


def _of_stem(stem: str, names: Sequence[str]) -> str | tuple[str, ...]:
    if stem in names:
        return stem
    count = sum(name.startswith(f"{stem}[") for name in names)
    entries = _entries(stem, count)
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
