"""What a model file holds, how it is written, and what a reader refuses."""

import json
import struct

import numpy as np
import pytest

import attnforge as af
from attnforge.network import content_digest, flatten
from tests.attacks.files import join, split
from tests.catalogue import network
from tests.refusals import refused


@pytest.fixture
def saved(tmp_path):
    """Metadata and arrays of a file."""
    network("gate, literal").save(tmp_path / "saved")
    return split(tmp_path / "saved")


def is_refused(path):
    for use in (af.load, af.check):
        with refused(af.FileFormatError) as caught:
            use(path)
    return str(caught.value)


def test_what_a_file_holds(tmp_path):
    net = network("sine")
    net.save(tmp_path / "net")
    metadata, arrays = split(tmp_path / "net")
    fields = {"format", "construction", "reason", "dtype", "network", "target", "certificate", "digest"}
    assert set(metadata) == fields
    assert metadata["format"] == 3
    assert metadata["target"] == {"kind": "formula", "text": "sin(3*x)", "names": ["x"]}
    assert {"target.domain.lower", "target.domain.upper"} == {name for name in arrays if name.startswith("target.")}
    assert {f"network.{name}" for name in flatten(net.network)[1]} == {n for n in arrays if n.startswith("network.")}
    assert {array.dtype for array in arrays.values()} <= {np.dtype("float64"), np.dtype("int64")}
    assert metadata["digest"] == content_digest({k: v for k, v in metadata.items() if k != "digest"}, arrays)


def test_a_file_is_a_plain_safetensors_file(tmp_path):
    network("gate, literal").save(tmp_path / "net")
    data = (tmp_path / "net").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert list(header.pop("__metadata__")) == ["attnforge"]
    assert max(entry["data_offsets"][1] for entry in header.values()) == len(data[8 + length :])


def test_a_network_that_differs_is_another_file(tmp_path):
    for i, t in enumerate((0.1, np.nextafter(0.1, 1))):
        af.constructions.gate([1.0], t, -1, 1).save(tmp_path / str(i))
    assert (tmp_path / "0").read_bytes() != (tmp_path / "1").read_bytes()


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    (tmp_path / "folder").mkdir()
    for place in ("no such folder/net", "folder"):
        with refused(af.FileFormatError):
            network("table").save(tmp_path / place)
    network("table").save(tmp_path / "net")
    network("sine").save(str(tmp_path / "net"))
    assert af.load(tmp_path / "net").certificate == network("sine").certificate
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "net"]


def test_an_altered_file_is_not_loaded(saved, tmp_path):
    """Whatever does not count by itself: the digest of all of it tells."""
    metadata, arrays = saved
    altered, path = metadata | {"reason": "another"}, tmp_path / "net"
    assert af.load(join(path, altered, arrays, honest=True)).reason == "another"
    for other in (altered, {key: value for key, value in metadata.items() if key != "digest"}):
        with refused(af.FileFormatError):
            af.load(join(path, other, arrays))


def edited(metadata, part, change):
    """Something else said in the first head, where it says that."""
    found = json.loads(json.dumps(metadata["network"]))
    attention = next(layer for layer in found["layers"] if layer["kind"] == "attention")
    attention["heads"][0][part] |= change
    return metadata | {"network": found}


CLAIMS = [
    {"construction": "two\nlines"}, {"construction": "x" * 101}, {"construction": "\u202egate"},
    {"roles": ["\x1b[31m"] * 3}, {"roles": [["anchor"]]}, {"roles": [1, 2, 3]}, {"roles": [None]},
]  # fmt: skip


@pytest.mark.parametrize("claims", CLAIMS, ids=str)
def test_names_are_one_line_of_text(saved, tmp_path, claims):
    metadata, arrays = saved
    is_refused(join(tmp_path / "net", edited(metadata, "claims", claims), arrays, honest=True))


@pytest.mark.parametrize("rows", [{"kind": "own", "source": "nowhere"}, {"kind": "odd", "source": "state"}])
@pytest.mark.parametrize("field", ["query_rows", "key_rows"])
def test_rows_are_of_a_known_kind(saved, tmp_path, field, rows):
    metadata, arrays = saved
    kept = {name: array for name, array in arrays.items() if not name.endswith(field)}
    is_refused(join(tmp_path / "net", edited(metadata, field, rows), kept, honest=True))


def test_long_texts_are_cut(saved, tmp_path):
    metadata, arrays = saved
    net = af.load(join(tmp_path / "net", metadata | {"reason": "x" * 10**6}, arrays, honest=True))
    assert len(net.reason) == 1000
    odd = metadata["network"] | {"layers": [{"kind": "x" * 10**6}]}
    assert len(is_refused(join(tmp_path / "net", metadata | {"network": odd}, arrays, honest=True))) < 700


def test_a_network_for_another_target_is_refused(tmp_path):
    network("sine").save(tmp_path / "one")
    network("deep relu").save(tmp_path / "two")
    (metadata, arrays), (theirs, numbers) = split(tmp_path / "one"), split(tmp_path / "two")
    mixed = {name: array for name, array in arrays.items() if name.startswith("network.")}
    mixed |= {name: array for name, array in numbers.items() if name.startswith("target.")}
    is_refused(join(tmp_path / "net", metadata | {"target": theirs["target"]}, mixed, honest=True))


def test_arrays_keep_their_places_and_kinds(saved, tmp_path):
    metadata, arrays = saved
    for name, array in arrays.items():
        other = array.astype(np.int64 if array.dtype == np.float64 else np.float64)
        is_refused(join(tmp_path / "net", metadata, arrays | {name: other}, honest=True))
    for name in ("extra", "network.layer0.extra"):
        is_refused(join(tmp_path / "net", metadata, arrays | {name: np.ones(1)}, honest=True))
