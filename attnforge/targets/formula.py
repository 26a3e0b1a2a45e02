"""A closed-form expression on a box, as a target: parsed text or sympy, with named inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from flint import arb

from attnforge.effort import check_time
from attnforge.errors import TargetError
from attnforge.expression import (
    Node,
    derivative,
    enclose,
    evaluate,
    from_sympy,
    parse,
    to_text,
    truncated_linear_form,
    variables,
)
from attnforge.expression.evaluate import joined_bounds
from attnforge.expression.functions import FUNCTIONS
from attnforge.expression.intervals import Interval
from attnforge.expression.linear import why_not_truncated_linear
from attnforge.expression.points import accurate_values, careful_values, enclosed_values
from attnforge.expression.rectified import rectified
from attnforge.expression.tree import joined, name_problem, unified
from attnforge.outward import Balls, add_up, precision, upper
from attnforge.targets.defined import cells, check_defined, check_joined
from attnforge.targets.domain import Box
from attnforge.targets.extension import continuous
from attnforge.targets.regularity import Lipschitz
from attnforge.targets.relu_network import Activation, Affine, ReluNetwork
from attnforge.targets.target import AnyArray, Target, TruncatedForm, box_from_data, box_to_data


class Formula(Target):
    """An expression tree with an order of its inputs, on a box with one axis an input.

    ``original`` is the tree as written; ``tree`` what it means, also where sin(u)/u is written and u may be zero.

    >>> Formula("clamp(2*x + y, -1, 1)", Box([-1, -1], [1, 1]), ("x", "y")).values(np.array([[0.25, 0.0]]))
    array([0.5])
    """

    layout: Literal["function"] = "function"
    conditions_on_registers: tuple[()] = ()

    def __init__(self, expression: Any, domain: Box, names: tuple[str, ...] | None = None) -> None:
        self.original = _tree(expression, names)
        found = variables(self.original)
        self.domain = domain if domain.shape else domain.fixed((max(1, len(found)),))
        if len(self.domain.shape) != 1:
            raise TargetError("A formula lives on a box with one axis an input", f"shape {domain.shape}")
        self._names = input_names(found, names, self.domain.shape[0])
        self.off = ((0.0, 0.0),) * len(self._names)
        self.tree, self.extension = continuous(self.original, self._names, self.domain)
        self._root = joined((self.tree,))
        self._check_finite()
        check_defined((self.tree,), self._names, self.domain)

    @property
    def unused(self) -> tuple[str, ...]:
        """Names of the inputs that the formula does not read."""
        read = variables(self.tree)
        return tuple(name for name in self._names if name not in read)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return self._names

    def values(self, points: AnyArray) -> AnyArray:
        """Values at (..., d) points; of float64 points with their digits, also where float64 alone would lose them."""
        if points.dtype == np.longdouble:
            columns = {name: points[..., i] for i, name in enumerate(self._names)}
            return np.broadcast_to(evaluate(self.tree, columns), points.shape[:-1])
        flat = np.asarray(points, dtype=np.float64).reshape(-1, len(self._names))
        return careful_values(self._root, self._names, flat).reshape(points.shape[:-1])

    def accurate(self, points: AnyArray) -> AnyArray:
        """Values right to float64's last digit, however many digits cancel on the way (:mod:`.expression.points`)."""
        found = accurate_values(self._root, self._names, points.reshape(-1, len(self._names)))
        return found.reshape(points.shape[:-1])

    def enclosed(self, points: AnyArray) -> Balls:
        """Balls (N,) around the values at (N, d) points: a proof."""
        return enclosed_values(self._root, self._names, points)[:, 0]

    def truncated_form(self) -> TruncatedForm:
        """Range_[a, b](w . x + t), if the expression is one."""
        found = truncated_linear_form(self.tree, self._names, list(self.domain.lower), list(self.domain.upper))
        if found is None:
            reason = why_not_truncated_linear(self.tree, self._names)
            remedy = "Write it as clamp(w*x + t, a, b), relu, max, min or an affine function of one linear form"
            raise TargetError("The target must be a truncated linear function of one linear form", reason, remedy)
        weights = [_ball(weight) for weight in found.weights]
        mid, rad = np.array([[w.mid[()] for w in weights]]), np.array([[w.rad[()] for w in weights]])
        offset = _ball(found.offset)
        offsets = Balls(offset.mid.reshape(1), offset.rad.reshape(1))
        return TruncatedForm(Balls(mid, rad), offsets, _ball(found.lower), _ball(found.upper))

    def rectified(self) -> ReluNetwork:
        """The ReLU network that a piecewise affine formula is; a TargetError with the reason where it is none."""
        return self._rectified

    @cached_property
    def _rectified(self) -> ReluNetwork:
        first, *others = (Affine(weight, bias) for weight, bias in rectified(self.tree, self._names))
        stages = (first, *(stage for affine in others for stage in (Activation(0.0, None), affine)))
        return ReluNetwork(stages, self.domain)

    def lipschitz(self) -> Lipschitz | None:
        r"""Proved: the largest $\sum_j |\partial_j f|$ over cells of the box, by ball arithmetic; None if unbounded."""
        return self._proved

    @cached_property
    def _proved(self) -> Lipschitz | None:
        root = joined(unified([self.tree, *(derivative(self.tree, name) for name in self._names)]))
        worst = 0.0
        with precision():
            for box in cells(self._names, self.domain):
                check_time("bounding derivatives")
                value, *slopes = map(_magnitude, joined_bounds(root, box))
                total = add_up(*slopes)
                if not np.isfinite(total) or not np.isfinite(value):
                    return None
                worst = max(worst, total)
        return Lipschitz(worst, proved=True)

    def check_joined(self) -> None:
        """Refuse a `where` whose branches are not known to meet."""
        check_joined((self.tree,))

    def on(self, domain: Box) -> Formula:
        """The same formula on another box."""
        return Formula(self.original, domain, self._names)

    def describe(self) -> str:
        """The expression as text."""
        return to_text(self.original)

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: the text, which is parsed again on loading."""
        return {"kind": "formula", "text": to_text(self.original), "names": list(self._names)}, box_to_data(self.domain)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Formula:
        """From a file."""
        return cls(str(data["text"]), box_from_data(arrays), tuple(str(name) for name in data["names"]))

    def _check_finite(self) -> None:
        """Refuse a formula without a finite value at the middle of its domain, before anything is built."""
        middle = {name: arb(float(value)) for name, value in zip(self._names, self.domain.middle, strict=True)}
        if not enclose(self.tree, middle).is_finite():
            where = ", ".join(f"{name}={value:g}" for name, value in zip(self._names, self.domain.middle, strict=True))
            raise TargetError("The formula must be finite on its domain", f"no finite value at {where}", "Shrink it")


def _magnitude(found: Interval) -> float:
    """The largest absolute value in an interval; infinity where it is not known."""
    if not (found.lower.is_finite() and found.upper.is_finite()):
        return float("inf")
    return max(upper(abs(found.lower)), upper(abs(found.upper)))


def _tree(expression: Any, names: tuple[str, ...] | None) -> Node:
    if isinstance(expression, Node):
        return expression
    return parse(expression, names) if isinstance(expression, str) else from_sympy(expression, names or ())


def input_names(found: tuple[str, ...], given: tuple[str, ...] | None, axes: int) -> tuple[str, ...]:
    """The order of the inputs: as the domain names them, by index x[0], x[1], .., or the only one."""
    if given is not None:
        problems = [f"{name!r}: {problem}" for name in given if (problem := name_problem(name))]
        if problems or len(set(given)) != axes:
            raise TargetError(
                "The domain names each input once", "; ".join(problems) or str(given), "Use names such as x"
            )
        taken = [name for name in given if name in FUNCTIONS and not FUNCTIONS[name].arity]
        if taken:
            got = f"`{taken[0]}`, which in a formula is a number"
            raise TargetError("An input needs a name of its own", got, "Rename the input")
        missing = [name for name in found if name not in given]
        if missing:
            got = f"{', '.join(missing)} in the formula, {', '.join(given)} in the domain"
            raise TargetError("Every variable of the formula needs an interval in the domain", got, "Name it there")
        return given
    if axes == 1 and len(found) <= 1:
        return found or ("x",)
    stems = {name.split("[")[0] for name in found}
    if len(stems) == 1 and all(name.endswith("]") for name in found):
        stem = stems.pop()
        names = tuple(f"{stem}[{i}]" for i in range(axes))
        if set(found) <= set(names):
            return names
    raise TargetError(
        "Several inputs need names: the domain must say which interval is whose",
        f"variables {', '.join(found) or 'none'} and {axes} unnamed intervals",
        'Write the domain as {"x": (-1, 1), "y": (0, 2)}, or the variables as x[0], x[1]',
    )


def _ball(value: arb) -> Balls:
    """A scalar ball array around an arb; ``==`` holds of what is certainly equal, and ``!=`` is not its opposite."""
    mid = float(value.mid())
    return Balls(np.array(mid), np.array(0.0 if value == arb(mid) else upper(abs(value - arb(mid)))))
