"""Attacks on a stored certificate, by the careless and by those who recompute every digest: no lie is confirmed.

Careless: the file's digest and what the certificate says of network and target stay as they were. Consistent: all of
them are recomputed, as anyone who can write a file can. Such a file is simply another claim: it is confirmed if it is
true, and only then.
"""

import json
import pickle
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.certification.certificate import arithmetic
from attnforge.certification.checker.check import Verdict
from attnforge.model_file import check
from attnforge.targets import Table
from tests.attacks.files import Bomb, agreeing, certificate, join, raw, split, with_certificate
from tests.clock import at_most

CELLS = 600


def module() -> torch.nn.Module:
    layers = (torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    with torch.no_grad():
        for layer in layers[::2]:
            layer.weight.copy_(torch.linspace(-0.5, 1.0, layer.weight.numel()).reshape(layer.weight.shape))
            layer.bias.fill_(0.125)
    return torch.nn.Sequential(*layers).double()


X = np.linspace(0.0, 1.0, 9)
MODELS = {
    "one input": lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-2),
    "two inputs": lambda: af.constructions.tensor_grid("x*y", {"x": (-1, 1), "y": (-1, 1)}, tol=5e-2),
    "graph": lambda: af.constructions.graph("sin(x)*y", {"x": (0, 2), "y": (0, 1)}, 5e-2),
    "clamp": lambda: af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 0.05, construction="truncated_linear"),
    "tokens": lambda: af.constructions.truncated_linear(
        [[1.0, 0.5], [0.5, 0.25]], [0.1, 0.2], -1, 2, anchors=3, sharpness="tuned"
    ),
    "relu": lambda: af.constructions.relu_network(module(), af.Box(-1, 1, shape=(2,))),
    "callable": lambda: af.compile(lambda x: np.sin(3 * x), af.Box(-1, 1, shape=(1,)), 0.1, lipschitz=3),
    "table": lambda: af.compile((X, X**2)),
}
FORMULAS = ("one input", "two inputs", "clamp")
PROVABLE = (*FORMULAS, "graph", "tokens", "relu")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, build in MODELS.items():
        build().save(folder / name)
    return folder


def judged(path, cells=CELLS) -> Verdict:
    return check(path, cells=cells, workers=1)


def refusal(path, cells=CELLS) -> tuple[str | None, Verdict | None]:
    """Why the file is no model, or what was said of it. Any other exception is a failure."""
    try:
        return None, judged(path, cells)
    except af.FileFormatError as error:
        return str(error), None


def careless(path, metadata, arrays) -> Verdict:
    return judged(join(path, metadata, arrays))


def consistent(path, metadata, arrays) -> Verdict:
    return judged(join(path, agreeing(metadata, arrays), arrays, honest=True))


def error(path) -> float:
    """The largest error at many points of the domain, ends included; what is not a number counts as infinite."""
    net = af.load(path)
    points = net.target.points if isinstance(net.target, Table) else sampled(net)
    with np.errstate(all="ignore"):
        found = np.abs(np.asarray(net(points)) - net.target.values(points.astype(np.longdouble))).max()
    return float(found) if np.isfinite(found) else np.inf


def sampled(net) -> np.ndarray:
    box = net.target.domain
    if net.target.layout == "tokens":
        box = box.fixed((net.network.tokens or 1, net.network.features))
    share = np.random.default_rng(0).uniform(size=(2000, *box.shape))
    share[:2] = np.array([0.0, 1.0]).reshape(2, *(1 for _ in box.shape))
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)


def stated(path) -> float:
    """What the file says of its error: a bound, or of a table the error at its points, to half the dtype's digits."""
    net = af.load(path)
    if net.certificate.bound is not None:
        return net.certificate.bound
    return net.certificate.estimate.error + 2.0**-26 * np.abs(net.target.table_values).max()


def is_honest(path, verdict) -> bool:
    """Whether what was said of the file can be true: a confirmed statement is not refuted anywhere we look."""
    return verdict.verdict != "confirmed" or error(path) <= stated(path)


@pytest.mark.parametrize("model", MODELS)
def test_the_files_themselves(saved, model, tmp_path):
    """Untouched, and taken apart and put together: refusals below are due to the edits."""
    expected = "unprovable" if model == "callable" else "confirmed"
    assert judged(saved / model).verdict == expected
    assert consistent(tmp_path / "net", *split(saved / model)).verdict == expected
    if model != "callable":
        assert is_honest(saved / model, judged(saved / model))


