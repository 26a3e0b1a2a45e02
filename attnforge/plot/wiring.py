"""What feeds what in a network, read from its weights: inputs, heads in groups, outputs, and the edges between them.

Who reads whom is :mod:`attnforge.network.causal`'s; here heads are put into groups, and described in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.labels import LONGEST, HeadLabel, LayerLabel, form_text, target_labels
from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax
from attnforge.network.causal import Flow, reads_context, writes_of
from attnforge.plot.given import network_of
from attnforge.plot.repetition import is_same_weights, period
from attnforge.targets import JointFunction, Target

Flags = npt.NDArray[np.bool_]

SINGLE = 10  # heads of a layer, and inputs and outputs, that have nodes of their own; more are folded into groups
GROUPS = 5  # nodes of a folded layer
STAGES = 14  # stages shown; of deeper networks the first and the last ones
FIRST, LAST = 7, 5


@dataclass(frozen=True)
class Node:
    """A box of the graph: what it is (``input``, ``head``, ``fold``, ``output``), its name and further lines."""

    kind: str
    name: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Nodes side by side, by their number, with a name for all of them; linear maps have no nodes."""

    name: str
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wiring:
    """All nodes, the stages from inputs to outputs, and edges (from, to)."""

    nodes: tuple[Node, ...]
    stages: tuple[Stage, ...]
    edges: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class _Inputs:
    """What is known of the inputs: their names, how many numbers they are, whether they are tokens, whether two."""

    names: tuple[str, ...] | None
    size: int
    tokens: bool
    joint: bool


@dataclass(frozen=True, eq=False)
class _State:
    """The wiring so far, and which of its nodes feed each feature."""

    nodes: tuple[Node, ...]
    stages: tuple[Stage, ...]
    flow: Flow


def wiring(net: Any) -> Wiring:
    """The graph of a network: one node a head in layers of up to ten, else one for the heads that claim alike.

    Of deep networks whose blocks of layers repeat, as the steps of an algorithm do, the first block stands for all.

    Args:
        net: a network, or what holds one; where it holds a target too, inputs have their names.

    >>> import attnforge as af
    >>> found = wiring(af.constructions.gate([1.0, 2.0], 0.0, -1, 1))
    >>> [found.nodes[i].name for stage in found.stages for i in stage.nodes], len(found.edges)
    (['x0', 'x1', 'gate', 'output'], 3)
    """
    network, target = network_of(net), getattr(net, "target", None)
    inputs = _known(network, target)
    state = _first(network, inputs)
    size = period(network.layers) if len(network.layers) + 2 > STAGES else len(network.layers)
    labels = target_labels(replace(network, layers=network.layers[:size]), target)
    for layer, label in zip(network.layers, labels.layers, strict=False):
        state = _after(state, layer, label, inputs)
    if size < len(network.layers):
        state = _again(state, network, size)
    state = _outputs(state, inputs)
    return _shortened(Wiring(state.nodes, state.stages, state.flow.edges))


def _known(network: Network, target: Target | None) -> _Inputs:
    if target is None:
        return _Inputs(None, network.features, network.tokens != 1, False)
    joint = isinstance(target, JointFunction)
    return _Inputs(target.names, target.domain.lower.size, target.layout == "tokens", joint)


def _first(network: Network, inputs: _Inputs) -> _State:
    """A node an input; one for all of them where there are many, or several tokens."""
    d, tokens = network.features, network.tokens
    second = () if network.context is None else (_second(network.context),)
    several = inputs.tokens and tokens not in (None, 1)
    if several or d > SINGLE - len(second):
        shape = f"{tokens} tokens of {d} features" if several else f"{d} features"
        nodes: tuple[Node, ...] = (Node("input", "sequence" if several else "inputs", (shape,)),)
        feeds = np.ones((d, 1), dtype=bool)
    else:
        names = ("Y",) if second and d == 1 else inputs.names if inputs.names and len(inputs.names) == d else None
        nodes = tuple(Node("input", name) for name in names or [f"x{i}" for i in range(d)])
        feeds = np.eye(d, dtype=bool)
    number = tuple(range(len(nodes) + len(second)))
    feeds = np.hstack([feeds, np.zeros((d, len(second)), dtype=bool)])
    label = "inputs, every token" if inputs.tokens and tokens is None else "inputs"
    return _State((*nodes, *second), (Stage(label, number),), Flow(feeds, number[len(nodes) :]))


