r"""Terms: summands of a target that depend on few affine forms of its inputs.

A term is known through the target, whose box must never be left. Two kinds of forms make this possible:

- **inputs themselves**, $u_i = x_{S_i}$: the other inputs stay at the middle of the box;
- **one form** $u = w \cdot x$: on the segment from the corner of the box that minimises $w \cdot x$ to the one that
  maximises it, $x(u) = x_{\min} + s\,(x_{\max} - x_{\min})$ with $s = (u - u_{\min})/(u_{\max} - u_{\min})$, one has
  $w \cdot x(u) = u$, and the segment lies in the box because the box is convex.

Arguments beyond the range of a form are moved to its end, so rounding cannot leave the box either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.targets.domain import Box
from attnforge.targets.target import AnyArray

Array = npt.NDArray[np.float64]
Values = Callable[[AnyArray], AnyArray]

SHOWN = 12  # summands of a form that are written out


@dataclass(frozen=True, eq=False)
class Term:
    """One summand, as a function of the forms u = ``forms @ x + offsets``.

    Args:
        forms: weights (r, D); r = 0 is a constant.
        offsets: (r,).
        lower, upper: (r,), the range of each form over the box, rounded outward.
        values: the term (N, k) at values (N, r) of its forms; the target is evaluated inside its box only.
        names: of the D inputs.
    """

    forms: Array
    offsets: Array
    lower: Array
    upper: Array
    values: Values
    names: tuple[str, ...]

    @property
    def is_ridge(self) -> bool:
        """Whether it is a function of one form that mixes two or more inputs."""
        return len(self.forms) == 1 and int(np.count_nonzero(self.forms)) > 1

    def at(self, points: AnyArray) -> AnyArray:
        """The term (N, k) at points (N, D) of the box."""
        return self.values(points @ self.forms.T + self.offsets)

    def describe(self) -> str:
        """The forms in short words.

        >>> ridge_term(lambda x: x[:, :1], Box(0, 1, shape=(2,)), ("x", "y"), [1, -0.5]).describe()
        'x - 0.5*y'
        """
        return ", ".join(self._form(*each) for each in zip(self.forms, self.offsets, strict=True)) or "constant"

    def _form(self, weights: Array, offset: float) -> str:
        parts = [(w, name) for w, name in zip((*weights, offset), (*self.names, ""), strict=True) if w]
        if len(parts) > SHOWN:
            return f"a form of {np.count_nonzero(weights)} inputs"
        text = "".join(f" {'-' if w < 0 else '+'} {_scaled(abs(w), name)}" for w, name in parts)
        return text.removeprefix(" + ") if not text.startswith(" - ") else f"-{text[3:]}"


def input_term(values: Values, box: Box, names: tuple[str, ...], inputs: Sequence[int]) -> Term:
    """The term that ``values``, from (N, D) points to (N, k), is of some inputs; the others stay in the middle.

    >>> term = input_term(lambda x: x[:, :1] * x[:, 1:], Box([0, 0], [2, 4]), ("x", "y"), [1])
    >>> term.describe(), term.values(np.array([[4.0], [5.0]]))
    ('y', array([[4.], [4.]]))
    """
    chosen = list(inputs)
    return cut_term(values, box, names, chosen, [(tuple(range(len(chosen))), 1)])


def cut_term(
    values: Values, box: Box, names: tuple[str, ...], inputs: Sequence[int], cuts: Sequence[tuple[Sequence[int], int]]
) -> Term:
    r"""The term $\sum_T c_T f(x_T;\, m)$ of some inputs: cuts through f, inputs outside T in the middle.

    Args:
        inputs: the inputs the term depends on.
        cuts: places in ``inputs`` that are filled in, and the factor of this cut. All cuts are evaluated in one call.
    """
    chosen = list(inputs)
    lower, upper = box.lower[chosen], box.upper[chosen]

    def evaluate(arguments: AnyArray) -> AnyArray:
        inside = np.clip(arguments, lower, upper)
        points = np.broadcast_to(box.middle, (len(cuts), len(inside), len(box.lower))).astype(inside.dtype)
        for each, (places, _) in zip(points, cuts, strict=True):
            each[:, [chosen[place] for place in places]] = inside[:, list(places)]
        found = values(points.reshape(-1, len(box.lower))).reshape(len(cuts), len(inside), -1)
        return np.asarray(np.tensordot(np.array([factor for _, factor in cuts], dtype=found.dtype), found, axes=1))

    return Term(np.eye(len(box.lower))[chosen], np.zeros(len(chosen)), lower, upper, evaluate, names)


def ridge_term(values: Values, box: Box, names: tuple[str, ...], weights: npt.ArrayLike) -> Term:
    """The term of the form ``weights . x``, evaluated on the segment between the two extreme corners.

    Inputs of weight zero stay in the middle of the box.

    >>> term = ridge_term(lambda x: x.sum(axis=1, keepdims=True) ** 2, Box([0, 0], [1, 2]), ("x", "y"), [1, 1])
    >>> term.upper, term.values(np.array([[1.5]]))
    (array([3.]), array([[2.25]]))
    """
    w = np.asarray(weights, dtype=np.float64)
    low, high = (np.where(w == 0, box.middle, np.where((w > 0) == up, box.upper, box.lower)) for up in (False, True))
    bottom, top = form_range(w, 0.0, box)

    def evaluate(arguments: AnyArray) -> AnyArray:
        share = np.clip((arguments - bottom) / (top - bottom), 0, 1) if top > bottom else np.zeros_like(arguments)
        return values(np.clip(low + share * (high - low), box.lower, box.upper))

    return Term(w[None], np.zeros(1), np.array([bottom]), np.array([top]), evaluate, names)


def constant_term(value: npt.ArrayLike, names: tuple[str, ...]) -> Term:
    """A constant (k,), as a term without forms."""
    row = np.atleast_1d(np.asarray(value, dtype=np.float64))
    none = np.zeros(0)
    return Term(np.zeros((0, len(names))), none, none, none, lambda u: np.tile(row, (len(u), 1)), names)


def form_range(weights: Array, offset: float, box: Box) -> tuple[float, float]:
    """The range of ``weights . x + offset`` over the box: computed exactly, then rounded outward.

    >>> form_range(np.array([1.0, -2.0]), 0.5, Box([0, 0], [1, 1]))
    (-1.5, 1.5)
    """
    sides = [sorted((Fraction(w) * Fraction(a), Fraction(w) * Fraction(b))) for w, a, b in _rows(weights, box)]
    low, high = (sum((side[end] for side in sides), Fraction(float(offset))) for end in (0, 1))
    down, up = float(low), float(high)
    return (
        down if Fraction(down) <= low else math.nextafter(down, -math.inf),
        up if Fraction(up) >= high else math.nextafter(up, math.inf),
    )


def _rows(weights: Array, box: Box) -> list[tuple[float, float, float]]:
    return list(zip(weights.tolist(), box.lower.tolist(), box.upper.tolist(), strict=True))


def _scaled(size: float, name: str) -> str:
    """A positive multiple of a name; without a name the number itself."""
    number = f"{size:.4g}"
    return number if not name else name if number == "1" else f"{number}*{name}"
