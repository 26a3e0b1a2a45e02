"""Attacks on a stored certificate, by the careless and by those who recompute every digest: no lie is confirmed.

Careless: the file's digest and what the certificate says of network and target stay as they were. Consistent: all of
them are recomputed, as anyone who can write a file can. Such a file is simply another claim: it is confirmed if it is
true, and only then.
"""

import itertools
import json
import pickle
from contextlib import suppress

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import unflatten
from tests.attacks.files import Bomb, agreeing, arithmetic, certificate, join, split, with_certificate
from tests.clock import at_most

CELLS = 600
X = np.linspace(0.0, 1.0, 9)


def relu_network(inputs, activation):
    layers = (torch.nn.Linear(inputs, 2), activation, torch.nn.Linear(2, 1))
    with torch.no_grad():
        for layer in layers[::2]:
            layer.weight.copy_(torch.linspace(-0.5, 1.0, layer.weight.numel()).reshape(layer.weight.shape))
            layer.bias.fill_(0.125)
    return af.constructions.relu_network(torch.nn.Sequential(*layers).double(), af.Box(-1, 1, shape=(inputs,)))


MODELS = {
    "one input": lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-2),
    "float32": lambda: af.compile("exp(-x^2)", {"x": (-2, 2)}, tol=1e-2, dtype="float32"),
    "two inputs": lambda: af.constructions.tensor_grid("x*y", {"x": (-1, 1), "y": (-1, 1)}, tol=5e-2),
    "graph": lambda: af.constructions.graph("sin(x)*y", {"x": (0, 2), "y": (0, 1)}, 5e-2),
    "clamp": lambda: af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 0.05, construction="truncated_linear"),
    "tokens": lambda: af.constructions.truncated_linear([[1.0, 0.5], [0.5, 0.25]], [0.1, 0.2], -1, 2, anchors=3),
    "gate": lambda: af.constructions.gate([1.0, -0.5], 0.25, -1, 2),
    "cells": lambda: af.constructions.max_affine("x^2", af.Box(-1.0, 1.0), cells=4),
    "relu": lambda: relu_network(2, torch.nn.ReLU()),
    "leaky relu": lambda: relu_network(1, torch.nn.LeakyReLU(0.125)),
    "callable": lambda: af.compile(lambda x: np.sin(3 * x), af.Box(-1, 1, shape=(1,)), 0.1, lipschitz=3),
    "table": lambda: af.compile((X, X**2)),
}
FORMULAS = ("one input", "two inputs", "clamp")
PROVABLE = tuple(name for name in MODELS if name not in ("callable", "table"))
SOME = (*FORMULAS, "tokens", "relu", "callable", "table")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, build in MODELS.items():
        build().save(folder / name)
    return folder


def judged(path, cells=CELLS):
    return af.check(path, cells=cells)


def refusal(path, cells=CELLS):
    """Why the file is no model, or what was said of it. Any other exception is a failure."""
    try:
        return None, judged(path, cells)
    except af.FileFormatError as error:
        return str(error), None


def careless(path, metadata, arrays):
    return judged(join(path, metadata, arrays))


def consistent(path, metadata, arrays, cells=CELLS):
    return judged(join(path, agreeing(metadata, arrays), arrays, honest=True), cells)


def points_of(net):
    if hasattr(net.target, "points"):
        return net.target.points
    box = net.domain.fixed((net.network.tokens or 1, net.network.features)) if net.target.layout == "tokens" else None
    box = box or net.domain
    share = np.random.default_rng(0).uniform(size=(2000, *box.shape))
    share[:2] = np.array([0.0, 1.0]).reshape(2, *(1 for _ in box.shape))
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)


def error(net):
    """The largest error at many points of the domain, ends included; what is not a number counts as infinite."""
    points = points_of(net)
    with np.errstate(all="ignore"):
        found = np.abs(np.asarray(net.at_points(points)) - net.target.values(points.astype(np.longdouble))).max()
    return float(found) if np.isfinite(found) else np.inf


def stated(net):
    """What the file says of its error: a bound, or of a table the error at its points, to half the dtype's digits."""
    if net.certificate.bound is not None:
        return net.certificate.bound
    return net.certificate.estimate.error + 2.0**-26 * np.abs(net.target.table_values).max()


def is_honest(path, verdict):
    """Whether what was said of the file can be true: a confirmed statement is not refuted anywhere we look."""
    return verdict.verdict != "confirmed" or error(af.load(path)) <= stated(af.load(path))


