"""Random networks of the whole representation: small, with weights of every size that matters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.network import Attention, Head, Layer, Linear, Network, Rows, Softmax, Term

Array = npt.NDArray[np.float64]
Generator = np.random.Generator

SIZES = (1.0, 1.0, 1.0, 8.0, 100.0, 2.0**-10, 1e-4)  # of the entries of an array


@dataclass(frozen=True, eq=False)
class Case:
    """A network, the number of tokens and of rows of a second input it is given, and the box these come from."""

    network: Network
    tokens: int
    told: int
    lower: Array
    upper: Array

    @property
    def inputs(self) -> int:
        """Numbers of the first input; those of the second come after them."""
        return self.tokens * self.network.features

    def split(self, flat: Array) -> tuple[Array, Array | None]:
        """Flat points (..., D) as tokens and second input."""
        batch, first = flat.shape[:-1], flat[..., : self.inputs]
        tokens = first.reshape(*batch, self.tokens, self.network.features)
        if self.network.context is None:
            return tokens, None
        return tokens, flat[..., self.inputs :].reshape(*batch, self.told, self.network.context[1])

    def points(self, rng: Generator, count: int) -> Array:
        """Points (count, D) of the box: corners, its middle, and random ones."""
        share = rng.uniform(size=(count, len(self.lower)))
        share[: count // 2] = rng.integers(0, 2, size=share[: count // 2].shape)
        share[0] = 0.5
        return np.clip(self.lower + share * (self.upper - self.lower), self.lower, self.upper)


def random_case(seed: int) -> Case:
    """A case that the seed determines."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    tokens = network.tokens or _enough(network, "state", int(rng.integers(1, 4)))
    told = 0
    if network.context is not None:
        told = network.context[0] or _enough(network, "context", int(rng.integers(1, 4)))
    count = tokens * network.features + (0 if network.context is None else told * network.context[1])
    middle = rng.normal(size=count) * _pick(rng, (1.0, 1.0, 0.0, 30.0))
    reach = np.abs(rng.normal(size=count)) * _pick(rng, (0.0, 2.0**-20, 1e-3, 0.05, 0.3))
    return Case(network, tokens, told, middle - reach, middle + reach)


def random_network(rng: Generator) -> Network:
    """Any layers, in any order, on a fixed or a free number of tokens, with or without a second input."""
    rows = None if rng.random() < 0.3 else int(rng.integers(1, 4))
    features = int(rng.integers(1, 4))
    context: tuple[int | None, int] | None = None
    told: list[Linear] = []
    shape: tuple[int | None, int] | None = None
    if rng.random() < 0.35:
        context = shape = (None if rng.random() < 0.3 else int(rng.integers(1, 4)), int(rng.integers(1, 3)))
        for _ in range(rng.integers(0, 3)):
            layer, shape = _linear(rng, *shape)
            told.append(layer)
    layers: list[Layer] = []
    state = (rows, features)
    for _ in range(rng.integers(1, 5)):
        kind = rng.choice(["linear", "attention", "attention", "softmax"], p=[0.4, 0.25, 0.25, 0.1])
        if kind == "linear":
            layer, state = _linear(rng, *state)
            layers.append(layer)
        elif kind == "attention":
            attention, state = _attention(rng, *state, shape)
            layers.append(attention)
        else:
            layers.append(Softmax())
    if rng.random() < 0.1:
        layers = layers * 2 if state == (rows, features) else layers
    return Network(tuple(layers), features, rows, context, "", tuple(told))


def fitted_case(seed: int) -> Case:
    """A network of the shape that heads over constant keys have: one token, linear maps, one layer, one output."""
    rng = np.random.default_rng(seed)
    features = int(rng.integers(1, 3))
    layers: list[Layer] = []
    width = features
    for _ in range(rng.integers(0, 3)):
        layers.append(Linear((Term(_array(rng, width, 3)),), _array(rng, 1, 3) if rng.random() < 0.7 else None))
        width = 3
    heads = []
    for _ in range(rng.integers(1, 3)):
        keys, r, v = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        memory = {"memory_keys": _array(rng, keys, r), "memory_values": _array(rng, keys, v)}
        head = Head(_array(rng, width, r), _array(rng, v, 1), **memory)
        if rng.random() < 0.1:
            head = replace(head, query_rows=Rows.some([0]))
        if rng.random() < 0.1:
            head = replace(head, key=_array(rng, width, r), value=_array(rng, width, v), key_rows=Rows("own"))
        heads.append(head)
    layers.append(Attention(tuple(heads)))
    network = Network(tuple(layers), features, 1)
    middle, reach = rng.normal(size=features), np.abs(rng.normal(size=features)) * _pick(rng, (1e-3, 0.1, 1.0))
    return Case(network, 1, 0, middle - reach, middle + reach)


def product_case(seed: int) -> Case:
    """Heads over products of small sets of keys, in any order of keys and columns: what kernels may factorise."""
    rng = np.random.default_rng([seed, 3])
    tokens, features = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    layers: list[Layer] = []
    rows: int | None = tokens
    width = features
    if rng.random() < 0.5:
        linear, (rows, width) = _linear(rng, tokens, features)
        layers.append(linear)
    out = int(rng.integers(1, 3))
    heads = tuple(_product_head(rng, width, out, rows) for _ in range(rng.integers(1, 3)))
    middle = rng.normal(size=tokens * features)
    reach = np.abs(rng.normal(size=tokens * features)) * _pick(rng, (0.0, 2.0**-20, 1e-3))
    network = Network((*layers, Attention(heads)), features, tokens)
    return Case(network, tokens, 0, middle - reach, middle + reach)


