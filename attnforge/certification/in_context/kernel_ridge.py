r"""How far the steps of kernel ridge regression are from exact ones, on given data.

A step is a head that writes $g \approx K a$ and a linear map, $a \leftarrow c_a a + c_y y + c_g g$. All of it is read
from the numbers of the network: scores between tokens are a bilinear form of $(x, |x|^2, 1)$, compared with the
kernel's; the sink's score M and the factor E that is written are what they are.

**The product.** With scores off by $d_{ij}$, a sink of score M and an output E the head returns in exact arithmetic
$\sum_j K_{ij} e^{d_{ij}} a_j \cdot E e^{-M}/(1 + e^{-M}\sum_j K_{ij}e^{d_{ij}})$: each term is $K_{ij} a_j$ up to a
factor $e^{\pm t}$, $t = d_{ij} + |\ln(E e^{-M})| + 2 n e^{-M + d}$, d the largest of them. Exponentials, subtractions
of the largest score, sums of weighted values and of weights, the quotient and the output's product multiply terms by
further factors; their logarithms add up, so that $|g - Ka|_i \le \sum_j K_{ij}(e^{t_{ij}} - 1)|a_j|$. K is positive:
nothing cancels.

**The drift** passes later steps by the eigenvectors of $K + \alpha I$ (:mod:`.spectral`), whose eigenvalues lie in
$[\alpha, \alpha + n]$ because K is positive semidefinite with trace n, and are enclosed from the data.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.certificate import Certificate
from attnforge.certification.in_context.certify import KERNEL, certificate_of
from attnforge.certification.in_context.kernel import Held
from attnforge.certification.in_context.links import softmax
from attnforge.certification.in_context.prompt import within
from attnforge.certification.in_context.spectral import Commuting, cells, eigenvalues
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Network, rounded
from attnforge.outward import Balls, Machine, Up, ball, down, gamma, machine, precision, up, upper
from attnforge.targets.in_context import KernelSystem

Array = npt.NDArray[np.float64]

PARTS = ("kernel", "rounding")
ENCLOSED = 2000  # examples up to which eigenvalues are enclosed one by one
TINY = 2.0**-1021
ONE_BY_ONE = "net.certify(X, y) certifies one prompt"


def refuse_box(network: Network, target: KernelSystem, dtype: str) -> NoReturn:
    """There is no certificate for all prompts: coefficients depend on every pair of examples."""
    got = "kernel ridge regression"
    raise RefusalError("Certificates for all prompts are of regressions on features", got, ONE_BY_ONE)


def certify_system(network: Network, target: KernelSystem, dtype: str, x: Array, y: Array) -> Certificate:
    """A bound of |network - exact coefficients|, entry by entry, for examples x (n, d) and y (n,)."""
    if machine(dtype).roundoff > machine(dtype).accumulation:
        raise RefusalError("Kernel ridge regression is certified in float64 and float32", dtype, "Use float64")
    steps = _read(rounded(network, dtype), target)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # overflow becomes an infinite bound: refused
        parts, drift = _Prompt(target, machine(dtype), x, y).drift(steps)
    data = hashlib.sha256(np.ascontiguousarray(x).tobytes() + np.ascontiguousarray(y).tobytes()).hexdigest()
    reach = f"one prompt: the {len(x):,} examples with SHA-256 {data[:16]}"
    return certificate_of(network, target, dtype, parts, (reach, KERNEL), (), **drift)


@dataclass(frozen=True, eq=False)
class _Update:
    """What the linear map makes of a: the factors of a, y and the product."""

    a: float
    y: float
    product: float


class _Prompt:
    """The examples, and what the bounds need of them."""

    def __init__(self, target: KernelSystem, machine: Machine, x: Array, y: Array) -> None:
        self.target, self.machine, self.x, self.y = target, machine, x, y
        self.gram = _gram(target, x)
        self.most = Up.of(self.gram)
        self.exponents = -np.log(np.maximum(self.gram.mid, TINY))  # nearly: sizes only
        self.values = self._eigenvalues()

    def _eigenvalues(self) -> Balls:
        """Balls that hold those of K + alpha I."""
        target, n = self.target, len(self.x)
        if n > ENCLOSED and target.is_certain(n):
            return cells(target.spectrum, target.steps)
        found = eigenvalues(self.gram + Balls.exact(target.alpha * np.eye(n)))
        low = np.maximum(np.nextafter(found.mid - found.rad, -np.inf), target.alpha)
        high = np.minimum(np.nextafter(found.mid + found.rad, np.inf), up(target.alpha + n))
        if not target.is_certain(n):
            target.check_eigenvalues(float(low.min()), float(high.max()))
        return Balls.between(low, np.maximum(low, high))

    def drift(self, steps: list[tuple[Head, _Update]]) -> tuple[dict[str, float], dict[str, Any]]:
        """Named parts of a bound after all steps, and how fast they converge."""
        errors, v, products = Commuting(self.values, len(self.x), Up.zeros(4)), np.zeros_like(self.y), {}
        most, largest = Up.of(self.values).most(), Up.zeros(2)
        for rate, (head, update) in zip(self.target.rates, steps, strict=True):
            if id(head) not in products:
                products[id(head)] = _Product(head, self)
            tube = errors.length()[-2:].sum()
            kernel, rounding = self._step_error(rate, update, products[id(head)], v, tube, most)
            errors.step(
                rate, Up(np.array([float(z) for z in (kernel, rounding, kernel + rounding, self._lost(rate, v))]))
            )
            if float(kernel + rounding) > float(largest.sum()):
                largest = Up(np.array([float(kernel), float(rounding)]))
            v = self._next(rate, v)
        total = errors.swept()
        parts = within(total[:2].values.tolist(), float(total[2]))
        away = total[2] + errors.grown() * (Up.of(self.y).norm() / down(self.target.alpha))
        factor = up(float(errors.grown()) ** (1 / self.target.steps))
        step = dict(zip(PARTS, largest.values.tolist(), strict=True))
        return dict(zip(PARTS, parts, strict=True)), {"step": step, "contraction": factor, "minimiser": float(away)}

    def _next(self, rate: float, v: Array) -> Array:
        return np.asarray(v + rate * (self.y - self.target.alpha * v - self.gram.mid @ v))

    def _lost(self, rate: float, v: Array) -> Up:
        """What float64 makes of one exact step from v, in the Euclidean norm."""
        size, after = Up.of(v), Up.of(self._next(rate, v))
        product = _times(Up.of(self.gram.rad), size) + gamma(len(v) + 8) * _times(self.most, size)
        rest = gamma(8) * (Up.of(self.y) + self.target.alpha * size)
        return (rate * (product + rest) + gamma(4) * (size + after)).norm()

    def _step_error(
        self, rate: float, update: _Update, product: _Product, v: Array, tube: Up, most: Up
    ) -> tuple[Up, Up]:
        """What one step of the run adds to the exact one from its own coefficients, in the Euclidean norm."""
        machine, y, size = self.machine, Up.of(self.y), Up.of(v)
        length, multiplied = size.norm() + tube, _times(self.most, size).norm() + most * tube
        wrong, made = (each.norm() + norm * tube for each, norm in product.errors(size))
        lost = product.lost(length) * math.sqrt(len(v))
        off_a = Up.of(Balls.exact(update.a) - (Balls.exact(1.0) - Balls.exact(rate) * Balls.exact(self.target.alpha)))
        off_y, off_g = (Up.of(Balls.exact(c) + Balls.exact(z)) for c, z in ((update.y, -rate), (update.product, rate)))
        kernel = off_a * length + off_y * y.norm() + off_g * multiplied + abs(update.product) * wrong
        summed = abs(update.a) * length + abs(update.y) * y.norm()
        summed = summed + abs(update.product) * (multiplied + wrong + made + lost)
        rounding = abs(update.product) * (made + lost) + gamma(4, machine.roundoff) * summed
        return kernel, rounding + abs(update.y) * machine.cast(y).norm() + 8 * len(v) * machine.underflow


class _Product:
    """What a head adds to K a, as matrices of which |a| is multiplied: in exact arithmetic, and by its run."""

    def __init__(self, head: Head, prompt: _Prompt) -> None:
        target, machine, n = prompt.target, prompt.machine, len(prompt.x)
        sink, self.factor, departure = _numbers(head, target)
        asking, told = self._held(head, prompt)
        both, model = asking.run @ told.run.T, softmax(machine, n + 1)
        with precision():
            scaled = upper(abs((ball(abs(self.factor)) * (-ball(sink)).exp()).log()))
        deep = Up.exp_of(-sink) * n
        wrong = _departed(prompt, departure) + scaled
        off = asking.off @ told.size.T + asking.run @ told.off.T + model.score(head.query.shape[1]) * both
        beyond = (wrong + off).most()
        if not (self.factor > 0 and float(deep * beyond.exp()) < 0.25 and sink > float(beyond) + 1):
            got = f"a sink of score {sink:.3g} for {n:,} examples, scores off by {float(beyond):.2g}"
            remedy = "Build for as many examples, use a larger bandwidth or a wider dtype"
            raise RefusalError("The sink must outbid all examples together", got, remedy)
        wrong = wrong + 2 * deep * beyond.exp()
        apart = Up.of(prompt.exponents) * (1.0 + Up.of(1e-6)) + sink + off + wrong
        sums = Up.of(model.sum()) + model.exponentials()
        run = off + model.subtraction(apart, both.larger(sink)) + 4 * sums + gamma(8, machine.roundoff)
        matrices = prompt.most * wrong.expm1(), prompt.most * run.expm1() * wrong.exp()
        self._errors = [(each, each.norm().norm()) for each in matrices]
        self._underflow = 4 * (n + 2) * machine.underflow

    def errors(self, size: Up) -> list[tuple[Up, Up]]:
        """How far (n,) the product with coefficients of these sizes is off, and the norm of the matrix that says so."""
        return [(_times(each, size), norm) for each, norm in self._errors]

    def lost(self, length: Up) -> Up:
        """What may vanish, of weights and products below the smallest normal number."""
        return self._underflow * self.factor * (1.0 + length)

    def _held(self, head: Head, prompt: _Prompt) -> tuple[Held, Held]:
        """Queries and keys of the examples, from what float64 makes of differences and squares."""
        (n, d), unit, scored = prompt.x.shape, gamma(1), prompt.target.features + 2
        x = Up.of(prompt.x - prompt.x[:1]) * (1.0 + Up.of(unit))
        square = (x * x).sum()[:, None] + d * TINY
        size = Up(np.hstack([x.values, square.values, np.ones((n, 1))]))
        off = Up(np.hstack([(unit * x).values, (gamma(2 * d + 6) * square + d * TINY).values, np.zeros((n, 1))]))
        tokens = Held(size, off).cast(prompt.machine)
        assert head.key is not None
        return tokens.times(head.query[:scored], prompt.machine), tokens.times(head.key[:scored], prompt.machine)


def _times(matrix: Up, vector: Up) -> Up:
    return (matrix @ vector[:, None])[:, 0]


def _departed(prompt: _Prompt, departure: Up) -> Up:
    """|z_i| |S - S*| |z_j|: what other weights than the kernel's do to scores."""
    x = Up.of(prompt.x - prompt.x[:1]) * (1.0 + Up.of(gamma(1)))
    held = Up(np.hstack([x.values, (x * x).sum()[:, None].values, np.ones((len(prompt.x), 1))]))
    return held @ departure @ held.T