@pytest.mark.parametrize("model", MODELS)
def test_the_files_themselves(saved, model, tmp_path):
    """Untouched, and taken apart and put together: refusals below are due to the edits."""
    expected = "unprovable" if model == "callable" else "confirmed"
    assert judged(saved / model).verdict == expected
    assert consistent(tmp_path / "net", *split(saved / model)).verdict == expected
    assert model == "callable" or is_honest(saved / model, judged(saved / model))


def test_anchors_in_another_order_are_the_same_function(saved, tmp_path):
    """Keys and values moved together: true, though the claims now name other keys. The checker does not read claims."""
    metadata, arrays = split(saved / "clamp")
    moved = {name: array[::-1].copy() for name, array in arrays.items() if "memory" in name}
    assert consistent(tmp_path / "net", metadata, arrays | moved).verdict == "confirmed"


FIRST, LAST, TRIES = -20, 12, 6  # powers of two of relative changes; weights of an array until one matters
BEYOND = 1.02  # of the bound: what a change must lead to


def smallest_break(net, metadata, arrays, name, rng):
    """The arrays with one weight of this name changed so that the stored bound is false; None if none matters."""
    array, points = arrays[name], points_of(net)
    tokens = points if points.ndim == 3 else points[:, None, :]
    meant = net.target.values(points)
    for index in rng.permutation(array.size)[:TRIES]:
        for power in range(FIRST, LAST):
            changed = array.copy()
            by = 2.0**power * (abs(float(array.flat[index])) or float(np.abs(array).max()) or 1.0)
            changed.flat[index] += by if rng.random() < 0.5 else -by
            held = {n.removeprefix("network."): a for n, a in (arrays | {name: changed}).items() if n[:8] == "network."}
            with np.errstate(all="ignore"):
                found = unflatten(metadata["network"], held)(tokens).reshape(meant.shape)
                if BEYOND * net.certificate.bound < np.nanmax(np.abs(found - meant)) < np.inf:
                    return arrays | {name: changed}
    return None


IDLE = {
    "leaky relu": {"network.layer1.head2.query", "network.layer1.head2.key"}
}  # one key: its weight is 1 at any score


@pytest.mark.parametrize("model", [name for name in PROVABLE if name not in ("graph", "relu")])
def test_no_changed_weight_is_confirmed(saved, model, tmp_path):
    """Each array, by as little as breaks the bound: the only thing left that is wrong is the bound."""
    net, (metadata, arrays) = af.load(saved / model), split(saved / model)
    rng, idle = np.random.default_rng(len(model)), set()
    for name in (
        n for n in arrays if n[:8] == "network." and arrays[n].size and not n.endswith(("_rows", "positions"))
    ):
        broken = smallest_break(net, metadata, arrays, name, rng)
        if broken is None:
            idle.add(name)
            continue
        assert careless(tmp_path / "net", metadata, broken).what == "network"
        assert consistent(tmp_path / "net", metadata, broken).verdict in ("rejected", "undecided"), name
    assert idle == IDLE.get(model, set())


