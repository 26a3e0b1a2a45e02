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

from attnforge.balls import Machine, gamma, lower, machine, precision, round_to, upper
from attnforge.certification.checker.in_context_step import EXAMPLES, KEYS, LARGEST, ULPS, ULPS_SINGLE
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.targets.in_context import KernelAverage

Array = npt.NDArray[np.float64]
Held = list[tuple[arb, arb]]  # the size of each feature, and how far the run may be from it

QUERIES = 3  # of a prompt that is tried, to refute


def average_error(network: Network, target: KernelAverage, dtype: str) -> float:
    """A bound of |network - exact average| in the box; BeyondReachError where there is none."""
    before, head = _read(network, target)
    if target.data_bound is None:
        raise BeyondReachError("A certificate for all prompts needs a data bound", "none")
    with precision():
        return upper(_Run(before, head, target, machine(dtype)).error(arb(target.data_bound)))


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
    if not before:
        return (np.eye(len(head.query)), np.zeros(len(head.query))), head
    match before[0]:
        case Linear((Term(map=np.ndarray() as read, mix=None),), constant=shift) if read.ndim == 2:
            if shift is None or len(shift) == 1:
                return (read, np.zeros(read.shape[1]) if shift is None else shift[0]), head
    raise BeyondReachError("The checker understands one linear map, the same for every query", "another one")


