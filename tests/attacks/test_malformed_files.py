"""Files that are damaged, truncated, oversized or something else: refused with a sentence, cheaply."""

import json
import pickle
import resource
import tracemalloc

import numpy as np
import pytest

import attnforge as af
from tests.attacks.files import Bomb, join, raw, split
from tests.clock import at_most
from tests.laws.cases import SMALL


@pytest.fixture(scope="module", params=["formula", "literal", "heads"])
def saved(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "net.safetensors"
    if request.param == "formula":
        net = af.compile(
            "clamp(2*x + 0.3*y, -1, 1)", {"x": (-1, 1), "y": (-1, 1)}, 0.1, construction="truncated_linear"
        )
    elif request.param == "literal":
        net = SMALL["gate"](layout="literal")
    else:
        net = SMALL["multihead_truncated_linear"]()
    net.save(path)
    return path


def refused(path, match=None):
    with pytest.raises(af.FileFormatError, match=match) as caught:
        af.load(path)
    message = str(caught.value)
    assert 20 < len(message) < 1000
    assert "Traceback" not in message


def test_the_file_itself_is_fine(saved):
    assert af.load(saved).certificate.bound > 0


def test_a_flipped_bit_in_any_tensor_is_found(saved, tmp_path):
    metadata, arrays = split(saved)
    for name, array in arrays.items():
        for place in {0, array.nbytes // 2, array.nbytes - 1}:
            data = bytearray(array.tobytes())
            data[place] ^= 1
            changed = arrays | {name: np.frombuffer(bytes(data), array.dtype).reshape(array.shape)}
            refused(join(tmp_path / "net", metadata, changed), "digest|finite|distinct tokens|rows are tokens")


def test_a_flipped_bit_anywhere_is_found(saved, tmp_path):
    data = saved.read_bytes()
    for place in np.linspace(0, len(data) - 1, 97).astype(int):
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 7)
        (tmp_path / "net").write_bytes(changed)
        if json_equal(data, bytes(changed)):
            continue  # white space of the header's padding carries nothing
        refused(tmp_path / "net")


def json_equal(first, second):
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
    refused(join(tmp_path / "net", {k: v for k, v in metadata.items() if k != key}, arrays))
    value = metadata[key]
    edited = value | {"more": 1} if isinstance(value, dict) else value + 1 if isinstance(value, int) else value + " "
    refused(join(tmp_path / "net", metadata | {key: edited}, arrays))
    if key != "digest":
        less = {k: v for k, v in metadata.items() if k != key}
        refused(join(tmp_path / "net", less, arrays, honest=True))


def test_truncated_files(saved, tmp_path):
    data = saved.read_bytes()
    header = int.from_bytes(data[:8], "little")
    for length in {0, 1, 7, 8, 9, 100, 8 + header - 1, 8 + header, 8 + header + 5, len(data) // 2, len(data) - 1}:
        (tmp_path / "net").write_bytes(data[:length])
        refused(tmp_path / "net")
    (tmp_path / "net").write_bytes(data + b"\0" * 8)
    refused(tmp_path / "net")


@pytest.mark.parametrize("length", [0, 1, 2**24 + 1, 2**40, 2**63, 2**64 - 1])
def test_lengths_of_the_header_that_lie(saved, tmp_path, length):
    body = saved.read_bytes()[8:]
    (tmp_path / "net").write_bytes(length.to_bytes(8, "little") + body)
    tracemalloc.start()
    refused(tmp_path / "net", "header must fit")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def entry(**changes):
    return {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} | changes


@pytest.mark.parametrize(
    "header",
    [
        {"a": entry(shape=[2])},
        {"a": entry(shape=[2**62, 2**62])},
        {"a": entry(shape=[10**400])},
        {"a": entry(shape=[-1, -1])},
        {"a": entry(shape="1")},
        {"a": entry(shape=None)},
        {"a": entry(shape=[1.5])},
        {"a": entry(shape=[float("nan")])},
        {"a": entry(data_offsets=[0, 2**50], shape=[2**47])},
        {"a": entry(data_offsets=[8, 0])},
        {"a": entry(data_offsets=[-8, 0])},
        {"a": entry(data_offsets=[0])},
        {"a": entry(data_offsets="08")},
        {"a": entry(dtype="F32")},
        {"a": entry(dtype="BOOL", shape=[8])},
        {"a": entry(dtype=["F64"])},
        {"a": 7},
        {"a": None},
        {"a": {}},
        {"__metadata__": 3, "a": entry()},
        {"__metadata__": {"attnforge": 3}, "a": entry()},
        {"__metadata__": {"attnforge": "not json"}, "a": entry()},
        {"__metadata__": {"attnforge": "[1, 2]"}, "a": entry()},
        {"__metadata__": {"attnforge": "null"}, "a": entry()},
        {"__metadata__": {"attnforge": "{}"}, "a": entry()},
        {"__metadata__": {"other": "x"}, "a": entry()},
        {"a": entry(), "b": entry()},
        {},
    ],
)
def test_headers_that_lie(tmp_path, header):
    refused(raw(tmp_path / "net", json.dumps(header).encode(), b"\0" * 8))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
        b"PK\x03\x04" + b"\0" * 100,
        b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
        b"\0" * 64,
        b"\xff" * 64,
        b"#!/bin/sh\necho hello\n" * 10,
        b"\x10\0\0\0\0\0\0\0" + b"\xff\xfe\xfd\xfc" * 4,
    ],
)
def test_other_files(tmp_path, data):
    (tmp_path / "net").write_bytes(data)
    refused(tmp_path / "net")


