r"""Certificates of kernel regression by one head: for one prompt, and for all prompts of a data box.

The head's scores are a bilinear form of query token and example token, $(x, 1)\,M\,t$, its answers a linear one, $tN$.
Both are multiplied out in balls and compared with the kernel's, $M^*$ and $N^*$ (1/h^2 times x.x_i and -|x_i|^2/2; the
labels): $(|x|, 1)\,|M - M^*|\,|t|$ is what exact arithmetic does to a score, $|t|\,|N - N^*|$ to a label. The run adds
roundings: of tokens (differences and |x_i|^2 in float64, then cast), of projections, of scores, of exponentials, of
sums. With log-weights off by at most $\eta_i$, the average f of labels moves by at most
$$ \frac{\sum_i p_i (e^{\eta_i} - 1)\,|y_i - f|}{\sum_i p_i e^{-\eta_i}} , \qquad\text{or}\qquad
   2Y\tanh(\eta/2) \quad\text{for labels within } \pm Y \text{ and } \eta_i \le \eta : $$
the mean of numbers in [-Y, Y] moves most where half of the weight, raised by $e^\eta$, lies on one end and half,
lowered as much, on the other. The second is what a data box knows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.certificate import Certificate
from attnforge.certification.enclosure.run import BLOCK, Weights, added, disturbed_mean, sums
from attnforge.certification.in_context.aggregation import summation
from attnforge.certification.in_context.certify import EXAMPLES, KERNEL, certificate_of
from attnforge.certification.in_context.links import softmax
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.rounding import count_roundings
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Linear, Network, rounded
from attnforge.outward import Balls, Machine, Up, gamma, machine, precision, upper
from attnforge.targets.in_context import KernelAverage

Array = npt.NDArray[np.float64]

UNKNOWN = "no data_bound was given: net.certify(X, y, X_query) certifies one prompt"
RANGE, RANGE_64 = 2.0**126, 2.0**1022  # sums up to here, and their products by log2(e), do not overflow


def certify_average_box(network: Network, target: KernelAverage, dtype: str) -> Certificate:
    """A bound of |network - exact average| for all examples, labels and queries within the target's data bound."""
    if target.data_bound is None:
        raise RefusalError("A certificate for all prompts needs a bound of the data", "none", UNKNOWN)
    n, bound = target.examples or EXAMPLES, target.data_bound
    head = _Head(network, target, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow becomes an infinite bound, and is refused
        parts = head.on_box(n, bound)
    reach = f"prompts of {'' if target.examples else 'at most '}{n:,} examples"
    return certificate_of(network, target, dtype, parts, (reach, KERNEL), ((-bound, bound),))


def certify_average(
    network: Network, target: KernelAverage, dtype: str, x: Array, y: Array, queries: Array
) -> Certificate:
    """A bound of |network - exact average| for examples x (n, d), y (n, k) and queries (q, d)."""
    head = _Head(network, target, dtype)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        parts = head.on_prompt(x, y, queries)
    data = hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in (x, y, queries))).hexdigest()
    reach = f"one prompt: the {len(x):,} examples and {len(queries):,} queries with SHA-256 {data[:16]}"
    return certificate_of(network, target, dtype, parts, (reach, KERNEL), ())


@dataclass(frozen=True, eq=False)
class Held:
    """Bounds (rows, features): ``size`` of numbers in exact arithmetic, ``off`` of how far the run's are from them."""

    size: Up
    off: Up

    def times(self, matrix: Array, machine: Machine) -> Held:
        """After a product with a matrix, its terms added in any order."""
        size, off = self.size @ Up.of(matrix), self.off @ Up.of(matrix)
        charged = np.array([gamma(int(k), machine.roundoff) for k in count_roundings(matrix)])
        lost = (matrix != 0).sum(axis=0) * machine.underflow
        return _fitting(Held(size, off + charged * (size + off) + lost), machine)

    def plus(self, constant: Array | None, machine: Machine) -> Held:
        """After adding a constant: exact where either side is zero."""
        if constant is None:
            return self
        size, rounds = self.size + constant, (self.run.values > 0) & (constant != 0)
        return _fitting(Held(size, self.off + machine.roundoff * rounds * (size + self.off)), machine)

    def cast(self, machine: Machine) -> Held:
        """After a cast from float64."""
        return _fitting(Held(self.size, self.off + machine.cast(self.run)), machine)

    @property
    def run(self) -> Up:
        """Bounds of the run's numbers."""
        return self.size + self.off


