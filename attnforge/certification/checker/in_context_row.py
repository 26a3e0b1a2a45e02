r"""How far a row of anchors is from the link it answers with, for every form it may meet.

Weights $\propto e^{-\beta(s - L_k)^2}$ and answers $r_k$, both increasing with k, give an output that increases with s.
Between the anchors $e(s) = \mathrm{out}(s) - r(s)$ is expanded on cells: about m, with $a_k = 2\beta(L_k - m)$ and
$W_k = e^{-\beta(L_k - m)^2}$, the output is $\sum W_k r_k e^{a_k\tau} / \sum W_k e^{a_k\tau}$ at $s = m + \tau$; the
remainder has the coefficient of the same series about every point of the cell. Of anchors further away than u with
$\beta u(u - 4h) = 100$ the coefficients $W_k e^{a_k\tau} a_k^j/j! \le h^{-j} e^{2 a_k h} W_k$ are at most
$h^{-j} e^{-100}$, for $|\tau| \le h$. Beyond the last anchor the output stays between its value there and the last
answer, and answers lie nearer to the last, squared and on average, than there.

**Disturbed scores**, each off by at most d: weights are multiplied by factors of mean 1 whose ratio is at most
$e^{2d}$. Between m and M the variance of a number of mean 1 is at most $(M - 1)(1 - m) \le \sinh^2 d$, so by Cauchy and
Schwarz the output moves by at most $\sinh(d)\,\sigma$, $\sigma$ the standard deviation of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from flint import arb, arb_mat, arb_series, ctx

from attnforge.balls import lower, upper
from attnforge.certification.checker.questions import BeyondReachError

ORDER = 12
PARTS = 16  # pieces of a cell on which its polynomial is evaluated
NEAR = 2.0**-10  # of the largest error: a remainder that does not matter
DEEPEST = 12  # times that a quarter of the distance of two anchors is halved
FAR = 100  # the exponent of anchors that hardly weigh


@dataclass(frozen=True)
class Cell:
    """Forms from ``low`` to ``high``: the error and the standard deviation of answers."""

    low: float
    high: float
    error: arb
    spread: arb


@dataclass(frozen=True, eq=False)
class Row:
    """Anchors and answers; ``link`` is "identity", "clamp" (to ``delta``) or "logistic" (less one half)."""

    levels: Sequence[float]
    answers: Sequence[float]
    beta: arb
    link: str
    delta: float

    def __post_init__(self) -> None:
        pairs = list(zip(self.levels, self.answers, strict=True))
        rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(pairs))
        if len(pairs) < 2 or not rising or self.link not in ("identity", "clamp", "logistic"):
            raise BeyondReachError("The checker understands rows of anchors and answers that increase", "another row")

    def error(self, form: arb, disturbance: arb) -> arb:
        """A bound of |output - r(s)| for all |s| up to ``form``, scores off by at most ``disturbance``."""
        reach = upper(form)
        ends = self._link(arb(reach)), self._link(arb(-reach))
        whole = ends[0].max(arb(self.answers[-1])) - ends[1].min(arb(self.answers[0]))
        moved = disturbance.sinh()
        met = [self._cut(cell, reach) for cell in self.cells if cell.low <= reach and cell.high >= -reach]
        found = [cell.error + moved * cell.spread for cell in met]
        for sign, last, answer in ((1, self.levels[-1], self.answers[-1]), (-1, self.levels[0], self.answers[0])):
            if reach > sign * last:
                (out, away), here = self._output(last, answer), self._link(arb(last))
                beyond = (sign * (self._link(arb(sign * reach)) - out)).max(sign * (answer - here))
                found.append(beyond + moved * away.sqrt())
        return whole.min(arb(max(upper(each) for each in found)))

    def _cut(self, cell: Cell, reach: float) -> Cell:
        """The part of a cell within ``reach`` of zero."""
        low, high = max(cell.low, -reach), min(cell.high, reach)
        return cell if (low, high) == (cell.low, cell.high) else self._cell(low, high)[0]

    @cached_property
    def cells(self) -> list[Cell]:
        """All forms between the first and the last anchor, or those that are not negative where the row is odd."""
        odd = _opposite(self.levels) and _opposite(self.answers)  # then e(-s) = -e(s)
        pairs = [(a, b) for a, b in pairwise(self.levels) if not odd or b > 0]
        edges = [*(a + (b - a) * i / 4 for a, b in pairs for i in range(4)), self.levels[-1]]
        todo = [(a, b, 0) for a, b in pairwise(edges)]
        typical = max(lower(abs(self._output(a)[0] - self._link(arb(a)))) for a in edges)
        found = []
        while todo:
            low, high, depth = todo.pop()
            cell, left = self._cell(low, high)
            if depth < DEEPEST and not left < arb(NEAR * typical) + self._step * arb(2) ** -62:
                middle = low / 2 + high / 2
                todo += [(low, middle, depth + 1), (middle, high, depth + 1)]
            else:
                found.append(cell)
        return found

    @cached_property
    def _step(self) -> arb:
        return arb(min(b - a for a, b in pairwise(self.levels)))

    def _cell(self, low: float, high: float) -> tuple[Cell, arb]:
        """A cell, and the remainder of its expansion."""
        cap, ctx.cap = ctx.cap, ORDER + 1
        try:
            middle = low / 2 + high / 2
            radius = (arb(high) - arb(middle)).max(arb(middle) - arb(low))
            exact, over = self._series(middle, arb(0)), self._series(middle, arb(0, 1) * radius)
        finally:
            ctx.cap = cap
        left, doubt = (abs(each[ORDER]) * radius**ORDER for each in over)
        error, square = arb(0), arb(0)
        values, squares = ([each[j] for j in range(ORDER)] for each in exact)
        slopes = [(j + 1) * value for j, value in enumerate(values[1:])]
        for i in range(PARTS):
            place, half = radius * arb(2 * i + 1 - PARTS) / PARTS, radius / PARTS
            around = place + arb(0, 1) * half
            error = error.max(abs(_polynomial(values, place)) + abs(_polynomial(slopes, around)) * half)
            square = square.max(abs(_polynomial(squares, around)))
        widest = arb(self.answers[-1]) - arb(self.answers[0])
        spread = (arb(upper(square + doubt))).min(widest**2 / 4).sqrt()
        return Cell(low, high, arb(upper(error + left)), arb(upper(spread))), left

    def _series(self, middle: float, tau: arb) -> tuple[arb_series, arb_series]:
        """Output less link, and the variance of answers, about middle + tau."""
        away = [
            (arb(level) - arb(middle), arb(answer)) for level, answer in zip(self.levels, self.answers, strict=True)
        ]
        near = [(a, r) for a, r in away if not self.beta * abs(a) * (abs(a) - 4 * self._step) > FAR]
        weights = [(self.beta * a * (2 * tau - a)).exp() for a, _ in near]
        rows = [[arb(1)] * len(near)]
        for j in range(ORDER):
            rows.append([power * 2 * self.beta * a / (j + 1) for power, (a, _) in zip(rows[-1], near, strict=True)])
        columns = [[weight, weight * r, weight * r * r] for weight, (_, r) in zip(weights, near, strict=True)]
        sums, rest = arb_mat(rows) * arb_mat(columns), (len(away) - len(near)) * arb(-FAR).exp() * arb(0, 1)
        most = max(abs(self.answers[0]), abs(self.answers[-1]))
        mass, mean, second = (
            arb_series([sums[j, c] + rest * arb(most) ** c / self._step**j for j in range(ORDER + 1)], ORDER + 1)
            for c in range(3)
        )
        out = mean / mass
        return out - self._expanded(arb(middle) + tau), second / mass - out * out

    def _expanded(self, form: arb) -> arb_series:
        """The link about a form between the first and the last anchor."""
        here = arb_series([form, arb(1)], ORDER + 1)
        if self.link == "logistic":
            return 1 / (1 + (-here).exp()) - arb(0.5)
        if self.link == "clamp":  # s itself, less what the clamp may take off between the last anchors
            cut = (arb(self.levels[-1]).max(arb(-self.levels[0])) - arb(self.delta)).max(arb(0))
            return here + arb_series([arb(0, 1) * cut], ORDER + 1)
        return here

    def _output(self, form: float, answer: float = 0.0) -> tuple[arb, arb]:
        """The output, and the mean squared distance of answers from the given one."""
        weights = [(-self.beta * (arb(level) - arb(form)) ** 2).exp() for level in self.levels]
        moments = [
            sum((w * (arb(r) - arb(answer)) ** power for w, r in zip(weights, self.answers, strict=True)), arb(0))
            for power in (0, 1, 2)
        ]
        return arb(answer) + moments[1] / moments[0], moments[2] / moments[0]

    def _link(self, form: arb) -> arb:
        if self.link == "logistic":
            return 1 / (1 + (-form).exp()) - arb(0.5)
        return form.max(arb(-self.delta)).min(arb(self.delta)) if self.link == "clamp" else form


def _polynomial(coefficients: Sequence[arb], at: arb) -> arb:
    value = arb(0)
    for each in reversed(coefficients):
        value = value * at + each
    return value


def _opposite(numbers: Sequence[float]) -> bool:
    return all(a == -b for a, b in zip(numbers, reversed(numbers), strict=True))
