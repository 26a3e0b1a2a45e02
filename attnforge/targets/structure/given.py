"""A sum whose terms the user hands in, rather than leaving them to be found."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets.domain import Box
from attnforge.targets.function import Function
from attnforge.targets.structure.found import Structure
from attnforge.targets.structure.term import Term, input_term

Array = npt.NDArray[np.float64]


def given_sum(terms: Sequence[tuple[Any, Callable[[Any], Any]]], box: Box) -> tuple[Function, Structure]:
    """The sum of callables of some inputs each as a target, and its structure.

    >>> pairs = [([0], lambda x: x[..., 0]), ([1], lambda x: x[..., 0] ** 2)]
    >>> target, structure = given_sum(pairs, Box([0, 0], [1, 2]))
    >>> target.values(np.array([[0.5, 2.0]])), [term.describe() for term in structure.terms]
    (array([4.5]), ['x[0]', 'x[1]'])
    """
    if len(box.shape) != 1:
        raise TargetError("A sum of terms takes a vector of inputs", f"a box of shape {box.shape}", "Use shape=(d,)")
    pairs = [_pair(entry, box.lower.size) for entry in terms]
    if not pairs:
        raise TargetError("A sum has at least one term", "none", "Give pairs (inputs, callable)")
    own = [Function(f, Box(box.lower[list(inputs)], box.upper[list(inputs)])) for inputs, f in pairs]
    if len({each.outputs for each in own}) > 1:
        got = ", ".join(str(each.outputs or "a number") for each in own)
        raise TargetError("All terms return values of one shape", got, "Return (...), or (..., k) with one k")
    target = Function(lambda x: sum(f(x[..., list(inputs)]) for inputs, f in pairs), box)
    names = tuple(f"x[{i}]" for i in range(box.lower.size))
    found = tuple(_term(inputs, each, box, names) for (inputs, _), each in zip(pairs, own, strict=True))
    return target, Structure("additive", found, f"A sum of {len(found)} terms, as given")


def _pair(entry: Any, axes: int) -> tuple[tuple[int, ...], Callable[[Any], Any]]:
    try:
        inputs, f = entry
        chosen = tuple(operator.index(i) for i in inputs)
    except (TypeError, ValueError):
        chosen, f = (), None
    if not callable(f) or not chosen or len(set(chosen)) != len(chosen) or not all(0 <= i < axes for i in chosen):
        requirement = f"A term is a pair of distinct inputs, from 0 to {axes - 1}, and a callable"
        raise TargetError(requirement, repr(entry)[:200], "Write ([0, 2], f), say")
    return chosen, f


def _term(inputs: tuple[int, ...], own: Function, box: Box, names: tuple[str, ...]) -> Term:
    """The term; a Function of its own inputs checks what the callable returns."""
    return input_term(lambda x: own.values(x[:, list(inputs)]).reshape(len(x), -1), box, names, inputs)