def _second(context: tuple[int | None, int]) -> Node:
    rows = "n" if context[0] is None else context[0]
    return Node("input", "X", (f"second input, ({rows}, {context[1]})",))


def _after(state: _State, layer: Layer, label: LayerLabel, inputs: _Inputs) -> _State:
    match layer:
        case Linear():
            flow = state.flow.mapped(layer)
            stage = Stage(f"linear map, {len(state.flow.feeds)} to {len(flow.feeds)}")
            return replace(state, stages=(*state.stages, stage), flow=flow)
        case Softmax():
            width = len(state.flow.feeds)
            node = Node("head", "softmax", (f"over {width} features",))
            return _added(state, "softmax", [node], np.ones((1, width), dtype=bool))
        case Attention(heads, residual):
            return _attention(state, list(zip(heads, label.heads, strict=True)), residual, inputs)


def _again(state: _State, network: Network, size: int) -> _State:
    """One node for all the blocks that follow the first and are wired alike."""
    count, same = len(network.layers) // size, is_same_weights(network.layers, size)
    blocks = "same weights" if same else "wired alike, weights differ"
    node = Node("fold", f"repeated {count:,} times", (f"{size} layer{'s' * (size > 1)} a block", blocks))
    return _added(state, f"{count:,} blocks", [node], np.ones((1, len(state.flow.feeds)), dtype=bool))


def _attention(state: _State, given: Sequence[tuple[Head, HeadLabel]], residual: bool, inputs: _Inputs) -> _State:
    heads, labels = [head for head, _ in given], [label for _, label in given]
    names = [_reading(*each, state.flow.feeds, inputs, first=not _has_heads(state)) for each in given]
    if len(heads) > 1:
        told = [_is_term(label, inputs) for label in labels]
        names = [f"term in {name}" if is_term else name for name, is_term in zip(names, told, strict=True)]
    groups = _groups(labels)
    reads = np.array([np.any([heads[i].reads for i in group], axis=0) for group in groups])
    writes = np.array([np.any([writes_of(heads[i]) for i in group], axis=0) for group in groups])
    second = [any(reads_context(heads[i]) for i in group) for group in groups]
    nodes = [_node([labels[i] for i in group], [names[i] for i in group]) for group in groups]
    count = f"{len(heads):,} head{'s' * (len(heads) > 1)}"
    label = f"{count} + residual" if residual else f"attention, {count}"
    return _with(state, label, nodes, state.flow.added(reads, writes, residual=residual, second=second))


def _added(state: _State, label: str, nodes: Sequence[Node], reads: Flags) -> _State:
    """The state with a stage of nodes that read features ``reads`` (nodes, m), and write all of them."""
    return _with(state, label, nodes, state.flow.added(reads))


def _with(state: _State, label: str, nodes: Sequence[Node], flow: Flow) -> _State:
    """The state with a stage of nodes, which the flow has already."""
    stage = Stage(label, tuple(range(len(state.nodes), len(state.nodes) + len(nodes))))
    return _State((*state.nodes, *nodes), (*state.stages, stage), flow)


def _outputs(state: _State, inputs: _Inputs) -> _State:
    k = len(state.flow.feeds)
    if k > SINGLE:
        return _added(state, "outputs", [Node("output", f"{k} outputs")], np.ones((1, k), dtype=bool))
    nodes = [Node("output", "output" if k == 1 else f"output {i}") for i in range(k)]
    label = "output" if k == 1 else "outputs"
    return _added(state, label + ", every token" * inputs.tokens, nodes, np.eye(k, dtype=bool))


def _has_heads(state: _State) -> bool:
    return any(node.kind == "head" for node in state.nodes)


def _is_term(label: HeadLabel, inputs: _Inputs) -> bool:
    """Whether its keys stand along forms of the inputs, or along some of these."""
    size, forms = inputs.size, label.forms
    return forms is not None and not (len(forms) == size and np.array_equal(forms, np.eye(size, size + 1)))


