"""Wrong settings are told apart, with the numbers that show them; inputs of every kind; what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.network import Head, head_places, moved, with_head, without_keys
from tests.refusals import refused

C = af.constructions
ONE, TWO = af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(2,))


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x[..., 0])


def plane(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x[..., 0]) * x[..., 1]


BUILD = {
    "truncated_linear": lambda: C.truncated_linear([1.0, -2.0], 0.5, -1, 1, anchors=21),
    "hard": lambda: C.truncated_linear([1.0], 0, -1, 1, anchors=21, sharpness="hard"),
    "multihead": lambda: C.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=4),
    "gate": lambda: C.gate([1.0], 0.0, -1, 1),
    "max_affine": lambda: C.max_affine(wave, ONE, cells=32, lipschitz=3),
    "max_affine hard": lambda: C.max_affine(plane, TWO, cells=16, lipschitz=4, sharpness="hard"),
    "max_affine mean": lambda: C.max_affine(lambda x: 1.0 * (x[..., 0] > 0.4), ONE, cells=16, norm=1),
    "cross": lambda: C.cross_attention(lambda x, y: x[..., 0] * y[..., 0], ONE, ONE, grid=8, lipschitz=2),
    "tensor_grid": lambda: C.tensor_grid("sin(8*x)", {"x": (-1, 1)}, tol=1e-8),
    "tensor_grid plane": lambda: C.tensor_grid("sin(8*x)*cos(7*y)", {"x": (-1, 1), "y": (0, 1)}, tol=1e-6),
    "ridge": lambda: C.ridge("sin(x + 2*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6),
}


@cache
def built(name: str) -> af.Compiled:
    return BUILD[name]()


def ill(net: af.Compiled, network: Any) -> af.Compiled:
    """Other weights under the old certificate."""
    return af.Compiled(network, net.target, net.certificate, net.construction, net.dtype)


def changed(net: af.Compiled, change: Callable[[Head], dict[str, Any]], head: int | None = None) -> af.Compiled:
    """With arrays of one head, or of all, replaced."""
    network = net.network
    for i, (layer, place) in enumerate(head_places(network)):
        if head in (None, i):
            network = with_head(network, layer, place, **change(net.network.heads[i]))
    return ill(net, network)


def shifted(net: af.Compiled, head: int, key: int, steps: float) -> af.Compiled:
    def change(keys: np.ndarray) -> np.ndarray:
        keys[key] = keys[key, 0] + steps, (keys[key, 0] + steps) ** 2
        return keys

    return ill(net, moved(net.network, f"layer1.head{head}.memory_keys", change))


def sharpened(net: af.Compiled, factor: float) -> af.Compiled:
    return changed(net, lambda head: {"query": factor * head.query})


def soft(c: float, **options: object) -> af.Compiled:
    return C.truncated_linear([1.0], 0, -1, 1, anchors=21, sharpness=c / 0.1**2, **options)


@pytest.mark.parametrize("lower", [3.0, 2.9, 2.799, 2.7])
def test_a_domain_that_reaches_no_anchor_or_hardly_one_tells_nothing_about_sharpness(lower: float) -> None:
    """y = x/4 + 0.3 lies in [-2.2, 2.8]; all weight on the first of two anchors would be better there, and no cure."""
    assert af.diagnose(C.truncated_linear([0.25], 0.3, lower, lower + 1, anchors=2), points=256).healthy


TOO_SOFT = {
    "row": lambda: soft(0.05),
    "literal": lambda: soft(0.05, layout="literal"),
    "two_layer": lambda: C.two_layer(plane, TWO, grid=8, lipschitz=4, sharpness=1.0),
    "softmax_tail": lambda: C.softmax_tail(plane, TWO, grid=8, lipschitz=4, sharpness=1.0),
    "fitted": lambda: sharpened(built("tensor_grid"), 0.25),
    "multihead": lambda: sharpened(built("multihead"), 0.1),
}


@pytest.mark.parametrize("name", TOO_SOFT)
def test_too_low_a_sharpness(name: str) -> None:
    found = af.diagnose(TOO_SOFT[name](), points=256)
    seen = [f for f in found.findings if f.severity != "note"]
    assert not found.healthy
    assert {f.signature for f in seen} <= {"uniform attention", "contradicted claims"}
    assert any("sharpness is too low" in f.cause.lower() for f in seen)


def test_the_sharpness_to_use_is_named_in_text_and_data() -> None:
    found = af.diagnose(soft(0.05))
    (finding,) = found.faults
    assert finding.evidence["c now"] == pytest.approx(0.05)
    assert 1.5 < finding.evidence["c then"] < 5
    assert "by about 64" in finding.remedy
    assert all(word in str(found) for word in ("1 fault (1 head in float64", "evidence", "cause", "remedy"))
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (data["healthy"], data["findings"][0]["signature"]) == (False, "uniform attention")


@pytest.mark.parametrize("name", ["tensor_grid", "max_affine", "tensor_grid plane", "ridge"])
@pytest.mark.parametrize("trim", [True, False])
def test_missing_ghosts(name: str, trim: bool) -> None:
    net = built(name)
    bare = without_keys(net.network, "ghost")
    if not trim:
        bare = with_head(bare, *head_places(bare)[0], claims=net.network.heads[0].claims)
    found = af.diagnose(ill(net, bare), points=256)
    assert {f.signature for f in found.faults} == {"boundary artefact"}
    assert all("Missing ghosts" in f.cause and f.where.head == 0 for f in found.faults)
    assert all(f.evidence["keys beyond"] == 0 for f in found.faults)


@pytest.mark.parametrize(("head", "key", "steps"), [(1, 1, 0.5), (2, -2, -0.5), (1, 0, 0.5), (3, 0, 0.1)])
def test_a_shifted_sentinel(head: int, key: int, steps: float) -> None:
    (finding,) = af.diagnose(shifted(built("multihead"), head, key, steps)).faults
    assert finding.signature == "boundary artefact"
    assert "sentinel" in finding.cause
    assert (finding.where.head, finding.where.keys) == (head, (key % 12,))
    measured = finding.evidence["distance from the neighbour's nearest anchor in steps"]
    assert measured == pytest.approx(steps, abs=1e-6)


def test_sentinels_are_seen_without_claims_and_target() -> None:
    x = np.linspace(-2, 2, 200).reshape(-1, 1, 1)
    good, bad = (
        changed(net, lambda _: {"claims": None}) for net in (built("multihead"), shifted(built("multihead"), 1, 1, 0.5))
    )
    assert af.diagnose(good.network, x).healthy
    assert [f.where.keys for f in af.diagnose(bad.network, x).faults] == [(1,)]

    def cut(head: Head) -> dict[str, Any]:
        return {"memory_keys": head.memory_keys[2:], "memory_values": head.memory_values[2:], "claims": None}

    found = af.diagnose(changed(built("multihead"), cut, 1))
    assert any("no sentinel at its lower end" in f.cause for f in found.faults)


def test_drift_either_way() -> None:
    smooth = af.diagnose(sharpened(built("max_affine hard"), 0.01))
    assert ("interpolation drift", "warning") in [(f.signature, f.severity) for f in smooth.findings]
    steps = af.diagnose(sharpened(built("tensor_grid"), 8.0))
    assert [f.signature for f in steps.faults if f.signature != "contradicted claims"] == ["interpolation drift"]
    note = af.diagnose(built("hard"))
    assert [(f.signature, f.severity) for f in note.findings] == [("interpolation drift", "note")]


# Attention of torch


def test_masks_token_numbers_and_none_are_passed_on() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x, padding = np.random.default_rng(0).normal(size=(2, 5, 8)), np.zeros((2, 5), dtype=bool)
    padding[:, 3:] = True
    found = af.diagnose(attention, (x, x, x, padding, False))
    assert {round(head.entropy_if_uniform, 9) for head in found.heads} == {round(np.log(3), 9)}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 1).eval()
    causal = np.where(np.triu(np.ones((5, 5), dtype=bool), 1), -np.inf, 0.0)
    for asked in ((x, None, padding), (x, causal)):
        assert len(af.diagnose(encoder, asked).heads) == 2
    ours = af.diagnose(built("truncated_linear").module(), torch.zeros(50, 1, 2).uniform_(-2, 2))
    assert (ours.healthy, ours.heads[0].keys) == (True, 21)


# Prompts, files, tables


def test_networks_that_read_a_prompt() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    kernel = af.in_context.KernelRegression(bandwidth=0.5).build(features=2)
    found = af.diagnose(kernel, (x, y, rng.normal(size=(30, 2))))
    assert [(head.keys, head.queries) for head in found.heads] == [(20, 30)]
    with refused(af.DomainError):
        af.diagnose(kernel, (x, y))
    net, prompt = af.in_context.function_prompt("sin(3*x)", {"x": (-1, 1)}, tol=1e-3, dtype="float32")
    found = af.diagnose(net, (np.linspace(-1, 1, 50), prompt))
    assert (found.dtype, found.heads[0].keys, found.healthy) == ("float32", len(prompt.tokens), True)


@pytest.mark.parametrize("route", ["small_sharpness", "interpolation"])
def test_an_iteration_that_diverges_is_not_healthy(route: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    y = x @ [1.0, 2.0, 3.0]
    good = af.in_context.LeastSquares(steps=3, learning_rate=0.1, route=route).build(features=3)
    assert af.diagnose(good, (x, y)).healthy
    fit = af.in_context.LeastSquares(steps=60, learning_rate=5.0, route=route).build(features=3)
    seen = [f for f in af.diagnose(fit, (x, y)).findings if f.severity != "note"]
    assert {f.signature for f in seen} == {"interpolation drift"}
    assert all("diverges" in f.cause and "call 60 of 60" in str(f.where) for f in seen)


@pytest.mark.parametrize("name", ["max_affine", "cross", "max_affine mean"])
def test_a_loaded_model_of_a_callable(name: str, tmp_path: Path) -> None:
    built(name).save(tmp_path / "model.safetensors")
    loaded = af.load(tmp_path / "model.safetensors")
    found = af.diagnose(loaded, points=64)
    assert found.healthy, str(found)
    assert any("a callable is not stored" in text for text in found.unknown)
    if name == "max_affine":
        assert "c claimed" in af.diagnose(sharpened(loaded, 0.1), points=64).findings[0].evidence


def test_a_table_at_its_points_and_nowhere_else() -> None:
    points = np.linspace(0, 0.9, 10)[:, None]
    net = af.compile((points, points[:, 0] ** 2), None, 1e-6)
    for x in (points, points.astype(np.float32), -points[:1], points[:, 0], torch.from_numpy(points)):
        assert af.diagnose(net, x).healthy
    for wrong in (points[:-1] + 1e-3, np.zeros((3, 2))):
        with refused(af.DomainError):
            af.diagnose(net, wrong)


ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True)
HALF = nn.MultiheadAttention(8, 2, batch_first=True).half()
ROWS = af.AttentionWeights(np.eye(2), np.eye(2))
PAIR = np.zeros((3, 1)), np.zeros((2, 1))
WRONG: tuple[tuple[Any, Any], ...] = (
    ("tensor_grid plane", np.zeros(3)), ("tensor_grid plane", np.zeros((0, 2))), ("tensor_grid plane", "junk"),
    ("tensor_grid plane", np.full((1, 2), 99.0)), ("cross", PAIR), ("cross", PAIR[:1]), ("plane network", ()),
    ("plane network", np.zeros((0, 1, 2))), ("plane network", (np.zeros((1, 2)),) * 2), ("plane network", (None,)),
    ("cross network", (np.zeros((1, 1)), np.zeros((1, 9)))), ("cross network", tuple(x[:, None] for x in PAIR)),
    (3, 1.0), (nn.Linear(2, 2), torch.zeros(3, 2)), (HALF, torch.zeros(1, 5, 8)), (ROWS, np.zeros((0, 2))),
    *((ATTENTION, x) for x in ((), "junk", torch.zeros(0, 5, 8), torch.zeros(1, 5, 7), torch.full((1, 5, 8), np.nan))),
)  # fmt: skip
SETTINGS = ({"points": 0}, {"points": 1.5}, {"points": True}, {"seed": -1}, {"seed": 0.5})


@pytest.mark.parametrize(("what", "x"), WRONG)
def test_inputs_that_do_not_fit_are_refused_in_three_parts(what: Any, x: Any) -> None:
    networks = {"plane network": "tensor_grid plane", "cross network": "cross"}
    if isinstance(what, str):
        what = built(networks[what]).network if what in networks else built(what)
    with refused() as caught:
        af.diagnose(what, x)
    assert isinstance(caught.value, af.DomainError | af.TargetError)
    assert caught.value.remedy


def test_settings_that_make_no_sense_are_refused() -> None:
    for settings in SETTINGS:
        with refused(af.TargetError):
            af.diagnose(built("gate"), **settings)
    with refused(af.TargetError):  # it has its own dtype
        af.diagnose(ATTENTION, torch.zeros(3, 1, 8), dtype="float16")
    with refused(af.DomainError):
        af.diagnose(built("gate").network)
