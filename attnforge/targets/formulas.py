"""Several closed-form expressions of the same inputs on a box, or one of many shared parts, as a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from attnforge.errors import TargetError
from attnforge.expression import Node, parse_program, program_text, to_text, variables
from attnforge.expression.evaluate import evaluate_joined
from attnforge.expression.limits import MAX_CHARACTERS, MAX_DEPTH, MAX_NODES, PROGRAM
from attnforge.expression.points import accurate_values, careful_values, enclosed_values
from attnforge.expression.program import is_list
from attnforge.expression.tree import bottom_up, children, depth, joined, size, unified
from attnforge.outward import Balls
from attnforge.targets.defined import check_defined, check_joined
from attnforge.targets.domain import Box
from attnforge.targets.formula import Formula, input_names
from attnforge.targets.graph import Conditions, register, substituted
from attnforge.targets.regularity import Lipschitz
from attnforge.targets.target import AnyArray, Target, TruncatedForm, box_from_data, box_to_data

SHORT = 100  # characters of a text that is shown in one line
FEW_INPUTS = 3  # on which cells of the box are fine enough to bound derivatives
HELD = 2**26  # numbers that an evaluation may hold at a time: half a gigabyte in float64


class Formulas(Target):
    """Expression trees with an order of their inputs, on a box with one axis an input.

    Equal subtrees become one object, in one tree and between them, and are evaluated once. ``scalar`` is for one tree
    whose values have no axis of their own; otherwise k trees have values (..., k). ``conditions`` are expressions of
    the inputs and where they are, for points of the box that count; ``off`` is how far a run's inputs may be from what
    they stand for, in exact arithmetic and by rounding.

    >>> target = Formulas.from_text("t = sin(x); [t, t^2]", Box([0], [1]))
    >>> target.outputs, target.values(np.array([[0.0]])).tolist()
    (2, [[0.0, 0.0]])
    """

    layout: Literal["function"] = "function"

    def __init__(
        self,
        trees: Sequence[Node],
        domain: Box,
        names: tuple[str, ...] | None = None,
        scalar: bool = False,
        conditions: Conditions = (),
        off: tuple[tuple[float, float], ...] | None = None,
    ) -> None:
        self.trees = _checked_trees(trees, scalar)
        self._root = joined(self.trees)
        found = variables(self._root)
        self.domain = domain if domain.shape else domain.fixed((max(1, len(names or found)),))
        if len(self.domain.shape) != 1:
            raise TargetError("Formulas live on a box with one axis an input", f"shape {domain.shape}")
        self._names = input_names(found, names, self.domain.shape[0])
        self.outputs = None if scalar else len(self.trees)
        self.conditions, self.off = conditions, off or ((0.0, 0.0),) * len(self._names)
        self._check_size()
        if not conditions:
            self._check_finite()
            check_defined(self.trees, self._names, self.domain)

    @classmethod
    def from_text(cls, text: str, domain: Box, names: tuple[str, ...] | None = None) -> Formulas:
        """From a program such as ``[x + y, x*y]`` or ``t = sin(x); t + t^2``."""
        return cls(parse_program(text, names), domain, names, scalar=not is_list(text))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return self._names

    @property
    def conditions_on_registers(self) -> Conditions:
        """The conditions, with registers r[1], r[2], .. in place of the inputs."""
        inputs = {name: register(i + 1) for i, name in enumerate(self._names)}
        return [(substituted(node, inputs), inside) for node, inside in self.conditions]

    @property
    def unused(self) -> tuple[str, ...]:
        """Names of the inputs that no formula reads."""
        read = {*variables(self._root)}
        return tuple(name for name in self._names if name not in read)

    @cached_property
    def text(self) -> str:
        """All of it, as a straight-line program."""
        return program_text(self.trees, self._names, scalar=self.outputs is None)

    def values(self, points: AnyArray) -> AnyArray:
        """Values at (..., d) points; of float64 points with their digits, also where float64 alone would lose them."""
        if points.dtype == np.longdouble:
            return self._in_pieces(points, lambda part: evaluate_joined(self._root, self._columns(part)))
        exact = np.asarray(points, dtype=np.float64)
        return self._in_pieces(exact, lambda part: careful_values(self._root, self._names, part))

    def accurate(self, points: AnyArray) -> AnyArray:
        """Values right to float64's last digit, however many digits cancel on the way (:mod:`.expression.points`)."""
        return self._in_pieces(points, lambda part: accurate_values(self._root, self._names, part))

    def enclosed(self, points: AnyArray) -> Balls:
        """Balls (N, k), or (N,) of a scalar, around the values at (N, d) points: a proof."""
        found = enclosed_values(self._root, self._names, points)
        return found[:, 0] if self.outputs is None else found

    def truncated_form(self) -> TruncatedForm:
        """Refused: none is read off shared parts."""
        raise TargetError("The target must be a truncated linear function", self.describe(), "Write one formula")

    def lipschitz(self) -> Lipschitz | None:
        """Proved, of few inputs and short trees: the largest constant of a tree, as the largest entry counts."""
        return self._proved

    @cached_property
    def _proved(self) -> Lipschitz | None:
        if len(self._names) > FEW_INPUTS or any(size(tree) > MAX_NODES for tree in self.trees):
            return None
        worst = 0.0
        for tree in self.trees:
            found = Formula(tree, self.domain, self._names).lipschitz()
            if found is None:
                return None
            worst = max(worst, found.constant)
        return Lipschitz(worst, proved=True)

    def check_joined(self) -> None:
        """Refuse a `where` whose branches are not known to meet."""
        check_joined(self.trees)

    def on(self, domain: Box) -> Formulas:
        """The same formulas on another box."""
        return Formulas(self.trees, domain, self._names, self.outputs is None)

    def describe(self) -> str:
        """The text, if it is short; else how many formulas, inputs and nodes there are."""
        if len(self.text) <= SHORT:
            return self.text
        counts = ((len(self.trees), "formula"), (len(self._names), "input"), (self._nodes, "shared node"))
        formulas, inputs, nodes = (f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
        return f"{formulas} of {inputs}, {nodes}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: the program, which is parsed again on loading."""
        return {"kind": "formulas", "text": self.text, "names": list(self._names)}, box_to_data(self.domain)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Formulas:
        """From a file."""
        return cls.from_text(data["text"], box_from_data(arrays), tuple(str(name) for name in data["names"]))

    def __reduce__(self) -> Any:
        return Formulas.from_data, self.to_data()  # trees may be too deep for pickling and copying, which recurse

    @cached_property
    def _nodes(self) -> int:
        """Functions applied, each object counted once."""
        return sum(1 for node in bottom_up(self._root) if children(node)) - 1

    @cached_property
    def _widest(self) -> int:
        """The most terms of a sum, or arguments of another function."""
        return max(len(children(node)) for node in bottom_up(self._root))

    def _columns(self, points: AnyArray) -> dict[str, AnyArray]:
        return {name: points[:, i] for i, name in enumerate(self._names)}

    def _in_pieces(self, points: AnyArray, evaluated: Callable[[AnyArray], AnyArray]) -> AnyArray:
        """Values at (..., d) points, evaluated on as many at a time as there is room for the terms of a sum."""
        flat = points.reshape(-1, len(self._names))
        rows = max(1, HELD // self._widest)
        parts = [evaluated(flat[start : start + rows]) for start in range(0, len(flat), rows)] or [evaluated(flat)]
        shape = points.shape[:-1] if self.outputs is None else (*points.shape[:-1], len(self.trees))
        return np.concatenate(parts).reshape(shape)

    def _check_size(self) -> None:
        """Refuse what a file could not hold: as its text is stored and parsed."""
        _at_most(PROGRAM.nodes, len(bottom_up(self._root)) - 1, "nodes")
        _at_most(PROGRAM.characters, len(self.text), "characters")

    def _check_finite(self) -> None:
        """Refuse formulas without a finite value at the middle of their domain, before anything is built."""
        found = enclosed_values(self._root, self._names, self.domain.middle[None])
        wrong = np.flatnonzero(~np.isfinite(found.mid[0] + found.rad[0]))
        if len(wrong):
            where = ", ".join(f"{name}={value:g}" for name, value in zip(self._names, self.domain.middle, strict=True))
            got = f"no finite value of output {wrong[0]} at {where[:200]}"
            raise TargetError("The formulas must be finite on their domain", got, "Shrink it")


def _checked_trees(trees: Sequence[Node], scalar: bool) -> tuple[Node, ...]:
    given = tuple(trees)
    if not given or (scalar and len(given) != 1) or not all(isinstance(tree, Node) for tree in given):
        wanted = "A scalar target has one formula" if scalar else "Formulas are a sequence of expression trees"
        raise TargetError(wanted, f"{len(given)} of {', '.join({type(tree).__name__ for tree in given})}")
    return unified(given)


def _at_most(most: int, found: int, what: str) -> None:
    if found > most:
        remedy = "Give a smaller network, or a callable"
        raise TargetError(f"Formulas may have at most {most:,} {what}", f"{found:,}", remedy)


def formula_target(trees: Sequence[Node], domain: Box, names: tuple[str, ...], scalar: bool) -> Formula | Formulas:
    """A Formula, which more constructions take, of one tree short enough to be written without shared parts."""
    if scalar and len(trees) == 1 and _is_short(trees[0]):
        return Formula(trees[0], domain, names)
    return Formulas(trees, domain, names, scalar)


def _is_short(tree: Node) -> bool:
    return size(tree) <= MAX_NODES and depth(tree) <= MAX_DEPTH and len(to_text(tree)) <= MAX_CHARACTERS
