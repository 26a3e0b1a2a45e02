"""Files of two formats: what is written now, and what was written before networks were checked when they are made."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.network import content_digest, digest
from tests.attacks.files import agreeing, certificate, join, split, under, with_certificate
from tests.catalogue import network
from tests.refusals import refused

FIXTURES = Path(__file__).parent / "fixtures"
SOUND = ("sine", "gate", "leaky-relu")


def fixture(version: int, name: str) -> Path:
    return FIXTURES / f"format{version}-{name}.safetensors"


def values(net: af.Compiled) -> np.ndarray:
    share = np.linspace(0.0, 1.0, 50).reshape(50, *(1 for _ in net.domain.shape))
    return net(net.domain.lower + share * (net.domain.upper - net.domain.lower))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", SOUND)
def test_files_of_both_formats_load_with_a_proof(name, version, tmp_path):
    path = fixture(version, name)
    net = af.load(path)
    assert split(path)[0]["format"] == version
    assert net.certificate.status == "proved"
    assert net.certificate.digest == digest(net.network) == certificate(split(path)[0])["digest"]
    net.save(tmp_path / "again")
    assert af.check(tmp_path / "again", workers=1).verdict == "confirmed"
    assert af.check(path, workers=1).what in (None, "assumptions")  # words of an older attnforge may leave some out


@pytest.mark.parametrize("name", SOUND)
def test_both_formats_hold_the_same_network(name):
    old, new = (af.load(fixture(version, name)) for version in (2, 3))
    assert digest(old.network) == digest(new.network)
    np.testing.assert_array_equal(values(old), values(new))


@pytest.mark.parametrize("name", ["half-a-token-key", "integer-weights"])
def test_a_forbidden_state_is_refused(name):
    for use in (af.load, af.check):
        with refused(af.FileFormatError):
            use(fixture(2, name))


def lying(version: int, tmp_path: Path) -> Path:
    """The file with a bound that is a thousandth of the true one, all digests written anew."""
    metadata, arrays = split(fixture(version, "sine"))
    bound = (float.fromhex(certificate(metadata)["bound"]) / 1000).hex()
    told = with_certificate(agreeing(metadata, arrays), bound=bound, parts={"all": bound})
    return join(tmp_path / "net", told, arrays, honest=True)


def test_an_old_certificate_is_not_relied_on(tmp_path):
    """A lie in a file of format 2 is replaced by the truth; in one of format 3 it is what the checker is for."""
    true = af.certify(af.load(fixture(3, "sine"))).bound
    assert af.load(lying(2, tmp_path)).certificate.bound == true
    for version in (2, 3):
        assert af.check(lying(version, tmp_path), workers=1).verdict == "rejected"


def test_an_altered_old_file_is_refused(tmp_path):
    metadata, arrays = split(fixture(2, "sine"))
    with refused(af.FileFormatError):
        af.load(join(tmp_path / "net", metadata | {"reason": "another"}, arrays))


def test_an_old_file_whose_function_is_not_stored_is_refused(tmp_path):
    """Nothing could be certified anew; a file of the present format may keep its certificate."""
    network("callable on a row").save(tmp_path / "net")
    metadata, arrays = split(tmp_path / "net")
    assert af.load(tmp_path / "net").certificate.status == "conditional"
    with refused(af.FileFormatError):
        af.load(join(tmp_path / "old", metadata | {"format": 2}, arrays, honest=True))


@pytest.mark.parametrize("version", [1, 4, None, "3", 3.0, True])
def test_other_formats_are_refused(version, tmp_path):
    metadata, arrays = split(fixture(3, "sine"))
    with refused(af.FileFormatError):
        af.load(join(tmp_path / "net", metadata | {"format": version}, arrays, honest=True))


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
    assert af.check(path, workers=1).verdict == "confirmed"


def test_a_block_that_repeats_is_stored_once(tmp_path):
    sizes = []
    for steps in (2, 200):
        net = af.in_context.Huber(steps=steps, learning_rate=0.1).build(2)
        net.save(tmp_path / "net")
        sizes.append((tmp_path / "net").stat().st_size)
        again = af.load(tmp_path / "net").network
        assert len(again.layers) == len(net.network.layers)
        assert len({id(layer) for layer in again.layers}) == len({id(layer) for layer in net.network.layers})
    assert sizes[1] - sizes[0] < 10_000  # which block comes when is listed
