r"""A softmax over centres whose scores are affine in the bumps: a head's memory, tokens, or a Softmax layer.

The bumps of the run, each between 0 and 1 up to its error, are the exact inputs of what follows. A head over centres is
then one with affine scores (:mod:`.affine_scores`): its keys are memory, or tokens that a linear map makes of the
bumps. A softmax over features has the scores that a linear map writes, off by what that rounds in the dtype, and its
values are read by another map, whose products and sums are the dtype's own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.certification.affine_scores import Scores, check_clear, head_scores, keys_and_values
from attnforge.certification.bumps import Bumps
from attnforge.certification.tokens import Tokens, linear, project, whole_input
from attnforge.errors import CertificateError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Layer, Linear, Softmax
from attnforge.network.apply import apply_layer
from attnforge.outward import Balls, Machine, Up, gamma

Array = npt.NDArray[np.float64]


def read_head(layers: list[Layer], n: int, rows: int, bumps: Bumps, machine: Machine) -> Scores:
    """A head over centres, in its memory or in tokens made of the only row of bumps, and a read-out of slices."""
    state = _inputs(bumps, machine)  # every row's
    if isinstance(layers[0], Linear):
        state = _mapped(layers[0], state, rows, machine)
        rows, layers = len(state.source), layers[1:]
    head = _only_head(layers[0] if layers else None)
    asked = np.arange(rows) if head.query_rows.indices is None else head.query_rows.indices
    query = project(state.rows(asked if len(state.source) > 1 else slice(1)), head.query, machine)
    parts = (query.slope.mid, query.slope.rad, query.constant.mid, query.constant.rad, query.error)
    if not all(np.array_equal(part, np.broadcast_to(part[:1], part.shape)) for part in parts):
        raise CertificateError("All that ask the centres ask alike", "different queries", "Rebuild the network")
    keys, values = keys_and_values(head, state, machine)
    found = head_scores(query.rows(slice(1)), keys, values, head.output, state.box[0], machine)
    check_slices(layers[1:], n, asked, rows, found.values.shape[1])
    return found


def read_softmax(layers: list[Layer], n: int, rows: int, bumps: Bumps, machine: Machine) -> Scores:
    """Linear, softmax over features, linear."""
    if len(layers) != 3 or not isinstance(layers[0], Linear) or not isinstance(layers[1], Softmax):
        raise CertificateError("After the ramps: linear, softmax, linear", f"{len(layers)} layers", "Rebuild it")
    state, last = _mapped(layers[0], _inputs(bumps, machine), rows, machine), layers[2]
    count = state.error.shape[1]
    if len(state.source) != 1 or not isinstance(last, Linear):
        raise CertificateError("A softmax over features is one of one row, and read by a linear map", "another")
    values, kernel = _value_map(last, n, count), SoftmaxArithmetic(machine, count)
    noise = Up.of(state.error[0]) + Up.of(state.magnitude()).most() * kernel.scores(0) + kernel.log_weights()
    check_clear(noise, machine)
    largest, read = Up.of(values).most(), Up.of(gamma(count + 1, machine.roundoff))
    sums = float(largest * (read + kernel.mean() * (1.0 + read)) + kernel.lost(largest))
    slope = Balls(state.slope.mid[0].T, state.slope.rad[0].T)
    lever, error = Balls.exact(np.zeros((count, 1))), Up.zeros(1)
    return Scores(state.box[0], slope, state.constant[0], lever, error, noise, values, 0.0, sums)


def _inputs(bumps: Bumps, machine: Machine) -> Tokens:
    """A row of the run's bumps."""
    low, high = np.nextafter(-bumps.error, -np.inf), np.nextafter(1 + bumps.error, np.inf)
    return whole_input(low[None], high[None], machine, exact=True)


def _mapped(layer: Linear, state: Tokens, rows: int, machine: Machine) -> Tokens:
    if rows != 1:
        raise CertificateError("Centres are made of one row of bumps", f"{rows} rows", "Rebuild the network")
    return linear(layer, state, machine)


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


def _only_head(layer: Layer | None) -> Head:
    """A head whose keys are its memory, or all tokens."""
    if not isinstance(layer, Attention) or len(layer.heads) != 1 or layer.residual:
        raise CertificateError("One head without residual retrieves", type(layer).__name__, "Rebuild the network")
    head, keys = layer.heads[0], layer.heads[0].key_rows
    if keys is not None and ((keys.kind, keys.source) != ("all", "state") or head.memory_size):
        raise CertificateError("The centres are the head's memory, or all tokens", "other keys", "Rebuild the network")
    return head


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
