"""Arrays of nodes: what numbers, arrays, tensors and symbols are as such, and functions on their entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.expression.limits import PROGRAM
from attnforge.expression.tree import Constant, Node

Nodes = npt.NDArray[np.object_]


class NodeArray:
    """What holds an array of nodes, of any shape; a number has the shape ()."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes


def nodes_of(value: Any) -> Nodes:
    """The nodes of symbols, numbers, arrays, tensors, and sequences of these; all else is refused.

    >>> nodes_of([1, 2.5])
    array([Constant(1.0), Constant(2.5)], dtype=object)
    """
    if isinstance(value, NodeArray):
        return value.nodes
    if isinstance(value, list | tuple):
        return joined_arrays(np.stack, value, 0)
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().double().numpy()
    array = np.asarray(value)
    check_count(array.size)
    if array.dtype.kind not in "biufO":
        refuse(f"{type(value).__name__} of {array.dtype}", "Use real numbers and arrays of them")
    return np.asarray(np.frompyfunc(_node, 1, 1)(array), dtype=object)


def on_entries(function: Callable[..., Node], *values: Any) -> Nodes:
    """A function of nodes on the entries of arrays that are broadcast against each other."""
    arrays = [nodes_of(value) for value in values]
    try:
        check_count(math.prod(np.broadcast_shapes(*(array.shape for array in arrays))))
    except ValueError as error:
        if isinstance(error, TargetError):
            raise
        refuse(f"shapes {_shapes(arrays)}", "Give arrays that broadcast")
    return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), dtype=object)


def joined_arrays(join: Callable[..., Any], parts: Sequence[Any], axis: int) -> Nodes:
    """Arrays joined by a function of NumPy."""
    arrays = [nodes_of(part) for part in parts]
    check_count(sum(array.size for array in arrays))
    try:
        return np.asarray(join(arrays, axis=axis), dtype=object)
    except ValueError:
        refuse(f"parts of shapes {_shapes(arrays)}", "Make them fit")


def rearranged(arrange: Callable[[Nodes], Nodes], x: Any) -> Nodes:
    """The entries in another arrangement."""
    nodes = nodes_of(x)
    try:
        return np.asarray(arrange(nodes), dtype=object)
    except ValueError:
        refuse(f"another arrangement of shape {nodes.shape}", "Make the shapes fit")


def check_count(count: int) -> None:
    """Refuse arrays of more entries than formulas may have nodes, before they are made."""
    if count > PROGRAM.nodes:
        requirement = f"Formulas may have at most {PROGRAM.nodes:,} nodes"
        raise TargetError(requirement, f"arrays of {count:,}", "Give a smaller network, or a callable")


def refuse(got: str, remedy: str) -> NoReturn:
    """A function that cannot be traced."""
    raise TargetError("A traced function is made of operators and functions that a formula has", got, remedy)


def _shapes(arrays: Sequence[Nodes]) -> str:
    return ", ".join(str(array.shape) for array in arrays) or "none"


def _node(value: Any) -> Node:
    if isinstance(value, Node):
        return value
    if isinstance(value, NodeArray):
        if value.nodes.ndim:
            refuse("an array in an array of symbols", "Use np.stack")
        return value.nodes.item()  # type: ignore[no-any-return]
    try:
        return Constant(float(value))
    except (TypeError, ValueError):
        refuse(f"{value!r:.80}", "Use finite real numbers and arrays of them")
