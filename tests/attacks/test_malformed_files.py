"""Files that are damaged, truncated, oversized, edited or something else: refused with a sentence, cheaply.

A digest is integrity, not authenticity: whoever can write a file can write its digest. Such a file loads where it is
consistent, and then a lowered bound or another target shows as soon as the network is certified again.
"""

import copy
import json
import resource
import tracemalloc

import numpy as np
import pytest

import attnforge as af
from tests.attacks.files import agreeing, certificate, join, raw, split, with_certificate
from tests.clock import at_most
from tests.laws.cases import SMALL

MODELS = {
    "formula": lambda: af.compile("clamp(2*x + 0.3*y, -1, 1)", dict.fromkeys("xy", (-1, 1)), 0.1,
                                  construction="truncated_linear"),
    "literal": lambda: SMALL["gate"](layout="literal"),
    "heads": lambda: SMALL["multihead_truncated_linear"](),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("models")
    for name, build in MODELS.items():
        build().save(found / name)
    return found


@pytest.fixture(params=MODELS)
def saved(request, folder):
    return folder / request.param


@pytest.fixture
def parts(folder):
    return split(folder / "formula")


def refused(path, said=""):
    with pytest.raises(af.FileFormatError) as caught:
        af.load(path)
    message = str(caught.value)
    assert 20 < len(message) < 1000
    assert message.isprintable() or "\n" in message
    assert "Traceback" not in message
    assert said in message


def test_the_tools_of_this_file_change_nothing_by_themselves(saved, tmp_path):
    """Taking a file apart and putting it together gives a file that loads: refusals are due to the edits."""
    (metadata, arrays), before = split(saved), af.load(saved).certificate
    assert af.load(join(tmp_path / "net", metadata, arrays)).certificate == before
    same = with_certificate(metadata, **certificate(metadata))
    assert af.load(join(tmp_path / "net", agreeing(same, arrays), arrays, honest=True)).certificate == before


def test_a_flipped_bit_anywhere_is_found(saved, tmp_path):
    metadata, arrays = split(saved)
    for name, array in arrays.items():
        for place in {0, array.nbytes // 2, array.nbytes - 1}:
            data = bytearray(array.tobytes())
            data[place] ^= 1
            changed = arrays | {name: np.frombuffer(bytes(data), array.dtype).reshape(array.shape)}
            refused(join(tmp_path / "net", metadata, changed))
    data = saved.read_bytes()
    for place in np.linspace(0, len(data) - 1, 97).astype(int):
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 7)
        (tmp_path / "net").write_bytes(changed)
        if not differ_in_padding_only(data, bytes(changed)):
            refused(tmp_path / "net")


def differ_in_padding_only(first, second):
    """Whether two files differ only in how their headers are written."""
    length = int.from_bytes(first[:8], "little")
    if first[:8] != second[:8] or first[8 + length :] != second[8 + length :]:
        return False
    try:
        return json.loads(first[8 : 8 + length]) == json.loads(second[8 : 8 + length])
    except ValueError:
        return False


@pytest.mark.parametrize("key", ["format", "construction", "dtype", "network", "target", "certificate", "digest"])
def test_every_piece_of_metadata_is_needed_and_covered(saved, tmp_path, key):
    metadata, arrays = split(saved)
    less = {k: v for k, v in metadata.items() if k != key}
    value = metadata[key]
    edited = value | {"more": 1} if isinstance(value, dict) else value + 1 if isinstance(value, int) else value + " "
    refused(join(tmp_path / "net", less, arrays))
    refused(join(tmp_path / "net", metadata | {key: edited}, arrays))
    if key != "digest":
        refused(join(tmp_path / "net", less, arrays, honest=True))


def test_truncated_and_longer_files(saved, tmp_path):
    data = saved.read_bytes()
    header = int.from_bytes(data[:8], "little")
    for length in {0, 1, 7, 8, 9, 100, 8 + header - 1, 8 + header, 8 + header + 5, len(data) // 2, len(data) - 1}:
        (tmp_path / "net").write_bytes(data[:length])
        refused(tmp_path / "net")
    for more in (b"\0", b" ", b"\n", b"}", data):
        (tmp_path / "net").write_bytes(data + more)
        refused(tmp_path / "net")
    with pytest.raises(af.FileFormatError):
        af.load(saved, max_bytes=100)


@pytest.mark.parametrize("length", [0, 1, 2**24 + 1, 2**40, 2**63, 2**64 - 1])
def test_lengths_of_the_header_that_lie(saved, tmp_path, length):
    (tmp_path / "net").write_bytes(length.to_bytes(8, "little") + saved.read_bytes()[8:])
    tracemalloc.start()
    refused(tmp_path / "net")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def entry(**changes):
    return {"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} | changes}


HEADERS = [
    *(entry(shape=shape) for shape in ([2], [2**62, 2**62], [10**400], [-1, -1], "1", None, [1.5], [float("nan")])),
    *(entry(data_offsets=offsets) for offsets in ([8, 0], [-8, 0], [0], "08")),
    entry(data_offsets=[0, 2**50], shape=[2**47]), *(entry(dtype=dtype) for dtype in ("F32", ["F64"])),
    entry(dtype="BOOL", shape=[8]), *({"a": each} for each in (7, None, {})),
    *({"__metadata__": each} | entry() for each in (3, {"attnforge": 3}, {"attnforge": "not json"}, {"other": "x"})),
    *({"__metadata__": {"attnforge": text}} | entry() for text in ("[1, 2]", "null", "{}")),
    entry() | {"b": entry()["a"]}, {},
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_headers_that_lie(tmp_path, header):
    refused(raw(tmp_path / "net", json.dumps(header).encode(), b"\0" * 8))


DEEP = "[" * 200_000 + "]" * 200_000
TEXTS = ['{"format": 3, "x": ' + each + "}" for each in (DEEP, "NaN", "1e999", '"\\ud800"')]
OTHERS = [
    *(b"", b"{}", b"\0" * 64, b"\xff" * 64, b"PK\x03\x04" + b"\0" * 100, b"\x89PNG\r\n\x1a\n" + b"\0" * 100),
    *(b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}", b"#!/bin/sh\necho hello\n" * 10),
    b"\x10\0\0\0\0\0\0\0" + b"\xff\xfe\xfd\xfc" * 4,
]


def test_other_files(tmp_path):
    for data in OTHERS:
        (tmp_path / "net").write_bytes(data)
        refused(tmp_path / "net")
    for text in TEXTS:
        refused(raw(tmp_path / "net", json.dumps({"__metadata__": {"attnforge": text}}).encode()))
    refused(raw(tmp_path / "net", ('{"a": ' + DEEP + "}").encode()))
    refused(raw(tmp_path / "net", json.dumps({"\x1b]0;x\n" + "n" * 10**6: {}}).encode()))
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(af.FileFormatError):
            af.load(path)


def test_a_million_tensors_are_refused_cheaply(tmp_path):
    entries = ",".join(f'"{i:x}":{{}}' for i in range(1_000_000))
    path = raw(tmp_path / "net", ("{" + entries + "}").encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most(4 * 1_000_000):  # to read the JSON takes three calls a tensor
        refused(path, "at most 100,000 tensors")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB: JSON of at most 16 MiB


@pytest.mark.parametrize("key", ["format", "certificate", "target", "bound"])
def test_a_name_that_occurs_twice(folder, key, tmp_path):
    """The reader must not see another value than whoever looked at the file before."""
    data = (folder / "formula").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = header["__metadata__"]["attnforge"]
    metadata = json.loads(text)
    if key == "bound":
        text = json.dumps(metadata | {"certificate": '{"bound": "0x1p-40", ' + metadata["certificate"][1:]})
    else:
        text = '{"' + key + '": 2, ' + text[1:]
    header["__metadata__"]["attnforge"] = text
    path = raw(tmp_path / "net", json.dumps(header).encode(), data[8 + length :])
    refused(path)
    if key == "bound":
        assert af.check(path).verdict == "rejected"
        return
    with pytest.raises(af.FileFormatError):
        af.check(path)


# Edits by someone who recomputes the digest


def texted(text):
    return lambda m: m | {"target": m["target"] | {"text": text}}


FORGED = {
    **{f"format {v!r}": (lambda m, v=v: m | {"format": v}) for v in (0, 1, 4, "3", None, 2.5, [3])},
    **{f"dtype {v}": (lambda m, v=v: m | {"dtype": v}) for v in ("float32", "int8")},
    **{f"certificate {v!r}"[:30]: (lambda m, v=v: m | {"certificate": v})
       for v in ("", "[]", "7", "null", "[" * 100_000, 5, None, ["x"], {})},
    **{f"certificate's {v}": (lambda m, v=v: with_certificate(m, **v))
       for v in ({"bound": "0x1p5000"}, {"bound": "nan"}, {"bound": None}, {"bound": (1e-9).hex()},
                 {"status": "true"},
                 {"parts": {"spacing": "-0x1p0"}, "bound": "-0x1p-1"}, {"domain": []}, {"digest": 5},
                 {"estimate": []})},
    **{f"target {v!r}": (lambda m, v=v: m | {"target": v})
       for v in ({}, {"kind": "pickle"}, {"kind": ["formula"]}, {"kind": "formula"}, {"kind": "truncated_linear"}, [],
                 "formula", None)},
    **{f"text {v!r}"[:40]: texted(v)
       for v in ("__import__('os').system('true')", "open('/etc/passwd')", "().__class__", "lambda: 0", "9**9**9**9",
                 "(" * 5000 + "x" + ")" * 5000, "x" * 10**6, "clamp(x, -1", "", "\0", "x; y", "{x}",
                 "clamp(z, -1, 1)", "clamp(x, -1, 1.5)")},
    **{f"outputs {v!r}": (lambda m, v=v: m | {"target": m["target"] | {"outputs": v, "kind": "truncated_linear"}})
       for v in (10**12, 2.5, True, -1, 0, "3", [1])},
    **{f"network {v}": (lambda m, v=v: m | {"network": m["network"] | v})
       for v in ({"layers": 5}, {"layers": []}, {"features": "many"}, {"features": 10**9}, {"tokens": "abc"},
                 {"tokens": 10**12}, {"tokens": -1}, {"context": [1]}, {"context": "ab"})},
    **{f"network {v!r}": (lambda m, v=v: m | {"network": v}) for v in ({}, [], None)},
}  # fmt: skip


@pytest.mark.parametrize("edit", FORGED)
def test_an_edit_with_its_digest_is_refused(parts, tmp_path, edit):
    metadata, arrays = parts
    refused(join(tmp_path / "net", FORGED[edit](metadata), arrays, honest=True))


HEADS = [
    {"query_rows": {"kind": "odd", "source": "state"}}, {"query_rows": {"kind": ["own"], "source": "state"}},
    {"query_rows": {"kind": "own", "source": ["state"]}}, {"claims": {"roles": 5}},
    {"claims": {"sharpness": "0x1p5000"}},
    {"claims": {"roles": [["anchor"]]}}, {"claims": {"roles": ["a\nb"]}},
    {"claims": {"construction": "gate\nverdict  confirmed"}},
]  # fmt: skip


@pytest.mark.parametrize("change", HEADS, ids=str)
def test_heads_of_nonsense_are_refused(parts, tmp_path, change):
    metadata, arrays = copy.deepcopy(parts[0]), parts[1]
    head = metadata["network"]["layers"][1]["heads"][0]
    for name, value in change.items():
        head[name] = head[name] | value
    refused(join(tmp_path / "net", metadata, arrays, honest=True))


def test_an_edited_array_is_refused_even_with_its_digest(saved, tmp_path):
    """Missing, misshapen, changed or not finite: the certificate names the network and the domain it is about."""
    metadata, arrays = split(saved)
    for name, array in arrays.items():
        others = [array[:0]] + ([array[None], array + 1] if name.startswith("network.") else [])
        first = np.arange(array.size).reshape(array.shape) == 0
        others += [np.where(first, bad, array) for bad in (np.nan, -np.inf) if array.dtype == np.float64]
        for other in others:
            refused(join(tmp_path / "net", metadata, arrays | {name: other}, honest=True))
        refused(join(tmp_path / "net", metadata, {k: v for k, v in arrays.items() if k != name}, honest=True))


LOWERED = {"bound": (1e-9).hex(), "parts": {"spacing": (1e-9).hex(), "leakage": (0.0).hex(), "rounding": (0.0).hex()}}
CONSISTENT = {
    "a lowered bound": lambda m, a: (with_certificate(m, **LOWERED), a),
    "another target": lambda m, a: (texted("clamp(1.5*x, -1, 1) + 0*y")(m), a),
    "a wider domain": lambda m, a: (m, a | {"target.domain.upper": np.array([1e9, 1e9])}),
}


@pytest.mark.parametrize("edit", CONSISTENT)
def test_a_lie_that_fits_together_is_found_by_certifying(parts, folder, tmp_path, edit):
    """Loading cannot see it: the file is consistent. Certifying gives a true bound, above the stored one, or none."""
    metadata, arrays = CONSISTENT[edit](*parts)
    refused(join(tmp_path / "net", metadata, arrays))
    loaded = af.load(join(tmp_path / "net", agreeing(metadata, arrays), arrays, honest=True))
    try:
        bound = af.certify(loaded).bound
    except (af.CertificateError, af.RefusalError):
        return
    assert af.measure(loaded, points=1000).sup <= bound
    assert bound > loaded.certificate.bound
