r"""What a block of attention does to the tokens of a prompt, in exact numbers.

A head is known by its tables of products: $W_Q W_K^\top$ between features of the asking and the told token, $W_V W_O$
from features of the told token to what is written, and the same of its constant keys. Every entry must be one product
of two weights, kept as a fraction. A block is understood when each head's tables hold the entries that its place in the
iteration asks for, and nothing else; whatever is left over is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.certification.checker.questions import BeyondReachError
from attnforge.network import Attention, Head, Layer, Linear, Rows
from attnforge.targets.in_context import Features

Array = npt.NDArray[np.float64]
Table = dict[tuple[int, int], Fraction]
FLAGS = ("first", "mirrored", "state")


@dataclass(frozen=True)
class Gate:
    """Adds ``factor`` clamp(z, -reach, reach), its scores ``beta`` (-z - reach), 0 and ``beta`` (z - reach)."""

    beta: Fraction
    reach: Fraction
    factor: Fraction


@dataclass(frozen=True)
class Pair:
    """Writes ``high`` sigma(s) + ``low`` (1 - sigma(s)), s = ``form`` w.x + ``label`` y.

    ``exact``: its values are powers of two, so that products by them are exact.
    """

    form: Fraction
    label: Fraction
    high: Fraction
    low: Fraction
    exact: bool


@dataclass(frozen=True)
class Sides:
    """Writes ``factor`` times the softmax of the states' w.x beside a key of score ``rival``, or ``outside``."""

    rival: Fraction
    outside: Fraction
    factor: Fraction


@dataclass(frozen=True)
class Anchors:
    """Scores ``beta`` (2 (w.x - y) L - L^2), y only with ``label``; w arrives ``scale`` times tanh(tilt)."""

    beta: Fraction
    label: bool
    scale: Fraction


@dataclass(frozen=True, eq=False)
class Block:
    """One step: ``link``, then ``clamp``, then ``sums`` (beta, factor), ``decays`` of each weight, then ``gates``."""

    heads: tuple[Head, ...]
    sums: tuple[tuple[Fraction, Fraction], ...]
    silence: Fraction
    decays: tuple[tuple[Fraction, ...], ...]
    gates: tuple[Gate | None, ...]
    link: Pair | Sides | Anchors | None = None
    clamp: Gate | None = None


class _Head:
    """A head's tables, from which entries are taken; where it stands is said in errors."""

    def __init__(self, head: Head, place: str) -> None:
        self.head, self.place = head, place
        keys, values = head.memory_keys, head.memory_values
        self.scores, self.writes = self._table(head.query, head.key), self._table(head.value, head.output.T)
        self.constant = self._table(keys, head.query) if keys is not None else {}
        self.written = self._table(values, head.output.T) if values is not None else {}

    def _table(self, left: Array | None, right: Array | None) -> Table:
        found: Table = {}
        if left is None or right is None:
            return found
        for c in range(left.shape[1]):
            for i in np.flatnonzero(left[:, c]).tolist():
                for j in np.flatnonzero(right[:, c]).tolist():
                    self.want((i, j) not in found, "has one product of weights an entry")
                    found[i, j] = Fraction(left[i, c]) * Fraction(right[j, c])
        return found

    def want(self, condition: bool, requirement: str) -> None:
        if not condition:
            raise BeyondReachError(f"The checker understands blocks where {self.place} {requirement}", "another one")

    def take(self, table: Table, rows: Iterable[int], columns: Iterable[int]) -> Fraction:
        """The number that all these entries are, which are taken off the table."""
        found = {table.pop(pair, Fraction(0)) for pair in zip(rows, columns, strict=True)}
        self.want(len(found) == 1, "has the same number in all entries of a feature")
        return found.pop()

    def done(self) -> None:
        """Nothing may be left."""
        left = [name for name in ("scores", "writes", "constant", "written") if getattr(self, name)]
        self.want(not left, f"has no other {' and '.join(left)}")

    def between(self, asking: Sequence[int] | None, told: Sequence[int] | str) -> bool:
        rows = self.head.key_rows
        if rows is None or rows.source != "state" or not _lists(self.head.query_rows, asking):
            return False
        return rows.kind == told if isinstance(told, str) else _lists(rows, told)

    @property
    def own(self) -> bool:
        """Whether its only key is its token: then its scores do not matter."""
        return self.head.key_rows is not None and self.head.key_rows.kind == "own" and self.head.memory_size == 0


