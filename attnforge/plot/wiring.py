"""What feeds what in a network, read from its weights: inputs, heads in groups, outputs, and the edges between them.

A head reads the features at which its query, key or value map has a weight, and writes those at which its output map
has one; linear maps pass features on where they have a weight. Features that nothing feeds are constants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax
from attnforge.plot.given import network_of
from attnforge.plot.paths import LONGEST, form_text
from attnforge.plot.repetition import is_same_weights, period
from attnforge.targets import JointFunction, Target

Flags = npt.NDArray[np.bool_]

SINGLE = 10  # heads of a layer, and inputs and outputs, that have nodes of their own; more are folded into groups
GROUPS = 5  # nodes of a folded layer
REGISTER = r"r\[(\d+)\]"
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
    """The wiring so far; which nodes feed each feature (m, nodes), and which the second input."""

    nodes: tuple[Node, ...]
    stages: tuple[Stage, ...]
    edges: frozenset[tuple[int, int]]
    feeds: Flags
    second: tuple[int, ...]


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
    network = network_of(net)
    inputs = _known(network, getattr(net, "target", None))
    state = _first(network, inputs)
    size = period(network.layers) if len(network.layers) + 2 > STAGES else len(network.layers)
    for layer in network.layers[:size]:
        state = _after(state, layer, inputs)
    if size < len(network.layers):
        state = _again(state, network, size)
    state = _outputs(state, inputs)
    return _shortened(Wiring(state.nodes, state.stages, state.edges))


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
    return _State((*nodes, *second), (Stage(label, number),), frozenset(), feeds, number[len(nodes) :])


def _second(context: tuple[int | None, int]) -> Node:
    rows = "n" if context[0] is None else context[0]
    return Node("input", "X", (f"second input, ({rows}, {context[1]})",))


def _after(state: _State, layer: Layer, inputs: _Inputs) -> _State:
    match layer:
        case Linear():
            feeds = _through(layer, state.feeds)
            stage = Stage(f"linear map, {len(state.feeds)} to {len(feeds)}")
            return replace(state, stages=(*state.stages, stage), feeds=feeds)
        case Softmax():
            every = np.ones((1, len(state.feeds)), dtype=bool)
            return _added(state, "softmax", [Node("head", "softmax", (f"over {len(state.feeds)} features",))], every)
        case Attention(heads, residual):
            return _attention(state, heads, residual, inputs)


def _again(state: _State, network: Network, size: int) -> _State:
    """One node for all the blocks that follow the first and are wired alike."""
    count, same = len(network.layers) // size, is_same_weights(network.layers, size)
    blocks = "same weights" if same else "wired alike, weights differ"
    node = Node("fold", f"repeated {count:,} times", (f"{size} layer{'s' * (size > 1)} a block", blocks))
    return _added(state, f"{count:,} blocks", [node], np.ones((1, len(state.feeds)), dtype=bool))


def _attention(state: _State, heads: Sequence[Head], residual: bool, inputs: _Inputs) -> _State:
    names = [_reading(head, state.feeds, inputs, first=not _has_heads(state)) for head in heads]
    if len(heads) > 1:
        told = [head.claims is not None and head.claims.forms is not None for head in heads]
        names = [f"term in {name}" if is_term else name for name, is_term in zip(names, told, strict=True)]
    groups = _groups(heads)
    reads = np.array([np.any([_reads(heads[i]) for i in group], axis=0) for group in groups])
    writes = np.array([np.any([(heads[i].output != 0).any(axis=0) for i in group], axis=0) for group in groups])
    nodes = [_node([heads[i] for i in group], [names[i] for i in group]) for group in groups]
    asks_second = [any(_asks_second(heads[i]) for i in group) for group in groups]
    count = f"{len(heads):,} head{'s' * (len(heads) > 1)}"
    label = f"{count} + residual" if residual else f"attention, {count}"
    old, before = len(state.nodes), state.feeds
    after = _added(state, label, nodes, reads, asks_second)
    feeds = np.zeros((writes.shape[1], len(after.nodes)), dtype=bool)
    feeds[:, old:] = writes.T
    if residual:
        feeds[:, :old] |= before
    return replace(after, feeds=feeds)


def _added(
    state: _State, label: str, nodes: Sequence[Node], reads: Flags, second: Sequence[bool] | None = None
) -> _State:
    """The state with a stage of nodes that read features ``reads`` (nodes, m), and write all of them."""
    old = len(state.nodes)
    edges = set(state.edges)
    for i, row in enumerate(reads):
        edges |= {(int(source), old + i) for source in np.flatnonzero(state.feeds[row].any(axis=0))}
        if second is not None and second[i]:
            edges |= {(source, old + i) for source in state.second}
    number = tuple(range(old, old + len(nodes)))
    feeds = np.zeros((len(state.feeds), old + len(nodes)), dtype=bool)
    feeds[:, old:] = True
    return replace(
        state,
        nodes=(*state.nodes, *nodes),
        stages=(*state.stages, Stage(label, number)),
        edges=frozenset(edges),
        feeds=feeds,
    )


def _outputs(state: _State, inputs: _Inputs) -> _State:
    k = len(state.feeds)
    if k > SINGLE:
        return _added(state, "outputs", [Node("output", f"{k} outputs")], np.ones((1, k), dtype=bool))
    nodes = [Node("output", "output" if k == 1 else f"output {i}") for i in range(k)]
    label = "output" if k == 1 else "outputs"
    return _added(state, label + ", every token" * inputs.tokens, nodes, np.eye(k, dtype=bool))


def _through(layer: Linear, feeds: Flags) -> Flags:
    """What feeds every feature behind a linear map."""
    width = next((a.shape[-1] for a in (layer.constant, *(term.map for term in layer.terms)) if a is not None), None)
    total = np.zeros((len(feeds) if width is None else width, feeds.shape[1]), dtype=bool)
    for term in layer.terms:
        if term.map is None:
            total |= feeds
            continue
        passes = (term.map != 0).reshape(-1, *term.map.shape[-2:]).any(axis=0)
        total |= (passes.T.astype(np.float32) @ feeds.astype(np.float32)) > 0
    return total


def _reads(head: Head) -> Flags:
    """Which features of its tokens the head reads."""
    read = (head.query != 0).any(axis=1)
    if head.key_rows is not None and head.key_rows.source == "state" and head.key is not None:
        read = read | (head.key != 0).any(axis=1)
        read = read | (head.value != 0).any(axis=1) if head.value is not None else read
    return np.asarray(read)


def _asks_second(head: Head) -> bool:
    return head.key_rows is not None and head.key_rows.source == "context"


def _has_heads(state: _State) -> bool:
    return any(node.kind == "head" for node in state.nodes)


def _reading(head: Head, feeds: Flags, inputs: _Inputs, *, first: bool) -> str:
    """What a head is a function of, in words: inputs, a form of them, or the unit whose value it reads.

    Of a graph of registers, which formula of which inputs and registers it writes.
    """
    claims, size = head.claims, inputs.size
    names = inputs.names or tuple(f"x{i}" for i in range(size))
    if claims is not None and claims.formula is not None:
        written = np.flatnonzero((head.output != 0).any(axis=0))
        return f"r[{written[0]}] = {re.sub(REGISTER, lambda found: _register(int(found[1]), names), claims.formula)}"
    if first and claims is not None and claims.forms is not None and claims.forms.shape[1] == size + 1:
        if np.count_nonzero(claims.forms[:, :-1], axis=1).max() > LONGEST:
            return f"{_used(claims.forms)} inputs"
        return _several([form_text(form[:-1], float(form[-1]), names) for form in claims.forms])
    if first and claims is not None and claims.positions.ndim == 2 and claims.positions.shape[1] == size:
        return "X, Y" if inputs.joint else _several(names)
    units = np.flatnonzero(_reads(head) & feeds.any(axis=1))
    varying = int(feeds.any(axis=1).sum())
    if len(units) == 1:
        return f"unit {int(units[0])}" if varying > 1 else "w · x + t"
    features = f"{varying} feature{'s' * (varying != 1)}"
    return f"{len(units)} of {features}" if len(units) < varying else features


def _register(number: int, names: Sequence[str]) -> str:
    """An input by its name, another register by its number."""
    return names[number - 1] if 0 < number <= len(names) else f"r[{number}]"


def _several(words: Sequence[str]) -> str:
    return ", ".join(words) if len(words) <= 3 else f"{len(words)} inputs"


def _used(forms: Any) -> int:
    return int((forms[:, :-1] != 0).any(axis=0).sum())


def _groups(heads: Sequence[Head]) -> list[list[int]]:
    """Numbers of the heads of every node."""
    if len(heads) <= SINGLE:
        return [[i] for i in range(len(heads))]
    ordered = sorted(range(len(heads)), key=lambda i: _name(heads[i]))
    groups = [list(group) for _, group in groupby(ordered, key=lambda i: _name(heads[i]))]
    groups.sort(key=lambda group: group[0])
    if len(groups) <= GROUPS:
        return groups
    return [*groups[: GROUPS - 1], [i for group in groups[GROUPS - 1 :] for i in group]]


def _name(head: Head) -> str:
    return "copy" if head.claims is None and _keys(head) == 1 else "head" if head.claims is None else _claimed(head)


def _claimed(head: Head) -> str:
    return (head.claims.construction if head.claims is not None else "") or "head"


def _keys(head: Head) -> int:
    own = 1 if head.key_rows is not None and head.key_rows.kind == "own" else 0
    return len(head.claims.positions) if head.claims is not None else head.memory_size + own


def _node(heads: Sequence[Head], readings: Sequence[str]) -> Node:
    names = list(dict.fromkeys(_name(head) for head in heads))
    name = names[0] if len(names) == 1 else "other"
    keys = _key_counts(heads)
    if len(heads) == 1:
        return Node("head", name, (readings[0], *keys))
    return Node("head", f"{len(heads):,} heads: {name}", (_together(readings), *keys))


def _key_counts(heads: Sequence[Head]) -> tuple[str, ...]:
    counts = sorted({_keys(head) for head in heads} - {0})
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
