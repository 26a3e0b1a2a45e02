r"""How far a head over examples is from the kernel's average, for every prompt of a data box.

All numbers of a prompt are at most B, so points seen from the first example are at most 2B. Scores are a bilinear form
of query and example, answers a linear one of the example: multiplied out and compared with the kernel's. What the run
rounds is counted product by product. Log-weights off by at most $\varepsilon$ move a mean of labels by at most
$2B\tanh(\varepsilon/2)$; sums over n examples lose $\gamma_n$ of their size in any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.checker.in_context_step import EXAMPLES
from attnforge.certification.checker.layers import one_map
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.checker.rounding import IN_ORDER, SLACK, blocks, exponentials, fits, scores
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.values import Value, anywhere, combine
from attnforge.network import Attention, Head, Network
from attnforge.outward import Machine, gamma, lower, machine, precision, round_to, upper
from attnforge.targets.in_context import KernelAverage

Array = npt.NDArray[np.float64]

QUERIES = 3  # of a prompt that is tried, to refute


def average_error(network: Network, target: KernelAverage, dtype: str) -> float:
    """A bound of |network - exact average| in the box; BeyondReachError where there is none."""
    before, head = _read(network, target)
    if target.data_bound is None:
        raise BeyondReachError("A certificate for all prompts needs a data bound", "none")
    with exactly(0):
        found = upper(_Run(before, head, target, machine(dtype)).error(arb(target.data_bound)))
    if not math.isfinite(found):
        raise BeyondReachError(f"Numbers of the run, and sums over examples, fit {dtype}", "larger ones")
    return found


def _read(network: Network, target: KernelAverage) -> tuple[tuple[Array, Array], Head]:
    """The linear map and the constant that queries pass, and the head."""
    *before, last = network.layers
    right = network.features == target.features and network.tokens is None and not network.context_layers
    right = right and network.context in ((None, target.width), (target.examples, target.width))
    if not (right and isinstance(last, Attention) and len(last.heads) == 1 and not last.residual and len(before) < 2):
        raise BeyondReachError("The checker understands queries, examples, and one head", "another network")
    head, keys = last.heads[0], last.heads[0].key_rows
    everybody = head.query_rows.kind == "all" and keys is not None and (keys.kind, keys.source) == ("all", "context")
    if not everybody or head.memory_keys is not None or head.output.shape[1] != target.outputs:
        raise BeyondReachError("The checker understands a head of all queries over all examples", "another head")
    affine = one_map(before[0]) if before else (np.eye(len(head.query)), np.zeros(len(head.query)))
    if affine is None:
        raise BeyondReachError("The checker understands one linear map, the same for every query", "another one")
    return affine, head


class _Run:
    """The numbers of the head, and what its run does to the average."""

    def __init__(self, before: tuple[Array, Array], head: Head, target: KernelAverage, machine: Machine) -> None:
        self.map, self.constant = before
        self.target, self.machine, self.output = target, machine, head.output
        self.query, self.key, self.value = (np.asarray(each) for each in (head.query, head.key, head.value))
        self.place, self.n = anywhere(machine), target.examples or EXAMPLES

    def error(self, bound: arb) -> arb:
        """The bound, for data up to the given one."""
        asking, told = self._tokens(bound)
        moved = 2 * bound * (self._scores(asking, told) / 2).tanh()
        values = self._times(told, self.value)
        if not fits(np.array([2.0 * self.n * (each.size + each.off) for each in values]), self.machine).all():
            return arb("inf")
        answers = _matrix(self.value) * _matrix(self.output)
        found = arb(0)
        for j in range(self.target.outputs):
            answers[self.target.scored + j, j] -= 1
            wrong = sum((abs(answers[i, j]) * each.size for i, each in enumerate(told)), arb(0))
            column = [abs(arb(each)) for each in self.output[:, j].tolist()]
            lost = sum((weight * each.off for weight, each in zip(column, values, strict=True)), arb(0))
            mass = lost + sum((weight * each.size for weight, each in zip(column, values, strict=True)), arb(0))
            made = self._sums(mass, bound + moved + wrong + lost, self.output[:, j])
            found = found.max(moved + wrong + lost + made)
        return found

    def _tokens(self, bound: arb) -> tuple[list[Value], list[Value]]:
        """What float64 makes of data, cast to the dtype; of the Gaussian kernel points are differences."""
        d, k, none = self.target.features, self.target.outputs, arb(0)
        if self.target.kernel == "softmax":
            points = [(bound, none)] * d
            return self._cast(points), self._cast([*points, *[(bound, none)] * k])
        points, square = [(2 * bound, 2 * bound * gamma(1))] * d, 4 * d * bound**2
        squares = (square, square * gamma(d + 2) + d * arb(2) ** -1021)
        return self._cast(points), self._cast([*points, squares, *[(bound, none)] * k])

    def _cast(self, held: list[tuple[arb, arb]]) -> list[Value]:
        """Numbers up to a size, off by at most so much before they are cast: the half types through float32."""
        casts = self.machine.name != "float64"
        unit, tiny = casts * self.machine.roundoff * (1 + 2.0**-10), casts * self.machine.underflow
        ends = [(arb(0, 1) * size, upper(off + unit * (size + off) + tiny)) for size, off in held]
        return [Value(self.place, self.place.cell.constant(ball), off) for ball, off in ends]

    def _times(self, row: list[Value], matrix: Array) -> list[Value]:
        return [combine(self.place, row, column) for column in matrix.T.tolist()]

    def _scores(self, asking: list[Value], told: list[Value]) -> arb:
        """How far log-weights may be from the kernel's."""
        form = _matrix(np.vstack([self.map, self.constant])) * _matrix(self.query) * _matrix(self.key).transpose()
        sharpness = 1 / arb(self.target.bandwidth) ** 2
        for i in range(self.target.scored):
            form[i, i] -= sharpness if i < self.target.features else -sharpness / 2
        sizes = [*(each.size for each in asking), 1.0]
        pairs = ((i, j) for i in range(len(sizes)) for j in range(len(told)))
        off = sum((abs(form[i, j]) * sizes[i] * told[j].size for i, j in pairs), arb(0))
        columns = zip(self.map.T.tolist(), self.constant.tolist(), strict=True)
        queries = self._times([combine(self.place, asking, *each) for each in columns], self.query)
        products = []
        for q, k in zip(queries, self._times(told, self.key), strict=True):
            off += arb(q.off) * k.size + (arb(q.size) + q.off) * k.off
            products.append(upper((arb(q.size) + q.off) * (arb(k.size) + k.off)))
        both = np.array([products])
        size = both.sum(axis=1) * SLACK
        made = scores(both, np.zeros_like(both, dtype=bool), size, 2 * (size + upper(off)) * SLACK, self.machine)
        return off + arb(float(made[0])) + exponentials(self.n, self.machine, IN_ORDER)

    def _sums(self, mass: arb, size: arb, output: Array) -> arb:
        """Of weighted labels and of weights, of their quotient, and of what comes after."""
        terms, machine = self.n + blocks(self.n, IN_ORDER) - 2, self.machine
        normed = arb(gamma(terms, machine.accumulation))
        if not normed < 0.5:
            return arb("inf")
        quotient = normed / (1 - normed)
        made = arb(gamma(terms + 3, machine.accumulation)) * mass * (1 + quotient) + quotient * size
        written = [abs(w) for w in output.tolist() if w]
        after = max(len(written) - 1, 0) + any(math.frexp(w)[0] != 0.5 for w in written)
        after += 2 * (machine.roundoff > machine.accumulation)  # of weights, and of the mean
        lost = 2 * self.n * arb(machine.underflow) * (mass + float(np.abs(output).sum()) + 2)
        return made + arb(gamma(after, machine.roundoff)) * (mass + made) + lost


