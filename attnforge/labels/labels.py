"""What every layer, head, key and column of a network is: from its weights, and from its claims as far as they hold."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.labels.columns import ColumnRole, Columns
from attnforge.labels.formulas import formula_errors
from attnforge.labels.places import Evidence, Places, places
from attnforge.network import Attention, Head, Layer, Linear, Network
from attnforge.targets import Box

Array = npt.NDArray[np.float64]
KeyKind = Literal["constant", "own token", "token", "context row", "tokens", "context rows"]

REGISTER = r"r\[(\d+)\]"
PLACED = ("anchor", "ghost", "sentinel", "cell", "centre", "low", "high")  # roles of keys that sit somewhere
FREE = ("tokens", "context rows")  # kinds of keys of which there may be any number
LISTED = 12  # keys of a head that are printed one by one


@dataclass(frozen=True)
class KeyLabel:
    """One key: what it is, which role it plays, where it stands, what it holds, and how that is known.

    ``kind`` is read from the weights: a constant of the head, the asking token itself, another token, all of them where
    their number is free, or rows of the second input. ``place`` are its coordinates on the forms its head names in
    ``along``; ``value`` what a constant key holds. ``evidence`` is ``weights`` where nobody claims anything, ``claim``
    where there is nothing to hold a claim against, and else ``confirmed`` or ``contradicted``: then the place is the
    one that its scores have it at, where they tell.
    """

    kind: KeyKind
    role: str
    place: tuple[float, ...] | None
    value: tuple[float, ...] | None
    evidence: Evidence

    def __str__(self) -> str:
        where = "" if self.place is None else " " + ", ".join(f"{each:.3g}" for each in self.place)
        return self.role + where + " (contradicted)" * (self.evidence == "contradicted")


@dataclass(frozen=True, eq=False)
class HeadLabel:
    """One head: what it claims to be, which columns it reads and writes, where its keys stand.

    ``queries``, ``keys_read``, ``values_read`` and ``writes`` are the names of columns with a weight. ``formula`` is
    what it claims to write, in these names where it writes one column; ``formula_error`` by how much that was off at
    points of the domain, at most, which is a measurement and no bound. ``along`` are the forms on which ``places``
    (keys, r) are coordinates, ``forms`` (r, D + 1) the same as weights and offsets of the inputs, where they are
    claimed to be of these.
    """

    layer: int
    head: int
    construction: str | None
    formula: str | None
    formula_error: float | None
    queries: tuple[str, ...]
    keys_read: tuple[str, ...]
    values_read: tuple[str, ...]
    writes: tuple[str, ...]
    along: tuple[str, ...]
    kinds: tuple[KeyKind, ...]
    roles: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    places: Array | None
    values: Array | None
    forms: Array | None

    @property
    def name(self) -> str:
        """What it claims to be; a head of one key copies."""
        copies = self.construction is None and self.kinds in (("own token",), ("constant",))
        return self.construction or ("copy" if copies else "head")

    @property
    def count(self) -> int:
        """Keys whose number is known: not the tokens of a prompt of any length."""
        return sum(kind not in FREE for kind in self.kinds)

    @property
    def keys(self) -> tuple[KeyLabel, ...]:
        """The keys in the order of attention weights: constants first; tokens of a free number are the last one."""
        return tuple(self._key(i) for i in range(len(self.roles)))

    def _key(self, i: int) -> KeyLabel:
        placed = self.places is not None and i < len(self.places) and self.roles[i] != "self"
        place = tuple(self.places[i].tolist()) if placed and self.places is not None else None
        value = tuple(self.values[i].tolist()) if self.values is not None and i < len(self.values) else None
        return KeyLabel(self.kinds[i], self.roles[i], place, value, self.evidence[i])

    def __str__(self) -> str:
        """One line: what it is, what it reads and writes, its keys."""
        what = self.name if self.formula is None else f"{self.name}: {self.formula}"
        error = "" if self.formula_error is None else f" (off by at most {self.formula_error:.1e} where tried)"
        reads = ", ".join(_grouped((*self.queries, *self.keys_read, *self.values_read))) or "nothing"
        return f"{what}{error}; reads {reads}; writes {', '.join(self.writes) or 'nothing'}; {self._keys_text()}"

    def _keys_text(self) -> str:
        along = f" along {' and '.join(self.along)}" if self.along and self.places is not None else ""
        if len(self.roles) <= LISTED:
            return ", ".join(str(key) for key in self.keys) + along
        counts = ", ".join(f"{count} {role}" for role, count in Counter(self.roles).items())
        wrong = self.evidence.count("contradicted")
        return counts + along + (f" ({wrong} contradicted)" if wrong else "")

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        keys = [
            {
                "kind": k.kind,
                "role": k.role,
                "place": _listed(k.place),
                "value": _listed(k.value),
                "evidence": k.evidence,
            }
            for k in self.keys
        ]
        lists = ("queries", "keys_read", "values_read", "writes", "along")
        plain = {name: getattr(self, name) for name in ("layer", "head", "construction", "formula", "formula_error")}
        return plain | {name: list(getattr(self, name)) for name in lists} | {"keys": keys}


@dataclass(frozen=True)
class ColumnLabel:
    """One column of a state: its name, what kind of thing it holds, the (layer, head) that wrote it last.

    ``role`` is ``input``, ``constant``, ``form`` (an affine form of others), ``register`` (written by heads) or
    ``empty``; ``formula`` is what the head that wrote it claims.
    """

    index: int
    name: str
    role: ColumnRole
    formula: str | None = None
    writers: tuple[tuple[int, int], ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        writers = [list(each) for each in self.writers]
        return {"index": self.index, "name": self.name, "role": self.role, "formula": self.formula, "writers": writers}


@dataclass(frozen=True)
class LayerLabel:
    """One layer: its kind, its heads, the columns behind it."""

    kind: Literal["linear", "attention", "softmax"]
    heads: tuple[HeadLabel, ...]
    columns: tuple[ColumnLabel, ...]

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        heads, columns = [head.to_data() for head in self.heads], [column.to_data() for column in self.columns]
        return {"kind": self.kind, "heads": heads, "columns": columns}


@dataclass(frozen=True)
class Labels:
    """What every part of a network is. Layers are all layers, linear maps too; ``attention`` are those with heads."""

    inputs: tuple[str, ...]
    layers: tuple[LayerLabel, ...]

    @property
    def attention(self) -> tuple[LayerLabel, ...]:
        """The layers of attention, as ``net.attention(x)`` and the numbers of heads count them."""
        return tuple(layer for layer in self.layers if layer.kind == "attention")

    @property
    def heads(self) -> tuple[HeadLabel, ...]:
        """All heads, layer by layer."""
        return tuple(head for layer in self.layers for head in layer.heads)

    @property
    def contradicted(self) -> tuple[tuple[int, int, int], ...]:
        """Layer, head and key of every claim that the weights contradict."""
        return tuple(
            (head.layer, head.head, k)
            for head in self.heads
            for k, found in enumerate(head.evidence)
            if found == "contradicted"
        )

    def __str__(self) -> str:
        """A line a layer, a line a head."""
        lines = [f"inputs: {', '.join(_grouped(self.inputs))}"]
        for i, layer in enumerate(self.layers):
            formulas = {c.name: f"{c.name} = {c.formula}" for c in layer.columns if c.formula is not None}
            shown = [formulas.get(name, name) for name in _grouped([c.name for c in layer.columns])]
            lines.append(f"{i}. {layer.kind}; behind it: {_shortened(shown)}")
            lines += [f"   {head.layer}.{head.head} {head}" for head in layer.heads]
        return "\n".join(lines)

    def to_data(self) -> dict[str, Any]:
        """Plain data: dicts, lists, texts, numbers."""
        return {"inputs": list(self.inputs), "layers": [layer.to_data() for layer in self.layers]}

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_data())


def labels_of(
    network: Network,
    names: Sequence[str] | None = None,
    box: Box | None = None,
    *,
    columns: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    points: Array | None = None,
) -> Labels:
    """The labels of a network.

    Args:
        network: whose weights are read, and whose claims are compared with them.
        names: of the input features.
        box: the domain of one token's inputs, outside of which ghosts stand.
        columns: names of the columns of states that are as wide, where whoever built it has given them names.
        outputs: names of the columns behind the last layer.
        points: tokens (N, n, m) at which claimed formulas are compared with what heads write.

    >>> from attnforge.network import Head, Term
    >>> keys = np.array([[-1.0, -1.0], [1.0, -1.0]])
    >>> head = Head(4 * np.eye(2), np.eye(1), memory_keys=keys, memory_values=keys[:, :1])
    >>> encode = Linear((Term(np.eye(1, 2)),), np.array([[0.0, 1.0]]))
    >>> found = labels_of(Network((encode, Attention((head,))), 1), ["x"])
    >>> print(found)
    inputs: x
    0. linear; behind it: x, 1
    1. attention; behind it: h0[0]
       0.0 head; reads x, 1; writes h0[0]; constant, constant
    """
    given = tuple(names) if names is not None else tuple(f"x{i}" for i in range(network.features))
    state = Columns.of_inputs(given, network.tokens)
    errors = {} if points is None else formula_errors(network, points)
    found: list[LayerLabel] = []
    writers: dict[int, ColumnLabel] = {}
    number = 0
    for layer in network.layers:
        heads: tuple[HeadLabel, ...] = ()
        if isinstance(layer, Linear):
            state, writers = state.after_linear(layer), {}
        elif isinstance(layer, Attention):
            after = state.after_attention(layer, _column_names(layer, number, columns))
            heads = tuple(
                _head(head, number, i, state, after, box, errors.get((number, i))) for i, head in enumerate(layer.heads)
            )
            state, writers = after, _written(heads, layer, writers if layer.residual else {})
            number += 1
        else:
            state, writers = Columns.of_inputs([f"softmax[{c}]" for c in range(state.width)], state.rows), {}
        named = outputs if layer is network.layers[-1] and outputs is not None else columns
        found.append(LayerLabel(_kind(layer), heads, _columns(state, writers, named)))
    return Labels(given, tuple(found))


def _kind(layer: Layer) -> Literal["linear", "attention", "softmax"]:
    return "linear" if isinstance(layer, Linear) else "attention" if isinstance(layer, Attention) else "softmax"


def _columns(state: Columns, written: dict[int, ColumnLabel], names: Sequence[str] | None) -> tuple[ColumnLabel, ...]:
    given = names if names is not None and len(names) == state.width else None
    found = []
    for i in range(state.width):
        label = written.get(i, ColumnLabel(i, "", "empty"))
        name = given[i] if given is not None else state.name(i)
        found.append(replace(label, name=name, role=state.role(i)))
    return tuple(found)


def _column_names(layer: Attention, number: int, given: Sequence[str] | None) -> list[str]:
    """Names of what a layer writes, one a column: registers of formulas by number, as claims count them."""
    width = layer.heads[0].output.shape[1]
    if given is not None and len(given) == width:
        return list(given)
    is_graph = all(head.claims is not None and head.claims.formula is not None for head in layer.heads)
    return [f"r[{c}]" if is_graph else f"h{number}[{c}]" for c in range(width)]


def _written(heads: Sequence[HeadLabel], layer: Attention, before: dict[int, ColumnLabel]) -> dict[int, ColumnLabel]:
    """Who wrote which column last, and what it claims to be; a formula is one head's."""
    found = dict(before)
    by_column: dict[int, list[HeadLabel]] = {}
    for label, head in zip(heads, layer.heads, strict=True):
        for c in np.flatnonzero((head.output != 0).any(axis=0)).tolist():
            by_column.setdefault(c, []).append(label)
    for c, who in by_column.items():
        formula = who[0].formula if len(who) == 1 else None
        found[c] = ColumnLabel(c, "", "register", formula, tuple((each.layer, each.head) for each in who))
    return found


