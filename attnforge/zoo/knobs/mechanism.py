r"""Who reads whom in a network, whatever the basis of its streams: the ground truth of a benchmark.

:func:`attnforge.network.causal_graph` looks at features: in a random basis everybody has weights on all of them. Here
sources are followed along their directions, as proofs do (:mod:`attnforge.certification.stream`): the stream is the
sum of $a_s D_s$ over the constant, the inputs and the numbers $a_s$ that heads compute, and a matrix W reads $D_s W$ of
the source s. What is below ``least`` of the largest entry of its column is rounding or noise, and no edge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attnforge.certification.stream import plain_map
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, CausalEdge, CausalGraph, Head, Network, causal_graph
from attnforge.network.causal import READING, reads_context

Array = npt.NDArray[np.float64]

LEAST = 2.0**-20  # of the largest entry of a column: far above what float64 leaves of products that cancel


def mechanism(network: Network, inputs: Sequence[str] | None = None, *, least: float = LEAST) -> CausalGraph:
    """The graph of all heads, of products of weights in place of weights.

    Args:
        network: maps of features and attention on one input; a RefusalError for others.
        inputs: a name for every feature of the input; features of one name are one node. x0, x1, .. where None.
        least: what is read of a source, relative to the most that is read of any, from which on it is an edge.

    >>> import attnforge as af
    >>> from attnforge.zoo import knobs
    >>> net = af.constructions.graph("sin(x)*y", {"x": (0, 1), "y": (0, 1)}, 1e-3)
    >>> hidden = knobs.apply(net, basis="random")
    >>> str(mechanism(hidden.network, "xy")) == str(causal_graph(net.network, "xy"))
    True
    """
    nodes = causal_graph(network, inputs).nodes
    if network.context is not None or any(map(reads_context, network.heads)):
        raise RefusalError("Sources are followed through a network of one input", "a second one", "Use causal_graph")
    known = list(dict.fromkeys(node.name for node in nodes if node.kind == "input"))
    names = [f"x{i}" for i in range(network.features)] if inputs is None else list(inputs)
    owners = [-1, *(known.index(name) for name in names)]  # the constant is nobody's
    directions = np.vstack([np.zeros((1, network.features)), np.eye(network.features)])
    edges: list[CausalEdge] = []
    goal = len(known)
    for layer in network.layers:
        if not isinstance(layer, Attention):
            directions = _mapped(layer, directions)
            continue
        for head in layer.heads:
            edges += _edges(head, directions, owners, goal, least)
            goal += 1
        written = [head.output for head in layer.heads]
        owners = [*owners, *(goal - len(written) + i for i, each in enumerate(written) for _ in each)]
        kept = directions if layer.residual else np.zeros((len(directions), written[0].shape[1]))
        directions = np.vstack([kept, *written])
    for k in range(directions.shape[1]):
        sources = _sources(directions[:, [k]], owners, least)
        edges += [CausalEdge(source, goal + k, ("features",)) for source in sources]
    return CausalGraph(nodes, tuple(edges))


def _mapped(layer: object, directions: Array) -> Array:
    """Directions behind a linear map; its constant is one of source 0."""
    try:
        weights, constant = plain_map(layer)  # type: ignore[arg-type]
    except CertificateError as reason:
        requirement = "Sources are followed through maps of features, the same for all tokens"
        raise RefusalError(requirement, "another layer", "Use causal_graph") from reason
    behind = directions @ weights
    behind[0] += constant
    return np.asarray(behind)


def _edges(head: Head, directions: Array, owners: Sequence[int], goal: int, least: float) -> list[CausalEdge]:
    """From every source that a head reads, with the maps that do."""
    found: dict[int, list[str]] = {}
    for name in READING:
        matrix = getattr(head, name)
        for source in [] if matrix is None else _sources(directions @ matrix, owners, least):
            found.setdefault(source, []).append(name)
    return [CausalEdge(source, goal, tuple(by)) for source, by in sorted(found.items())]


def _sources(read: Array, owners: Sequence[int], least: float) -> list[int]:
    """The nodes of which a matrix reads something, of weights (S, r) on sources."""
    is_read = np.any((read != 0) & (np.abs(read) >= least * np.abs(read).max(axis=0)), axis=1)
    return sorted({owner for owner, seen in zip(owners, is_read, strict=True) if seen and owner >= 0})
