r"""A network as it runs, on cells: every feature of every row enclosed by a Taylor model, layer by layer.

Models (:mod:`.models`) enclose the run, not the exact function: what a machine rounds is added to their rest as it is
made, and goes on from there through the same arithmetic. A linear map is one sum for each output, of the products of
all its terms and its constant, in any order (:mod:`.rounding`); a term that mixes rows mixes features that are sums
themselves. A layer of attention is one, too: of the heads' means (:mod:`.heads`, :mod:`.product`) times their output
maps, and of the rows with a residual. By the machine that rounds nothing, models enclose the network's function.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt

from attnforge.kernel.heads import FAR, Scores, centred, mean_of
from attnforge.kernel.models import Models
from attnforge.kernel.product import means
from attnforge.kernel.rounding import Sums, count_roundings, is_simple
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax, Term
from attnforge.outward import Machine, Up, gamma

Array = npt.NDArray[np.float64]


def run_network(
    network: Network, state: Models, machine: Machine, context: Models | None = None, far: float = FAR
) -> Models:
    """The output rows (C, n', m') of a network as it runs on rows (C, n, m) of exact inputs, and on a second input.

    Keys whose weights are e^-far of another's may be left out, and are charged.
    """
    state = _cast(state, machine)
    if context is not None:
        context = _cast(context, machine)
        for each in network.context_layers:
            context = _linear(each, context, machine)
    layers: list[Layer] = list(network.layers)
    while layers:
        match layers.pop(0):
            case Linear() as layer:
                state = _linear(layer, state, machine)
            case Attention() as layer:
                state = _attention(layer, state, context, machine, far)
            case Softmax():
                state = _softmax(layers, state, machine)
    return state


def _cast(rows: Models, machine: Machine) -> Models:
    """Inputs, rounded to the dtype."""
    return rows if machine.name == "float64" else _fitting(rows.wider(machine.cast(rows.size())), machine)


def _fitting(rows: Models, machine: Machine) -> Models:
    """Nothing is known of what may leave the dtype's range."""
    return rows.only(rows.size().values <= machine.largest)


def _rounded(exact: Models, sums: Sums, machine: Machine) -> Models:
    """Sums as they run; nothing is known of those that may leave the dtype's range on the way."""
    error = sums.error(exact.size(), machine.roundoff, machine.underflow)
    reach = (sums.sizes + error).values
    return exact.wider(error).only(np.isfinite(reach) & (reach <= machine.largest))


def _linear(layer: Linear, rows: Models, machine: Machine) -> Models:
    """All terms, and the constant."""
    parts = [_term(term, rows, machine) for term in layer.terms]
    if layer.constant is not None:
        constant = Models.constant(rows.table, np.broadcast_to(layer.constant, parts[0][0].shape))
        parts.append((constant, Sums.alone(constant.size())))
    exact, sums = reduce(Models.__add__, (part[0] for part in parts)), reduce(Sums.__add__, (part[1] for part in parts))
    return _rounded(exact, sums, machine)


def _term(term: Term, rows: Models, machine: Machine) -> tuple[Models, Sums]:
    """One term of it as exact sums of what ran before, and what they are sums of."""
    if term.mix is None:
        return (rows, Sums.alone(rows.size())) if term.map is None else _products(rows, term.map)
    if term.map is not None:
        rows = _project(rows, term.map, machine)
    sums = Sums.of(rows.size().T, np.swapaxes(is_simple(rows), -1, -2), term.mix.T)
    return rows.mixed(term.mix), sums.T


def _products(rows: Models, weights: Array) -> tuple[Models, Sums]:
    return rows.through(weights), Sums.of(rows.size(), is_simple(rows), weights)


def _project(rows: Models, weights: Array, machine: Machine) -> Models:
    """Features times a matrix (m, m'), or one a row (n, m, m')."""
    return _rounded(*_products(rows, weights), machine)


def _attention(layer: Attention, state: Models, context: Models | None, machine: Machine, far: float) -> Models:
    """All heads' means, and the rows themselves with a residual, by one sum."""
    alike: dict[object, list[Head]] = {}
    for head in layer.heads:
        alike.setdefault(_kind(head), []).append(head)
    parts = [_heads(heads, state, context, machine, far) for heads in alike.values()]
    maps = [head.output for heads in alike.values() for head in heads]
    if layer.residual:
        parts.append(state)
        maps.append(np.eye(state.shape[2]))
    return _project(Models.joined(parts, -1), np.vstack(maps), machine)


