r"""A network as it runs, on cells: every feature of every row enclosed by a Taylor model, layer by layer.

Models (:mod:`.models`) enclose the run, not the exact function: what the dtype rounds is added to their rest as
it is made, and goes on from there through the same arithmetic. Linear maps round by $\gamma_k \sum |w||z|$ for k
roundings, in any order of summation.

**Heads.** A softmax does not see what is common to all scores of a query. With $\bar k$ any vector and $\ell$ any
polynomial, here the mean key and the mean score at the middle of the cell, let
$$ \sigma_k = q \cdot (k_k - \bar k) - \ell, \qquad
   \mathrm{out} = c + \frac{\sum_k e^{\sigma_k}(v_k - c)}{\sum_k e^{\sigma_k}}, $$
c about the output at the middle. So an error of the query counts with $|k_k - \bar k|$, one of a score with
$|v_k - c|$ and the weight of its key. The run's weights are $e^{\sigma_k}$ with $\sigma_k$ moved by what computing the
score, subtracting the largest and the exponential round (:mod:`attnforge.kernel.softmax`): that much is added to the
rest of $\sigma_k$. Its mean of the values with these weights is then rounded like any mean.

On cells on which models say little, the output lies between the extremes of such means with every $\sigma_k$ anywhere
in its range: these are attained with the weights of larger values heavy and the others light, or the reverse.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from attnforge.kernel.models import Models, exp_above
from attnforge.kernel.rounding import count_roundings, gammas
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax, Term
from attnforge.outward import Machine, Up, gamma
from attnforge.outward.arrays import TINY, UNIT

Array = npt.NDArray[np.float64]

CRUDE = 2.0  # where the rest of a model, times this, is as large as half the range, the range says as much
BELOW = 1 - 2.0**-40  # turns a few rounded operations, exponentials among them, into a lower bound
LARGEST = 700.0  # exponents of weights above are not told apart
RANGE, RANGE_64 = 2.0**126, 2.0**1022  # sums up to here, and their products by log2(e), do not overflow


def run_network(network: Network, state: Models, machine: Machine, context: Models | None = None) -> Models:
    """The output rows (C, n', m') of a network as it runs on rows (C, n, m) of exact inputs, and on a second input."""
    state = _cast(state, machine)
    if context is not None:
        context = _cast(context, machine)
        for told in network.context_layers:
            context = _linear(told, context, machine)
    layers: list[Layer] = list(network.layers)
    while layers:
        match layers.pop(0):
            case Linear() as layer:
                state = _linear(layer, state, machine)
            case Attention() as layer:
                state = _attention(layer, state, context, machine)
            case Softmax():
                state = _softmax(layers, state, machine)
    return state


def _cast(rows: Models, machine: Machine) -> Models:
    """Inputs, rounded to the dtype."""
    return rows if machine.name == "float64" else _fitting(rows.wider(machine.cast(rows.size())), machine)


def _fitting(rows: Models, machine: Machine) -> Models:
    """Nothing is known of what may leave the dtype's range."""
    return _known_where(rows, rows.size().values <= machine.largest)


def _known_where(rows: Models, known: npt.NDArray[np.bool_]) -> Models:
    return replace(rows, rest=Up(np.where(known, rows.rest.values, np.inf)))


def _is_known(rows: Models | Array, axis: int) -> npt.NDArray[np.bool_]:
    """Whether all of them are: an infinite number times zero is no zero."""
    return np.asarray(np.isfinite(_size(rows).values).all(axis=axis, keepdims=True))


def _linear(layer: Linear, rows: Models, machine: Machine) -> Models:
    parts = [_term(term, rows, machine) for term in layer.terms]
    if layer.constant is not None:
        parts.append(Models.constant(rows.table, np.broadcast_to(layer.constant, parts[0].shape)))
    sizes = [part.size() for part in parts]
    additions = np.maximum(np.sum([size.values > 0 for size in sizes], axis=0) - 1.0, 0.0)
    made = reduce(Up.__add__, sizes) * gammas(additions, machine.roundoff)
    return _fitting(reduce(Models.__add__, parts).wider(made), machine)


def _term(term: Term, rows: Models, machine: Machine) -> Models:
    if term.map is not None:
        rows = _project(rows, term.map, machine)
    if term.mix is None:
        return rows
    sizes, weights = Up.of(term.mix) @ rows.size(), term.mix.T
    made = sizes * _made(weights, machine)[:, None] + _lost(weights, machine)[:, None]
    found = rows.mixed(term.mix).wider(made)
    return _known_where(found, (sizes.values <= machine.largest) & _is_known(rows, -2))


def _project(rows: Models, weights: Array, machine: Machine) -> Models:
    """Features times a matrix (m, m'), or one a row (n, m, m')."""
    sizes = (rows.size()[..., None, :] @ Up.of(weights))[..., 0, :]
    found = rows.through(weights).wider(sizes * _made(weights, machine) + _lost(weights, machine))
    return _known_where(found, (sizes.values <= machine.largest) & _is_known(rows, -1))


def _made(weights: Array, machine: Machine) -> Array:
    """What rounding makes of sums of products by a matrix (..., m, m'), relative to their sizes."""
    return gammas(count_roundings(weights), machine.roundoff)