def _gram(target: KernelSystem, x: Array) -> Balls:
    """The kernel matrix: squared distances have no cancellation, exponentials are within 4 units in the last place."""
    d = x.shape[1]
    exponents = sum(((x[:, None, j] - x[None, :, j]) ** 2 for j in range(d)), np.zeros((len(x), len(x))))
    exponents = exponents / (2 * target.bandwidth**2)
    middle = np.exp(-exponents)
    relative = (gamma(d + 8) * Up.of(exponents) + 2.0**-49).expm1()
    return Balls(middle, (middle * relative + TINY).values)


def _numbers(head: Head, target: KernelSystem) -> tuple[float, float, Up]:
    """The sink's score, the factor of what is written, and how far (d + 2, d + 2) scores are from the kernel's."""
    d, scored = target.features, target.features + 2
    one, a, product = (target.place(name) for name in ("one", "a", "product"))
    keys, values = head.memory_keys, head.memory_values
    if head.key is None or head.value is None or keys is None or values is None or len(keys) != 1:
        _refuse("a head over all examples and one constant key", "another head")
    if head.query[scored:].any() or head.key[scored:].any():
        _refuse("scores of x, |x|^2 and 1 alone", "a score that reads y, coefficients or products")
    places = np.flatnonzero(keys[0])
    if len(places) != 1 or keys[0, places[0]] != 1.0 or values.any():
        _refuse("a sink: a unit vector for its key, zero for its value", "another constant key")
    column = head.query[:, places[0]]
    if np.flatnonzero(column).tolist() != [one]:
        _refuse("a sink of one score for all examples", "a score that depends on the example")
    if head.value.shape[1] != 1 or np.flatnonzero(head.value).tolist() != [a]:
        _refuse("the coefficient for a value", "another value")
    if np.flatnonzero(head.output).tolist() != [product]:
        _refuse("a head that writes the product", "a head that writes another feature")
    with precision():
        scores = arb_mat(head.query[:scored].tolist()) * arb_mat(head.key[:scored].T.tolist())
        sharpness = 1 / arb(target.bandwidth) ** 2
        for i in range(d):
            scores[i, i] -= sharpness
        scores[d, d + 1] += sharpness / 2
        scores[d + 1, d] += sharpness / 2
        entries = [0.0 if entry == 0 else upper(abs(entry)) for entry in scores.entries()]
        factor = float(head.value[a, 0]) * float(head.output[0, product])
    return float(column[one]), factor, Up.of(np.array(entries).reshape(scored, scored))