class _Run:
    """The numbers of the head, and what its run does to the average."""

    def __init__(self, before: tuple[Array, Array], head: Head, target: KernelAverage, machine: Machine) -> None:
        self.map, self.constant = before
        self.query, self.key, self.value = (np.asarray(each) for each in (head.query, head.key, head.value))
        self.output, self.target, self.machine = head.output, target, machine
        self.n = target.examples or EXAMPLES
        self.fine, self.most = arb(machine.accumulation), LARGEST[machine.name == "float64"] / 2

    def error(self, bound: arb) -> arb:
        """The bound, for data up to the given one."""
        asking, told = self._tokens(bound)
        moved = 2 * bound * (self._scores(asking, told) / 2).tanh()
        values = self._times(told, self.value)
        if not all(2 * self.n * (size + off) < self.most for size, off in values):
            raise BeyondReachError("Sums of labels stay in the range of the dtype", "larger ones")
        answers = _matrix(self.value) * _matrix(self.output)
        found = arb(0)
        for j in range(self.target.outputs):
            answers[self.target.scored + j, j] -= 1
            wrong = sum((abs(answers[i, j]) * size for i, (size, _) in enumerate(told)), arb(0))
            column = [abs(arb(each)) for each in self.output[:, j].tolist()]
            lost = sum((weight * off for weight, (_, off) in zip(column, values, strict=True)), arb(0))
            mass = sum((weight * sum(each) for weight, each in zip(column, values, strict=True)), arb(0))
            made = self._sums(mass, bound + moved + wrong + lost, self.output[:, j : j + 1])
            found = found.max(moved + wrong + lost + made)
        return found

    def _tokens(self, bound: arb) -> tuple[Held, Held]:
        """What float64 makes of data, cast to the dtype; of the Gaussian kernel points are differences."""
        d, k = self.target.features, self.target.outputs
        labels: Held = [(bound, arb(0))] * k
        if self.target.kernel == "softmax":
            points = [(bound, arb(0))] * d
            return self._cast(points), self._cast([*points, *labels])
        unit, tiny = arb(gamma(1)), d * arb(2) ** -1021
        points, square = [(2 * bound, 2 * bound * unit)] * d, 4 * d * bound**2
        squares = (square, square * arb(gamma(d + 2)) + tiny)
        return self._cast(points), self._cast([*points, squares, *labels])

    def _cast(self, held: Held) -> Held:
        if self.machine.name == "float64":
            return held
        unit = arb(self.machine.roundoff) * (1 + arb(2) ** -10)  # the half types are reached through float32
        return [(size, off + unit * (size + off) + self.machine.underflow) for size, off in held]

    def _times(self, held: Held, matrix: Array) -> Held:
        """After a product with a matrix: a rounding for products that are not exact, and one for each further term."""
        found = []
        for column in matrix.T.tolist():
            terms = [(abs(arb(w)), each) for w, each in zip(column, held, strict=True) if w]
            size, off = (sum((w * each[part] for w, each in terms), arb(0)) for part in (0, 1))
            inexact = any(math.frexp(abs(w))[0] != 0.5 for w in column if w)
            count = inexact + max(len(terms) - 1, 0)
            off += arb(gamma(count, self.machine.roundoff)) * (size + off) + len(terms) * arb(self.machine.underflow)
            found.append(self._fitting(size, off))
        return found

    def _fitting(self, size: arb, off: arb) -> tuple[arb, arb]:
        if not size + off < self.machine.largest / 2:
            raise BeyondReachError(f"Numbers of the run fit {self.machine.name}", "larger ones")
        return size, off

    def _scores(self, asking: Held, told: Held) -> arb:
        """How far log-weights may be from the kernel's."""
        d, fine, machine = self.target.features, self.fine, self.machine
        form = _matrix(np.vstack([self.map, self.constant])) * _matrix(self.query) * _matrix(self.key).transpose()
        sharpness = 1 / arb(self.target.bandwidth) ** 2
        for i in range(self.target.scored):
            form[i, i] -= sharpness if i < d else -sharpness / 2
        sizes = [*(size for size, _ in asking), arb(1)]
        pairs = ((i, j) for i in range(len(sizes)) for j in range(len(told)))
        off = sum((abs(form[i, j]) * sizes[i] * told[j][0] for i, j in pairs), arb(0))
        shifted = []
        for (size, error), c in zip(self._times(asking, self.map), self.constant.tolist(), strict=True):
            rounds = arb(machine.roundoff) if c and size + error > 0 else arb(0)
            shifted.append(self._fitting(size + abs(arb(c)), error + rounds * (size + error + abs(arb(c)))))
        both = arb(0)
        for (q, dq), (k, dk) in zip(self._times(shifted, self.query), self._times(told, self.key), strict=True):
            off, both = off + dq * k + (q + dq) * dk, both + (q + dq) * (k + dk)
        width = len(self.query.T)
        if not both < self.most:
            raise BeyondReachError("Scores stay in the range of the dtype", "larger ones")
        off += arb(gamma(width, machine.accumulation)) * both + 4 * width * arb(machine.underflow)
        apart = 2 * (both + off)  # from the largest score; float32 kernels may multiply by log2(e) before
        double = machine.name == "float64"
        lost = apart if double else 4 * apart + 2 * both
        ulps = 2 * (ULPS if double else ULPS_SINGLE)
        return off + fine * (1 + arb(2) ** -12) * lost + math.ceil(self.n / KEYS) * (ulps + 4) * fine

    def _sums(self, mass: arb, size: arb, output: Array) -> arb:
        """Of weighted labels and of weights, of their quotient, and of what comes after."""
        terms, machine = self.n + math.ceil(self.n / KEYS) - 2, self.machine
        normed = arb(gamma(terms, machine.accumulation))
        if not normed < 0.5:
            raise BeyondReachError("Sums over examples keep a digit", f"{self.n} examples")
        quotient = normed / (1 - normed)
        made = arb(gamma(terms + 3, machine.accumulation)) * mass * (1 + quotient) + quotient * size
        after = sum(bool(w) for w in output[:, 0].tolist()) - 1
        after += any(math.frexp(abs(w))[0] != 0.5 for w in output[:, 0].tolist() if w)
        after += 2 * (machine.roundoff > machine.accumulation)  # of weights, and of the mean
        largest = abs(arb(float(np.abs(output).sum()))) + 1
        lost = 2 * self.n * arb(machine.underflow) * (mass + largest)
        return made + arb(gamma(max(after, 0), machine.roundoff)) * (mass + made) + lost


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