DOMAINS = {
    "widened": lambda low, high: (low, 3 * high),
    "shifted": lambda low, high: (low + 0.75, high + 0.75),
    "huge": lambda low, high: (-1e308 + 0 * low, 1e308 + 0 * high),
    "shrunk": lambda low, high: (low / 2, high / 2),
    "a point": lambda low, high: (low, low.copy()),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where numbers beyond float64 are met
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("model", [*FORMULAS, "graph", "tokens", "relu", "callable"])
def test_another_domain(saved, model, domain, tmp_path):
    metadata, arrays = split(saved / model)
    ends = DOMAINS[domain](arrays["target.domain.lower"], arrays["target.domain.upper"])
    edited = arrays | dict(zip(("target.domain.lower", "target.domain.upper"), ends, strict=True))
    assert careless(tmp_path / "net", metadata, edited).what == "domain"
    verdict = consistent(tmp_path / "net", metadata, edited)
    if model == "callable":
        assert verdict.verdict == "unprovable"
        return
    assert domain == "huge" or is_honest(tmp_path / "net", verdict)
    if domain in ("shrunk", "a point") or (model, domain) in {("clamp", "widened"), ("clamp", "shifted")}:
        assert verdict.verdict == "confirmed"  # what holds on a box holds inside, and a clamp is flat beyond its ends
    elif domain == "huge" or model in FORMULAS:
        assert verdict.verdict != "confirmed"


def stating(metadata, bound):
    """The certificate with another bound, and parts that add up to it."""
    return with_certificate(metadata, bound=bound.hex(), parts={"all": bound.hex()})


@pytest.mark.parametrize("model", PROVABLE)
def test_another_bound(saved, model, tmp_path):
    metadata, arrays = split(saved / model)
    bound = float.fromhex(certificate(metadata)["bound"])
    for factor in (0.0, 1e-6, 0.3):
        lowered = stating(metadata, factor * bound)
        for verdict in (careless(tmp_path / "net", lowered, arrays), consistent(tmp_path / "net", lowered, arrays)):
            assert verdict.verdict != "confirmed" or (model in ("gate", "leaky relu") and factor == 0.3)  # roundings
            assert model not in FORMULAS or (verdict.verdict, verdict.what) == ("rejected", "bound")
    with pytest.raises(af.FileFormatError):  # and the parts as they were
        careless(tmp_path / "net", with_certificate(metadata, bound=(0.3 * bound).hex()), arrays)
    told = careless(tmp_path / "net", stating(metadata, 2 * bound), arrays)
    assert (told.verdict, told.what) == ("rejected", "certificate")
    assert consistent(tmp_path / "net", stating(metadata, 2 * bound), arrays).verdict == "confirmed"
    assert consistent(tmp_path / "net", with_certificate(metadata, norm="L2"), arrays).verdict != "confirmed"


TEXTS = {"one input": "sin(3.1*x)", "two inputs": "x*y + 0.05", "clamp": "clamp(x, -1, 1.25)"}


@pytest.mark.parametrize("model", SOME)
def test_an_edited_target(saved, model, tmp_path):
    metadata, arrays = split(saved / model)
    target, numbers = metadata["target"], [n for n in sorted(arrays) if n[:7] == "target." and "domain" not in n]
    if model in TEXTS:
        metadata["target"] = target | {"text": TEXTS[model]}
    elif numbers:
        arrays = arrays | {numbers[0]: arrays[numbers[0]] + 0.25}
    else:
        metadata["target"] = target | {"lipschitz": [(9.0).hex(), "sup"]}
    told = careless(tmp_path / "net", metadata, arrays)
    assert (told.verdict, told.what) == ("rejected", "domain" if model == "table" else "target")
    verdict = consistent(tmp_path / "net", metadata, arrays).verdict
    assert verdict in (("unprovable",) if model == "callable" else ("rejected", "undecided"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("model", ["one input", "relu"])
def test_another_dtype(saved, model, dtype, tmp_path):
    """Rounding in a dtype of less precision is part of the bound; what it assumes is part of the certificate."""
    metadata, arrays = split(saved / model)
    edited = metadata | {"dtype": dtype}
    assert careless(tmp_path / "net", edited, arrays).what == "dtype"
    assert consistent(tmp_path / "net", edited, arrays).what == "assumptions"
    assuming = with_certificate(edited, assumptions=[arithmetic(dtype)])
    verdict = consistent(tmp_path / "net", assuming, arrays)
    assert (verdict.verdict == "confirmed") == (model == "one input" and dtype == "float32")
    assert is_honest(tmp_path / "net", verdict)


def test_what_a_table_does_not_say_is_not_confirmed(saved, tmp_path):
    """A bound between its points, a lower error at them, and scores that overflow, are lost or vanish."""
    metadata, arrays = split(saved / "table")
    for status in ("proved", "conditional"):
        claimed = with_certificate(stating(metadata, 1e-9), status=status)
        assert consistent(tmp_path / "net", claimed, arrays).verdict != "confirmed"
    seen = certificate(metadata)["estimate"]
    lowered = with_certificate(metadata, estimate=seen | {"error": (float.fromhex(seen["error"]) / 2).hex()})
    assert careless(tmp_path / "net", lowered, arrays).what == consistent(tmp_path / "net", lowered, arrays).what
    assert consistent(tmp_path / "net", lowered, arrays).verdict == "rejected"
    for part, scale in itertools.product(("memory_keys", "memory_values", "query"), (1e300, 0.0, 2.0**256)):
        name = next(name for name in arrays if name.endswith(part))
        with np.errstate(over="ignore"):
            scaled = np.clip(scale * arrays[name], -1e307, 1e307)
        assert consistent(tmp_path / "net", metadata, arrays | {name: scaled}).verdict != "confirmed", (part, scale)


@pytest.mark.parametrize("model", ["one input", "relu"])
def test_a_borrowed_target_or_certificate(saved, model, tmp_path):
    """The target of one file in another: of the same shape it is another claim, of another shape it cannot be."""
    metadata, arrays = split(saved / model)
    for lender in sorted(MODELS.keys() - {model}):
        theirs, numbers = split(saved / lender)
        assert (
            careless(tmp_path / "net", metadata | {"certificate": theirs["certificate"]}, arrays).verdict == "rejected"
        )
        mixed = {name: array for name, array in arrays.items() if name.startswith("network.")}
        mixed |= {name: array for name, array in numbers.items() if name.startswith("target.")}
        edited = metadata | {"target": theirs["target"]}
        for verdict in (careless(tmp_path / "net", edited, mixed), consistent(tmp_path / "net", edited, mixed)):
            assert verdict.verdict != "confirmed", lender


SOON = 2_000_000  # calls: three times what the longest of these checks takes
HOSTILE = (
    None, True, -1, 7, 10**300, 0.5, [], [[]], {}, {"a": {}}, "", "NaN", "inf", "x" * 10**6, "0x1p5000", "softmax",
    "\x1b[31m\u202e\u2066\0", "[red]x[/red]<script>", "../../etc/passwd", ["a"] * 10_000,
)  # fmt: skip


def places(data, above=()):
    """Every place in nested JSON."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield (*above, key)
        yield from places(value, (*above, key))


def put(data, place, value):
    """A copy with one place replaced."""
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[place[0]] = value if len(place) == 1 else put(copy[place[0]], place[1:], value)
    return copy


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("model", ["two inputs", "tokens", "relu", "callable", "table"])
def test_hostile_metadata(saved, model, tmp_path):
    """Anything anywhere: a sentence or a verdict, soon; with digests that fit where what is left can be read."""
    metadata, arrays = split(saved / model)
    opened = {k: v for k, v in metadata.items() if k != "digest"} | {"certificate": certificate(metadata)}
    rng, found = np.random.default_rng(11), list(places(opened))
    for place in [found[i] for i in rng.integers(0, len(found), 40)]:
        edited = put(opened, place, HOSTILE[rng.integers(len(HOSTILE))])
        if isinstance(edited["certificate"], dict):
            edited["certificate"] = json.dumps(edited["certificate"])
        with suppress(af.AttnforgeError, AttributeError, KeyError, TypeError, ValueError):
            edited = agreeing(edited, arrays)
        path = join(tmp_path / "net", edited, arrays, honest=True)
        with at_most(SOON):
            problem, verdict = refusal(path, cells=30)
        assert len(problem) < 1000 if verdict is None else is_honest(tmp_path / "net", verdict), place


CHANGES = {
    "float32": lambda array: array.astype(np.float32),
    "another axis": lambda array: array.reshape(1, 1, *array.shape),
    "none": lambda array: array[..., :0],
    "twice": lambda array: np.concatenate([array, array], axis=-1),
    "one less": lambda array: np.delete(array, -1, 0),
    "one more": lambda array: np.concatenate([array, array[-1:]]),
    "turned": lambda array: np.ascontiguousarray(array.T),
    "not a number": lambda array: np.full(array.shape, np.nan),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("model", ["one input", "tokens", "relu", "table"])
def test_tensors_of_another_kind(saved, model, change, tmp_path):
    """One array, and those of all heads alike, in files that fit together again: a verdict or a sentence, no crash."""
    metadata, arrays = split(saved / model)
    kinds = {name.rpartition(".")[2] for name in arrays if ".head" in name}
    alike = [[name] for name in arrays] + [
        [n for n in arrays if n.endswith(f".{kind}") and ".head" in n] for kind in kinds
    ]
    for names in alike:
        other = arrays | {name: CHANGES[change](arrays[name]) for name in names}
        edited = metadata
        with suppress(af.AttnforgeError, AttributeError, KeyError, TypeError, ValueError):
            edited = agreeing(metadata, other)
        path = join(tmp_path / "net", edited, other, honest=True)
        _, verdict = refusal(path, cells=100)
        assert verdict is None or is_honest(path, verdict), names


def test_a_pickle_is_not_unpickled(saved, tmp_path):
    data, path = (saved / "one input").read_bytes(), tmp_path / "net"
    bomb = pickle.dumps(Bomb(tmp_path / "made"))
    for content in (bomb, bomb + b"\0" * 100, data + bomb):
        path.write_bytes(content)
        for read in (judged, af.load):
            with pytest.raises(af.FileFormatError):
                read(path)
    assert not (tmp_path / "made").exists()