def _read(run: Network, target: KernelSystem) -> list[tuple[Head, _Update]]:
    """The head and the linear map of every step."""
    if run.features != target.width or run.tokens not in (None, target.examples) or run.context is not None:
        _refuse(f"tokens of {target.width} features", f"{run.features} features, {run.tokens} tokens")
    if len(run.layers) != 2 * target.steps:
        _refuse(f"two layers for each of {target.steps} steps", f"{len(run.layers)} layers")
    return [
        (_head(multiply), _update(step, target))
        for multiply, step in zip(run.layers[::2], run.layers[1::2], strict=True)
    ]


def _head(layer: Layer) -> Head:
    if not isinstance(layer, Attention) or not layer.residual or len(layer.heads) != 1:
        _refuse("one head a step, with a residual", type(layer).__name__)
    head = layer.heads[0]
    rows = head.key_rows
    if head.query_rows.kind != "all" or rows is None or (rows.kind, rows.source) != ("all", "state"):
        _refuse("a head of all examples over all examples", "a head of others")
    return head


def _update(layer: Layer, target: KernelSystem) -> _Update:
    plain = isinstance(layer, Linear) and len(layer.terms) == 1 and layer.constant is None
    made = layer.terms[0].map if plain and layer.terms[0].mix is None else None  # type: ignore[union-attr]
    if made is None or made.shape != (target.width, target.width):
        _refuse("a linear map of every token by itself", "another layer")
    y, a, product = (target.place(name) for name in ("y", "a", "product"))
    rest = made.copy()
    rest[[a, y, product], a], rest[a, a] = 0.0, 1.0
    kept = np.eye(target.width)
    kept[product, product] = 0.0
    if not np.array_equal(rest, kept):
        _refuse("a map that changes the coefficient and clears the product", "one that changes more")
    return _Update(float(made[a, a]), float(made[y, a]), float(made[product, a]))


def _refuse(wanted: str, got: str) -> NoReturn:
    raise CertificateError(f"The proof of kernel ridge regression reads {wanted}", got, "Rebuild the network")
