r"""Reading a softmax over centres with scores linear in the bumps: a head's memory, tokens, or a Softmax layer.

Whatever the layout, the exact scores are $S\varphi$ with S (N, m), one row a centre, and the output $\sum_v w_v V_v$.
What the run adds depends on the layout: where products are rounded to the dtype and where they are accumulated.
With at most z non-zero entries a row and $M = \max_v \sum_b |S_{vb}|\max\varphi$ the largest score: a head rounds its
query once and accumulates z products, $\gamma_1 M + \gamma_{z+5} M$; a linear map rounds everything to the dtype,
$\gamma_{2z+2} M$. Subtracting the largest score, exponentials and blocks come on top
(:mod:`attnforge.balls.softmax`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, Machine, add_up, gamma, product_up
from attnforge.balls.softmax import SoftmaxArithmetic
from attnforge.certification.bumps import Bumps
from attnforge.certification.tokens import count_roundings
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Softmax
from attnforge.network.apply import apply_layer

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Scores S (N, m), beta, values (N, n k); rounding of scores, of the sum relative to the values, and of these."""

    scores: Array
    sharpness: float
    values: Balls
    disturbance: float
    relative: float
    written: float


def read_memory(layers: list[Layer], n: int, rows: int, bumps: Bumps, machine: Machine) -> Retrieval:
    """A head whose memory holds the centres, and a read-out of slices."""
    head = _only_head(layers[0])
    if head.key_rows is not None or head.memory_keys is None or head.memory_values is None:
        raise CertificateError("The centres are the head's memory", "keys from tokens", "Rebuild the network")
    query = np.diag(head.query) if head.query.shape[0] == head.query.shape[1] else np.empty(0)
    if head.query_rows.indices is not None or not np.array_equal(head.query, np.diag(query)):
        raise CertificateError("Queries are the bumps times beta", "a query map that mixes them", "Rebuild the network")
    scores = head.memory_keys * query
    largest, terms = _sizes(scores, bumps, machine, float(np.abs(query).max()))
    rounded = product_up(gamma(1, machine.roundoff), largest)
    summed = product_up(SoftmaxArithmetic(machine, len(scores)).scores(terms), largest)
    run = add_up(rounded, summed, scores.shape[1] * machine.underflow, _products(largest))
    values, written = _written(Balls.exact(head.memory_values), (head.output,), machine)
    check_slices(layers[1:], n, np.arange(rows), rows, values.shape[1])
    return _retrieval(scores, values, run, machine, _head_sum(len(scores), machine), written)


def read_literal(layers: list[Layer], n: int, rows: int, bumps: Bumps, machine: Machine) -> Retrieval:
    """A linear map that writes R_v, 1 and F(v) into token v, and a head whose first token asks all of them."""
    encode, head = layers[0], _only_head(layers[1]) if len(layers) > 1 else None
    if not isinstance(encode, Linear) or head is None or head.key is None or head.value is None or head.memory_size:
        raise CertificateError("The centres are tokens that one head attends to", "other layers", "Rebuild the network")
    asked, wide = head.query_rows.indices, encode.constant
    if rows != 1:
        raise CertificateError("The tokens are made from one row of bumps", f"{rows} rows", "Rebuild the network")
    everywhere = head.key_rows is not None and head.key_rows.kind == "all" and head.key_rows.source == "state"
    if wide is None or asked is None or not everywhere or head.query.shape[1] != 1:
        raise CertificateError("The first tokens ask all tokens, by one number", "another head", "Rebuild the network")
    slopes, single = _slopes(encode, len(wide), len(bumps.place))
    asking, keyed = np.flatnonzero(head.query[:, 0]), np.flatnonzero(head.key[:, 0])
    constant = ~np.any(slopes, axis=(0, 1))
    steady = np.all(constant[np.flatnonzero(head.value.any(axis=1))]) and len(asking) == 1 and constant[asking[0]]
    if not (steady and single and len(keyed) == 1) or np.any(wide[:, keyed[0]]) or np.any(wide[asked, asking[0]] != 1):
        raise CertificateError("Keys are the bumps, queries and values constants", "other features", "Rebuild it")
    factor = float(head.query[asking[0], 0] * head.key[keyed[0], 0])
    scores = slopes[:, :, keyed[0]] * factor
    values, rounded = _written(Balls.exact(wide), (head.value, head.output), machine)
    largest, terms = _sizes(scores, bumps, machine, float(np.abs(head.key).max()))
    written = product_up(gamma(2 * terms + 2, machine.roundoff), largest)
    run = add_up(written, product_up(SoftmaxArithmetic(machine, len(scores)).scores(1), largest))
    run = add_up(run, _products(largest))
    run = add_up(run, product_up(abs(factor), scores.shape[1] * machine.underflow))
    check_slices(layers[2:], n, asked, len(wide), values.shape[1])
    return _retrieval(scores, values, run, machine, _head_sum(len(scores), machine), rounded)


