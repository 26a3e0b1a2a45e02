"""How far heads are from the formulas of registers that they claim to write, at some points: measured, not proved."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import AttnforgeError
from attnforge.expression import evaluate, parse, variables
from attnforge.network import Attention, Head, Network, apply_layer

Array = npt.NDArray[np.float64]


def formula_errors(network: Network, points: Array) -> dict[tuple[int, int], float]:
    """The largest error of every head that claims a formula of registers, by (layer of attention, head).

    A head is compared with the formula of what its own token holds as the network runs at tokens (N, n, m): what went
    wrong before it is not its fault. A claim that is no formula of registers has no entry.
    """
    found: dict[tuple[int, int], float] = {}
    state, number = points, 0
    for layer in network.layers:
        if isinstance(layer, Attention):
            for i, head in enumerate(layer.heads):
                error = _error(head, state)
                if error is not None:
                    found[number, i] = error
            number += 1
        state = apply_layer(layer, state)
    return found


def _error(head: Head, state: Array) -> float | None:
    columns = np.flatnonzero((head.output != 0).any(axis=0))
    if head.claims is None or head.claims.formula is None or len(columns) != 1:
        return None
    alone = head.key_rows is None or head.key_rows.kind == "own"
    if not alone:
        return None
    registers = {f"r[{c}]": state[..., c].astype(np.longdouble) for c in range(state.shape[-1])}
    try:
        tree = parse(head.claims.formula)
        exact = evaluate(tree, {name: registers[name] for name in variables(tree)})
    except (AttnforgeError, KeyError):
        return None
    wrote = apply_layer(Attention((head,)), state)[..., columns[0]]
    with np.errstate(invalid="ignore"):
        error = float(np.max(np.abs(wrote - np.asarray(exact, dtype=np.longdouble))))
    return error if np.isfinite(error) else None
