"""Programs in files: what comes back is what was saved, no code is kept, and hostile files are refused in words."""

import copy
import itertools
import json
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import attnforge as af
from attnforge import programs as p
from attnforge.network import content_digest, digest
from attnforge.targets.programs.alphabet import identity
from attnforge.targets.programs.stored import label_from_data, label_to_data, program_from_data, program_to_data
from tests.laws import hostile_programs as hostile
from tests.refusals import refused

KEPT = [
    None, True, 0, -7, 10**300, "", "a\n\u2028", 0.1, -0.0, float("inf"), 1 + 2j, b"\x00", (), (1, (True, "x")),
    frozenset(), frozenset({1, 2}), Fraction(-1, 3), Decimal("1.00"), Decimal("1E+5"),
]  # fmt: skip
NOT_KEPT = [
    float("nan"), (float("nan"),), np.int64(1), hostile.Word("a"), hostile.Colour.RED, range(2), 10**4000, "x" * 2000,
]  # fmt: skip


@pytest.mark.parametrize("label", KEPT, ids=repr)
def test_labels_come_back_with_their_types(label):
    again = label_from_data(json.loads(json.dumps(label_to_data(label))))
    assert identity(again) == identity(label)


@pytest.mark.parametrize("label", NOT_KEPT, ids=lambda label: f"{type(label).__name__} {label!r:.9}")
def test_labels_that_text_cannot_tell_are_refused(label):
    with refused(af.TargetError):
        label_to_data(label)


def nested(depth):
    return label_to_data("x") if depth == 0 else {"tuple": [nested(depth - 1)]}


STRANGE = [
    1.5, [], {}, {"tuple": 1}, {"float": 1.5}, {"float": "nan"}, {"float": "0x1.0p0"}, {"fraction": "2/4"},
    {"fraction": "1/0"}, {"list": []}, {"float": "0x1p+0", "bytes": ""}, {"bytes": "0"}, {"decimal": "NaN"},
    {"complex": ["0x0.0p+0"]}, {"complex": 1}, nested(30), {"frozenset": [{"tuple": [[]]}]}, 10**4000,
    {"fraction": "9" * 5000}, {1: 2}, {"tuple": {"tuple": []}},
]  # fmt: skip


@pytest.mark.parametrize("data", STRANGE, ids=lambda data: repr(data)[:30])
def test_stored_labels_that_are_none_are_refused(data):
    program = {**stored("histogram"), "vocabulary": ["a", data]}
    with refused(af.FileFormatError):
        program_from_data(program)


def stored(key):
    """A program of the library as data."""
    net = p.compile(p.library[key], p.library[key].small, 3)
    return json.loads(json.dumps(program_to_data(net.layout.typed)))


@pytest.mark.parametrize("key", p.library)
def test_what_is_read_is_what_was_written(key):
    data = stored(key)
    assert json.loads(json.dumps(program_to_data(program_from_data(data)))) == data


def test_networks_come_back_with_outputs_certificate_and_trace(tmp_path):
    net = p.compile(p.library["induction"], max_length=6)
    net.save(tmp_path / "net.safetensors")
    loaded = af.load(tmp_path / "net.safetensors")
    sequence = list(net.vocabulary[:6])
    assert digest(loaded.network) == digest(net.network)
    assert loaded.certificate == net.certificate == af.certify(loaded)
    assert str(loaded.trace(sequence)) == str(net.trace(sequence))
    assert loaded(sequence) == net(sequence)
    assert af.check(tmp_path / "net.safetensors").verdict == "confirmed"


def test_users_functions_are_called_when_a_program_is_compiled_and_never_again(tmp_path):
    calls = []

    def noted(token):
        calls.append(token)
        return token.upper()

    related = p.select(p.tokens, p.tokens, lambda key, query: calls.append(key) or key == query)
    program = p.labels(noted, p.aggregate(related.last(), p.tokens))
    net = p.compile(program, ["a", "b"], 4)
    calls.clear()
    net.save(tmp_path / "net")
    for each in (net, af.load(tmp_path / "net"), pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert each(["a", "b", "a"]) == ["A", "B", "A"]
        assert each.certify() == net.certificate
    assert calls == []


def test_labels_of_ones_own_are_refused_when_saved_and_only_then(tmp_path):
    net = p.compile(p.tokens, list(hostile.Colour), 2)
    assert net([hostile.Colour.RED]) == [hostile.Colour.RED]
    with refused(af.TargetError):
        net.save(tmp_path / "net")


def test_drawn_programs_come_back(tmp_path):
    count = 0
    for seed in range(60):
        case = hostile.drawn(seed)
        try:
            net = p.compile(hostile.forged(case.tree), case.vocabulary, case.length, causal=case.causal)
            net.save(tmp_path / "net")
        except af.AttnforgeError:
            continue
        loaded = af.load(tmp_path / "net")
        assert loaded.certify() == net.certificate
        for sequence in map(list, itertools.product(case.vocabulary, repeat=case.length)):
            assert hostile.told(loaded(sequence)) == hostile.told(net(sequence))
        count += 1
    assert count > 15


# hostile files


def parts(path):
    """Metadata and arrays of a file."""
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["attnforge"]), load_file(path)


