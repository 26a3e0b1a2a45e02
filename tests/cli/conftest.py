"""Saved models to work on, honest and forged, and a way to run the command."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import attnforge as af
from attnforge.cli import app
from attnforge.network import digest

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """``run("compile", "x", ...)``; keyword arguments go to the runner."""

    def invoke(*words: object, **settings: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], **settings)

    return invoke


@pytest.fixture(scope="session")
def net() -> af.Compiled:
    return af.compile("clamp(1.5*x + 0.25, -1, 1)", {"x": (-1, 1)}, 1e-2, construction="truncated_linear")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def model(net: af.Compiled, folder: Path) -> Path:
    """One input, x in [-1, 1], bound about 0.0097."""
    net.save(folder / "line.safetensors")
    return folder / "line.safetensors"


@pytest.fixture(scope="session")
def plane(folder: Path) -> Path:
    """Two inputs, x in [-1, 1] and y in [0, 2]."""
    af.compile("clamp(2*x + y, -1, 1)", {"x": (-1, 1), "y": (0, 2)}, 1e-9).save(folder / "plane.safetensors")
    return folder / "plane.safetensors"


@pytest.fixture(scope="session")
def tokens(folder: Path) -> Path:
    """Three tokens with two features each."""
    af.constructions.gate([[1, 0], [0, 1], [1, 1]], 0.0, -1, 1, domain=af.Box(-2, 2)).save(
        folder / "tokens.safetensors"
    )
    return folder / "tokens.safetensors"


@pytest.fixture
def forged(net: af.Compiled, tmp_path: Path) -> Path:
    """A file whose digest is right and whose bound is a tenth of the true one."""
    parts = {name: value / 10 for name, value in net.certificate.parts.items()}
    bound = net.certificate.bound / 10 * (1 + 1e-9)
    lie = replace(net.certificate, bound=bound, parts=parts, estimate=None)
    af.Compiled(net.network, net.target, lie, net.construction, net.dtype).save(tmp_path / "forged.safetensors")
    return tmp_path / "forged.safetensors"


@pytest.fixture
def unclaimed(net: af.Compiled, tmp_path: Path) -> Path:
    """A file whose heads do not say what they are."""
    encode, attention = net.network.layers
    heads = tuple(replace(head, claims=None) for head in attention.heads)
    network = replace(net.network, layers=(encode, replace(attention, heads=heads)))
    certificate = replace(net.certificate, digest=digest(network))
    af.Compiled(network, net.target, certificate, net.construction, net.dtype).save(tmp_path / "unclaimed.safetensors")
    return tmp_path / "unclaimed.safetensors"


@pytest.fixture
def overflowing(net: af.Compiled, tmp_path: Path) -> Path:
    """A file with the right digest whose scores overflow, so that it computes NaN."""
    encode, attention = net.network.layers
    heads = tuple(replace(head, query=np.sign(head.query) * 1e308) for head in attention.heads)
    network = replace(net.network, layers=(encode, replace(attention, heads=heads)))
    certificate = replace(net.certificate, digest=digest(network))
    af.Compiled(network, net.target, certificate, net.construction, net.dtype).save(tmp_path / "nan.safetensors")
    return tmp_path / "nan.safetensors"


@pytest.fixture
def damaged(model: Path, tmp_path: Path) -> Path:
    """A file with one bit of its last weight turned over."""
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged.safetensors").write_bytes(data)
    return tmp_path / "damaged.safetensors"