def _head(
    head: Head, layer: int, number: int, state: Columns, after: Columns, box: Box | None, error: float | None
) -> HeadLabel:
    claims, found = head.claims, places(head, state)
    kinds = _kinds(head, state.rows)
    roles, claimed = _roles(head, kinds)
    read = head.key_rows is not None and head.key_rows.source == "state"
    formula = None if claims is None else claims.formula
    return HeadLabel(
        layer,
        number,
        None if claims is None else claims.construction,
        formula if formula is None or len(_names(after, head.output.T)) != 1 else _in_names(formula, state),
        error,
        _names(state, head.query),
        _names(state, head.key) if read else (),
        _names(state, head.value) if read else (),
        _names(after, head.output.T),
        () if found is None else found.along,
        kinds,
        roles,
        _evidence(head, kinds, roles, found, box, claimed),
        None if found is None else found.positions,
        head.memory_values,
        None if found is None else found.forms,
    )


def _names(state: Columns, matrix: Array | None) -> tuple[str, ...]:
    """The columns at which a map has a weight."""
    if matrix is None:
        return ()
    return tuple(state.name(c) for c in np.flatnonzero((matrix != 0).any(axis=1)).tolist())


def _in_names(formula: str, state: Columns) -> str:
    """A formula of registers in the names of columns."""

    def name(found: re.Match[str]) -> str:
        column = int(found[1])
        return state.name(column) if column < state.width else found[0]

    return re.sub(REGISTER, name, formula)