def forged(path, metadata, arrays):
    """The file with other content, and the digest of that."""
    metadata = {name: value for name, value in metadata.items() if name != "digest"}
    metadata["digest"] = content_digest(metadata, arrays)
    save_file(arrays, path, metadata={"attnforge": json.dumps(metadata)})


def places(data, path=()):
    """Every place in plain data."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def put(data, path, value):
    """The data with another value at a place."""
    if not path:
        return value
    again = copy.deepcopy(data)
    inner = again
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return again


VALUES = [
    None, -1, 0, 1, 2, 99, 10**12, 2**24, True, "", "==", "a", "1/2", "-1", [], ["a", "a"], {}, {"float": "inf"}, 0.5,
    [[]], "0" * 4,
]  # fmt: skip


@pytest.mark.parametrize("key", ["sort", "induction", "dyck1", "kth_largest"])
def test_hostile_fields_are_refused_in_words_or_mean_what_they_say(key):
    """Whatever stands in a file is a program, or is refused; no other error, no time, no memory."""
    data, source, made, worded = stored(key), np.random.default_rng(0), 0, True
    every = list(places(data))
    for path in [every[i] for i in source.integers(len(every), size=300)]:
        value = VALUES[source.integers(len(VALUES))]
        try:
            typed = program_from_data(put(data, path, value))
        except af.FileFormatError as error:
            worded = worded and bool(error.requirement) and error.got is not None
            continue
        program_to_data(typed)
        made += 1
    assert worded
    assert made > 3


@pytest.mark.parametrize("key", ["reverse", "induction"])
def test_altered_files_never_confirm_what_is_false(key, tmp_path):
    """With a new digest: the verdict is a refusal, or the altered program is what the network computes."""
    path, other = tmp_path / "net.safetensors", tmp_path / "other.safetensors"
    p.compile(p.library[key], p.library[key].small[:2], 3).save(path)
    metadata, arrays = parts(path)
    every, source, verdicts = list(places(metadata["target"])), np.random.default_rng(1), []
    for place in [every[i] for i in source.integers(len(every), size=80)]:
        value = VALUES[source.integers(len(VALUES))]
        forged(other, {**metadata, "target": put(metadata["target"], place, value)}, arrays)
        try:
            verdict = af.check(other).verdict
        except af.FileFormatError:
            continue
        verdicts.append(verdict)
        if verdict == "confirmed":
            net = af.load(other)
            for n in range(1, net.max_length + 1):
                for tokens in map(list, itertools.product(net.vocabulary, repeat=n)):
                    assert net(tokens) == p.evaluate(net.program, tokens)[net.program]
    assert verdicts


CLAIMS = {
    "a smaller bound": lambda c: {**c, "bound": 0.0, "parts": {"leakage": 0.0, "rounding": 0.0}},
    "a longer length": lambda c: {**c, "max_length": 9},
    "more tokens": lambda c: {**c, "vocabulary": 3},
    "another dtype": lambda c: {**c, "dtype": "float32"},
    "no assumption": lambda c: {**c, "assumptions": []},
    "an exact register": lambda c: {**c, "registers": [[*each[:2], 0.0, 0.0] for each in c["registers"]]},
    "another register": lambda c: {**c, "registers": [["x", *each[1:]] for each in c["registers"]]},
    "one register too many": lambda c: {**c, "registers": [*c["registers"], c["registers"][0]]},
    "another network": lambda c: {**c, "digest": "0" * 64},
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_certificates_that_say_more_than_is_proved_are_rejected(claim, tmp_path):
    path = tmp_path / "net.safetensors"
    p.compile(p.library["reverse"], ["a", "b"], 3).save(path)
    metadata, arrays = parts(path)
    assert af.check(path).verdict == "confirmed"
    metadata["certificate"] = json.dumps(CLAIMS[claim](json.loads(metadata["certificate"])))
    forged(path, metadata, arrays)
    assert af.check(path).verdict == "rejected"


def test_altered_weights_are_rejected(tmp_path):
    path = tmp_path / "net.safetensors"
    p.compile(p.library["reverse"], ["a", "b"], 3).save(path)
    metadata, arrays = parts(path)
    for name in [name for name in arrays if name.endswith(("query", "memory_keys")) and arrays[name].any()]:
        forged(path, metadata, {**arrays, name: np.zeros_like(arrays[name])})
        assert af.check(path).verdict == "rejected"


def test_sizes_are_capped_before_memory_is_spent():
    data = stored("sort")
    for size in (2**24 + 1, 10**30, 0, -1, 1.0, "3"):
        with refused(af.FileFormatError):
            program_from_data({**data, "max_length": size})
    with refused(af.FileFormatError):  # positions would be as many labels
        program_from_data({**data, "max_length": 2**24})
    with refused(af.FileFormatError):
        program_from_data({**data, "operations": data["operations"] * 5000})


def test_another_kind_of_target_beside_the_certificate_is_refused(tmp_path):
    path, other = tmp_path / "net.safetensors", tmp_path / "f.safetensors"
    p.compile(p.library["reverse"], ["a", "b"], 3).save(path)
    af.compile("x", {"x": (0, 1)}, 0.1).save(other)
    (program, arrays), (function, _) = parts(path), parts(other)
    for metadata in ({**program, "certificate": function["certificate"]}, {**program, "certificate": None}):
        forged(path, metadata, arrays)
        with refused(af.FileFormatError):
            af.load(path)