def _lost(weights: Array, machine: Machine) -> Array:
    """What may underflow there: nothing of products by powers of two from one on."""
    plain = np.isin(np.abs(np.frexp(weights)[0]), (0.0, 0.5)) & ((weights == 0) | (np.abs(weights) >= 1))
    nonzero = np.count_nonzero(weights, axis=-2)
    return np.where(plain.all(axis=-2) & (nonzero <= 1), 0.0, 2 * nonzero * machine.underflow)


def _attention(layer: Attention, state: Models, context: Models | None, machine: Machine) -> Models:
    """All heads' mixtures, and the rows themselves with a residual, by one sum in any order."""
    alike: dict[object, list[Head]] = {}
    for head in layer.heads:
        alike.setdefault(_kind(head), []).append(head)
    parts = [_heads(heads, state, context, machine) for heads in alike.values()]
    maps = [head.output for heads in alike.values() for head in heads]
    if layer.residual:
        parts.append(state)
        maps.append(np.eye(state.shape[2]))
    return _project(Models.joined(parts, -1), np.vstack(maps), machine)


def _kind(head: Head) -> object:
    """Heads that are alike in it are looked at together."""
    shapes = [None if each is None else each.shape for each in (head.query, head.value, head.memory_keys, head.output)]
    rows = [(each.kind, each.source, None if each.indices is None else tuple(each.indices))
            for each in (head.query_rows, head.key_rows) if each is not None]  # fmt: skip
    return tuple(shapes), tuple(rows)


def _heads(heads: list[Head], state: Models, context: Models | None, machine: Machine) -> Models:
    """The mixtures (C, n, H v) of H heads of one kind, zero at rows that do not ask."""
    first = heads[0]
    asks = np.arange(state.shape[1]) if first.query_rows.indices is None else first.query_rows.indices
    asking = state[:, asks]
    queries = _flat(_project(asking[:, None], np.stack([head.query for head in heads])[:, None], machine), 2)
    rows = _rows_read(first, asking, state, context)
    keys, values = (_told(heads, rows, len(asks), machine, what) for what in ("key", "value"))
    arithmetic = SoftmaxArithmetic(machine, keys.shape[2])
    found = _mixture(*_scores(queries, keys, arithmetic), values, arithmetic)
    cells, width = found.shape[0], found.shape[2]
    whole = Models.constant(state.table, np.zeros((cells, state.shape[1], len(heads), width)))
    whole.c[:, :, asks] = np.moveaxis(found.c.reshape(-1, cells, len(heads), len(asks), width), 2, 3)
    whole.rest.values[:, asks] = np.moveaxis(found.rest.values.reshape(cells, len(heads), len(asks), width), 1, 2)
    return _flat(whole, 3)


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


def _told(heads: list[Head], rows: Models | None, queries: int, machine: Machine, what: str) -> Array | Models:
    """Keys or values (C or 1, H q, p, width), those of memory first; numbers where there are no others."""
    memory = None
    if heads[0].memory_keys is not None:
        kept = np.stack([getattr(head, f"memory_{what}s") for head in heads])
        memory = np.repeat(kept, queries, axis=0)[None]
    if rows is None:
        return np.asarray(memory)
    found = _project(rows, np.stack([getattr(head, what) for head in heads])[:, None, None], machine)
    shape = (found.shape[0], len(heads), queries, *found.shape[3:])
    c = np.broadcast_to(found.c, (len(found.c), *shape))
    found = _flat(Models(found.table, c, Up(np.broadcast_to(found.rest.values, shape))), 2)
    if memory is None:
        return found
    constant = np.broadcast_to(memory, (len(found.rest.values), *memory.shape[1:]))
    return Models.joined([Models.constant(found.table, constant), found], -2)


def _scores(query: Models, keys: Array | Models, arithmetic: SoftmaxArithmetic) -> tuple[Models, Up]:
    """Scores (C, q, p) less those of the mean key, as they run, and bounds of the sums of their products' sizes."""
    middle = _middle(keys)
    shares = _shares((query.c[0][:, :, None] * middle).sum(axis=-1))
    mean = shares[..., None, :] @ middle
    if isinstance(keys, Models):
        relative = (query[:, :, None] * keys.less(mean)).sum()
    else:
        relative = query.through(np.swapaxes(keys - mean, -1, -2))
    products = query.size()[:, :, None] * _size(keys)
    known = _is_known(query, -1) & _is_known(keys, -1)[..., 0]
    sizes, terms = Up(np.where(known, products.sum().values, np.inf)), np.count_nonzero(products.values, axis=-1)
    wrong = sizes * gammas(terms, arithmetic.unit) + 4 * arithmetic.machine.underflow * terms
    return relative.wider(wrong), sizes


def _middle(numbers: Array | Models) -> Array:
    return numbers.c[0] if isinstance(numbers, Models) else numbers


def _size(numbers: Array | Models) -> Up:
    return numbers.size() if isinstance(numbers, Models) else Up.of(numbers)