def _matrix(array: Array) -> arb_mat:
    return arb_mat(array.tolist())


def sample_average(target: KernelAverage, seed: int) -> tuple[Array, Array, Array]:
    """A prompt of the box: numbers of all sizes up to the bound, labels and queries at its ends for odd seeds."""
    source, n = np.random.default_rng(seed), target.examples or 4
    bound = 1.0 if target.data_bound is None else target.data_bound
    shapes = ((n, target.features), (n, target.outputs), (QUERIES, target.features))
    x, y, queries = (source.uniform(-bound, bound, shape) for shape in shapes)
    return (x, y, queries) if seed % 2 == 0 else (x, np.copysign(bound, y), np.copysign(bound, queries))


def seen_error(network: Network, target: KernelAverage, dtype: str, prompt: Sequence[Array]) -> float:
    """The error on a prompt, from below; 0 where it has more examples than are tried."""
    x, y, queries = prompt
    if len(x) > EXAMPLES:
        return 0.0
    with np.errstate(all="ignore"):
        found = network(*(round_to(each, dtype) for each in target.prompt(x, y, queries)))
    if not np.isfinite(found).all():
        return math.nan
    with precision():
        exact = [entry for row in target.enclosed(x, y, queries) for entry in row]
        return max(lower(abs(arb(a) - b)) for a, b in zip(found.ravel().tolist(), exact, strict=True))