def _kind(head: Head) -> object:
    """Heads that are alike in it are run together."""
    shapes = [None if each is None else each.shape for each in (head.query, head.value, head.memory_keys, head.output)]
    rows = [(each.kind, each.source, None if each.indices is None else tuple(each.indices))
            for each in (head.query_rows, head.key_rows) if each is not None]  # fmt: skip
    return tuple(shapes), tuple(rows)


def _heads(heads: list[Head], state: Models, context: Models | None, machine: Machine, far: float) -> Models:
    """The means (C, n, H v) of H heads of one kind, zero at rows that do not ask."""
    first, every = heads[0], state.shape[1]
    asks = np.arange(every) if first.query_rows.indices is None else first.query_rows.indices
    asking, count = state[:, asks], len(asks)
    queries = _flat(_project(asking[:, None], np.stack([head.query for head in heads])[:, None], machine), 2)
    rows = _rows_read(first, asking, state, context)
    keys, values = (_by_head(heads, rows, count, machine, what) for what in ("key", "value"))
    arithmetic = SoftmaxArithmetic(machine, keys.shape[2], written_out=first.is_small)
    found = means(queries, keys, values, arithmetic, far)
    silent = Models.constant(state.table, np.zeros((found.shape[0], 1, found.shape[2])))
    place = np.full(every, count * len(heads))
    place[asks] = np.arange(count)
    places = np.minimum(place[:, None] + count * np.arange(len(heads)), count * len(heads))
    whole = Models.joined([found, silent], -2)[:, places.ravel()]
    return whole.shaped(found.shape[0], every, len(heads) * found.shape[2])


def _flat(models: Models, axis: int) -> Models:
    """With one axis and the one before it as one."""
    return models.shaped(
        *models.shape[: axis - 1], models.shape[axis - 1] * models.shape[axis], *models.shape[axis + 1 :]
    )


def _rows_read(head: Head, asking: Models, state: Models, context: Models | None) -> Models | None:
    """The rows (C, 1, q or 1, k, m) that queries attend to."""
    rows = head.key_rows
    if rows is None:
        return None
    if rows.kind == "own":
        return asking[:, None, :, None]
    source = context if rows.source == "context" and context is not None else state
    return source[:, None, None] if rows.indices is None else source[:, None, None, rows.indices]


def _by_head(heads: list[Head], rows: Models | None, queries: int, machine: Machine, what: str) -> Array | Models:
    """Keys or values (C or 1, H q, p, width), those of memory first; numbers where there are no others."""
    memory = None
    if heads[0].memory_keys is not None:
        kept = np.stack([getattr(head, f"memory_{what}s") for head in heads])
        memory = np.repeat(kept, queries, axis=0)[None]
    if rows is None:
        return np.asarray(memory)
    found = _project(rows, np.stack([getattr(head, what) for head in heads])[:, None, None], machine)
    found = _flat(found[:, :, np.arange(queries) % found.shape[2]], 2)
    if memory is None:
        return found
    constant = np.broadcast_to(memory, (found.shape[0], *memory.shape[1:]))
    return Models.joined([Models.constant(found.table, constant), found], -2)


def _softmax(layers: list[Layer], state: Models, machine: Machine) -> Models:
    """A softmax over features; together with the map that reads its weights, which is then taken from the layers."""
    arithmetic = SoftmaxArithmetic(machine, state.shape[2])
    read, after, added = np.eye(state.shape[2]), 1, np.zeros((1, 1))
    if layers and isinstance(layers[0], Linear) and len(layers[0].terms) == 1:
        term = layers[0].terms[0]
        if term.mix is None and term.map is not None:
            read, after = term.map, 1 + int(count_roundings(term.map).max())
            added = added if layers[0].constant is None else layers[0].constant
            layers[0] = Linear((Term(),), layers[0].constant)
    values = np.broadcast_to(read, (1, 1, *read.shape)[-4:])
    scores = Scores(centred(state), state.size(), state.size().most(-1))
    found = mean_of(scores, values, arithmetic, after)
    return found.wider(Up.of(added) * gamma(after, machine.roundoff))  # a constant may be added before the others