def read_softmax(layers: list[Layer], n: int, bumps: Bumps, machine: Machine) -> Retrieval:
    """Linear, softmax over features, linear."""
    if len(layers) != 3 or not isinstance(layers[1], Softmax):
        raise CertificateError("After the ramps: linear, softmax, linear", f"{len(layers)} layers", "Rebuild it")
    first, last = layers[0], layers[2]
    plain = isinstance(first, Linear) and len(first.terms) == 1 and first.constant is None
    weights = first.terms[0].map if plain and isinstance(first, Linear) and first.terms[0].mix is None else None
    if weights is None or weights.ndim != 2 or weights.shape[0] != len(bumps.place) or not isinstance(last, Linear):
        raise CertificateError("The scores are one linear map of the bumps", "another map", "Rebuild the network")
    scores, values = weights.T, _value_map(last, n, weights.shape[1])
    largest, terms = _sizes(scores, bumps, machine, 0.0)
    written = product_up(gamma(2 * terms + 2, machine.roundoff), largest)
    subtracted = product_up(SoftmaxArithmetic(machine, len(scores)).scores(0), largest)
    run = add_up(written, subtracted, scores.shape[1] * machine.underflow)
    read = gamma(len(scores) + 1, machine.roundoff)  # products and sums of the read-out are the dtype's own
    weighed = float(SoftmaxArithmetic(machine, len(scores)).mean())  # the softmax accumulates as all do
    relative = add_up(read, weighed, product_up(read, weighed))
    return _retrieval(scores, Balls.exact(values), run, machine, relative, 0.0)


def check_slices(layers: list[Layer], n: int, asked: npt.NDArray[np.int64], rows: int, width: int) -> None:
    """Raise unless token i reads exactly entries i k .. (i + 1) k of a retrieved row: zeros and ones throughout.

    The map is found by sending every unit row through it; zeros and ones cannot cancel, and add without rounding.
    """
    for layer in layers:
        terms = layer.terms if isinstance(layer, Linear) and layer.constant is None else None
        parts = [part for term in terms or () for part in (term.map, term.mix) if part is not None]
        if terms is None or not all(np.all((part == 0) | (part == 1)) for part in parts):
            raise CertificateError("After the retrieval, slices are read by zeros and ones", "another layer")
    state = np.zeros((len(asked), width, rows, width))
    for number, row in enumerate(asked):
        state[number, np.arange(width), row, np.arange(width)] = 1.0
    for layer in layers:
        state = apply_layer(layer, state)
    read = state.reshape(len(asked), width, -1)
    if state.shape[-2] != n or read.shape[2] != width or not np.array_equal(read.sum(axis=0), np.eye(width)):
        raise CertificateError("Token i reads slice i of the retrieved values", "another read-out", "Rebuild it")


def _only_head(layer: Layer) -> Head:
    if not isinstance(layer, Attention) or len(layer.heads) != 1 or layer.residual:
        raise CertificateError("One head without residual retrieves", type(layer).__name__, "Rebuild the network")
    return layer.heads[0]


