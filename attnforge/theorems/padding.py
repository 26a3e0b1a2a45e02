"""The papers' layout of a head over constant keys: a padded sequence whose tokens carry the keys and values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.network import Attention, Head, Linear, Network, Rows, Term

Array = npt.NDArray[np.float64]


def padded(network: Network) -> Network:
    """The same function by plain self-attention over as many tokens as the head has keys.

    The linear map before the head lengthens the sequence: token j carries key j and value j in features of their own,
    the first n tokens also carry the queries, and the first n outputs are read. W_Q, W_K and W_V pick their features.
    """
    encode, attention = network.layers
    tokens = network.tokens or 1
    if not isinstance(encode, Linear) or not isinstance(attention, Attention) or encode.constant is None:
        raise RefusalError("A network is padded that is a linear map and one head", "other layers")
    head = attention.heads[0]
    keys, values = head.memory_keys, head.memory_values
    if keys is None or values is None or len(keys) < tokens:
        count = 0 if keys is None else len(keys)
        raise RefusalError(
            f"A padded sequence needs a key for each of {tokens} tokens", str(count), "Ask for more cells"
        )
    asked, r, v, rows = encode.constant.shape[1], keys.shape[1], values.shape[1], len(keys)
    constant = np.zeros((rows, asked + r + v))
    constant[:tokens, :asked] = encode.constant
    constant[:, asked : asked + r], constant[:, asked + r :] = keys, values
    terms = tuple(_lengthened(term, tokens, rows, r + v) for term in encode.terms)
    query, picks = np.vstack([head.query, np.zeros((r + v, r))]), np.eye(asked + r + v)
    plain = Head(
        query,
        head.output,
        key=picks[:, asked : asked + r],
        value=picks[:, asked + r :],
        key_rows=Rows(),
        claims=head.claims,
    )
    read = Linear((Term(None, np.eye(tokens, rows)),))
    layers = (Linear(terms, constant), Attention((plain,)), read)
    return Network(layers, network.features, tokens, construction=network.construction)


def _lengthened(term: Term, tokens: int, rows: int, extra: int) -> Term:
    """The term with ``extra`` empty features and rows below the tokens."""
    feature_map = np.eye(tokens) if term.map is None else term.map
    mix = np.eye(tokens) if term.mix is None else term.mix
    below = np.zeros((rows - tokens, tokens))
    return Term(np.hstack([feature_map, np.zeros((len(feature_map), extra))]), np.vstack([mix, below]))
