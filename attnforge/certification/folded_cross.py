r"""Cross-attention whose keys move with X as one head over constant keys that asks with the joint point.

Row j of the second input becomes $k_j(X) = M_j U + C_j$, U an affine function of X; features whose key moves meet a
query that is a constant, say $q_f$. So $q \cdot k_j = \sum_f q_f (M_j U)_f + q \cdot C_j$ is the score of the key
$(M_j ; C_j)$ against the query $(q_f U ; q)$, affine in $z = (X ; Y)$: the proofs of a head over its memory apply to
that head on the joint box. It is the same function in exact arithmetic, because only zeros, ones and single products
are moved about; a network that does not allow it has no folded head. How the run rounds is another matter, and is
charged by :mod:`.cross`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, Head, Linear, Network, Term

Array = npt.NDArray[np.float64]


def folded(network: Network) -> Network | None:
    """The network that asks its own memory with (X ; Y); None where it is not, number for number, the same."""
    head = _only_head(network)
    if head is None or head.key is None or head.value is None:
        return None
    asking, told = _one_map(network.layers[0]), _one_map(network.context_layers[0])
    rows = _rows(network.context_layers[1])
    if asking is None or told is None or rows is None:
        return None
    if not (_selects(head.key) and _selects(head.value)):
        return None
    slopes, constants = rows
    keys, moving = constants @ head.key, np.any(slopes @ head.key != 0, axis=(0, 1))
    fixed = _fixed_query(asking, head.query)
    if np.any((slopes @ head.value) != 0) or np.any(np.isnan(fixed[moving])):
        return None
    along = np.flatnonzero(moving)
    columns = [(slopes @ head.key)[:, :, f] for f in along]
    order = np.concatenate([np.flatnonzero(~moving), along])
    (d, first), second = told[0].shape, asking[0].shape
    query = np.zeros((first + second[1], first * len(along) + len(order)))
    for number, f in enumerate(along):
        query[np.arange(first), number * first + np.arange(first)] = fixed[f]
    query[first:, first * len(along) :] = head.query[:, order]
    whole = np.zeros((d + second[0], first + second[1]))
    whole[:d, :first], whole[d:, first:] = told[0], asking[0]
    memory = Head(
        query,
        head.output,
        memory_keys=np.hstack([*columns, keys[:, order]]),
        memory_values=constants @ head.value,
        claims=head.claims,
    )
    encode = Linear((Term(whole),), np.concatenate([told[1], asking[1]])[None])
    return replace(
        network,
        layers=(encode, Attention((memory,))),
        features=d + second[0],
        context=None,
        context_layers=(),
        construction="max_affine",
    )


def _only_head(network: Network) -> Head | None:
    """The head that asks with one row all that one row of the second input becomes; None for other networks."""
    one_row = network.tokens == 1 and network.context is not None and network.context[0] == 1
    if not one_row or len(network.layers) != 2 or len(network.context_layers) != 2:
        return None
    last = network.layers[1]
    if not isinstance(last, Attention) or len(last.heads) != 1 or last.residual:
        return None
    head, rows = last.heads[0], last.heads[0].key_rows
    everywhere = rows is not None and rows.kind == "all" and rows.source == "context" and not head.memory_size
    return head if everywhere and head.query_rows.kind == "all" else None


def _one_map(layer: object) -> tuple[Array, Array] | None:
    """The map (in, out) and the constant (out,) of a linear layer of one row."""
    if not isinstance(layer, Linear) or len(layer.terms) != 1:
        return None
    term = layer.terms[0]
    if term.map is None or term.mix is not None or term.map.ndim != 2:
        return None
    constant = np.zeros(term.map.shape[1]) if layer.constant is None else layer.constant[0]
    return term.map, constant


def _rows(layer: object) -> tuple[Array, Array] | None:
    """What row j takes of the only row, (R, d, width), and adds to it, (R, width).

    Maps of zeros and ones, no entry from two terms, keep the slopes exact.
    """
    if not isinstance(layer, Linear) or layer.constant is None:
        return None
    terms = [(term.map, term.mix) for term in layer.terms if term.map is not None and term.mix is not None]
    if len(terms) != len(layer.terms) or not terms:
        return None
    plain = all(m.ndim == 2 and mix.shape[1] == 1 and np.all((m == 0) | (m == 1)) for m, mix in terms)
    if not plain or np.any(np.sum([m for m, _ in terms], axis=0) > 1):
        return None
    return np.sum([mix[:, :, None] * m for m, mix in terms], axis=0), layer.constant


def _fixed_query(asking: tuple[Array, Array], query: Array) -> Array:
    """Query features (r,) that are the same for all Y, from a token's constant 1 alone; NaN for the others."""
    weights, constant = asking
    ones = ~weights.any(axis=0) & (constant == 1.0)
    single = (np.count_nonzero(query, axis=0) == 1) & ~query[~ones].any(axis=0)
    return np.where(single, query.sum(axis=0), np.nan)


def _selects(weights: Array) -> bool:
    """Whether each output is one of the inputs, unchanged."""
    return bool(np.all((weights == 0) | (weights == 1)) and np.all(weights.sum(axis=0) == 1))
