"""Saved models to work on, honest and forged, and a way to run the command."""

import json
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


@pytest.fixture
def data(run: Run) -> Callable[..., dict]:
    """What the command says as JSON, all of its stdout, after checking its exit code."""

    def said(*words: object, code: int = 0, **settings: object) -> dict:
        result = run(*words, "--json", **settings)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    return said


@pytest.fixture(scope="session")
def net() -> af.Compiled:
    """One input, x in [-1, 1], bound about 0.0097."""
    return af.compile("clamp(1.5*x + 0.25, -1, 1)", {"x": (-1, 1)}, 1e-2, construction="truncated_linear")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, af.Compiled], Path]:
    """A network in a file of this name."""
    folder = tmp_path_factory.mktemp("models")

    def save(name: str, made: af.Compiled) -> Path:
        made.save(folder / f"{name}.safetensors")
        return folder / f"{name}.safetensors"

    return save


@pytest.fixture(scope="session")
def model(net: af.Compiled, saved) -> Path:
    return saved("line", net)


@pytest.fixture(scope="session")
def plane(saved) -> Path:
    """Two inputs, x in [-1, 1] and y in [0, 2]."""
    return saved("plane", af.compile("clamp(2*x + y, -1, 1)", {"x": (-1, 1), "y": (0, 2)}, 1e-9))


@pytest.fixture(scope="session")
def tokens(saved) -> Path:
    """Three tokens with two features each."""
    return saved("tokens", af.constructions.gate([[1, 0], [0, 1], [1, 1]], 0.0, -1, 1, domain=af.Box(-2, 2)))


@pytest.fixture(scope="session")
def of_code(saved) -> Path:
    """A network of a callable, which no file holds."""
    return saved("callable", af.compile(lambda x: np.sin(3 * x), af.Box(-1, 1, shape=(1,)), 0.1, lipschitz=3))


def with_heads(net: af.Compiled, **changes: Callable) -> af.Compiled:
    """A network whose heads were changed and whose certificate names the new digest."""
    encode, attention = net.network.layers
    heads = tuple(replace(head, **{name: change(head) for name, change in changes.items()}) for head in attention.heads)
    network = replace(net.network, layers=(encode, replace(attention, heads=heads)))
    return replace(net, network=network, certificate=replace(net.certificate, digest=digest(network)))


@pytest.fixture(scope="session")
def forged(net: af.Compiled, saved) -> Path:
    """A file whose digest is right and whose bound is a tenth of the true one."""
    parts = {name: value / 10 for name, value in net.certificate.parts.items()}
    lie = replace(net.certificate, bound=net.certificate.bound / 10 * (1 + 1e-9), parts=parts, estimate=None)
    return saved("forged", replace(net, certificate=lie))


@pytest.fixture(scope="session")
def unclaimed(net: af.Compiled, saved) -> Path:
    """A file whose heads do not say what they are."""
    return saved("unclaimed", with_heads(net, claims=lambda head: None))


@pytest.fixture(scope="session")
def overflowing(net: af.Compiled, saved) -> Path:
    """A file with the right digest whose scores overflow, so that it computes NaN."""
    return saved("nan", with_heads(net, query=lambda head: np.sign(head.query) * 1e308))


@pytest.fixture(scope="session")
def damaged(model: Path) -> Path:
    """A file with one bit of its last weight turned over."""
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    path = model.with_name("damaged.safetensors")
    path.write_bytes(data)
    return path
