"""Files of two formats: what is written now, and what was written before networks were checked when they are made."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.model_file import FORMAT, StoredModel, check, read, write
from attnforge.network import Attention, Linear, Network, Term, content_digest, digest
from tests.attacks.files import agreeing, join, split, under, with_certificate
from tests.model_file.kinds import KINDS, stored
from tests.network.examples import M, head

FIXTURES = Path(__file__).parent / "fixtures"
SOUND = ("sine", "gate", "leaky-relu")
REFUSED = {
    "half-a-token-key": r"key rows with both W_K and W_V, or none of the three\. Got no key_rows",
    "integer-weights": r"memory_values: an array of float64 .* Got int64",
}


def fixture(version: int, name: str) -> Path:
    return FIXTURES / f"format{version}-{name}.safetensors"


def values(net: af.Compiled) -> np.ndarray:
    box = net.target.domain
    share = np.linspace(0.0, 1.0, 50).reshape(50, *(1 for _ in box.shape))
    return net(box.lower + share * (box.upper - box.lower))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", SOUND)
def test_files_of_both_formats_load_with_a_proof(name, version, tmp_path):
    path = fixture(version, name)
    model = read(path)
    assert (model.format, model.is_intact) == (version, True)
    assert model.certificate.digest == digest(model.network)
    net = af.load(path)
    assert net.certificate.status == "proved"
    assert net.certificate.digest == digest(net.network)
    net.save(tmp_path / "again")
    assert check(tmp_path / "again", workers=1).verdict == "confirmed"
    assert check(path, workers=1).what in (None, "assumptions")  # words of an older attnforge may leave some out


@pytest.mark.parametrize("name", SOUND)
def test_both_formats_hold_the_same_network(name):
    old, new = (read(fixture(version, name)) for version in (2, 3))
    assert digest(old.network) == digest(new.network)
    np.testing.assert_array_equal(values(af.load(fixture(2, name))), values(af.load(fixture(3, name))))


@pytest.mark.parametrize("name", REFUSED)
def test_a_forbidden_state_is_refused_with_the_reason(name):
    for use in (read, af.load, check):
        with pytest.raises(af.FileFormatError, match=REFUSED[name]):
            use(fixture(2, name))


def lying(path: Path, version: int, tmp_path: Path) -> Path:
    """The file with a bound that is a thousandth of the true one, all digests written anew."""
    metadata, arrays = split(path)
    assert metadata["format"] == version
    bound = read(path).certificate.bound / 1000
    told = with_certificate(agreeing(metadata, arrays), bound=bound.hex(), parts={"all": bound.hex()})
    return join(tmp_path / "net", told, arrays, honest=True)


def test_an_old_certificate_is_not_relied_on(tmp_path):
    """A lie in a file of format 2 is replaced by the truth; in one of format 3 it is what the checker is for."""
    true = af.certify(af.load(fixture(3, "sine"))).bound
    assert af.load(lying(fixture(2, "sine"), 2, tmp_path)).certificate.bound == true
    for version in (2, 3):
        assert check(lying(fixture(version, "sine"), version, tmp_path), workers=1).verdict == "rejected"


def test_an_altered_old_file_is_told(tmp_path):
    metadata, arrays = split(fixture(2, "sine"))
    path = join(tmp_path / "net", metadata | {"reason": "another"}, arrays)
    assert not read(path).is_intact
    with pytest.raises(af.FileFormatError, match="digest"):
        af.load(path)


def test_an_old_file_whose_function_is_not_stored_is_refused(tmp_path):
    """Nothing could be certified anew; a file of the present format may keep its certificate."""
    write(stored(KINDS["callable"]()), tmp_path / "net")
    metadata, arrays = split(tmp_path / "net")
    assert af.load(tmp_path / "net").certificate.status == "conditional"
    old = join(tmp_path / "old", metadata | {"format": 2}, arrays, honest=True)
    with pytest.raises(af.FileFormatError, match=r"format 2 is certified anew .* A callable is not stored"):
        af.load(old)


@pytest.mark.parametrize("version", [1, FORMAT + 1, None, "3", 3.0, True])
def test_other_formats_are_refused(version, tmp_path):
    metadata, arrays = split(fixture(3, "sine"))
    with pytest.raises(af.FileFormatError, match="reads format versions 2 and 3"):
        read(join(tmp_path / "net", metadata | {"format": version}, arrays, honest=True))


def test_weights_and_indices_keep_their_places(tmp_path):
    metadata, arrays = split(fixture(3, "gate"))
    for name, array in arrays.items():
        other = array.astype(np.int64 if array.dtype == np.float64 else np.float64)
        path = join(tmp_path / "net", metadata, arrays | {name: other}, honest=True)
        with pytest.raises(af.FileFormatError, match=r"float64|int64"):
            read(path)
    with pytest.raises(af.FileFormatError, match="arrays of the network"):
        read(join(tmp_path / "net", metadata, arrays | {"extra": np.ones(1)}, honest=True))
    with pytest.raises(af.FileFormatError, match="description names"):
        read(join(tmp_path / "net", metadata, arrays | {"network.layer0.extra": np.ones(1)}, honest=True))


def with_claims_of_tomorrow(path: Path) -> tuple[dict, dict]:
    """A file whose heads say something of a kind that is not known yet, with its digests."""
    metadata, arrays = split(path)
    metadata = json.loads(json.dumps(metadata))
    for layer in metadata["network"]["layers"]:
        for entry in layer.get("heads", ()):
            entry["claims"] = {"kind": "register", "formula": "sin(x)", "range": [-1, 1]}
    arrays = {name: array for name, array in arrays.items() if "claims." not in name}
    arrays["network.layer1.head0.claims.bounds"] = np.array([0.0, 1.0])
    told = content_digest(metadata["network"], under("network.", arrays))
    return with_certificate(metadata, digest=told), arrays


def test_claims_of_an_unknown_kind_are_ignored(tmp_path):
    before = af.load(fixture(2, "sine"))
    before.save(tmp_path / "before")
    path = join(tmp_path / "net", *with_claims_of_tomorrow(tmp_path / "before"), honest=True)
    net = af.load(path)
    assert net.network.heads[0].claims is None
    assert net.certificate.bound == before.certificate.bound
    assert net.certificate.digest == digest(net.network)
    np.testing.assert_array_equal(values(net), values(before))
    assert check(path, workers=1).verdict == "confirmed"


def test_a_block_that_repeats_is_stored_once(tmp_path):
    net, last, sizes = af.load(fixture(3, "sine")), Linear((Term(np.ones((M, 1))),)), []
    for times in (2, 200):
        blocks = tuple(Attention((head(memory=3),), residual=True) for _ in range(times))
        network = Network((*blocks, last), M, 1)
        certificate = replace(net.certificate, digest=digest(network))
        write(StoredModel(network, net.target, certificate, "", "float64", ""), tmp_path / "net")
        sizes.append((tmp_path / "net").stat().st_size)
        again = read(tmp_path / "net")
        assert len(again.network.layers) == times + 1
        assert again.network.layers[0] is again.network.layers[times - 1]
        assert again.certificate.digest == digest(again.network) == digest(network)
    assert sizes[1] - sizes[0] < 1000
