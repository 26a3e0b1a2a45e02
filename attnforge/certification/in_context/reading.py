r"""What a block of attention does to the tokens of a prompt, read from its numbers.

A head is known by four matrices over the features of a token (:mod:`attnforge.targets.in_context.features`): scores
$z_q^\top W_Q W_K^\top z_k$ between tokens, scores $z_q^\top W_Q k$ of its constant keys, and what it writes,
$W_V W_O$ of tokens and $v W_O$ of constant keys. Between named features each of them must be diagonal; anything else is
refused with the place. What is left are a few numbers a head, from which the bounds are computed: nothing is compared
with what some builder would have written.

Products of two weights are rounded to nearest once; the bounds charge one more rounding for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Layer, Linear
from attnforge.targets.in_context.features import Features

Array = npt.NDArray[np.float64]
Blocks = dict[tuple[str, str], Array]
Parts = dict[str, Array]

KEPT = ("x", "plain", "y", "unit", "first", "mirrored", "state", "tilt", "level", "square", "answer")
"""Features that no head may change."""

WRITTEN = {("unit", "residual")}
"""What links of state tokens write."""


@dataclass(frozen=True, eq=False)
class Wires:
    """A head between named features: ``scores`` and ``writes`` of tokens, of constant keys one dictionary each."""

    head: Head
    scores: Blocks
    writes: Blocks
    memory_scores: tuple[Parts, ...]
    memory_writes: tuple[Parts, ...]

    def is_between(self, queries: Sequence[int] | None, keys: Sequence[int] | str | None) -> bool:
        """Whether these rows ask (None: all) and these are attended to: indices, "all", "own", or None for none."""
        rows = self.head.key_rows
        if not _same(self.head.query_rows.indices, queries):
            return False
        if rows is None or keys is None:
            return rows is None and keys is None
        if rows.source != "state":
            return False
        return rows.kind == keys if isinstance(keys, str) else _same(rows.indices, keys)

    def expect(
        self, what: str, queries: Sequence[int] | None, keys: Sequence[int] | str | None, memory: int,
        scores: Sequence[set[tuple[str, str]]], writes: set[tuple[str, str]],
    ) -> None:  # fmt: skip
        """Raise unless these rows ask these, beside so many constant keys, with one of these scores, to write these."""
        fits = self.is_between(queries, keys) and len(self.memory_scores) == memory
        _expect(fits and set(self.scores) in scores and set(self.writes) == writes, what, self)


@dataclass(frozen=True)
class Pair:
    """A token against one constant key: from s = form w.x + label y to ``high`` sigma(s) + ``low`` (1 - sigma(s)).

    ``is_exact`` where values are powers of two, so that their products with weights are not rounded.
    """

    form: float
    label: float
    high: float
    low: float
    is_exact: bool


@dataclass(frozen=True)
class OneSided:
    """Heads for examples and for mirror images: what state tokens of score w.x weigh beside a key of score ``rival``.

    ``outside`` is the score of the key that silences a head on the other side's tokens, ``factor`` what it writes.
    """

    rival: float
    outside: float
    factor: float


@dataclass(frozen=True)
class Interpolated:
    """A row of anchors: scores beta (2 s L - L^2), s = w.x, or w.x - y with ``label``; copies of w times 2 ``scale``.

    ``outside`` silences one-sided heads on the other side's tokens; None where one head serves both sides.
    """

    beta: float
    label: bool
    scale: float
    outside: float | None


@dataclass(frozen=True)
class Gate:
    """Adds ``factor`` times clamp(z, -reach, reach), its scores ``beta`` steep."""

    beta: float
    reach: float
    factor: float


@dataclass(frozen=True, eq=False)
class Step:
    """One block: residuals by ``link`` (None: read directly), cut by ``clamp``; then aggregation, decay and gates.

    ``heads`` are (beta, factor) of the aggregation heads, ``silence`` the score that keeps other tokens out, ``decay``
    (d,) what is added to w in units of w, ``gates`` one for each coordinate of w or None, ``width`` the number of
    products in a score, ``idle`` what links leave in the workspace of other tokens, ``weights`` all its heads.
    """

    heads: tuple[tuple[float, float], ...]
    silence: float
    decay: Array
    gates: tuple[Gate | None, ...]
    link: Pair | OneSided | Interpolated | None = None
    clamp: Gate | None = None
    width: int = field(default=0)
    idle: float = 0.0
    weights: tuple[Head, ...] = ()


def read_block(layers: Sequence[Layer], features: Features) -> Step:
    """The step that these layers compute; a CertificateError that says what is not understood."""
    rest = list(layers)
    link: Pair | OneSided | Interpolated | None = None
    clamp, idle = None, 0.0
    if rest and isinstance(rest[0], Linear):
        _check_cleared(rest[0], features)
        del rest[0]
        link, clamp, idle = _links(rest, features)
    if not rest:
        raise CertificateError("A block ends with a layer that sums over the examples", "none", "Rebuild the network")
    update = _wires(rest.pop(0), features, "the layer that sums over the examples")
    gates: tuple[Gate | None, ...] = (None,) * features.inputs
    if rest:
        gates = _proximal(_wires(rest.pop(0), features, "the proximal layer"), features)
    if rest:
        raise CertificateError("A block has residuals, a sum over examples and gates", f"{len(rest)} more layers")
    width = max(head.head.query.shape[1] for head in update)
    heads, silence, decay = _update(update, features, link)
    weights = tuple(head for layer in layers if isinstance(layer, Attention) for head in layer.heads)
    return Step(heads, silence, decay, gates, link, clamp, width, idle, weights)


def _links(rest: list[Layer], features: Features) -> tuple[Pair | OneSided | Interpolated | None, Gate | None, float]:
    """What the layers before the sum over examples make of the workspace; they are taken from ``rest``."""
    if features.levels:
        scale = _copies(_next(rest, features, "the layer that copies the state"), features)
        heads = _next(rest, features, "the layer of links")
        return _interpolated(heads, scale, features), None, _idle(heads, features)
    heads = _next(rest, features, "the layer of links")
    if len(heads) == 1:
        pair = _pair(heads[0], features)
        if not pair.label:
            return pair, None, _idle(heads, features)
        return pair, _clamped(_next(rest, features, "the layer of clamps"), features), _idle(heads, features)
    return _one_sided(heads, features), None, _idle(heads, features)


def _next(rest: list[Layer], features: Features, what: str) -> list[Wires]:
    if not rest:
        raise CertificateError(f"A block has {what}", "no more layers", "Rebuild the network")
    return _wires(rest.pop(0), features, what)


def _wires(layer: Layer, features: Features, what: str) -> list[Wires]:
    if not isinstance(layer, Attention) or not layer.residual:
        raise CertificateError(f"{what.capitalize()} is attention with a residual", type(layer).__name__)
    return [_wires_of(head, features, f"{what}, head {i}") for i, head in enumerate(layer.heads)]


def _wires_of(head: Head, features: Features, place: str) -> Wires:
    tokens = head.key_rows is not None
    scores = _blocks(head.query, head.key, features, f"{place}, scores") if tokens else {}
    writes = _blocks(head.value, head.output.T, features, f"{place}, values") if tokens else {}
    constant = head.memory_keys is not None
    keys = _product(head.query, head.memory_keys, place).T if constant else np.zeros((0, features.width))
    values = _product(head.memory_values, head.output.T, place) if constant else keys
    for name in {name for _, name in writes} | {n for row in values for n in _parts(row, features)}:
        if name in KEPT:
            raise CertificateError(f"No head may change the feature {name!r}", place, "Rebuild the network")
    return Wires(
        head,
        scores,
        writes,
        tuple(_parts(row, features) for row in keys),
        tuple(_parts(row, features) for row in values),
    )


def _product(left: Array | None, right: Array | None, place: str) -> Array:
    """Left right^T, where every entry is one product."""
    assert left is not None
    assert right is not None
    if ((left != 0).astype(float) @ (right != 0).astype(float).T).max(initial=0.0) > 1:
        raise CertificateError("Every score and every written feature is one product of weights", place)
    return np.asarray(left @ right.T)


def _blocks(left: Array | None, right: Array | None, features: Features, place: str) -> Blocks:
    """The diagonals of left right^T between named features; those that are zero are left out."""
    matrix, found = _product(left, right, place), {}
    for a, rows in features.slices.items():
        for b, columns in features.slices.items():
            block = matrix[rows, columns]
            if not block.any():
                continue
            diagonal = np.diagonal(block).copy()
            if block.shape[0] != block.shape[1] or np.count_nonzero(block) != np.count_nonzero(diagonal):
                raise CertificateError(f"Between {a!r} and {b!r} a head must be diagonal", place, "Rebuild it")
            found[a, b] = diagonal
    return found


def _parts(row: Array, features: Features) -> Parts:
    return {name: row[where] for name, where in features.slices.items() if row[where].any()}


def _check_cleared(layer: Linear, features: Features) -> None:
    """The workspace must be emptied, and nothing else changed."""
    keep = np.ones(features.width)
    for name in ("residual", "scaled"):
        if name in features.slices:
            keep[features.slices[name]] = 0.0
    plain = len(layer.terms) == 1 and layer.constant is None and layer.terms[0].mix is None
    found = layer.terms[0].map if plain else None
    if found is None or not np.array_equal(found, np.diag(keep)):
        raise CertificateError("A linear map in a block empties the workspace and keeps the rest", "another map")


def _update(
    heads: list[Wires], features: Features, link: object
) -> tuple[tuple[tuple[float, float], ...], float, Array]:
    """Aggregation heads as (beta, factor), the least silence, and the decay of w."""
    summing, silences, decay = [], [], np.zeros(features.inputs)
    for wires in heads:
        if wires.is_between(range(features.states), "own") and not wires.memory_scores:
            _expect(set(wires.writes) <= {("w", "w")}, "decay reads and writes w", wires)
            more = wires.writes.get(("w", "w"), np.zeros(features.inputs))
            _expect(bool(np.all(decay * more >= 0)), "decays do not cancel: their roundings would not", wires)
            decay = decay + more
            continue
        signs = {("w", "x"): 1, ("unit", "y"): -1} if link is None else {("unit", "residual"): 1, ("unit", "y"): -1}
        what = "a sum over examples has scores of residuals and a silence for state tokens, reads x and writes w"
        wires.expect(what, range(features.states), "all", 0, [{*signs, ("state", "state")}], {("x", "w")})
        beta = _one([sign * wires.scores[pair] for pair, sign in signs.items()], "sharpness", wires)
        summing.append((beta, _one([wires.writes["x", "w"]], "factor", wires)))
        silences.append(-_one([wires.scores["state", "state"]], "silence", wires))
    if not summing:
        raise CertificateError("A block sums over the examples", "no head that does", "Rebuild the network")
    return tuple(summing), min(silences), decay


def _proximal(heads: list[Wires], features: Features) -> tuple[Gate | None, ...]:
    gates: list[Gate | None] = [None] * features.inputs
    for wires in heads:
        _expect(wires.is_between(range(features.states), "own"), "gates are of the state tokens' own", wires)
        place, gate = _gate(wires, "w")
        _expect(gates[place] is None, "a weight passes one gate", wires)
        gates[place] = gate
    return tuple(gates)


def _gate(wires: Wires, name: str) -> tuple[int, Gate]:
    """Keys {low, own, high} with scores {-beta (z + reach), 0, beta (z - reach)} and values {-reach, z, reach}."""
    _expect(not wires.scores and len(wires.memory_scores) == 2, "a gate has two constant keys and its own", wires)
    value = wires.writes.get((name, name), np.zeros(1))
    places = np.flatnonzero(value)
    _expect(set(wires.writes) == {(name, name)} and len(places) == 1, f"a gate reads and writes one {name}", wires)
    place = int(places[0])
    factor = float(value[place])
    found = []
    for scores, writes in zip(wires.memory_scores, wires.memory_writes, strict=True):
        _expect(set(scores) == {name, "first", "mirrored", "state"}, "gates compare z with a constant", wires)
        steep, written = scores[name], writes.get(name, np.zeros_like(value))
        offset = _one([scores[flag] for flag in ("first", "mirrored", "state")], "offset", wires)
        alone = np.count_nonzero(steep) == 1 and np.count_nonzero(written) == 1 and set(writes) == {name}
        _expect(alone and bool(steep[place]) and bool(written[place]), "gates keep to one feature", wires)
        found.append((float(steep[place]), offset, float(written[place])))
    (low, low_offset, low_value), (high, high_offset, high_value) = sorted(found)
    reach = high_value / factor
    fits = low == -high and low_offset == high_offset == -high * reach and low_value == -high_value and reach > 0
    _expect(fits, "a gate is symmetric: scores -+beta (z -+ reach)", wires)
    return place, Gate(high, reach, factor)


def _clamped(heads: list[Wires], features: Features) -> Gate:
    """The workspace s becomes clamp(s) + y: by a gate, and a head that takes s away and adds y."""
    gate: Gate | None = None
    rest: Blocks = {}
    for wires in heads:
        _expect(wires.is_between(None, "own"), "clamps are of every token's own", wires)
        if wires.memory_scores:
            _expect(gate is None, "a residual passes one gate", wires)
            gate = _gate(wires, "residual")[1]
        else:
            _expect(not rest, "one head takes the residual away and adds y", wires)
            rest = wires.writes
    whole = set(rest) == {("residual", "residual"), ("y", "residual")}
    if gate is None or gate.factor != 1.0 or not whole:
        raise CertificateError("Clamping replaces s by clamp(s) + y", "another layer", "Rebuild the network")
    if not (np.all(rest["residual", "residual"] == -1.0) and np.all(rest["y", "residual"] == 1.0)):
        raise CertificateError("Clamping takes s away once and adds y once", "other factors", "Rebuild the network")
    return gate


def _pair(wires: Wires, features: Features) -> Pair:
    """Every token against the first state token and a constant key of score zero."""
    reads = [{("x", "w")}, {("x", "w"), ("y", "unit")}]
    wires.expect("a link has the first state token as key, reads w.x and y, and writes", None, [0], 1, reads, WRITTEN)
    plain = not wires.memory_scores[0] and set(wires.memory_writes[0]) == {"residual"}
    _expect(plain, "the constant key of a link has score zero and writes the residual", wires)
    label = wires.scores.get(("y", "unit"))
    return Pair(
        _one([wires.scores["x", "w"]], "sharpness", wires),
        0.0 if label is None else _one([label], "sharpness", wires),
        _one([wires.writes["unit", "residual"]], "value", wires),
        _one([wires.memory_writes[0]["residual"]], "value", wires),
        all(_are_powers_of_two(each) for each in (wires.head.value, wires.head.memory_values)),
    )


def _are_powers_of_two(values: Array | None) -> bool:
    return values is not None and bool(np.all((values == 0) | (np.abs(np.frexp(values)[0]) == 0.5)))


def _one_sided(heads: list[Wires], features: Features) -> OneSided:
    """A head for the examples and one for the mirror images, that write opposite signs."""
    found = {}
    for wires in heads:
        what, rows = "one-sided links have the state as keys, read w.x and write", range(features.outputs)
        wires.expect(what, None, rows, 1, [{("plain", "w")}], WRITTEN)
        _expect(_one([wires.scores["plain", "w"]], "form", wires) == 1.0, "one-sided links read w.x once", wires)
        scores = wires.memory_scores[0]
        fits = set(scores) == {"first", "mirrored"} and not wires.memory_writes[0]
        _expect(fits, "the score of its constant key depends on the side, and it writes nothing", wires)
        factor = _one([wires.writes["unit", "residual"]], "factor", wires)
        on, off = ("first", "mirrored") if factor > 0 else ("mirrored", "first")
        found[factor > 0] = OneSided(float(scores[on][0]), float(scores[off][0]), abs(factor))
    if len(heads) != 2 or set(found) != {True, False} or found[True] != found[False]:
        raise CertificateError("One-sided links come as two heads of opposite sign", f"{len(heads)} heads")
    return found[True]


def _copies(heads: list[Wires], features: Features) -> float:
    """Anchor tokens receive 2 ``scale`` tanh(tilt) w from the two state tokens."""
    anchors, states = range(features.states, features.ahead), range(features.states)
    if len(heads) != 1:
        raise CertificateError("One head copies the state into the anchors", f"{len(heads)} heads")
    wires = heads[0]
    wires.expect("anchors copy the state", anchors, states, 0, [{("tilt", "unit")}], {("w", "scaled")})
    _expect(_one([wires.scores["tilt", "unit"]], "tilt", wires) == 1.0, "anchors copy the state by their tilt", wires)
    return _one([wires.writes["w", "scaled"]], "scale", wires) / 2


def _interpolated(heads: list[Wires], scale: float, features: Features) -> Interpolated:
    """Examples read the row of anchors; one head for both sides, or one a side; y added where it is in the scores."""
    anchors, links, added = range(features.states, features.ahead), [], 0
    for wires in heads:
        if wires.is_between(None, "own") and not wires.memory_scores:
            fits = set(wires.writes) == {("y", "residual")} and bool(np.all(wires.writes["y", "residual"] == 1.0))
            _expect(fits and not added, "one head adds y", wires)
            added += 1
            continue
        _expect(wires.is_between(None, anchors), "examples attend to the anchors", wires)
        _expect(set(wires.writes) == {("answer", "residual")}, "links write the anchors' answers", wires)
        links.append(_row(wires))
    signs = sorted(sign for _, sign in links)
    found = {row for row, _ in links}
    if len(found) != 1 or signs not in ([1.0], [-1.0, 1.0]):
        raise CertificateError("Interpolated links are one head, or two of opposite sign", f"signs {signs}")
    beta, label, outside = found.pop()
    if label != bool(added) or (outside is None) != (signs == [1.0]):
        raise CertificateError(
            "y is added where it is in the scores, sides are kept apart where heads differ", "not so"
        )
    return Interpolated(beta, label, scale, outside)


def _row(wires: Wires) -> tuple[tuple[float, bool, float | None], float]:
    """Beta, whether y is in the scores, the score that silences the other side; and the sign."""
    sign = _one([wires.writes["answer", "residual"]], "sign", wires)
    sides, inputs = wires.memory_scores, "plain" if wires.memory_scores else "x"
    wanted = {(inputs, "scaled"), ("first", "square"), ("mirrored", "square")}
    label = ("y", "level") in wires.scores
    _expect(set(wires.scores) == wanted | ({("y", "level")} if label else set()), "scores are of a row", wires)
    numbers = [wires.scores[inputs, "scaled"] / 2, *(-wires.scores[flag, "square"] for flag in ("first", "mirrored"))]
    beta = _one([*numbers, *([-wires.scores["y", "level"] / 2] if label else [])], "sharpness", wires)
    _expect(beta > 0, "a row prefers the nearest anchors", wires)
    if not sides:
        return (beta, label, None), sign
    on, off = ("first", "mirrored") if sign > 0 else ("mirrored", "first")
    fits = len(sides) == 1 and set(sides[0]) == {"first", "mirrored"} and not wires.memory_writes[0] and not label
    _expect(fits and sides[0][on][0] == -sides[0][off][0] < 0, "a constant key silences one side", wires)
    return (beta, label, float(sides[0][off][0])), sign


def _idle(heads: list[Wires], features: Features) -> float:
    r"""What these heads leave in the workspace of tokens that are no examples: their query is zero there.

    Such a token weighs all keys alike, so that it receives the mean of what they write; keys of opposite heads cancel,
    up to the roundings of as many terms, which the caller charges against the silence.
    """
    total, size = np.zeros(features.outputs), 0.0
    for head in (
        wires.head for wires in heads if not wires.is_between(None, "own")
    ):  # that reads y, which is zero there
        values = [np.asarray(head.memory_values)] if head.memory_size else []
        if head.key_rows is not None and head.value is not None:
            values.append(features.constants()[head.key_rows.indices] @ head.value)
        written = np.concatenate(values) @ head.output[:, features.slices["residual"]]
        total, size = total + written.mean(axis=0), size + float(np.abs(written).mean(axis=0).max())
    return float(np.abs(total).max()) + 2.0**-40 * size


def _same(indices: npt.NDArray[np.int64] | None, wanted: Sequence[int] | None) -> bool:
    if indices is None or wanted is None:
        return indices is None and wanted is None
    return bool(indices.tolist() == list(wanted))


def _one(numbers: Sequence[Array], what: str, wires: Wires) -> float:
    """The number that all entries are; positive or not."""
    values = np.concatenate([np.atleast_1d(each) for each in numbers])
    _expect(bool(np.all(values == values[0])), f"one {what} in all entries", wires)
    return float(values[0])


def _expect(condition: bool, requirement: str, wires: Wires) -> None:
    if not condition:
        pairs = ", ".join(f"{a}-{b}" for a, b in wires.scores) or "none"
        raise CertificateError(f"In a block of regression, {requirement}", f"a head with scores {pairs}", "Rebuild it")
