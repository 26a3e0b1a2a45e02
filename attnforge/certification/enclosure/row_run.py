r"""What rounding adds to one row of a network with one layer of attention, whatever its keys and values are made of.

Scores and values are affine in the input, exactly known (:mod:`.affine_heads`); queries, keys and values of the run are
off by what linear maps round on the whole domain (:mod:`attnforge.certification.tokens`). A score $q \cdot k$ then errs
by $|\delta q||k| + |q||\delta k|$ beside what its products and sums round; the query's error counts with the difference
of the key to the winner's, since what it does to that is a common factor. The rest is as in :mod:`.run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.affine_heads import AffineHead
from attnforge.certification.enclosure.factors import to_balls
from attnforge.certification.enclosure.run import (
    SLACK,
    Products,
    Run,
    Weights,
    added,
    disturbed_mean,
    kernel_roundings,
    sums,
)
from attnforge.certification.tokens import Tokens, inner, linear, project, whole_input
from attnforge.errors import CertificateError
from attnforge.kernel.rounding import power_of_two
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Linear, Network
from attnforge.outward import Balls, Machine, gamma

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Noise:
    """One head on the whole domain: the query's size and error (r,); keys (p, r) and values (p, v), with errors.

    ``products`` are those that its scores are sums of, ``kernel`` what makes a softmax of them.
    """

    query: Array
    query_error: Array
    keys: Balls
    key_error: Array
    values: Array
    value_error: Array
    output: Array
    products: Products
    kernel: SoftmaxArithmetic


@dataclass(frozen=True, eq=False)
class Exact:
    """One head in the variables of the cells: slopes (D, p) and offsets (p,) of scores; values (p,), tilts (D, p)."""

    slopes: Balls
    offsets: Balls
    values: Balls
    tilts: Balls

    @classmethod
    def of(cls, head: AffineHead) -> Exact:
        """As float64 balls."""
        slopes, offsets, values = to_balls(head.slopes), to_balls(head.offsets)[0], to_balls(head.values)[:, 0]
        tilts = Balls.exact(np.zeros(slopes.shape))
        for k, tilt in head.tilts:
            found = to_balls(tilt)[:, 0]
            tilts.mid[:, k], tilts.rad[:, k] = found.mid, found.rad
        return cls(slopes, offsets, values, tilts)


class RowRun(Run):
    """One output of one row as it runs; ``heads`` are those of the row, in the variables in which cells are cut.

    ``exact_inputs`` are numbers of the dtype already.
    """

    def __init__(
        self, network: Network, row: int, feature: int, ends: tuple[Array, Array], heads: Sequence[AffineHead],
        machine: Machine, exact_inputs: bool = False,
    ) -> None:  # fmt: skip
        at, attention = _attention(network, row)
        state, context = _rows(network, ends, at, machine, exact_inputs)
        self.machine = machine
        asking = [
            head for head in attention.heads if head.query_rows.indices is None or at[1] in head.query_rows.indices
        ]
        self.noise = [_noise(head, state, context, at[1], feature, machine) for head in asking]
        self.heads = [Exact.of(head) for head in heads[: len(asking)]]
        self.keys = sum(len(noise.key_error) for noise in self.noise) or 1
        self.beside = _residual(state, at[1], feature) if attention.residual else (0.0, 0.0)
        self.terms = sum(len(head.output) for head in asking) + attention.residual

    def _block(self, lower: Array, upper: Array, sharp: bool) -> Array:
        box = Balls.between(lower, upper)
        parts = [
            _head(exact, noise, box, self.machine, sharp) for exact, noise in zip(self.heads, self.noise, strict=True)
        ]
        off = np.sum([np.zeros(len(lower)), *(part[0] for part in parts)], axis=0) + self.beside[1]
        size = np.sum([np.zeros(len(lower)), *(part[1] for part in parts)], axis=0) + self.beside[0]
        found = (off + gamma(max(self.terms - 1, 0), self.machine.roundoff) * (off + size)) * SLACK
        return np.where(np.isnan(found), np.inf, found)


def _attention(network: Network, row: int) -> tuple[tuple[int, int], Attention]:
    """The number of the layer of attention, the row of it that an output row reads, and the layer."""
    kinds = [isinstance(layer, Attention) for layer in network.layers]
    if kinds.count(True) != 1:
        raise CertificateError("This proof covers one layer of attention", f"{kinds.count(True)} layers")
    number = kinds.index(True)
    for layer in reversed(network.layers[number + 1 :]):
        row = _picked(layer, row)
    layer = network.layers[number]
    if not isinstance(layer, Attention):
        raise CertificateError("This proof covers one layer of attention", type(layer).__name__)
    return (number, row), layer


def _picked(layer: object, row: int) -> int:
    """The row that a row of a plain read-out is."""
    plain = isinstance(layer, Linear) and len(layer.terms) == 1 and layer.constant is None
    mix = layer.terms[0].mix if plain and isinstance(layer, Linear) and layer.terms[0].map is None else None
    if mix is None or np.count_nonzero(mix[row]) != 1 or mix[row].max() != 1.0:
        raise CertificateError("After attention, rows are read as they are", "another layer")
    return int(mix[row].argmax())


def _rows(
    network: Network, ends: tuple[Array, Array], at: tuple[int, int], machine: Machine, exact: bool
) -> tuple[Tokens, Tokens | None]:
    """The rows that the layer of attention sees, on the whole domain (flat ends, the second input's last)."""
    told, width = network.context or (0, 0)
    split = len(ends[0]) - (told or 0) * width
    lower, upper = (end[:split].reshape(-1, network.features) for end in ends)
    state = _encoded(network.layers[: at[0]], whole_input(lower, upper, machine, exact), machine)
    if network.context is None:
        return state, None
    lower, upper = (end[split:].reshape(-1, width) for end in ends)
    return state, _encoded(network.context_layers, whole_input(lower, upper, machine, exact), machine)


def _encoded(layers: Sequence[object], rows: Tokens, machine: Machine) -> Tokens:
    for layer in layers:
        if not isinstance(layer, Linear):
            raise CertificateError("Before attention stand linear maps", type(layer).__name__)
        rows = linear(layer, rows, machine)
    return rows


def _noise(head: Head, state: Tokens, context: Tokens | None, row: int, feature: int, machine: Machine) -> Noise:
    query = project(state.rows(slice(row, row + 1)), head.query, machine)
    keys, values = [], []
    if head.memory_keys is not None and head.memory_values is not None:
        still = np.zeros(head.memory_keys.shape)
        keys.append((Balls.exact(head.memory_keys), still, power_of_two(head.memory_keys)))
        values.append((np.abs(head.memory_values), np.zeros(head.memory_values.shape)))
    if head.key is not None and head.value is not None:
        rows = _read(head, row, state, context)
        key, value = project(rows, head.key, machine), project(rows, head.value, machine)
        keys.append((inner(key.slope, key.box, key.constant), key.error, key.is_simple()))
        values.append((value.magnitude(), value.error))
    both = Balls(*(np.concatenate([getattr(key, part) for key, *_ in keys]) for part in ("mid", "rad")))
    sizes, errors = (np.concatenate(parts) for parts in zip(*values, strict=True))
    error, simple = (np.concatenate(parts) for parts in list(zip(*keys, strict=True))[1:])
    told = query.magnitude()[0]
    products = told * (both.magnitude() + error)
    inexact = np.where(simple | query.is_simple()[0], 0.0, products)
    additions = np.maximum((products > 0).sum(axis=1) - 1.0, 0.0)
    made_of = Products(products.sum(axis=1), inexact.sum(axis=1), additions, len(told))
    kernel = SoftmaxArithmetic(machine, len(error), written_out=head.is_small)
    return Noise(told, query.error[0], both, error, sizes, errors, head.output[:, feature], made_of, kernel)


def _read(head: Head, row: int, state: Tokens, context: Tokens | None) -> Tokens:
    if head.key_rows is not None and head.key_rows.kind == "own":
        return state.rows(slice(row, row + 1))
    source = state if context is None or (head.key_rows is not None and head.key_rows.source == "state") else context
    chosen = None if head.key_rows is None else head.key_rows.indices
    return source if chosen is None else source.rows(chosen)


def _residual(state: Tokens, row: int, feature: int) -> tuple[float, float]:
    """Size and error of what a residual adds."""
    return float(state.magnitude()[row, feature]), float(state.error[row, feature])


def _head(exact: Exact, noise: Noise, box: Balls, machine: Machine, sharp: bool) -> tuple[Array, Array]:
    """On every cell: the rounding of one head, and a bound of its exact output."""
    weights = _weights(exact, noise, box)
    written = Balls.exact(box.mid) @ exact.tilts + exact.values
    varying = box.rad @ exact.tilts.magnitude() + written.rad
    mass = noise.values @ np.abs(noise.output)
    disturbed, size = disturbed_mean(weights, written.mid, mass, 1, varying)
    share = weights.share()
    lost_in = added(share, noise.values, noise.output, machine, sharp)
    made = sums(share, noise.values, noise.output, size + disturbed, machine, lost_in)
    carried = share @ (noise.value_error @ np.abs(noise.output))
    return (disturbed + made + carried) * SLACK, np.maximum(size, share @ mass) if len(noise.output) > 1 else size


def _weights(exact: Exact, noise: Noise, box: Balls) -> Weights:
    scores = Balls.exact(box.mid) @ exact.slopes + exact.offsets
    winner = scores.mid.argmax(axis=1)
    cells = np.arange(len(winner))
    moved = scores.rad + scores.rad[cells, winner][:, None]
    for slope, radius in zip(exact.slopes.mid, box.rad.T, strict=True):
        moved += np.abs(slope - slope[winner][:, None]) * radius[:, None]
    known = 2 * box.magnitude() @ exact.slopes.rad + 2.0**-50 * np.abs(scores.mid)
    moved += known + known.max(axis=1)[:, None]
    moved[cells, winner] = 0.0  # relative to itself
    eta = noise.key_error @ noise.query + np.zeros_like(moved)
    for f in range(len(noise.query)):
        reach = noise.keys.rad[:, f] + noise.keys.rad[winner, f][:, None]
        apart = np.abs(noise.keys.mid[:, f] - noise.keys.mid[winner, f][:, None]) + reach
        eta += apart * noise.query_error[f]
    relative = scores.mid - scores.mid[cells, winner][:, None]
    off = noise.keys.magnitude() @ noise.query_error + noise.key_error @ noise.query
    size = np.abs(scores.mid) + scores.rad + box.rad @ np.abs(exact.slopes.mid) + known + off
    eta += kernel_roundings(noise.products, size, relative, moved + off, noise.kernel)
    return Weights(relative, moved * SLACK, eta * SLACK)