def _slopes(layer: Linear, rows: int, features: int) -> tuple[Array, bool]:
    """What each token's features (rows, m, width) take of the only row's, and whether each comes from one term."""
    width = layer.constant.shape[1] if layer.constant is not None else 0
    slopes, counts = np.zeros((rows, features, width)), np.zeros((rows, features, width), dtype=np.int64)
    for term in layer.terms:
        if term.map is None or term.mix is None or term.mix.shape != (rows, 1) or term.map.shape != (features, width):
            raise CertificateError("Tokens are made from the only row", "another linear map", "Rebuild the network")
        at = np.flatnonzero(term.map.any(axis=1))
        slopes[:, at] += term.mix[:, :, None] * term.map[at]
        counts[:, at] += (term.mix[:, :, None] != 0) & (term.map[at] != 0)
    return slopes, bool(counts.max(initial=0) <= 1)


def _written(values: Balls, maps: tuple[Array, ...], machine: Machine) -> tuple[Balls, float]:
    """Values after linear maps, and what these round: nothing where each output is a feature times a power of two."""
    mass, made = values.magnitude(), 0.0
    for weights in maps:
        roundings = int(count_roundings(weights).max(initial=0))
        mass, values = mass @ np.abs(weights) * (1 + 2.0**-40), values @ Balls.exact(weights)
        made = add_up(made, product_up(gamma(roundings, machine.roundoff), float(mass.max())))
    return values, made


def _value_map(layer: Linear, n: int, centres: int) -> Array:
    """The values (N, n k) in a linear map from N features of the only row to n tokens, one term a token."""
    blocks: list[Array | None] = [None] * n
    for term in layer.terms:
        mix = np.ones((1, 1)) if term.mix is None else term.mix
        if term.map is None or mix.shape != (n, 1) or len(term.map) != centres or term.map.ndim != 2:
            raise CertificateError("Values are read by one map a token", "another linear map", "Rebuild the network")
        at = np.flatnonzero(mix[:, 0])
        if not np.all(mix[at] == 1.0) or any(blocks[i] is not None for i in at):
            raise CertificateError("Every token reads its own values once", "a mixing of tokens", "Rebuild it")
        for i in at:
            blocks[i] = term.map
    found = [block for block in blocks if block is not None]
    if len(found) != n or layer.constant is not None:
        raise CertificateError("Every token reads its own values, and nothing else", f"{len(found)} of {n} tokens")
    return np.hstack(found)


def _sizes(scores: Array, bumps: Bumps, machine: Machine, factor: float) -> tuple[float, int]:
    """The largest score there can be and the most terms it sums; refused where they do not fit the dtype."""
    height = float(1 + bumps.error.max())
    largest = float(np.abs(scores).sum(axis=1).max()) * height * (1 + 2.0**-40)
    if not 2 * max(largest, factor * height) < machine.largest:
        raise RefusalError(f"Scores must fit {machine.name}", f"up to {largest:.3g}", "Lower the sharpness")
    return largest, int(np.count_nonzero(scores, axis=1).max())


def _products(largest: float) -> float:
    """Rounding of the products by which S itself was computed here."""
    return product_up(2.0**-51, largest)


def _head_sum(centres: int, machine: Machine) -> float:
    """Relative rounding of a head's weighted sum."""
    return float(SoftmaxArithmetic(machine, centres).mean(after=2))


def _retrieval(
    scores: Array, values: Balls, run: float, machine: Machine, relative: float, written: float
) -> Retrieval:
    used = scores[scores != 0]
    sharpness = float(np.median(used)) if len(used) else 0.0
    if not sharpness > 0:
        raise CertificateError("Scores rise with the bumps", f"beta = {sharpness}", "Rebuild the network")
    disturbance = add_up(run, float(SoftmaxArithmetic(machine, len(scores)).log_weights()))
    return Retrieval(scores, sharpness, values, disturbance, relative, written)