def test_a_pickle_is_not_unpickled(tmp_path):
    (tmp_path / "net").write_bytes(pickle.dumps(Bomb(tmp_path / "made")))
    refused(tmp_path / "net")
    assert not (tmp_path / "made").exists()
    with pytest.raises(af.FileFormatError):
        af.load(tmp_path)  # a folder
    with pytest.raises(af.FileFormatError, match="must exist"):
        af.load(tmp_path / "nowhere")


@pytest.mark.parametrize("where", ["header", "metadata"])
def test_deep_json(tmp_path, where):
    deep = "[" * 200_000 + "]" * 200_000
    if where == "header":
        text = '{"a": ' + deep + "}"
    else:
        text = json.dumps({"__metadata__": {"attnforge": '{"format": 3, "x": ' + deep + "}"}})
    refused(raw(tmp_path / "net", text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"format": 3, "x": NaN}'),
        pytest.param('{"format": 3, "x": 1e999}'),
        '{"format": 3, "x": "\\ud800"}',
    ],
)
def test_metadata_that_json_cannot_write_again(tmp_path, text):
    refused(raw(tmp_path / "net", json.dumps({"__metadata__": {"attnforge": text}}).encode()))


@pytest.mark.parametrize("version", [0, 1, 4, "3", None, 2.5, [3]])
def test_other_format_versions(saved, tmp_path, version):
    metadata, arrays = split(saved)
    refused(join(tmp_path / "net", metadata | {"format": version}, arrays, honest=True), "format versions 2 and 3")


def test_a_million_tensors_are_refused_cheaply(tmp_path):
    entries = ",".join(f'"{i:x}":{{}}' for i in range(1_000_000))
    path = raw(tmp_path / "net", ("{" + entries + "}").encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most(4 * 1_000_000):  # to read the JSON takes three calls a tensor
        refused(path, "at most 100,000 tensors")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB: JSON of at most 16 MiB


def test_a_file_larger_than_asked_for_is_not_read(saved):
    with pytest.raises(af.FileFormatError, match="between 9 and 100 bytes"):
        af.load(saved, max_bytes=100)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(saved, tmp_path, value):
    metadata, arrays = split(saved)
    for name, array in arrays.items():
        if array.dtype == np.float64:
            changed = array.copy()
            changed.flat[-1] = value
            refused(join(tmp_path / "net", metadata, arrays | {name: changed}, honest=True), "finite")
