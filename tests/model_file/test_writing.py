"""Writing: every kind of model, the same bytes for the same model, and whole files only."""

import json
import struct

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.certificate import target_digest
from attnforge.model_file import read, write
from attnforge.model_file.stored import FORMAT
from attnforge.network import content_digest, digest, flatten
from tests.attacks.files import split
from tests.model_file.kinds import KINDS, stored


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_keeps_everything(kind, tmp_path):
    model = stored(KINDS[kind]())
    write(model, tmp_path / "net")
    again = read(tmp_path / "net")
    assert again.is_intact
    assert digest(again.network) == digest(model.network) == again.certificate.digest
    assert target_digest(again.target) == target_digest(model.target) == again.certificate.target
    assert type(again.target) is type(model.target)
    assert np.array_equal(again.target.domain.lower, model.target.domain.lower)
    assert again.target.names == model.target.names
    assert again.certificate == model.certificate
    assert (again.construction, again.dtype, again.reason) == (model.construction, model.dtype, model.reason)
    write(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "net").read_bytes()


def test_what_a_file_holds(tmp_path):
    model = stored(KINDS["formula"]())
    write(model, tmp_path / "net")
    metadata, arrays = split(tmp_path / "net")
    fields = {"format", "construction", "reason", "dtype", "network", "target", "certificate", "digest"}
    assert set(metadata) == fields
    assert metadata["format"] == FORMAT == 3
    assert metadata["target"] == {"kind": "formula", "text": "sin(3*x)", "names": ["x"]}
    assert {"target.domain.lower", "target.domain.upper"} == {name for name in arrays if name.startswith("target.")}
    assert {f"network.{name}" for name in flatten(model.network)[1]} == {n for n in arrays if n.startswith("network.")}
    assert {array.dtype for array in arrays.values()} <= {np.dtype("float64"), np.dtype("int64")}
    assert metadata["digest"] == content_digest({k: v for k, v in metadata.items() if k != "digest"}, arrays)


def test_a_file_is_a_plain_safetensors_file(tmp_path):
    write(stored(KINDS["literal"]()), tmp_path / "net")
    data = (tmp_path / "net").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert list(header["__metadata__"]) == ["attnforge"]
    assert max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__") == len(
        data[8 + length :]
    )


def test_a_network_that_differs_is_another_file(tmp_path):
    for i, t in enumerate((0.1, np.nextafter(0.1, 1))):
        write(stored(af.constructions.gate([1.0], t, -1, 1)), tmp_path / str(i))
    assert (tmp_path / "0").read_bytes() != (tmp_path / "1").read_bytes()


def test_places_that_cannot_be_written(tmp_path):
    model = stored(KINDS["table"]())
    with pytest.raises(af.FileFormatError, match="writable place"):
        write(model, tmp_path / "no such folder" / "net")
    (tmp_path / "folder").mkdir()
    with pytest.raises(af.FileFormatError, match="writable place"):
        write(model, tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder"]  # nothing is left behind


def test_writing_over_a_file_replaces_it(tmp_path):
    first, second = stored(KINDS["table"]()), stored(KINDS["formula"]())
    write(first, tmp_path / "net")
    write(second, str(tmp_path / "net"))
    assert read(tmp_path / "net").certificate == second.certificate
    assert [p.name for p in tmp_path.iterdir()] == ["net"]