class _Head:
    """The numbers of the one head, as they run in a dtype, and what they do to the average."""

    def __init__(self, network: Network, target: KernelAverage, dtype: str) -> None:
        self.target, self.machine = target, machine(dtype)
        self.map, self.constant, self.head = _read(rounded(network, dtype), target)
        query, key, value = (np.asarray(each) for each in (self.head.query, self.head.key, self.head.value))
        self.query, self.key, self.value = query, key, value
        d, scored = target.features, target.scored
        with precision():
            first = np.zeros(len(query)) if self.constant is None else self.constant
            read = _matrix(np.vstack([np.eye(d, len(query)) if self.map is None else self.map, first]))
            scores = read * _matrix(query) * _matrix(key).transpose()
            answers = _matrix(value) * _matrix(self.head.output)
            sharpness = 1 / arb(target.bandwidth) ** 2
            for i in range(scored):  # (x, 1) meets x_i and, of the Gaussian kernel, |x_i|^2
                scores[i, i] -= sharpness if i < d else -sharpness / 2
            for i in range(target.outputs):
                answers[scored + i, i] -= 1
            self.wrong_scores, self.wrong_answers = _sizes(scores), _sizes(answers)

    def on_box(self, n: int, bound: float) -> dict[str, float]:
        """The parts of the bound for n examples, all numbers of whose prompts are at most ``bound``."""
        target, model, output = self.target, softmax(self.machine, n), Up.of(self.head.output)
        points = Up.of(np.full((1, target.features), 2 * bound if target.kernel == "gaussian" else bound))
        asking, told = self._held(points, points, Up.of(np.full((1, target.outputs), bound)))
        off, both = self._scores(asking, told, Up.of([[np.inf]]))
        eta = off + model.subtraction(2 * (both + off), 2 * both) + model.exponentials()
        eta = (eta + 4 * model.blocks * model.unit).most()  # no less than a checker charges
        values = self._values(told, n)
        after = int(count_roundings(self.head.output).max()) + model.is_half + 1
        made = SoftmaxArithmetic(self.machine, n).mean(after) * (values.run @ output) + model.lost(
            values.run.most()
        ) * output.sum(0)
        moved = 2 * bound * (eta * 0.5).tanh() * np.ones(target.outputs)
        return _worst(moved, self._wrong_answers(told)[0], (values.off @ output + made)[0])

    def on_prompt(self, x: Array, y: Array, queries: Array) -> dict[str, float]:
        """The parts of the bound for examples x (n, d), y (n, k), at the worst of the queries (q, d)."""
        points, examples = self.target.prompt(x, y, queries)
        step = max(1, BLOCK // len(x))
        found = [self._at(points[i : i + step], examples, y) for i in range(0, len(points), step)]
        return _worst(
            *(Up(np.concatenate([part.values.ravel() for part in parts])) for parts in zip(*found, strict=True))
        )

    def _at(self, points: Array, examples: Array, y: Array) -> tuple[Up, Up, Up]:
        """The parts (q, k) of the bound at query tokens (q, d) before example tokens (n, width)."""
        d, output = self.target.features, self.head.output
        asking, told = self._held(Up.of(points), Up.of(examples[:, :d]), Up.of(y))
        scores, known = self._known(points, examples)
        off, both = self._scores(asking, told, known + scores)
        weights = self._weights(scores, known, off, both)
        share = np.nan_to_num(weights.share(), nan=1.0)
        values, wrong = self._values(told, len(y)), Up.of(share) @ self._wrong_answers(told)
        lost = 2 * (Up.of(share) @ values.off @ Up.of(output))  # of labels, and in sums of what is off
        exact = examples @ self.value
        in_order = self._in_order(weights, exact) @ Up.of(output)
        moved, made = np.zeros((2, *wrong.shape))
        for j, column in enumerate(output.T):
            disturbed, size = disturbed_mean(weights, y[:, j], np.abs(y[:, j]), 1)
            between = Up.of(Balls.exact(y[:, j].max()) - Balls.exact(y[:, j].min()))  # the labels, both averages lie
            moved[:, j] = Up.of(disturbed).least(between).values
            whole = (moved[:, j] + Up.of(size) + wrong[:, j] + lost[:, j]).values
            any_order, normed = added(share, exact, column, self.machine, sharp=True)
            adding = np.fmin(any_order, in_order.values[:, j])
            made[:, j] = sums(share, exact, column, whole, self.machine, (adding, normed))
        return Up.of(moved), wrong, lost + made

    def _in_order(self, weights: Weights, values: Array) -> Up:
        """What adding up values (n, v) in the order of keys may lose, (q, v), relative to the sum of weights.

        Partial sums of the run's weights differ from those of the exact ones by what all weights may differ.
        """
        unit, (n, width) = self.machine.accumulation, values.shape
        apart = Up.of(weights.change() + weights.disturbance()) @ Up.of(values)
        terms = weights.at()[:, :, None] * values
        lost = summation(terms.transpose(1, 0, 2).reshape(n, -1), 0, self.machine, None)
        lost = Up(lost.values.reshape(-1, width)) + apart * float(4 * n * unit)
        return lost / weights.total(weights.moved + weights.eta)[:, None]

    def _known(self, points: Array, examples: Array) -> tuple[Array, Up]:
        """The kernel's scores (q, n) as float64 computes them from tokens, and how far they may be from exact ones."""
        d, h = self.target.features, self.target.bandwidth
        known, scores = Up.of(points) @ Up.of(examples[:, :d]).T, points @ examples[:, :d].T
        if self.target.kernel == "gaussian":
            scores, known = scores - examples[:, d] / 2, known + examples[:, d] / 2
        return scores / h**2, (gamma(2 * d + 16) * known + d * 2.0**-1021) / h / h

    def _weights(self, scores: Array, known: Up, off: Up, both: Up) -> Weights:
        """Exact log-weights, as well as float64 knows them, and by how much the run's may differ."""
        best = scores.argmax(axis=1)[:, None]
        relative = scores - np.take_along_axis(scores, best, axis=1)
        moved = known + np.take_along_axis(known.values, best, axis=1) + gamma(2) * relative
        np.put_along_axis(moved.values, best, 0.0, axis=1)  # relative to itself
        unsure, model = off + moved, softmax(self.machine, scores.shape[1])
        highest = np.nextafter((relative + unsure.values).max(axis=1, keepdims=True), np.inf)
        apart = Up.of(Balls.exact(highest) - Balls.exact(relative)) + unsure
        eta = off + model.subtraction(apart, both) + model.exponentials()
        return Weights(relative, moved.values, eta.values)

    def _held(self, points: Up, x: Up, y: Up) -> tuple[Held, Held]:
        """Query and example tokens, from the sizes of what float64 makes of the data."""
        if self.target.kernel == "softmax":
            tokens = (points, points * 0.0), (_beside(x, y), _beside(x, y) * 0.0)
        else:
            d, unit = x.shape[1], gamma(1)  # differences from the first example are rounded once
            square = (x * x).sum()[:, None] + d * 2.0**-1021
            off = _beside(unit * x, gamma(d + 2) * square + d * 2.0**-1021, y * 0.0)
            apart = 1.0 + Up.of(unit)
            tokens = (apart * points, unit * points), (_beside(apart * x, (1.0 + Up.of(gamma(d + 2))) * square, y), off)
        asking, told = (Held(*token).cast(self.machine) for token in tokens)
        return asking, told

    def _scores(self, asking: Held, told: Held, scores: Up) -> tuple[Up, Up]:
        """How far (q, n) the run's scores are from the kernel's, before the largest is subtracted; and their sizes.

        ``scores`` bounds the kernel's. No partial sum of products is larger than the sum of the positive ones, or of
        the negative ones: than half of the score and of all sizes together.
        """
        machine, ones = self.machine, Up.of(np.ones((asking.size.shape[0], 1)))
        mapped = asking if self.map is None else asking.times(self.map, machine)
        query, key = mapped.plus(self.constant, machine).times(self.query, machine), told.times(self.key, machine)
        both, model = query.run @ key.run.T, softmax(machine, 1)
        if not float(both.most()) < (RANGE_64 if model.is_double else RANGE):
            got = f"one of about {float(both.most()):.3g}"
            raise RefusalError("Scores (points / bandwidth)^2 must not overflow", got, "Use a larger bandwidth")
        exact, width = _beside(asking.size, ones) @ self.wrong_scores @ told.size.T, self.query.shape[1]
        off = exact + query.off @ key.size.T + query.run @ key.off.T
        partial = both.least(0.5 * (both + scores + off))
        made = both + (width - 1) * (partial + model.score(width) * both)
        return off + model.score(1) * made + 4 * width * machine.underflow, both

    def _wrong_answers(self, told: Held) -> Up:
        """How far (n, k) what the head answers for an example is from its labels, in exact arithmetic."""
        return told.size @ self.wrong_answers

    def _values(self, told: Held, n: int) -> Held:
        """The values that are summed up; refused where their sums may overflow."""
        values = told.times(self.value, self.machine)
        largest = float(values.run.most())
        if not 2 * n * largest < (RANGE_64 if self.machine.name == "float64" else RANGE):
            got = f"{n:,} labels up to {largest:.3g}"
            raise RefusalError("Sums of labels must not overflow", got, "Scale the labels")
        return values


def _read(run: Network, target: KernelAverage) -> tuple[Array | None, Array | None, Head]:
    """The linear map and the constant that queries pass, and the head; anything else is refused with the place."""
    told = (target.examples, target.width)
    shape = run.features == target.features and run.tokens is None
    if not shape or run.context not in ((None, target.width), told) or run.context_layers:
        _refuse("queries, and as second input examples as they are", f"second input {run.context}")
    *before, last = run.layers
    if not isinstance(last, Attention) or len(last.heads) != 1 or last.residual or len(before) > 1:
        _refuse("at most one linear map, and one head", f"{len(run.layers)} layers")
    map_, constant = _linear(before[0]) if before else (None, None)
    head, keys = last.heads[0], last.heads[0].key_rows
    everybody = head.query_rows.kind == "all" and keys is not None and (keys.kind, keys.source) == ("all", "context")
    if not everybody or head.memory_keys is not None:
        _refuse("a head of all queries over all examples", "a head over others")
    if head.output.shape[1] != target.outputs:
        _refuse(f"{target.outputs} outputs", f"{head.output.shape[1]}")
    return map_, constant, head


def _linear(layer: object) -> tuple[Array | None, Array | None]:
    if not isinstance(layer, Linear) or len(layer.terms) != 1 or layer.terms[0].mix is not None:
        _refuse("a linear map of one term, token by token", "another layer")
    (term,), constant = layer.terms, layer.constant
    if (term.map is not None and term.map.ndim != 2) or (constant is not None and len(constant) != 1):
        _refuse("the same linear map at every token", "one that depends on the token")
    return term.map, None if constant is None else constant[0]


def _refuse(wanted: str, got: str) -> NoReturn:
    raise CertificateError(f"The proof of kernel regression reads {wanted}", got, "Rebuild the network")


def _fitting(held: Held, machine: Machine) -> Held:
    largest = float(held.run.most())
    if not largest < machine.largest / 2:
        got = f"one of about {largest:.3g}"
        raise RefusalError(f"All numbers of a run must fit {machine.name}", got, "Scale the data, or use a wider dtype")
    return held


def _beside(*parts: Up) -> Up:
    return Up(np.hstack([part.values for part in parts]))


def _matrix(array: Array) -> arb_mat:
    return arb_mat(array.tolist())


def _sizes(matrix: arb_mat) -> Up:
    """Upper bounds of the absolute values; exact zeros stay zero."""
    entries = [0.0 if entry == 0 else upper(abs(entry)) for entry in matrix.entries()]
    return Up.of(np.array(entries).reshape(matrix.nrows(), matrix.ncols()))


def _worst(scores: Up, answers: Up, rounding: Up) -> dict[str, float]:
    """The parts where their sum is largest."""
    at = int(np.argmax((scores + answers + rounding).values))
    parts = {"scores": scores, "answers": answers, "rounding": rounding}
    return {name: float(part[at]) for name, part in parts.items()}
