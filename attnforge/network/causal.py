"""What feeds what in a network, read from its weights: inputs, heads, outputs, and who reads whom.

A head reads the features at which its query, key or value map has a weight, and writes those at which its output map
has one; linear maps pass features on where they have a weight. Features that nothing feeds are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.network.layers import Attention, Head, Linear, Softmax

if TYPE_CHECKING:
    from attnforge.network.network import Network

Flags = npt.NDArray[np.bool_]
Kind = Literal["input", "context", "head", "softmax", "output"]

READING = ("query", "key", "value")


@dataclass(frozen=True)
class CausalNode:
    """An input, a head, a softmax over features, or an output.

    ``layer`` counts layers of attention from 0, ``index`` the heads of one; both are None for inputs, and ``layer`` is
    for outputs. ``role`` is what a head claims to be, ``formula`` which register it claims to write.
    """

    kind: Kind
    name: str
    layer: int | None = None
    index: int | None = None
    role: str | None = None
    formula: str | None = None


class CausalEdge(NamedTuple):
    """``goal`` reads ``source``, numbers of nodes, by ``query``, ``key``, ``value``, or ``features`` themselves."""

    source: int
    goal: int
    by: tuple[str, ...]


@dataclass(frozen=True)
class CausalGraph:
    """All nodes, inputs first and outputs last, and edges, sorted; a head that no path leads to reads constants."""

    nodes: tuple[CausalNode, ...]
    edges: tuple[CausalEdge, ...]

    def __str__(self) -> str:
        return "\n".join(self._line(i) for i, node in enumerate(self.nodes) if node.kind not in ("input", "context"))

    def _line(self, node: int) -> str:
        """A node, what it is said to be, and what it reads; constants alone where there is nothing."""
        read = ", ".join(self.nodes[i].name for i in self.parents(node)) or "constants"
        return " ".join(filter(None, (self.nodes[node].name, _said(self.nodes[node]), "<-", read)))

    def parents(self, node: int) -> tuple[int, ...]:
        """The nodes that a node reads."""
        return tuple(sorted({edge.source for edge in self.edges if edge.goal == node}))

    def children(self, node: int) -> tuple[int, ...]:
        """The nodes that read a node."""
        return tuple(sorted({edge.goal for edge in self.edges if edge.source == node}))

    def number(self, name: str) -> int:
        """The node of a name.

        >>> import attnforge as af
        >>> graph = causal_graph(af.constructions.gate([1.0, 2.0], 0.0, -1, 1).network)
        >>> graph.parents(graph.number("L0H0"))
        (0, 1)
        """
        for i, node in enumerate(self.nodes):
            if node.name == name:
                return i
        names = ", ".join(node.name for node in self.nodes)
        raise TargetError("A node of this graph", repr(name)[:40], f"It has {names}"[:200])

    def idle(self) -> tuple[int, ...]:
        """The heads from which no path leads to an output: taking one away changes nothing."""
        alive = {i for i, node in enumerate(self.nodes) if node.kind == "output"}
        for edge in sorted(self.edges, key=lambda each: -each.goal):  # sources come before goals
            if edge.goal in alive:
                alive.add(edge.source)
        return tuple(i for i, node in enumerate(self.nodes) if node.kind == "head" and i not in alive)

    def to_data(self) -> dict[str, Any]:
        """As JSON has it: a list of nodes, and a list of edges."""
        return {"nodes": [asdict(node) for node in self.nodes], "edges": [edge._asdict() for edge in self.edges]}


def _said(node: CausalNode) -> str:
    if node.formula is not None:
        return f"{node.role}: {node.formula}"
    return node.role or ""


@dataclass(frozen=True, eq=False)
class Flow:
    """Which of the nodes so far feed each feature (m, nodes), which nodes the second input is, and edges (from, to)."""

    feeds: Flags
    second: tuple[int, ...] = ()
    edges: frozenset[tuple[int, int]] = frozenset()

    @property
    def nodes(self) -> int:
        """How many there are."""
        return int(self.feeds.shape[1])

    def sources(self, features: Flags) -> tuple[int, ...]:
        """The nodes that feed any of these features."""
        return tuple(np.flatnonzero(self.feeds[features].any(axis=0)).tolist())

    def mapped(self, layer: Linear) -> Flow:
        """After a linear map."""
        maps = [term.map for term in layer.terms]
        width = next((a.shape[-1] for a in (layer.constant, *maps) if a is not None), len(self.feeds))
        total = np.zeros((width, self.nodes), dtype=bool)
        for each in maps:
            if each is None:
                total |= self.feeds
                continue
            passes = (each != 0).reshape(-1, *each.shape[-2:]).any(axis=0)
            total |= (passes.T.astype(np.float32) @ self.feeds.astype(np.float32)) > 0
        return replace(self, feeds=total)

    def added(
        self, reads: Flags, writes: Flags | None = None, *, residual: bool = False, second: Sequence[bool] = ()
    ) -> Flow:
        """After nodes that read features ``reads`` (new nodes, m) and write ``writes`` (new nodes, m'): all where None.

        ``second`` says which of them read the second input, too; with ``residual`` features keep what fed them.
        """
        old, more = self.nodes, len(reads)
        edges = {(source, old + i) for i, row in enumerate(reads) for source in self.sources(row)}
        edges |= {(source, old + i) for i, asks in enumerate(second) if asks for source in self.second}
        written = np.ones((more, len(self.feeds)), dtype=bool) if writes is None else writes
        feeds = np.zeros((written.shape[1], old + more), dtype=bool)
        feeds[:, old:] = written.T
        if residual:
            feeds[:, :old] |= self.feeds
        return Flow(feeds, self.second, self.edges | edges)


def reads_context(head: Head) -> bool:
    """Whether its keys are tokens of the second input."""
    return head.key_rows is not None and head.key_rows.source == "context"


def writes_of(head: Head) -> Flags:
    """The features (m',) at which its output has a weight."""
    return np.asarray((head.output != 0).any(axis=0))


def causal_graph(network: Network, inputs: Sequence[str] | None = None) -> CausalGraph:
    """The graph of all heads: who reads whom, and by what.

    Args:
        network: its weights decide; names come from claims.
        inputs: a name for every feature of the input; features of one name are one node. x0, x1, .. where None.

    >>> import attnforge as af
    >>> net = af.compile("x*y*exp(-z^2)", {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}, tol=1e-3)
    >>> graph = causal_graph(net.network, "xyz")
    >>> [graph.nodes[i].name for i in graph.parents(graph.number("L1H0"))]
    ['y', 'L0H0', 'L0H1']
    """
    names = [f"x{i}" for i in range(network.features)] if inputs is None else list(inputs)
    if len(names) != network.features:
        raise TargetError(f"A name for each of {network.features} features", f"{len(names)}", "Repeat names")
    known = list(dict.fromkeys(names))
    nodes = [CausalNode("input", name) for name in known]
    feeds = np.array([[name == each for each in known] for name in names], dtype=bool)
    if network.context is not None:
        nodes.append(CausalNode("context", "context"))
        feeds = np.hstack([feeds, np.zeros((len(feeds), 1), dtype=bool)])
    flow = Flow(feeds, (len(known),) if network.context is not None else ())
    edges: list[CausalEdge] = []
    depth = 0
    for layer in network.layers:
        match layer:
            case Linear():
                flow = flow.mapped(layer)
            case Softmax():
                every = np.ones((1, len(flow.feeds)), dtype=bool)
                edges += [CausalEdge(source, len(nodes), ("features",)) for source in flow.sources(every[0])]
                nodes.append(CausalNode("softmax", f"L{depth}", depth))
                flow, depth = flow.added(every), depth + 1
            case Attention(heads, residual):
                edges += [edge for i, head in enumerate(heads) for edge in _edges(head, flow, len(nodes) + i)]
                nodes += [_node(head, depth, i) for i, head in enumerate(heads)]
                reads, writes = np.array([h.reads for h in heads]), np.array([writes_of(h) for h in heads])
                flow, depth = flow.added(reads, writes, residual=residual), depth + 1
    outputs = len(flow.feeds)
    for k in range(outputs):
        own = np.arange(outputs) == k
        edges += [CausalEdge(source, len(nodes), ("features",)) for source in flow.sources(own)]
        nodes.append(CausalNode("output", "output" if outputs == 1 else f"output {k}", None, k))
    return CausalGraph(tuple(nodes), tuple(edges))


def _node(head: Head, layer: int, index: int) -> CausalNode:
    claims = head.claims
    role, formula = (None, None) if claims is None else (claims.construction, claims.formula)
    return CausalNode("head", f"L{layer}H{index}", layer, index, role, formula)


def _edges(head: Head, flow: Flow, goal: int) -> list[CausalEdge]:
    """From every node that a head reads, with the maps that do."""
    found: dict[int, list[str]] = {}
    second = reads_context(head)
    for name in READING:
        matrix = getattr(head, name)
        if matrix is None:
            continue
        of_context = second and name != "query"
        for source in flow.second if of_context else flow.sources((matrix != 0).any(axis=1)):
            found.setdefault(source, []).append(name)
    return [CausalEdge(source, goal, tuple(by)) for source, by in sorted(found.items())]