def _lists(rows: Rows, wanted: Sequence[int] | None) -> bool:
    return (None if rows.indices is None else rows.indices.tolist()) == (None if wanted is None else list(wanted))


def read(layers: Sequence[Layer], features: Features) -> Block:
    """The step these layers take, or BeyondReachError."""
    at = {name: range(where.start, where.stop) for name, where in features.slices.items()}
    states, anchors = range(features.states), range(features.states, features.ahead)
    rest = list(layers)
    link: Pair | Sides | Anchors | None = None
    clamp = None
    if rest and isinstance(rest[0], Linear):
        _check_cleared(rest[0], features)
        del rest[0]
        if features.levels:
            scale = _copies(_heads(rest, "the layer of copies"), at, states, anchors)
            link = _anchors(_heads(rest, "the layer of links"), at, anchors, scale)
        else:
            found = _heads(rest, "the layer of links")
            link = _pair(found[0], at) if len(found) == 1 else _sides(found, at, features.outputs)
            if isinstance(link, Pair) and link.label:
                clamp = _clamp(_heads(rest, "the layer of clamps"), at)
    sums, silences, decays = [], [], [[] for _ in at["w"]]  # type: ignore[var-annotated]
    for head in _heads(rest, "the layer of sums"):
        head.want(head.head.query_rows.indices is not None and _lists(head.head.query_rows, states), "asks for states")
        if head.own:
            for j, i in enumerate(at["w"]):
                decays[j].append(head.take(head.writes, [i], [i]))
            head.scores = {}
        else:
            head.want(head.between(states, "all"), "sums over all tokens")
            names = (("w", "x"), ("unit", "y")) if link is None else (("unit", "residual"), ("unit", "y"))
            beta, of_y = (head.take(head.scores, at[a], at[b]) for a, b in names)
            head.want(of_y == -beta, "scores residuals less y")
            silences.append(-head.take(head.scores, at["state"], at["state"]))
            sums.append((beta, head.take(head.writes, at["x"], at["w"])))
        head.done()
    gates: list[Gate | None] = [None] * features.inputs
    for head in _heads(rest, "the proximal layer") if rest else []:
        head.want(head.between(states, "own"), "asks for the states' own")
        place = next((j for j, i in enumerate(at["w"]) if (i, i) in head.writes and gates[j] is None), None)
        head.want(place is not None, "gates every weight once")
        assert place is not None
        gates[place] = _gate(head, at["w"][place], at)
    if rest or not sums:
        raise BeyondReachError("The checker understands blocks of links, sums and gates", f"{len(rest)} more layers")
    heads = tuple(head for layer in layers if isinstance(layer, Attention) for head in layer.heads)
    kept = tuple(tuple(each) for each in decays)
    return Block(heads, tuple(sums), min(silences), kept, tuple(gates), link, clamp)


def _heads(rest: list[Layer], what: str) -> list[_Head]:
    layer = rest.pop(0) if rest else None
    if not isinstance(layer, Attention) or not layer.residual:
        raise BeyondReachError(f"The checker understands blocks where {what} is attention with a residual", "another")
    return [_Head(head, f"{what}, head {i},") for i, head in enumerate(layer.heads)]


def _check_cleared(layer: Linear, features: Features) -> None:
    keep = np.ones(features.width)
    for name in ("residual", "scaled"):
        keep[features.slices.get(name, slice(0, 0))] = 0.0
    one = len(layer.terms) == 1 and layer.constant is None and layer.terms[0].mix is None
    found = layer.terms[0].map if one else None
    if found is None or not np.array_equal(found, np.diag(keep)):
        raise BeyondReachError("The checker understands linear maps that empty the workspace", "another map")


def _gate(head: _Head, i: int, at: dict[str, range]) -> Gate:
    """Two constant keys beside the token's own, of score 0."""
    factor = head.take(head.writes, [i], [i])
    head.want(head.head.memory_size == 2 and factor != 0, "gates with two constant keys")
    steep = [head.take(head.constant, [k], [i]) for k in (0, 1)]
    offsets = [head.take(head.constant, [k] * 3, [at[flag][0] for flag in FLAGS]) for k in (0, 1)]
    values = [head.take(head.written, [k], [i]) / factor for k in (0, 1)]
    beta, reach = max(steep), max(values)
    signs = {(s, v) for s, v in zip(steep, values, strict=True)}
    head.want(beta > 0 and reach > 0 and signs == {(-beta, -reach), (beta, reach)}, "gates both sides alike")
    head.want(offsets == [-beta * reach] * 2, "gates at the value it writes")
    head.done()
    return Gate(beta, reach, factor)


