"""Reading: what was altered is told, what is malformed or too large is refused."""

import json

import pytest

import attnforge as af
from attnforge.model_file import read, write
from attnforge.model_file.reading import MAX_NAME, MAX_REASON
from tests.attacks.files import join, raw, split
from tests.model_file.kinds import KINDS, stored


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "net"
    write(stored(KINDS["literal"]()), path)
    return path


def refused(path, match, **options):
    with pytest.raises(af.FileFormatError, match=match):
        read(path, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_an_altered_file_is_read_and_told(kind, tmp_path):
    """Reading alone does not refuse it: the checker names what was altered, loading refuses."""
    write(stored(KINDS[kind]()), tmp_path / "honest")
    metadata, arrays = split(tmp_path / "honest")
    path = join(tmp_path / "net", metadata | {"reason": "another"}, arrays)
    assert not read(path).is_intact
    assert read(join(path, metadata | {"reason": "another"}, arrays, honest=True)).is_intact
    assert not read(join(path, {k: v for k, v in metadata.items() if k != "digest"}, arrays)).is_intact
    with pytest.raises(af.FileFormatError, match="digest"):
        af.load(path)


def test_sizes_are_checked_first(saved, tmp_path):
    refused(saved, "between 9 and 100 bytes", max_bytes=100)
    refused(raw(tmp_path / "net", b"{}", length=2**60), "header must fit")
    refused(tmp_path / "nowhere", "must exist")
    refused(tmp_path, "must exist")


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    refused(raw(tmp_path / "net", b'{"__metadata__": {}, "__metadata__": {}}'), "a name occurs twice")
    metadata = '{"format": 3, "format": 3}'
    refused(raw(tmp_path / "net", json.dumps({"__metadata__": {"attnforge": metadata}}).encode()), "occurs twice")


def edited_claims(metadata, **changes):
    network = json.loads(json.dumps(metadata["network"]))
    attention = next(layer for layer in network["layers"] if layer["kind"] == "attention")
    attention["heads"][0]["claims"] |= changes
    return metadata | {"network": network}


@pytest.mark.parametrize(
    "changes",
    [
        {"construction": "two\nlines"},
        {"construction": "x" * (MAX_NAME + 1)},
        {"construction": "\u202egate"},
        {"roles": ["\x1b[31m"] * 3},
        {"roles": [["anchor"]]},
        {"roles": [1, 2, 3]},
        {"roles": [None]},
    ],
)
def test_names_are_one_line_of_text(saved, tmp_path, changes):
    metadata, arrays = split(saved)
    path = join(tmp_path / "net", edited_claims(metadata, **changes), arrays, honest=True)
    refused(path, "named by at most 100|role of each key")


@pytest.mark.parametrize("rows", [{"kind": "own", "source": "nowhere"}, {"kind": "odd", "source": "state"}])
def test_rows_are_of_a_known_kind(saved, tmp_path, rows):
    metadata, arrays = split(saved)
    network = json.loads(json.dumps(metadata["network"]))
    head = next(layer for layer in network["layers"] if layer["kind"] == "attention")["heads"][0]
    for field in ("query_rows", "key_rows"):
        edited = head | {field: rows}
        layers = [layer if "heads" not in layer else layer | {"heads": [edited]} for layer in network["layers"]]
        kept = {name: array for name, array in arrays.items() if not name.endswith(field)}
        other = metadata | {"network": network | {"layers": layers}}
        refused(join(tmp_path / "net", other, kept, honest=True), "queries are all|Rows are all")


def test_long_texts_are_cut(saved, tmp_path):
    metadata, arrays = split(saved)
    model = read(join(tmp_path / "net", metadata | {"reason": "x" * 10**6}, arrays, honest=True))
    assert len(model.reason) == MAX_REASON
    network = metadata["network"] | {"layers": [{"kind": "x" * 10**6}]}
    with pytest.raises(af.FileFormatError) as error:
        read(join(tmp_path / "net", metadata | {"network": network}, arrays, honest=True))
    assert len(str(error.value)) < 700


def test_a_network_of_another_width_is_refused(tmp_path):
    write(stored(KINDS["formula"]()), tmp_path / "one")
    write(stored(KINDS["relu"]()), tmp_path / "two")
    metadata, arrays = split(tmp_path / "one")
    theirs, numbers = split(tmp_path / "two")
    mixed = {name: array for name, array in arrays.items() if name.startswith("network.")}
    mixed |= {name: array for name, array in numbers.items() if name.startswith("target.")}
    edited = metadata | {"target": theirs["target"]}
    refused(join(tmp_path / "net", edited, mixed, honest=True), "1 features for 2 outputs")
