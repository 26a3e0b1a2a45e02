r"""How far a row of anchors is from the link it answers with, for every form it may meet.

Scores $\beta(2 s L_k - Q_k)$, $Q_k$ the stored squares, and answers $r_k$ that increase with $L_k$ give an output that
increases with s: it is the mean of an increasing function under weights tilted by s. Between the anchors it is compared
with the link on cells, as any head is. Beyond the last anchor the output stays between its value there and the last
answer, and answers lie nearer to the last, squared and on average, than there.

**Disturbed scores**, each off by at most d: weights are multiplied by factors of mean 1 whose ratio is at most
$e^{2d}$. Between m and M the variance of a number of mean 1 is at most $(M - 1)(1 - m) \le \sinh^2 d$, so by Cauchy and
Schwarz the output moves by at most $\sinh(d)\,\sigma$, $\sigma$ the standard deviation of answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.heads import mixture
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.checker.search import Box, distance, exactly, middle, supremum
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value
from attnforge.expression.simplify import of, plus
from attnforge.expression.tree import Constant, Node, Variable
from attnforge.outward import Machine, upper

Array = npt.NDArray[np.float64]

ORDER = 12
CELLS = 64  # an anchor, at most
FAINT = 2.0**-70  # of the answers: what anchors left out may add
EXACT = Machine("float64", 0.0, 0.0, np.inf, 0.0, 8)


@dataclass(frozen=True)
class _Output:
    """On a box: the output at its middle, its error from ``above`` and there from ``below``, the deviation of answers.

    ``spread`` bounds the deviation, ``here`` is about that at the middle.
    """

    value: arb
    above: float
    below: float
    spread: float
    here: float


class Row:
    """Anchors, their squares and answers; ``link`` is "identity", "clamp" (to ``delta``) or "logistic" less a half."""

    def __init__(self, levels: Array, squares: Array, answers: Array, beta: arb, link: str, delta: float) -> None:
        rising = np.all(np.diff(levels) > 0) and np.all(np.diff(answers) >= 0)
        if len(levels) < 2 or not rising or not beta > 0 or link not in ("identity", "clamp", "logistic"):
            raise BeyondReachError("The checker understands rows of anchors and answers that increase", "another row")
        self.levels, self.answers = levels.tolist(), answers.tolist()
        self.keys, self.values, self.beta = np.c_[levels, squares], np.c_[answers, answers**2], beta
        self.tree, self.on = _tree(link, delta), cache(self._on)
        mirrored = -levels[::-1], squares[::-1], -answers[::-1]
        self.odd = all(map(np.array_equal, (levels, squares, answers), mirrored))  # then errors at -s are those at s

    def error(self, form: arb, disturbance: arb) -> arb:
        """A bound of |output - r(s)| for all |s| up to ``form``, scores off by at most ``disturbance``."""
        reach, moved = upper(form), disturbance.sinh()

        def judge(box: Box) -> tuple[float, float]:
            if box[0][0] > reach or box[1][0] < -reach or (self.odd and box[1][0] <= 0):
                return 0.0, 0.0
            output = self.on(box)
            attained = output.below + float(moved) * output.here if abs(middle(box)[0]) <= reach else 0.0
            return upper(arb(output.above) + moved * output.spread), attained

        whole = (self.levels[0],), (self.levels[-1],)
        floor, (least, most) = FAINT * float(np.abs(self.values).max()), (arb(self.answers[i]) for i in (0, -1))
        found = [arb(supremum(judge, whole, ORDER, floor, CELLS * len(self.levels)).reached)]
        for sign, last, answer in ((1, whole[1], most), (-1, whole[0], least)):
            if reach > sign * last[0]:
                end = self.on((last, last))
                beyond = (sign * (self._link(sign * reach) - end.value)).max(sign * (answer - self._link(last[0])))
                found.append(beyond + moved * (arb(end.spread) ** 2 + (end.value - answer) ** 2).sqrt())
        anywhere = self._link(reach).max(most) - self._link(-reach).min(least)
        return anywhere.min(arb(max(map(upper, found))))

    def _on(self, box: Box) -> _Output:
        with exactly(ORDER):
            cell, space = Cell(*box, ORDER), Space(*box)
            place, largest = Place(space, cell, EXACT), float(np.abs(self.values).max())
            query = [Value(place, Form({0: 2 * self.beta}, ZERO), 0.0), Value(place, Form({}, -self.beta), 0.0)]
            mean, second = mixture(place, query, self.keys, self.values, FAINT * largest)
            square = cell.add(second.model, cell.scale(arb(-1), cell.multiply(mean.model, mean.model)))
            half = upper(arb(self.answers[-1]) - arb(self.answers[0])) / 2
            doubt = second.off + 4 * (largest + half) * mean.off + 2.0**-50 * largest  # squares are rounded
            spread = upper((abs(cell.range(square)) + arb(doubt)).sqrt())
            formula = FormulaOn({"y": Form({0: ONE}, ZERO)}, space, cell)(self.tree)
            here = float(abs(square.at[0]).sqrt().mid())
            return _Output(mean.model.at[0] + arb(0, mean.off), *distance(cell, mean, formula), min(spread, half), here)

    def _link(self, form: float) -> arb:
        with exactly(1):
            space, cell = Space((form,), (form,)), Cell((form,), (form,), 1)
            return FormulaOn({"y": Form({0: ONE}, ZERO)}, space, cell)(self.tree).at[0]


def _tree(link: str, delta: float) -> Node:
    y = Variable("y")
    if link == "logistic":
        return plus(of("sigmoid", y), Constant(-0.5))
    return of("clamp", y, Constant(-delta), Constant(delta)) if link == "clamp" else y