def _clamp(heads: list[_Head], at: dict[str, range]) -> Gate:
    """The workspace s becomes clamp(s) + y."""
    found = None
    for head in heads:
        head.want(head.between(None, "own"), "is every token's own")
        if head.own:
            taken, given = (head.take(head.writes, at[name], at["residual"]) for name in ("residual", "y"))
            head.want(taken == -1 and given == 1, "replaces s by y")
            head.scores = {}
            head.done()
        else:
            found = _gate(head, at["residual"][0], at)
    if len(heads) != 2 or found is None or found.factor != 1:
        raise BeyondReachError("The checker understands clamps of two heads, one a gate", f"{len(heads)} heads")
    return found


def _pair(head: _Head, at: dict[str, range]) -> Pair:
    """Every token against the first state token and a constant key of score zero."""
    head.want(head.between(None, [0]) and head.head.memory_size == 1, "meets one state and one constant")
    form, label = head.take(head.scores, at["x"], at["w"]), head.take(head.scores, at["y"], at["unit"])
    high, low = head.take(head.writes, at["unit"], at["residual"]), head.take(head.written, [0], at["residual"])
    head.done()
    assert head.head.value is not None
    assert head.head.memory_values is not None
    values = np.concatenate([head.head.value.ravel(), head.head.memory_values.ravel()])
    return Pair(form, label, high, low, bool((np.abs(np.frexp(values[values != 0])[0]) == 0.5).all()))


def _sides(heads: list[_Head], at: dict[str, range], outputs: int) -> Sides:
    """A head for examples and one for mirror images, that write opposite signs; powers of two and nothing else."""
    found: dict[bool, Sides] = {}
    for head in heads:
        head.want(head.between(None, range(outputs)) and head.head.memory_size == 1, "meets states and one constant")
        head.want(head.take(head.scores, at["plain"], at["w"]) == 1, "reads w.x once")
        factor = head.take(head.writes, at["unit"], at["residual"])
        sides = [head.take(head.constant, [0], at[flag]) for flag in ("first", "mirrored")]
        rival, outside = sides if factor > 0 else sides[::-1]
        found[factor > 0] = Sides(rival, outside, abs(factor))
        head.done()
    if len(heads) != 2 or len(found) != 2 or found[True] != found[False]:
        raise BeyondReachError("The checker understands one-sided links of two heads alike", f"{len(heads)} heads")
    return found[True]


def _copies(heads: list[_Head], at: dict[str, range], states: range, anchors: range) -> Fraction:
    head = heads[0]
    head.want(len(heads) == 1 and head.between(anchors, states) and not head.constant, "copies the state alone")
    head.want(head.head.memory_size == 0, "has no constant keys")
    head.want(head.take(head.scores, at["tilt"], at["unit"]) == 1, "weighs states by the tilt")
    scale = head.take(head.writes, at["w"], at["scaled"])
    head.done()
    return scale


def _anchors(heads: list[_Head], at: dict[str, range], anchors: range, scale: Fraction) -> Anchors:
    """One head reads the row; where it has y in its scores another adds y."""
    found, added = [], Fraction(0)
    for head in heads:
        if head.own:
            head.want(head.between(None, "own"), "is every token's own")
            added += head.take(head.writes, at["y"], at["residual"])
            head.scores = {}
        else:
            head.want(head.between(None, anchors) and head.head.memory_size == 0, "reads the anchors alone")
            beta = -head.take(head.scores, [at["first"][0], at["mirrored"][0]], [at["square"][0]] * 2)
            label = head.take(head.scores, at["y"], at["level"])
            head.want(head.take(head.scores, at["x"], at["scaled"]) == 2 * beta, "scores 2 s L - L^2")
            head.want(label in (0, -2 * beta) and beta > 0, "scores 2 s L - L^2 with a positive sharpness")
            head.want(head.take(head.writes, at["answer"], at["residual"]) == 1, "writes the answers once")
            found.append(Anchors(beta, label != 0, scale))
        head.done()
    if len(found) != 1 or len(heads) > 2 or added != found[0].label:
        raise BeyondReachError("The checker understands one head of anchors, and one that adds y", f"{len(heads)}")
    return found[0]