def _reading(head: Head, label: HeadLabel, feeds: Flags, inputs: _Inputs, *, first: bool) -> str:
    """What a head is a function of, in words: inputs, a form of them, or the unit whose value it reads.

    Of a graph of registers, which formula of which inputs and registers it writes.
    """
    forms, size = label.forms, inputs.size
    names = inputs.names or tuple(f"x{i}" for i in range(size))
    if label.formula is not None:
        return f"{label.writes[0]} = {label.formula}"
    if first and forms is not None and _is_term(label, inputs) and forms.shape[1] == size + 1:
        if np.count_nonzero(forms[:, :-1], axis=1).max() > LONGEST:
            return f"{_used(forms)} inputs"
        return _several([form_text(form[:-1], float(form[-1]), names) for form in forms])
    if first and forms is not None and len(forms) == size:
        return "X, Y" if inputs.joint else _several(names)
    units = np.flatnonzero(head.reads & feeds.any(axis=1))
    varying = int(feeds.any(axis=1).sum())
    if len(units) == 1:
        return f"unit {int(units[0])}" if varying > 1 else "w · x + t"
    features = f"{varying} feature{'s' * (varying != 1)}"
    return f"{len(units)} of {features}" if len(units) < varying else features


def _several(words: Sequence[str]) -> str:
    return ", ".join(words) if len(words) <= 3 else f"{len(words)} inputs"


def _used(forms: Any) -> int:
    return int((forms[:, :-1] != 0).any(axis=0).sum())


def _groups(heads: Sequence[HeadLabel]) -> list[list[int]]:
    """Numbers of the heads of every node."""
    if len(heads) <= SINGLE:
        return [[i] for i in range(len(heads))]
    ordered = sorted(range(len(heads)), key=lambda i: heads[i].name)
    groups = [list(group) for _, group in groupby(ordered, key=lambda i: heads[i].name)]
    groups.sort(key=lambda group: group[0])
    if len(groups) <= GROUPS:
        return groups
    return [*groups[: GROUPS - 1], [i for group in groups[GROUPS - 1 :] for i in group]]


def _node(heads: Sequence[HeadLabel], readings: Sequence[str]) -> Node:
    names = list(dict.fromkeys(head.name for head in heads))
    name = names[0] if len(names) == 1 else "other"
    keys = _key_counts(heads)
    if len(heads) == 1:
        return Node("head", name, (readings[0], *keys))
    return Node("head", f"{len(heads):,} heads: {name}", (_together(readings), *keys))


def _key_counts(heads: Sequence[HeadLabel]) -> tuple[str, ...]:
    counts = sorted({head.count for head in heads} - {0})
    if not counts:
        return ()
    if len(counts) > 1:
        return (f"{counts[0]:,} to {counts[-1]:,} keys",)
    return (f"{counts[0]:,} key{'s' * (counts[0] != 1)}" + " each" * (len(heads) > 1),)


def _together(readings: Sequence[str]) -> str:
    """What several heads read: how many units, or how many forms."""
    kinds = set(readings)
    if len(kinds) == 1:
        return readings[0]
    if all(reading.startswith("unit ") for reading in kinds):
        numbers = sorted(int(reading.removeprefix("unit ")) for reading in kinds)
        return f"units {numbers[0]} to {numbers[-1]}"
    return f"{len(kinds):,} terms"


def _shortened(found: Wiring) -> Wiring:
    """The first and the last stages of a deep network, with one node for all between them."""
    if len(found.stages) <= STAGES:
        return found
    hidden = found.stages[FIRST:-LAST]
    gone = {i for stage in hidden for i in stage.nodes}
    heads = sum(found.nodes[i].kind == "head" for i in gone)
    fold = len(found.nodes)
    node = Node("fold", f"{len(hidden)} more layers", (f"{heads:,} nodes",) if heads else ())
    stages = (*found.stages[:FIRST], Stage("…", (fold,)), *found.stages[-LAST:])
    moved = {(fold if a in gone else a, fold if b in gone else b) for a, b in found.edges}
    return Wiring((*found.nodes, node), stages, frozenset(edge for edge in moved if edge[0] != edge[1]))
