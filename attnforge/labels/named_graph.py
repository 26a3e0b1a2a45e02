"""The causal graph of a network in the words of its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnforge.labels.labels import Labels
from attnforge.network import CausalGraph, Network, causal_graph


def named_graph(network: Network, labels: Labels, inputs: Sequence[str] | None = None) -> CausalGraph:
    """Who reads whom, from the weights; heads say what they write in the names of columns.

    Args:
        network: whose weights decide on nodes and edges.
        labels: its labels.
        inputs: a name for every feature of the input, where those of the labels are too fine.
    """
    graph = causal_graph(network, labels.inputs if inputs is None else inputs)
    heads = iter(labels.heads)  # in the order of the graph's: layer by layer
    nodes = [
        replace(node, role=(label := next(heads)).construction, formula=label.formula) if node.kind == "head" else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))
