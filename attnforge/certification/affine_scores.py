r"""One head whose scores are affine in the input, read from a network: keys in memory, in padded rows, or from X.

The query of token i is affine in x, or in Y for cross-attention; so are the keys, in x or in X, or they are constants:
$$ q \cdot k_j = \sum_f q_f(z)\,k_{jf}(z) = a_j \cdot z + b_j, \qquad z = x \text{ or } z = (X ; Y), $$
as long as no feature moves in both. The run departs from that in two ways. What the maps before the head round in the
query, $|e_f| \le \epsilon_f$, meets all keys alike and counts with $k_j - k_w$ only; keys off by their own rounding,
the head's products and sums, and the softmax move each score by its ``noise``. Values times output map are constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.certification.tokens import Tokens, inner, linear, one_layer, project, whole_input
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.rounding import count_roundings
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Head, Linear, Network
from attnforge.outward import Balls, Machine, Up, gamma
from attnforge.targets import Box

Array = npt.NDArray[np.float64]

CLEAR = 20.0  # scores off by more than this tell no cells apart


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores slope . z + constant + lever . e + n of P keys, z in the box (D,), |e| <= error (r,), |n| <= noise (P,).

    The run writes a mean of ``values`` (P, k), each off by at most ``blur``, up to what adding up adds, ``sums``.
    """

    box: Balls
    slope: Balls
    constant: Balls
    lever: Balls
    error: Up
    noise: Up
    values: Array
    blur: float
    sums: float

    @property
    def spread(self) -> float:
        """The largest difference of two values."""
        return float(Up.of(Balls.exact(self.values.max(axis=0)) - Balls.exact(self.values.min(axis=0))).most().values)

    @property
    def written(self) -> float:
        """How far the run may be from a mean of the values with its own weights."""
        return float((Up.of(self.blur) + Up.of(self.sums)).values)


@dataclass(frozen=True, eq=False)
class OneHead:
    """Linear maps, the head, and whether its outputs are those of the first tokens of a longer sequence."""

    encode: tuple[Linear, ...]
    head: Head
    cut: bool

    @property
    def remembers(self) -> bool:
        """Whether keys and values are the head's own, and it asks with all tokens."""
        return self.head.key_rows is None and not self.cut


def read_scores(network: Network, domain: Box, machine: Machine) -> list[Scores]:
    """The scores of each query token, from the weights; ``domain`` is the box of x, or of (X ; Y)."""
    plain, n, given = one_head(network), network.tokens or 1, network.context
    lower, upper = domain.lower.ravel(), domain.upper.ravel()
    shape = None if given is None else (given[0] or 1, given[1])
    first = 0 if shape is None else math.prod(shape)
    if len(lower) != first + n * network.features:
        got = f"{len(lower)} inputs for {f'{first} and ' if shape else ''}{n * network.features}"
        raise CertificateError("Network and target must have the same shape", got, "Certify it against its own target")
    state = _rows(plain.encode, lower[first:], upper[first:], (n, network.features), machine)
    rows = state if shape is None else _rows(network.context_layers, lower[:first], upper[:first], shape, machine)
    if not plain.cut and len(state.source) != n:
        raise CertificateError("A lengthened sequence ends with a reading of its first tokens", "all tokens read")
    query = project(state.rows(slice(n)), plain.head.query, machine)
    keys, values = keys_and_values(plain.head, rows, machine)
    box = Balls.between(lower, upper)
    return [head_scores(query.rows(slice(i, i + 1)), keys, values, plain.head.output, box, machine) for i in range(n)]


def one_head(network: Network) -> OneHead:
    """The linear maps and the only head of a network; others are refused."""
    encode, attention = one_layer(network)
    if len(attention.heads) != 1:
        raise CertificateError("This proof covers one head", f"{len(attention.heads)} heads", "Rebuild the network")
    head, source = attention.heads[0], "state" if network.context is None else "context"
    rows = head.key_rows
    own = rows is None and network.context is None
    if not own and (rows is None or rows.kind != "all" or rows.source != source or head.memory_size):
        requirement = "The head attends to the second input, or to all tokens or its memory where there is none"
        raise CertificateError(requirement, "other keys", "Rebuild the network")
    if head.query_rows.kind != "all":
        raise CertificateError("Every token asks the head", "some rows only", "Rebuild the network")
    return OneHead(encode, head, len(network.layers) > len(encode) + 1)


def _rows(layers: tuple[Linear, ...], lower: Array, upper: Array, shape: tuple[int, int], machine: Machine) -> Tokens:
    """The rows that an input becomes."""
    tokens = whole_input(lower.reshape(shape), upper.reshape(shape), machine)
    for layer in layers:
        tokens = linear(layer, tokens, machine)
    return tokens


