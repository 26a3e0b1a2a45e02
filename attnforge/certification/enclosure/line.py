r"""Functions of one linear form, and heads that read the same form: several inputs, reduced to a line.

Let $y = r \cdot x$ with r the direction in which the heads' scores vary. Every score is
$s_k = \alpha_k y + b_k + \varepsilon_k(x)$ and every maximal affine subexpression of the formula is
$A_j = \lambda_j y + t_j + \delta_j(x)$, with $|\varepsilon_k|, |\delta_j|$ at most what is not exactly parallel to r,
times the size of the inputs: for heads that read one form $\varepsilon$ vanishes to hundreds of digits, and $\delta$ is
about one rounding of the form. For each fixed x these are constants, so heads and formula are functions of y alone,
with offsets known to lie in balls; a bound for all offsets in the balls and all y is one for all x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.enclosure.affine_heads import AffineHead
from attnforge.expression.tree import Node, depth
from attnforge.outward import lower as from_below
from attnforge.outward import upper as from_above
from attnforge.targets import Box
from attnforge.targets.structure.ridge import linear, rewritten

Array = npt.NDArray[np.float64]

PARALLEL = 1e-12  # what is not parallel may move scores by this much, and affine parts in relation to themselves
DEEPEST = 200  # levels of a formula that is rewritten


@dataclass(frozen=True, eq=False)
class Line:
    """Heads and formula along y from ``lower`` to ``upper``: the formula's variables are affine functions of y.

    ``weights`` are r rounded to float64, and ``ends`` those of weights . x on the box.
    """

    heads: tuple[AffineHead, ...]
    tree: Node
    forms: dict[str, tuple[arb, arb]]
    lower: float
    upper: float
    weights: Array
    ends: tuple[float, float]


def line_of(
    heads: tuple[AffineHead, ...],
    tree: Node,
    names: Sequence[str],
    box: Box,
    parallel: float = PARALLEL,
    apart: float = PARALLEL,
) -> Line | None:
    """The line along which heads and formula vary, the only input or a form, or None; in the caller's precision.

    ``parallel`` is how much of the formula's forms, relative to them, may be beside the heads' direction: what the
    dtype's weights can say; ``apart`` how much of a score may be: where that is more than a rounding, the direction is
    the formula's own. The bound is as much larger.
    """
    if len(names) == 1:
        ends = box.lower.item(), box.upper.item()
        return Line(heads, tree, {names[0]: (arb(1), arb(0))}, *ends, np.ones(1), ends)
    if depth(tree) > DEEPEST:
        return None
    parts: dict[str, Node] = {}
    function = rewritten(tree, parts)
    found = {name: form for name, part in parts.items() if (form := linear(part, names)) is not None}
    exactly = apart <= PARALLEL
    frame = _frame(_slopes(heads) if exactly or not found else [form.weights for form in found.values()], box)
    if frame is None:
        return None
    forms = {}
    for name, form in found.items():
        slope, beside = frame.along(form.weights)
        if not beside <= parallel * abs(slope) * frame.size:
            return None
        forms[name] = frame.split(form.weights, form.offset)
    if not all(frame.along(slope)[1] <= apart for slope in _slopes(heads)):
        return None
    rounded = np.array([float(weight) for weight in frame.weights])
    low, high = frame.ends(frame.weights)
    return Line(
        tuple(reduced(head, frame) for head in heads),
        function,
        forms,
        low,
        high,
        rounded,
        frame.ends([arb(weight) for weight in rounded.tolist()]),
    )


@dataclass(frozen=True, eq=False)
class Frame:
    """The form y = r . x + offset, the input that moves it most, and the box."""

    weights: Sequence[arb]
    pivot: int
    low: Sequence[arb]
    high: Sequence[arb]
    offset: arb = field(default_factory=arb)

    @property
    def size(self) -> arb:
        """How much y moves on the box."""
        sides = zip(self.weights, self.low, self.high, strict=True)
        return sum((abs(w) * (b - a) for w, a, b in sides), start=arb(0))

    @cached_property
    def reach(self) -> list[arb]:
        """The largest value of each input."""
        return [abs(a).max(abs(b)) for a, b in zip(self.low, self.high, strict=True)]

    def along(self, weights: Sequence[arb]) -> tuple[arb, arb]:
        """The multiple of r that a linear form is, and how much the rest of it may be on the box."""
        slope = weights[self.pivot] / self.weights[self.pivot]
        beside = arb(0)
        for i, (weight, own) in enumerate(zip(weights, self.weights, strict=True)):
            if i != self.pivot:
                beside += abs(weight - slope * own) * self.reach[i]
        return slope, arb(from_above(beside))

    def split(self, weights: Sequence[arb], offset: arb) -> tuple[arb, arb]:
        """An affine form as a multiple of y, and the ball that is added to it."""
        slope, beside = self.along(weights)
        return slope, offset - slope * self.offset + (-beside).union(beside)

    def ends(self, weights: Sequence[arb]) -> tuple[float, float]:
        """The range of a linear form on the box, from outside."""
        sides = [(w * a, w * b) for w, a, b in zip(weights, self.low, self.high, strict=True)]
        low, high = (sum((pick(a, b) for a, b in sides), start=arb(0)) for pick in (arb.min, arb.max))
        return from_below(low), from_above(high)


def _slopes(heads: tuple[AffineHead, ...]) -> list[Sequence[arb]]:
    """The slopes of all scores."""
    columns = [(head.slopes, k) for head in heads for k in range(head.slopes.ncols())]
    return [[matrix[i, k] for i in range(matrix.nrows())] for matrix, k in columns]


def _frame(slopes: Sequence[Sequence[arb]], box: Box) -> Frame | None:
    """The direction of the steepest of some linear functions, scaled by a power of two."""
    low, high = ([arb(end) for end in ends.tolist()] for ends in (box.lower.ravel(), box.upper.ravel()))
    widths = (box.upper - box.lower).ravel()
    moves = np.abs([[float(weight) for weight in slope] for slope in slopes]) @ widths
    largest = float(moves.max())
    if not 0.0 < largest < np.inf:
        return None
    scale = arb(2) ** -int(np.frexp(largest)[1])
    weights = [weight * scale for weight in slopes[int(moves.argmax())]]
    pivot = int(np.argmax([abs(float(w)) * width for w, width in zip(weights, widths.tolist(), strict=True)]))
    return Frame(weights, pivot, low, high)


def reduced(head: AffineHead, frame: Frame) -> AffineHead:
    """The head as one of y, its offsets enlarged by what its scores are not functions of y, and its values alike."""
    count, values, tilts = head.slopes.ncols(), head.values.entries(), []
    scores = [
        frame.split(slope, offset) for slope, offset in zip(_slopes((head,)), head.offsets.entries(), strict=True)
    ]
    for k, tilt in head.tilts:
        slope, values[k] = frame.split(tilt.entries(), values[k])
        tilts += [] if slope.is_zero() else [(k, arb_mat(1, 1, [slope]))]
    slopes, offsets = (arb_mat(1, count, list(part)) for part in zip(*scores, strict=True))
    return AffineHead(slopes, offsets, arb_mat(count, 1, values), tuple(tilts))
