r"""How a statement is looked at: which outputs, first cells, orders of models, and variables in place of the inputs.

A :class:`Plan` may be anything: all it decides is how close bounds are. It is checked for what a cover takes for
granted, field by field, and for memory and time.

**Variables.** Cells may be cut in other variables than the inputs: with $w_p = 1$, $y = w \cdot x$ takes the place of
$x_p$, and $x_p = y - \sum_{i \ne p} w_i x_i$ is a model like any other. The range of y over the box is that of its
exact sum, rounded outward; so the box of variables contains the image of every input. Any w is sound, and of use where
functions vary with y alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.kernel.degrees import Degrees, degrees
from attnforge.kernel.models import Models
from attnforge.kernel.reading import fields, listed, real, refuse, truth, whole
from attnforge.kernel.theorem import Domain, Statement

Array = npt.NDArray[np.float64]

INPUTS = 16  # of a statement, at most
CELLS = 10**6  # that are held or looked at, at most
DEGREE, TABLE = 32, 2**10  # of models, and their coefficients, at most


@dataclass(frozen=True, eq=False)
class Plan:
    """How some outputs are looked at.

    ``outputs`` are numbers in the target's list. ``edges`` are the places at which each variable is cut at first,
    without its ends. Models are of total ``degree``, in single variables of the ``limits``, ``lone`` without products
    of variables of limit 1 (:mod:`.degrees`). Keys that weigh less than $e^{-far}$ of the heaviest are charged in one.
    ``weights`` of a linear form of inputs, if any, put it in the place of the input ``pivot``.
    """

    outputs: tuple[int, ...]
    edges: tuple[tuple[float, ...], ...]
    degree: int
    limits: tuple[int, ...] = ()
    lone: bool = False
    far: float = 42.0
    pivot: int = 0
    weights: tuple[float, ...] | None = None

    @classmethod
    def of(cls, data: Any, statement: Statement) -> Plan:
        """From plain data, all of whose fields are of their kind and fit the statement."""
        inputs, count = statement.inputs, len(statement.target.outputs)
        whole(inputs, 1, INPUTS, "The number of inputs that are cut")
        given = fields(data, cls.__dataclass_fields__, "a plan")
        plan = cls(
            listed(given["outputs"], count, "The outputs", lambda each: whole(each, 0, count - 1, "An output")),
            listed(given["edges"], inputs, "The edges", _edges),
            whole(given["degree"], 1, DEGREE, "A degree"),
            listed(given["limits"], inputs, "The limits", lambda each: whole(each, 1, DEGREE, "A limit")),
            truth(given["lone"], "`lone`"),
            real(given["far"], "`far`"),
            whole(given["pivot"], 0, inputs - 1, "The pivot"),
            None if given["weights"] is None else listed(given["weights"], inputs, "The weights", _weight),
        )
        plan._check(inputs)
        return plan

    def _check(self, inputs: int) -> None:
        """That fields fit each other, and models memory."""
        lengths = (len(self.edges), len(self.limits) or inputs, inputs if self.weights is None else len(self.weights))
        if not self.outputs or lengths != (inputs, inputs, inputs):
            refuse(f"A plan has outputs, and entries for {inputs} inputs", lengths)
        if self.weights is not None and self.weights[self.pivot] != 1.0:
            refuse("The weight of the input that a form stands for is 1", self.weights[self.pivot])
        if self.far < 0:
            refuse("`far` is not negative", self.far)
        every = [min(limit, self.degree) + 1 for limit in self.limits or (self.degree,) * inputs]
        whole(min(math.comb(inputs + self.degree, inputs), math.prod(every)), 1, TABLE, "The number of coefficients")

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "outputs": list(self.outputs), "edges": [list(each) for each in self.edges], "degree": self.degree,
            "limits": list(self.limits), "lone": self.lone, "far": self.far, "pivot": self.pivot,
            "weights": None if self.weights is None else list(self.weights),
        }  # fmt: skip

    def table(self) -> Degrees:
        """The multi-indices of the models."""
        return degrees(len(self.edges), self.degree, self.limits, self.lone)


def _edges(value: Any) -> tuple[float, ...]:
    return listed(value, CELLS, "Places to cut at", lambda each: real(each, "A place"))


def _weight(value: Any) -> float:
    return real(value, "A weight")


@dataclass(frozen=True, eq=False)
class Variables:
    """The box (D,) that cells are cut from; ``column`` (D,), if any, is the input ``pivot`` as a form of them."""

    lower: Array
    upper: Array
    pivot: int = 0
    column: Array | None = None

    @classmethod
    def of(cls, plan: Plan, domain: Domain) -> Variables:
        """The variables of a plan, whose box contains the image of the domain.

        >>> plan = Plan((0,), ((), ()), 1, pivot=1, weights=(-0.5, 1.0))
        >>> Variables.of(plan, Domain(np.zeros((1, 2)), np.ones((1, 2)))).lower.tolist()
        [0.0, -0.5]
        """
        lower, upper = (ends.copy() for ends in domain.ends)
        if plan.weights is None:
            return cls(lower, upper)
        weights, pivot = np.array(plan.weights), plan.pivot
        lower[pivot], upper[pivot] = _range(weights, *domain.ends)
        column = -weights
        column[pivot] = 1.0
        return cls(lower, upper, pivot, column)

    def inputs(self, table: Degrees, lower: Array, upper: Array) -> Models:
        """The inputs (C, D) on cells."""
        models = Models.variables(table, lower, upper)
        if self.column is None:
            return models
        parts = [models[:, : self.pivot], models.through(self.column[:, None]), models[:, self.pivot + 1 :]]
        return Models.joined(parts, -1)

    def at(self, points: Array) -> Array:
        """About the inputs at points (..., D) of the variables."""
        inputs = points.copy()
        if self.column is not None:
            inputs[..., self.pivot] = points @ self.column
        return inputs


def _range(weights: Array, lower: Array, upper: Array) -> tuple[float, float]:
    """The exact range of a linear form on a box, rounded outward."""
    ends = [[Fraction(w) * Fraction(end) for end in sides] for w, *sides in zip(weights, lower, upper, strict=True)]
    low, high = (sum((choose(pair) for pair in ends), start=Fraction(0)) for choose in (min, max))
    return -_above(-low), _above(high)


def _above(value: Fraction) -> float:
    """The next float64 from here on."""
    try:
        near = float(value)
    except OverflowError:
        refuse("A linear form of the inputs fits float64", "a larger one")
    return near if Fraction(near) >= value else float(np.nextafter(near, np.inf))