def _kinds(head: Head, rows: int | None) -> tuple[KeyKind, ...]:
    """What each key is; tokens whose number is free, and rows of a second input, are one entry."""
    kind: KeyKind = "constant"
    constant = (kind,) * head.memory_size
    if head.key_rows is None:
        return constant
    if head.key_rows.source == "context":
        claimed = 0 if head.claims is None else len(head.claims.roles) - len(constant)
        kind = "context row"
        return (*constant, *((kind,) * claimed)) if claimed > 0 else (*constant, "context rows")
    if head.key_rows.kind == "own":
        return (*constant, "own token")
    listed = rows if head.key_rows.indices is None else len(head.key_rows.indices)
    kind = "token"
    return (*constant, "tokens") if listed is None else (*constant, *((kind,) * listed))


def _roles(head: Head, kinds: tuple[KeyKind, ...]) -> tuple[tuple[str, ...], bool]:
    """The roles of keys, and whether they are claimed. A constant key beside others that holds nothing is a sink."""
    claims = head.claims
    if claims is not None and len(claims.roles) == len(kinds):
        return claims.roles, True
    if head.memory_values is None:
        return kinds, False
    empty = np.all(head.memory_values @ head.output == 0, axis=1)
    alone = len(kinds) == head.memory_size and empty.all()
    return tuple("sink" if i < len(empty) and empty[i] and not alone else kind for i, kind in enumerate(kinds)), False