def _shares(scores: Array) -> Array:
    """About the weights at the middle; any numbers serve."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(np.nan_to_num(weights / weights.sum(axis=-1, keepdims=True), nan=0.0))


def _mixture(
    scores: Models, sizes: Up, values: Array | Models, arithmetic: SoftmaxArithmetic, after: int = 1
) -> Models:
    """The mean (C, q, v) of values (C, q, p, v) by softmax weights (C, q, p), and so many roundings after it."""
    relative = _disturbed(scores, sizes, arithmetic)
    weights = relative.exp()
    total = weights.sum()
    least = least_sum(relative, total)
    share = (exp_above(relative.c[0], relative.swing()) / least[..., None]).least(1.0)[..., None, :]
    centre = _shares(relative.c[0])[..., None, :] @ _middle(values)
    if isinstance(values, Models):
        apart: Array | Models = values.less(centre)
        above = (weights[..., None] * values.less(centre)).sum(-2)
    else:
        apart = values - centre
        above = weights.through(apart)
    size = _size(values)
    mass = (share @ size)[..., 0, :].least(size.most(-2))
    found = above.over(total[..., None], least[..., None])
    found = found.between(*_extremes(relative, apart), found.rest * CRUDE)
    found = found.less(-centre[..., 0, :]).wider(mass * arithmetic.mean(after) + arithmetic.lost(size.most(-2)))
    reach = sizes.most(-1)[..., None].larger(size.most(-2) * arithmetic.keys)
    return _known_where(found, reach.values <= _range(arithmetic))


def _extremes(relative: Models, values: Array | Models) -> tuple[Array, Array]:
    """The smallest and the largest mean (C, q, v) of values (C, q, p, v) with logarithms of weights (C, q, p)."""
    low, high = relative.range()
    sure = low.max(axis=-1, keepdims=True)
    least, most = np.exp(low - sure) * BELOW, np.exp(np.minimum(high - sure, LARGEST)) / BELOW + TINY
    ends = values.range() if isinstance(values, Models) else (values, values)
    above = largest_mean(ends[1], least[..., None], most[..., None])
    return -largest_mean(-ends[0], least[..., None], most[..., None]), above


def largest_mean(values: Array, least: Array, most: Array) -> Array:
    """The largest mean of values, their weights between ``least`` and ``most``: heavy from some value on, else light.

    Sums of p terms and their differences are off by a few roundings of all weights that count, times the values. That
    ``most`` ends somewhere is less than one: as ``least`` is up to 1, weights beyond can be scaled down, together.
    """
    order = np.argsort(-values, axis=-2)
    values, light, heavy = (
        np.take_along_axis(np.broadcast_to(each, order.shape), order, axis=-2) for each in (values, least, most)
    )

    def sums(terms: Array, others: Array) -> Array:
        return np.asarray(terms.cumsum(axis=-2) + (others.sum(axis=-2, keepdims=True) - others.cumsum(axis=-2)))

    means = sums(heavy * values, light * values) / sums(heavy, light)
    slack = np.abs(values).max(axis=-2) * gamma(16 * values.shape[-2] + 64)
    return np.asarray(means.max(axis=-2) + slack)


def centred(scores: Models) -> Models:
    """Less a polynomial that is common to all keys: about their mean, by the weights at the middle."""
    c = scores.c - (scores.c * _shares(scores.c[0])).sum(axis=-1, keepdims=True)
    return Models(scores.table, c, scores.rest + Up(np.abs(c)).sum(0) * UNIT)


def _disturbed(scores: Models, sizes: Up, arithmetic: SoftmaxArithmetic) -> Models:
    """The logarithms of the run's weights, less a common polynomial."""
    relative = centred(scores)
    low, high = relative.range()
    lead = Up.of(np.nextafter(high.max(axis=-1, keepdims=True) - low, np.inf))
    return relative.wider(arithmetic.subtraction(lead, sizes) + arithmetic.log_weights())


def _range(arithmetic: SoftmaxArithmetic) -> float:
    return RANGE_64 if arithmetic.is_double else RANGE


def least_sum(relative: Models, total: Models) -> Array:
    """Lower bounds of sums of weights, from their logarithms and from the model of the sum."""
    each = np.exp(relative.c[0] - relative.swing().values) * BELOW
    by_sum = each.sum(axis=-1) * (1 - 2.0**-30)
    return np.asarray(np.fmax(by_sum, np.nextafter(total.c[0] - total.swing().values, -np.inf)))


def _softmax(layers: list[Layer], state: Models, machine: Machine) -> Models:
    """A softmax over features; together with the map that reads its weights, which is then taken from the layers."""
    arithmetic = SoftmaxArithmetic(machine, state.shape[2])
    read, after = np.eye(state.shape[2]), 1
    if layers and isinstance(layers[0], Linear) and len(layers[0].terms) == 1:
        term = layers[0].terms[0]
        if term.mix is None and term.map is not None:
            read, after = term.map, 1 + int(count_roundings(term.map).max())
            layers[0] = Linear((Term(),), layers[0].constant)
    values = np.broadcast_to(read, (1, 1, *read.shape)[-4:])
    return _fitting(_mixture(state, state.size(), values, arithmetic, after), machine)