def _product_head(rng: Generator, width: int, out: int, rows: int | None) -> Head:
    sizes = (14, 14) if rng.random() < 0.5 else (7, 7, 8)
    parts = [rng.normal(size=(p, int(rng.integers(1, 3)))) * _pick(rng, (0.3, 1.0, 4.0)) for p in sizes]
    places = np.indices(sizes).reshape(len(sizes), -1)
    keys = np.hstack([part[place] for part, place in zip(parts, places, strict=True)])
    keys = keys[rng.permutation(len(keys))][:, rng.permutation(keys.shape[1])]
    values = rng.normal(size=(len(keys), int(rng.integers(1, 3))))
    asking = Rows.some(_some(rng, rows)) if rng.random() < 0.3 else Rows()
    query, output = _array(rng, width, keys.shape[1]), _array(rng, values.shape[1], out)
    return Head(query, output, asking, memory_keys=keys, memory_values=values)


def _linear(rng: Generator, rows: int | None, width: int) -> tuple[Linear, tuple[int | None, int]]:
    same_rows = rows is None or rng.random() < 0.6
    out_rows = rows if same_rows else int(rng.integers(1, 5))
    out_width = width if rng.random() < 0.4 else int(rng.integers(1, 5))
    terms = []
    for _ in range(rng.integers(1, 4)):
        feature_map = None
        if out_width != width or rng.random() < 0.7:
            own = rows is not None and rng.random() < 0.3
            feature_map = _array(rng, rows, width, out_width) if own and rows else _array(rng, width, out_width)
        mix = None
        if rows is not None and out_rows is not None and (not same_rows or rng.random() < 0.4):
            mix = _array(rng, out_rows, rows)
        terms.append(Term(feature_map, mix))
    constant = None
    if rng.random() < 0.5:
        constant = _array(rng, 1 if out_rows is None or rng.random() < 0.5 else out_rows, out_width)
    return Linear(tuple(terms), constant), (out_rows, out_width)


def _attention(
    rng: Generator, rows: int | None, width: int, context: tuple[int | None, int] | None
) -> tuple[Attention, tuple[int | None, int]]:
    residual = bool(rng.random() < 0.4)
    out = width if residual else int(rng.integers(1, 5))
    count = int(rng.integers(1, 4))
    first = _head(rng, rows, width, out, context)
    heads = [
        first,
        *(_like(rng, first) if rng.random() < 0.4 else _head(rng, rows, width, out, context) for _ in range(count - 1)),
    ]
    return Attention(tuple(heads), residual), (rows, out)


def _head(rng: Generator, rows: int | None, width: int, out: int, context: tuple[int | None, int] | None) -> Head:
    r, v = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    kinds = ["all", "some", "own", "none"] + (["context", "context", "some of the context"] if context else [])
    kind = str(rng.choice(kinds))
    keys: Rows | None = None
    told = width
    if kind in ("context", "some of the context") and context is not None:
        told = context[1]
        keys = Rows(source="context") if kind == "context" else Rows.some(_some(rng, context[0]), "context")
    elif kind in ("all", "own"):
        keys = Rows("own" if kind == "own" else "all")
    elif kind == "some":
        keys = Rows.some(_some(rng, rows))
    memory = int(rng.integers(1, 5)) if keys is None or rng.random() < 0.5 else 0
    scale = _pick(rng, (1.0, 1.0, 1.0, 2.0**6, 2.0**12))  # up to hard selection
    return Head(
        _array(rng, width, r) * scale,
        _array(rng, v, out),
        Rows.some(_some(rng, rows)) if rng.random() < 0.3 else Rows(),
        None if keys is None else _array(rng, told, r),
        None if keys is None else _array(rng, told, v),
        keys,
        _array(rng, memory, r) if memory else None,
        _array(rng, memory, v) if memory else None,
    )


def _like(rng: Generator, head: Head) -> Head:
    """Another head of the same shapes and rows: kernels stack such heads."""
    names = ("query", "output", "key", "value", "memory_keys", "memory_values")
    arrays = {name: getattr(head, name) for name in names}
    return replace(head, **{name: _array(rng, *array.shape) for name, array in arrays.items() if array is not None})


def _array(rng: Generator, *shape: int) -> Array:
    match rng.choice(["normal", "normal", "powers", "whole", "zero", "sparse", "one-hot"]):
        case "powers":
            return rng.choice([-1.0, 1.0], size=shape) * 2.0 ** rng.integers(-4, 4, size=shape)
        case "whole":
            return rng.integers(-3, 4, size=shape).astype(np.float64)
        case "zero":
            return np.zeros(shape) if rng.random() < 0.3 else rng.normal(size=shape)
        case "sparse":
            return rng.normal(size=shape) * (rng.random(size=shape) < 0.4)
        case "one-hot":
            found = np.zeros(shape)
            found[..., np.arange(shape[-2]), rng.integers(0, shape[-1], size=shape[-2])] = 1.0
            return found
    return rng.normal(size=shape) * _pick(rng, SIZES)


def _some(rng: Generator, rows: int | None) -> npt.NDArray[np.int64]:
    count = rows or 2
    return rng.permutation(count)[: rng.integers(1, count + 1)]


def _pick(rng: Generator, choices: tuple[float, ...]) -> float:
    return float(choices[rng.integers(len(choices))])


def _enough(network: Network, source: str, rows: int) -> int:
    """At least as many rows as are named."""
    sets = [rows for head in network.heads for rows in (head.query_rows, head.key_rows) if rows is not None]
    named = [int(each.indices.max()) + 1 for each in sets if each.indices is not None and each.source == source]
    return max([rows, *named])