def keys_and_values(head: Head, rows: Tokens, machine: Machine) -> tuple[Tokens, Tokens]:
    """Keys and values: maps of rows, or constants of no input."""
    if head.key is not None and head.value is not None:
        keys, values = project(rows, head.key, machine), project(rows, head.value, machine)
    else:
        keys, values = _constant(head.memory_keys), _constant(head.memory_values)
    if np.any(values.slope.magnitude()):
        raise CertificateError("The values are constants", "values that depend on the input", "Rebuild the network")
    return keys, values


def _constant(rows: Array | None) -> Tokens:
    made = np.empty((0, 0)) if rows is None else rows
    p, width = made.shape
    box, slope = Balls.exact(np.zeros((p, 0))), Balls.exact(np.zeros((p, 0, width)))
    return Tokens(np.zeros(p, dtype=np.int64), box, slope, Balls.exact(made), np.zeros((p, width)))


def head_scores(query: Tokens, keys: Tokens, values: Tokens, output: Array, box: Balls, machine: Machine) -> Scores:
    """One query token's scores; refused where a product of two inputs enters."""
    (count, r), tilt, error = keys.constant.shape, query.slope[0], Up.of(query.error[0])
    moving = np.any(keys.slope.magnitude() > 0, axis=(0, 1))
    if np.any(moving & np.any(tilt.magnitude() > 0, axis=0)):
        got = "a feature in which both keys and queries move"
        raise CertificateError("Keys that depend on the input meet constant queries", got, "Rebuild the network")
    constant = Balls(query.constant.mid.T, query.constant.rad.T)
    first = box.shape[0] - tilt.shape[0]
    along = (keys.slope @ constant)[:, :, 0]
    slope = _beside(along, 0, box.shape[0]) + _beside(
        keys.constant @ Balls(tilt.mid.T, tilt.rad.T), first, box.shape[0]
    )
    asked, sizes = Up.of(query.magnitude()[0]), Up.of(keys.magnitude())
    products = int(np.count_nonzero((sizes.values > 0) & (asked.values > 0), axis=1).max(initial=0))
    swing = Up.of(inner(keys.slope, keys.box, Balls.exact(np.zeros((count, r)))))
    kernel = SoftmaxArithmetic(machine, count)
    noise = dot(Up.of(keys.error), asked) + dot(sizes, asked) * kernel.scores(products)
    noise = noise + dot(swing + Up.of(keys.constant.rad), error)
    noise = noise + kernel.log_weights() + Up.of(r * machine.underflow)
    check_clear(noise, machine)
    written = values.constant @ Balls.exact(output)
    mass = Up.of(values.magnitude()) @ Up.of(output)
    blur = Up.of(written.rad) + Up.of(values.error) @ Up.of(output)
    sums = _summing(count, output, mass, machine)
    lever, offset = Balls.exact(keys.constant.mid), (keys.constant @ constant)[:, 0]
    if not np.isfinite(dot(Up.of(slope), Up.of(box)).values + offset.magnitude()).all():
        raise RefusalError("Scores of cells are float64 numbers", "infinity", "Scale the target or its domain")
    return Scores(box, slope, offset, lever, error, noise, written.mid, float(blur.most().values), sums)


def _beside(part: Balls, first: int, size: int) -> Balls:
    """Columns of (P, size) that begin at ``first``, the others zero."""
    left, right = first, size - first - part.shape[1]
    return Balls(*(np.pad(each, ((0, 0), (left, right))) for each in (part.mid, part.rad)))


def _summing(count: int, output: Array, mass: Up, machine: Machine) -> float:
    """What adding up weighted values, dividing, rounding to the dtype and the output map cost, at most."""
    kernel, largest = SoftmaxArithmetic(machine, count), mass.most()
    relative = kernel.mean(after=2)
    mapped = Up.of(gamma(int(count_roundings(output).max(initial=0.0)), machine.roundoff))
    return float(largest * (relative + mapped + relative * mapped) + kernel.lost(largest))


def dot(rows: Up, vector: Up) -> Up:
    """Rows (P, r) times a vector (r,)."""
    return (rows @ vector[:, None])[:, 0]


def check_clear(disturbance: Up, machine: Machine) -> None:
    """Refuse scores that the dtype does not tell apart."""
    largest = float(disturbance.most().values)
    if not largest < CLEAR:
        got = f"scores off by up to {largest:.3g}"
        raise RefusalError(f"{machine.name} must tell the scores of cells apart", got, "Use fewer cells, or float64")