def _evidence(
    head: Head, kinds: tuple[KeyKind, ...], roles: tuple[str, ...], found: Places | None, box: Box | None, claimed: bool
) -> tuple[Evidence, ...]:
    """How roles and places are known: by where the scores have a key, and by what else its role says of its numbers."""
    if not claimed:
        read: Evidence = "weights"
        return (read,) * len(roles)
    names, count = np.array(roles), 0 if found is None else len(found.positions)
    known = np.full(len(roles), "weights", dtype=object)
    if head.key_rows is not None and head.key_rows.kind != "own":
        known[np.isin(names, PLACED)] = "claim"
    if found is not None:
        known[:count] = found.evidence[: len(roles)]
    known[names == "self"] = "confirmed" if kinds[-1] == "own token" else "claim"
    if head.memory_values is not None:  # a sentinel stands for an anchor of another head, so it holds nothing
        holds = np.asarray(head.memory_values.any(axis=1))
        known[: len(holds)][(names[: len(holds)] == "sentinel") & holds] = "contradicted"
    outside = None if found is None else _outside(found, box)
    if outside is not None:
        sits = np.isin(names, ("ghost", "anchor", "cell"))
        settled = known != "claim"
        known[sits & settled & (outside != (names == "ghost"))] = "contradicted"
    evidence: list[Evidence] = known.tolist()
    return tuple(evidence)


def _outside(found: Places, box: Box | None) -> npt.NDArray[np.bool_] | None:
    """Which keys stand outside the domain along any of their forms; None where forms or domain are not known."""
    forms = found.forms
    if box is None or forms is None or forms.shape != (found.positions.shape[1], box.lower.size + 1):
        return None
    middle = forms[:, :-1] @ (box.lower / 2 + box.upper / 2) + forms[:, -1]
    reach = np.abs(forms[:, :-1]) @ (box.upper / 2 - box.lower / 2)
    slack = 1e-9 * np.maximum(reach, np.abs(middle))
    return np.asarray((np.abs(found.positions - middle) > reach + slack).any(axis=1))


def _grouped(names: Sequence[str]) -> list[str]:
    """Names, each once; the columns of a one-hot code, ``token = a`` and so on, as the one thing that they hold."""
    return list(dict.fromkeys(name.partition(" = ")[0] for name in names))


def _shortened(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return shown if len(names) <= LISTED else f"{shown}, and {len(names) - LISTED} more"


def _listed(numbers: tuple[float, ...] | None) -> list[float] | None:
    return None if numbers is None else list(numbers)