BITS = {"sign": (63, 64), "exponent": (52, 63), "high mantissa": (44, 52), "low mantissa": (0, 8)}


def flipped(arrays, rng, bits):
    """One bit of one weight turned over."""
    names = sorted(name for name in arrays if name.startswith("network.") and "claims" not in name)
    names = [name for name in names if arrays[name].any()]
    name = names[rng.integers(len(names))]
    array = arrays[name].copy()
    places = np.flatnonzero(array)
    array.view(np.int64).reshape(-1)[rng.choice(places)] ^= np.int64(np.uint64(1) << np.uint64(rng.integers(*bits)))
    return arrays | {name: array}


@pytest.mark.parametrize("model", MODELS)
def test_flipped_bits(saved, model, tmp_path):
    rng, path, seen = np.random.default_rng(7), tmp_path / "net", {kind: [] for kind in BITS}
    for kind, bits in BITS.items():
        for _ in range(2):
            metadata, arrays = split(saved / model)
            arrays = flipped(arrays, rng, bits)
            problem, told = refusal(join(path, metadata, arrays))
            if told is None:
                assert "finite" in problem  # an exponent of all ones
                continue
            assert (told.verdict, told.what) == ("rejected", "network")
            verdict = consistent(path, metadata, arrays)
            assert is_honest(path, verdict)
            assert verdict.what in (None, "bound", "network")
            seen[kind].append(verdict.verdict)
    if model in FORMULAS:
        assert "rejected" in seen["sign"] + seen["high mantissa"]
        assert "confirmed" in seen["low mantissa"]
    if model == "callable":
        assert {verdict for verdicts in seen.values() for verdict in verdicts} == {"unprovable"}


def test_a_table_whose_scores_are_lost_in_roundings_is_not_confirmed(saved, tmp_path):
    """A query of 1e77: the error could be anything that the values allow, and it is."""
    metadata, arrays = split(saved / "table")
    query = arrays["network.layer1.head0.query"].copy()
    query[1, 0] *= 2.0**256
    verdict = consistent(tmp_path / "net", metadata, arrays | {"network.layer1.head0.query": query})
    assert verdict.verdict == "undecided"
    assert "is not certain" in verdict.reason
    assert error(tmp_path / "net") > 100 * stated(tmp_path / "net")


@pytest.mark.parametrize("tensor", ["memory_keys", "memory_values"])
@pytest.mark.parametrize("model", [*FORMULAS, "tokens", "table"])
def test_swapped_anchors(saved, model, tensor, tmp_path):
    """Two anchors change places, by key or by value only: another function."""
    metadata, arrays = split(saved / model)
    name = next(name for name in sorted(arrays) if name.endswith(tensor))
    keys, values = (arrays[name.removesuffix(tensor) + part] for part in ("memory_keys", "memory_values"))
    other = next(j for j in range(len(keys)) if np.any(keys[j] != keys[0]) and np.any(values[j] != values[0]))
    order = np.arange(len(keys))
    order[[0, other]] = order[[other, 0]]
    swapped = arrays | {name: arrays[name][order]}
    assert careless(tmp_path / "net", metadata, swapped).what == "network"
    verdict = consistent(tmp_path / "net", metadata, swapped)
    assert error(tmp_path / "net") > stated(tmp_path / "net")
    assert verdict.verdict != "confirmed"
    if model in FORMULAS:
        assert (verdict.verdict, verdict.what) == ("rejected", "bound")


def test_anchors_in_another_order_are_the_same_function(saved, tmp_path):
    """Keys and values moved together: true, though the claims now name other keys. The checker does not read claims."""
    metadata, arrays = split(saved / "clamp")
    moved = {name: array[::-1].copy() for name, array in arrays.items() if "memory" in name}
    assert len(moved) == 2
    assert consistent(tmp_path / "net", metadata, arrays | moved).verdict == "confirmed"


