"""Every network of the catalogue is built the same twice, and comes back from its file as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import attnforge as af
from attnforge.network import digest
from tests.catalogue import DTYPES, ENTRIES, network
from tests.laws.forms import GAPS, form, given

EVERY = [(name, dtype) for name, entry in ENTRIES.items() for dtype in entry.dtypes]
AGAIN = [name for name in ENTRIES if not name.startswith(("zoo: ", "random "))]  # tests/zoo builds the others twice


def made(name: str, dtype: str) -> Any:
    """The network, where it is one and has a file."""
    net = network(name, dtype)
    if net is None:
        pytest.skip("refused in this dtype")
    if (form(net), "save") in GAPS:
        pytest.skip(GAPS[form(net), "save"])
    return net


@pytest.mark.parametrize("name", AGAIN)
def test_two_builds_have_the_same_bytes(name):
    """The other one was built by whichever process came first."""
    entry = ENTRIES[name]
    net = network(name)
    again = entry.make(entry.dtypes[0])
    assert digest(again.network) == digest(net.network)
    assert again.certificate == net.certificate


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_what_comes_back_from_a_file_is_what_was_saved(name, dtype, tmp_path):
    net = made(name, dtype)
    net.save(tmp_path / "net.safetensors")
    loaded = af.load(tmp_path / "net.safetensors")
    assert type(loaded) is type(net)
    assert digest(loaded.network) == digest(net.network)
    assert loaded.certificate == net.certificate
    assert reported(loaded) == reported(net)
    inputs = given(net, 20)
    assert np.array_equal(np.asarray(loaded(*inputs)), np.asarray(net(*inputs)))
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "net.safetensors").read_bytes()


def reported(net: Any) -> list[str]:
    """The report; of a function that was handed over a file has no name."""
    named = ("target        function", "target        sequence map")
    return [line for line in net.report().splitlines() if not line.startswith(named)]


@pytest.mark.parametrize("name", ["readme", "graph", "zoo: lasso"])
def test_a_file_with_one_changed_byte_is_refused(name, tmp_path):
    """The mutation: without it, the law above would hold of files that nobody reads."""
    path = tmp_path / "net.safetensors"
    network(name).save(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 16
    path.write_bytes(bytes(content))
    with pytest.raises(af.FileFormatError):
        af.load(path)


@pytest.mark.parametrize(("name", "dtype"), [("readme", "float64"), ("graph", "float64"), ("gate", "float16")])
def test_what_comes_back_is_proved_as_before(name, dtype, tmp_path):
    net = network(name, dtype)
    net.save(tmp_path / "net")
    assert af.certify(af.load(str(tmp_path / "net"))).bound == net.certificate.bound


def test_a_model_keeps_its_names_and_takes_no_name_of_another_format(tmp_path):
    net = network("two bells")
    with pytest.raises(af.FileFormatError):
        net.save(tmp_path / "f.onnx")
    net.save(tmp_path / "f.SafeTensors")
    assert af.load(tmp_path / "f.SafeTensors")(x=0.25, y=-1.0) == net(x=0.25, y=-1.0)


def test_every_dtype_is_among_them():
    assert {dtype for _, dtype in EVERY} == set(DTYPES)
