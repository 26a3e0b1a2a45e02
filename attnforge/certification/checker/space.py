r"""Where a network is looked at: its inputs, or one linear form of them if nothing else matters.

Before the first nonlinear operation everything is a linear form $s \cdot x + c$ of the inputs, kept exactly. On a box
of few inputs the variables are the inputs. If all forms are multiples of one w, the variable is $y = w \cdot x$ and
$$ s \cdot x + c = \alpha y + c + (s - \alpha w) \cdot x , $$
whose last term, zero or a rounding of the weights, is enclosed on the whole box: a ball around the constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from attnforge.certification.checker.taylor import ZERO, Cell, Model
from attnforge.outward import lower as lower_end
from attnforge.outward import upper as upper_end


@dataclass(frozen=True, eq=False)
class Form:
    """slopes . x + constant, the inputs by number; absent slopes are zero."""

    slopes: dict[int, arb]
    constant: arb

    def plus(self, other: Form) -> Form:
        """The sum."""
        slopes = dict(self.slopes)
        for i, slope in other.slopes.items():
            slopes[i] = slopes[i] + slope if i in slopes else slope
        return Form(slopes, self.constant + other.constant)

    def times(self, factor: arb) -> Form:
        """A multiple."""
        return Form({i: slope * factor for i, slope in self.slopes.items()}, self.constant * factor)


class Space:
    """The box of the inputs, and the variables cells are cut in: the inputs, or one form of them (``direction``)."""

    def __init__(
        self, lower: Sequence[float], upper: Sequence[float], direction: Sequence[float] | None = None
    ) -> None:
        self.inputs = [arb(a).union(arb(b)) for a, b in zip(lower, upper, strict=True)]
        self.direction = None if direction is None else [arb(w) for w in direction]
        if self.direction is None:
            self.lower, self.upper = tuple(map(float, lower)), tuple(map(float, upper))
        else:
            # end by end: a ball around the range reaches beyond it, and a bound may be refuted there that is true
            ends = [(w * arb(a), w * arb(b)) for w, a, b in zip(self.direction, lower, upper, strict=True)]
            least, most = (sum((each[i] for each in map(_ordered, ends)), start=ZERO) for i in (0, 1))
            self.lower, self.upper = (lower_end(least),), (upper_end(most),)
            self.square = sum((w * w for w in self.direction), start=ZERO)

    def model(self, form: Form, cell: Cell) -> Model:
        """The form on a cell."""
        if self.direction is None:
            parts = [cell.scale(slope, cell.variable(i)) for i, slope in form.slopes.items()]
            return cell.add(cell.constant(form.constant), *parts)
        along = sum((slope * self.direction[i] for i, slope in form.slopes.items()), start=ZERO) / self.square
        along = arb(along.mid())
        rest = form.constant
        for i, x in enumerate(self.inputs):
            apart = form.slopes.get(i, ZERO) - along * self.direction[i]
            rest = rest + apart * x
        return cell.add(cell.constant(rest), cell.scale(along, cell.variable(0)))


def _ordered(ends: tuple[arb, arb]) -> tuple[arb, arb]:
    """The smaller and the larger of two numbers."""
    return ends[0].min(ends[1]), ends[0].max(ends[1])