DOMAINS = {
    "widened": lambda low, high: (low, 3 * high),
    "shifted": lambda low, high: (low + 0.75, high + 0.75),
    "huge": lambda low, high: (-1e308 + 0 * low, 1e308 + 0 * high),
    "shrunk": lambda low, high: (low / 2, high / 2),
    "a point": lambda low, high: (low, low.copy()),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where numbers beyond float64 are met
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("model", [*PROVABLE, "callable"])
def test_another_domain(saved, model, domain, tmp_path):
    metadata, arrays = split(saved / model)
    ends = DOMAINS[domain](arrays["target.domain.lower"], arrays["target.domain.upper"])
    edited = arrays | dict(zip(("target.domain.lower", "target.domain.upper"), ends, strict=True))
    told = careless(tmp_path / "net", metadata, edited)
    assert (told.verdict, told.what) == ("rejected", "domain")
    verdict = consistent(tmp_path / "net", metadata, edited)
    if model == "callable":
        assert verdict.verdict == "unprovable"
        return
    assert domain == "huge" or is_honest(tmp_path / "net", verdict)
    if domain in ("shrunk", "a point") or (model, domain) in {("clamp", "widened"), ("clamp", "shifted")}:
        assert verdict.verdict == "confirmed"  # what holds on a box holds inside, and a clamp is flat beyond its ends
    elif model in FORMULAS and domain in ("widened", "shifted"):
        assert (verdict.verdict, verdict.what) == ("rejected", "bound")
    elif domain == "huge":
        assert verdict.verdict != "confirmed"


def stating(metadata, bound):
    """The certificate with another bound, and parts that add up to it."""
    return with_certificate(metadata, bound=bound.hex(), parts={"all": bound.hex()})


@pytest.mark.parametrize("factor", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("model", PROVABLE)
def test_a_lowered_bound(saved, model, factor, tmp_path):
    metadata, arrays = split(saved / model)
    bound = float.fromhex(certificate(metadata)["bound"])
    for verdict in (
        careless(tmp_path / "net", stating(metadata, factor * bound), arrays),
        consistent(tmp_path / "net", stating(metadata, factor * bound), arrays),
    ):
        assert verdict.verdict != "confirmed"
        if model in FORMULAS or (model == "tokens" and factor > 0):
            assert (verdict.verdict, verdict.what) == ("rejected", "bound")
            assert "is not true: the error is at least" in verdict.reason
    below = with_certificate(metadata, bound=(0.3 * bound).hex())  # and the parts as they were
    with pytest.raises(af.FileFormatError, match="add up"):
        careless(tmp_path / "net", below, arrays)


@pytest.mark.parametrize("model", PROVABLE)
def test_a_raised_bound_is_harmless_but_not_careless(saved, model, tmp_path):
    metadata, arrays = split(saved / model)
    raised = stating(metadata, 2 * float.fromhex(certificate(metadata)["bound"]))
    told = careless(tmp_path / "net", raised, arrays)
    assert (told.verdict, told.what) == ("rejected", "certificate")
    assert "the file was altered" in told.reason
    assert consistent(tmp_path / "net", raised, arrays).verdict == "confirmed"


TEXTS = {
    "one input": "sin(3.1*x)",
    "two inputs": "x*y + 0.05",
    "clamp": "clamp(x, -1, 1.25)",
}


@pytest.mark.parametrize("model", FORMULAS)
def test_an_edited_target(saved, model, tmp_path):
    metadata, arrays = split(saved / model)
    edited = metadata | {"target": metadata["target"] | {"text": TEXTS[model]}}
    told = careless(tmp_path / "net", edited, arrays)
    assert (told.verdict, told.what) == ("rejected", "target")
    told = consistent(tmp_path / "net", edited, arrays)
    assert (told.verdict, told.what) == ("rejected", "bound")


@pytest.mark.parametrize("model", ["tokens", "relu", "table", "callable"])
def test_edited_numbers_of_a_target(saved, model, tmp_path):
    metadata, arrays = split(saved / model)
    name = next((name for name in sorted(arrays) if name.startswith("target.") and "domain" not in name), None)
    if name is None:
        edited, metadata = arrays, metadata | {"target": metadata["target"] | {"lipschitz": [(9.0).hex(), "sup"]}}
    else:
        edited = arrays | {name: arrays[name] + 0.25}
    told = careless(tmp_path / "net", metadata, edited)
    assert told.verdict == "rejected"
    assert told.what == ("domain" if model == "table" else "target")  # a table's domain is that of its points
    verdict = consistent(tmp_path / "net", metadata, edited)
    assert verdict.verdict in (("unprovable",) if model == "callable" else ("rejected", "undecided"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("model", ["one input", "relu"])
def test_another_dtype(saved, model, dtype, tmp_path):
    """Rounding in a dtype of less precision is part of the bound; what it assumes is part of the certificate."""
    metadata, arrays = split(saved / model)
    edited = metadata | {"dtype": dtype}
    told = careless(tmp_path / "net", edited, arrays)
    assert (told.verdict, told.what) == ("rejected", "dtype")
    told = consistent(tmp_path / "net", edited, arrays)
    assert (told.verdict, told.what) == ("rejected", "assumptions")
    assuming = with_certificate(edited, assumptions=[arithmetic(dtype)])
    verdict = consistent(tmp_path / "net", assuming, arrays)
    assert (verdict.verdict == "confirmed") == (model == "one input" and dtype == "float32")
    assert is_honest(tmp_path / "net", verdict)


def test_a_bound_in_another_norm_is_not_confirmed(saved, tmp_path):
    """On a box of more than unit volume an L_p norm can exceed the largest error: nothing was proved of it."""
    for model in PROVABLE:
        metadata, arrays = split(saved / model)
        assert consistent(tmp_path / "net", with_certificate(metadata, norm="L2"), arrays).verdict != "confirmed"


def test_a_bound_between_the_points_of_a_table_is_not_confirmed(saved, tmp_path):
    """A table says nothing between its points, so no bound on its domain follows from it, true or not."""
    metadata, arrays = split(saved / "table")
    for status in ("proved", "conditional"):
        claimed = with_certificate(stating(metadata, 1e-9), status=status)
        assert consistent(tmp_path / "net", claimed, arrays).verdict != "confirmed"


def test_a_lowered_error_of_a_table(saved, tmp_path):
    metadata, arrays = split(saved / "table")
    seen = certificate(metadata)["estimate"]
    lowered = with_certificate(metadata, estimate=seen | {"error": (float.fromhex(seen["error"]) / 2).hex()})
    for verdict in (careless(tmp_path / "net", lowered, arrays), consistent(tmp_path / "net", lowered, arrays)):
        assert (verdict.verdict, verdict.what) == ("rejected", "bound")


@pytest.mark.parametrize("scale", [1e300, 0.0])
def test_a_table_read_by_a_broken_network(saved, scale, tmp_path):
    """Scores that overflow, or values that vanish: nothing is confirmed where nothing is known."""
    metadata, arrays = split(saved / "table")
    for part in ("memory_keys", "memory_values"):
        name = next(name for name in arrays if name.endswith(part))
        verdict = consistent(tmp_path / "net", metadata, arrays | {name: scale * arrays[name]})
        assert is_honest(tmp_path / "net", verdict)
        assert verdict.verdict != "confirmed"


@pytest.mark.parametrize("model", FORMULAS)
def test_the_certificate_of_another_network(saved, model, tmp_path):
    metadata, arrays = split(saved / model)
    stronger = af.compile(metadata["target"]["text"], domain(metadata, arrays), 1e-4)
    borrowed = metadata | {"certificate": stronger.certificate.to_json()}
    told = careless(tmp_path / "net", borrowed, arrays)
    assert (told.verdict, told.what) == ("rejected", "network")
    told = consistent(tmp_path / "net", borrowed, arrays)
    assert (told.verdict, told.what) == ("rejected", "bound")


def domain(metadata, arrays):
    ends = zip(arrays["target.domain.lower"].tolist(), arrays["target.domain.upper"].tolist(), strict=True)
    return dict(zip(metadata["target"]["names"], ends, strict=True))


@pytest.mark.parametrize("model", ["one input", "two inputs", "relu"])
def test_a_borrowed_target(saved, model, tmp_path):
    """The target of one file in another: of the same shape it is another claim, of another shape it cannot be."""
    metadata, arrays = split(saved / model)
    for lender in sorted(MODELS.keys() - {model}):
        theirs, numbers = split(saved / lender)
        mixed = {name: array for name, array in arrays.items() if name.startswith("network.")}
        mixed |= {name: array for name, array in numbers.items() if name.startswith("target.")}
        edited = metadata | {"target": theirs["target"]}
        for verdict in (careless(tmp_path / "net", edited, mixed), consistent(tmp_path / "net", edited, mixed)):
            assert verdict.verdict == ("unprovable" if verdict.what is None else "rejected"), lender
            assert verdict.what in (None, "domain", "target", "network", "bound"), lender
        if (model, lender) in {("one input", "clamp"), ("relu", "two inputs")}:
            assert (verdict.verdict, verdict.what) == ("rejected", "bound")


@pytest.mark.parametrize("model", ["one input", "relu", "table"])
def test_truncated_and_longer_files(saved, model, tmp_path):
    data, path = (saved / model).read_bytes(), tmp_path / "net"
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    ends = {8 + length + end for entry in header.values() for end in entry.get("data_offsets", ())} - {len(data)}
    places = np.random.default_rng(3).integers(0, len(data), 60).tolist()
    for place in sorted({*ends, *places, 0, 8, 8 + length}):
        path.write_bytes(data[:place])
        with pytest.raises(af.FileFormatError):
            judged(path)
    for more in (b"\0", b" ", b"\n", b"}", data, pickle.dumps(Bomb(tmp_path / "made"))):
        path.write_bytes(data + more)
        with pytest.raises(af.FileFormatError):
            judged(path)
    assert not (tmp_path / "made").exists()


SOON = 2_000_000  # calls: three times what the longest of these checks takes
HOSTILE = {
    "nothing": None,
    "a number": 7,
    "a huge number": 10**300,
    "a fraction": 0.5,
    "a list": [[]],
    "an object": {"a": {}},
    "a word": "NaN",
    "infinity": "inf",
    "a long text": "x" * 10**6,
    "an overflow": "0x1p5000",
    "control characters": "\x1b[31m\u202e\u2066\0",
    "markup": "[red]x[/red]<script>",
    "a path": "../../etc/passwd",
    "many": ["a"] * 10_000,
}


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
    for place in [found[i] for i in rng.integers(0, len(found), 25)]:
        value = list(HOSTILE.values())[rng.integers(len(HOSTILE))]
        edited = put(opened, place, value)
        if isinstance(edited["certificate"], dict):
            edited["certificate"] = json.dumps(edited["certificate"])
        with suppress(af.AttnforgeError, AttributeError, KeyError, TypeError, ValueError):
            edited = agreeing(edited, arrays)
        path = join(tmp_path / "net", edited, arrays, honest=True)
        with at_most(SOON):
            problem, verdict = refusal(path, cells=30)
        if verdict is None:
            assert len(problem) < 1000
        else:
            assert is_honest(tmp_path / "net", verdict), place


def test_hostile_headers_cost_nothing(saved, tmp_path):
    body = (saved / "one input").read_bytes()[8:]
    twice = b'{"__metadata__": {"attnforge": "{}", "attnforge": "{}"}}'
    for data in (
        (2**63).to_bytes(8, "little") + body,
        (2**24 + 1).to_bytes(8, "little") + body,
        raw(tmp_path / "deep", b'{"a":' + b"[" * 10**6 + b"]" * 10**6 + b"}").read_bytes(),
        raw(tmp_path / "twice", twice).read_bytes(),
        raw(tmp_path / "name", json.dumps({"\x1b]0;x\n" + "n" * 10**6: {}}).encode()).read_bytes(),
        pickle.dumps(Bomb(tmp_path / "made")) + b"\0" * 100,
    ):
        (tmp_path / "net").write_bytes(data)
        tracemalloc.start()
        with at_most(1000), pytest.raises(af.FileFormatError) as refused:
            judged(tmp_path / "net")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**26
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 1000
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("key", ["format", "certificate", "target", "bound"])
def test_a_name_that_occurs_twice(saved, key, tmp_path):
    """The reader must not see another value than whoever looked at the file before."""
    data = (saved / "one input").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = header["__metadata__"]["attnforge"]
    if key == "bound":
        metadata = json.loads(text)
        stored = metadata["certificate"]
        metadata["certificate"] = '{"bound": "0x1p-40", ' + stored[1:]
        header["__metadata__"]["attnforge"] = json.dumps(metadata)
    else:
        header["__metadata__"]["attnforge"] = '{"' + key + '": 2, ' + text[1:]
    path = raw(tmp_path / "net", json.dumps(header).encode(), data[8 + length :])
    problem, verdict = refusal(path)
    if key == "bound":
        assert (verdict.verdict, verdict.what) == ("rejected", "certificate")
    else:
        assert "twice" in problem


@pytest.mark.parametrize("model", ["one input", "tokens", "relu", "table"])
def test_tensors_of_another_kind(saved, model, tmp_path):
    metadata, arrays = split(saved / model)
    for name, array in arrays.items():
        for other in (
            array.astype(np.float32),
            np.zeros(array.shape, np.uint8),
            array.astype(bool),
            array.reshape(1, 1, *array.shape),
            array[..., :0],
            np.zeros((0, 7)),
            np.concatenate([array, array], axis=-1),
        ):
            _, verdict = refusal(join(tmp_path / "net", metadata, arrays | {name: other}, honest=True), cells=100)
            if verdict is None:
                continue
            told = (verdict.verdict, verdict.what)
            assert told in {("rejected", "network"), ("rejected", "target"), ("rejected", "domain")} or (
                "domain" in name and other.size == array.size and verdict.verdict != "rejected"
            )  # one more axis around the ends of a domain changes no number of it
