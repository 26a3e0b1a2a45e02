"""Wrong settings are told apart, healthy networks get a clean bill."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attnforge as af
from attnforge.network import Attention, Head, without_keys

C = af.constructions
ONE, TWO = af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(2,))


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x[..., 0])


def plane(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x[..., 0]) * x[..., 1]


def mixed(x: np.ndarray) -> np.ndarray:
    return 0.5 * x + 0.2 * x.sum(axis=-2, keepdims=True)


def relu() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 5), nn.LeakyReLU(), nn.Linear(5, 2)).double()


def changed(net: af.Compiled, change: Callable[[int, Head], Head]) -> af.Compiled:
    layers = tuple(
        replace(layer, heads=tuple(change(i, head) for i, head in enumerate(layer.heads)))
        if isinstance(layer, Attention)
        else layer
        for layer in net.network.layers
    )
    return af.Compiled(replace(net.network, layers=layers), net.target, net.certificate, net.construction, net.dtype)


def without_ghosts(net: af.Compiled, trim_claims: bool = True) -> af.Compiled:
    def change(i: int, head: Head) -> Head:
        return head if trim_claims else replace(head, claims=net.network.heads[i].claims)

    bare = without_keys(net.network, "ghost")
    return changed(af.Compiled(bare, net.target, net.certificate, net.construction, net.dtype), change)


def shifted(net: af.Compiled, which: int, key: int, steps: float) -> af.Compiled:
    def change(i: int, head: Head) -> Head:
        keys = head.memory_keys.copy()
        at = keys[key, 0] + steps
        keys[key] = at, at * at
        return replace(head, memory_keys=keys) if i == which else head

    return changed(net, change)


def scaled(net: af.Compiled, factor: float) -> af.Compiled:
    return changed(net, lambda _, head: replace(head, query=factor * head.query))


HEALTHY = {
    "truncated_linear": lambda: C.truncated_linear([1.0, -2.0], 0.5, -1, 1, anchors=21),
    "hard": lambda: C.truncated_linear([1.0], 0, -1, 1, anchors=21, sharpness="hard"),
    "multihead": lambda: C.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=4),
    "gate": lambda: C.gate([1.0], 0.0, -1, 1),
    "max_affine": lambda: C.max_affine(wave, ONE, cells=32, lipschitz=3),
    "max_affine plane": lambda: C.max_affine(plane, TWO, cells=16, lipschitz=4),
    "max_affine hard": lambda: C.max_affine(plane, TWO, cells=16, lipschitz=4, sharpness="hard"),
    "max_affine tokens": lambda: C.max_affine(mixed, af.Box(0, 1, shape=(2, 1)), cells=6, lipschitz=2),
    "max_affine mean": lambda: C.max_affine(lambda x: 1.0 * (x[..., 0] > 0.4), ONE, cells=16, norm=1),
    "cross": lambda: C.cross_attention(lambda x, y: x[..., 0] * y[..., 0], ONE, ONE, grid=8, lipschitz=2),
    "tensor_grid": lambda: C.tensor_grid("sin(8*x)", {"x": (-1, 1)}, tol=1e-8),
    "tensor_grid plane": lambda: C.tensor_grid("sin(8*x)*cos(7*y)", {"x": (-1, 1), "y": (0, 1)}, tol=1e-6),
    "ridge": lambda: C.ridge("sin(x + 2*y)", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6),
}


@given(
    st.integers(2, 60),
    st.sampled_from(["tuned", "hard"]),
    st.floats(-3, 3),
    st.floats(0.1, 5),
    st.floats(0.2, 3),
    st.sampled_from(["float64", "float32"]),
)
@settings(max_examples=15, deadline=None)
def test_no_false_alarm(anchors: int, sharp: str, lower: float, length: float, w: float, dtype: str) -> None:
    net = C.truncated_linear([w], 0.3, lower, lower + length, anchors=anchors, sharpness=sharp, dtype=dtype)
    found = af.diagnose(net, points=256)
    assert found.healthy, str(found)


@pytest.mark.parametrize("lower", [3.0, 2.9, 2.799, 2.7])
def test_a_domain_that_reaches_no_anchor_or_hardly_one_tells_nothing_about_sharpness(lower: float) -> None:
    """y = x/4 + 0.3 lies in [-2.2, 2.8]; all weight on the first of two anchors would be better there, and no cure."""
    net = C.truncated_linear([0.25], 0.3, lower, lower + 1, anchors=2)
    assert af.diagnose(net, points=256).healthy


def soft(c: float, **options: object) -> af.Compiled:
    return C.truncated_linear([1.0], 0, -1, 1, anchors=21, sharpness=c / 0.1**2, **options)


TOO_SOFT = {
    "row": lambda: soft(0.05),
    "nearly uniform": lambda: soft(1e-6),
    "literal": lambda: soft(0.05, layout="literal"),
    "on its interval": lambda: soft(0.05, domain=af.Box(-1, 1)),
    "two_layer": lambda: C.two_layer(plane, TWO, grid=8, lipschitz=4, sharpness=1.0),
    "softmax_tail": lambda: C.softmax_tail(plane, TWO, grid=8, lipschitz=4, sharpness=1.0),
    "cross": lambda: C.cross_attention(
        lambda x, y: np.sin(4 * x[..., 0]) * y[..., 0], ONE, ONE, grid=8, lipschitz=5, sharpness=3.0
    ),
    "fitted": lambda: scaled(HEALTHY["tensor_grid"](), 0.25),
    "multihead": lambda: scaled(HEALTHY["multihead"](), 0.1),
}


@pytest.mark.parametrize("name", TOO_SOFT)
def test_too_low_a_sharpness(name: str) -> None:
    found = af.diagnose(TOO_SOFT[name](), points=256)
    seen = [f for f in found.findings if f.severity != "note"]
    assert not found.healthy
    assert {f.signature for f in seen} <= {"uniform attention", "contradicted claims"}
    assert any("sharpness is too low" in f.cause.lower() for f in seen)


def test_the_sharpness_to_use_is_named() -> None:
    (finding,) = af.diagnose(soft(0.05)).faults
    assert finding.evidence["c now"] == pytest.approx(0.05)
    assert 1.5 < finding.evidence["c then"] < 5
    assert "by about 64" in finding.remedy


GHOSTLESS = ["tensor_grid", "max_affine", "max_affine plane", "tensor_grid plane", "ridge"]


@pytest.mark.parametrize("name", GHOSTLESS)
@pytest.mark.parametrize("trim", [True, False])
def test_missing_ghosts(name: str, trim: bool) -> None:
    found = af.diagnose(without_ghosts(HEALTHY[name](), trim), points=256)
    assert {f.signature for f in found.faults} == {"boundary artefact"}
    assert all("Missing ghosts" in f.cause for f in found.faults)
    assert all(f.where.head == 0 for f in found.faults)
    assert all(f.evidence["keys beyond"] == 0 for f in found.faults)


def test_ghosts_missing_at_one_end_are_missed_there_only() -> None:
    net = HEALTHY["max_affine"]()
    low = net.network.heads[0].claims.positions[:, 0] < 0

    def change(_: int, head: Head) -> Head:
        return replace(head, memory_keys=head.memory_keys[~low], memory_values=head.memory_values[~low], claims=None)

    (finding,) = af.diagnose(changed(net, change)).faults
    assert finding.evidence["end"] == "lower"


@pytest.mark.parametrize(("head", "key", "steps"), [(1, 1, 0.5), (2, -2, -0.5), (1, 0, 0.5), (3, 0, 0.1)])
def test_a_shifted_sentinel(head: int, key: int, steps: float) -> None:
    found = af.diagnose(shifted(HEALTHY["multihead"](), head, key, steps))
    (finding,) = found.faults
    assert finding.signature == "boundary artefact"
    assert "sentinel" in finding.cause
    assert "shifted" in finding.cause
    assert (finding.where.head, finding.where.keys) == (head, (key % 12,))
    measured = finding.evidence["distance from the neighbour's nearest anchor in steps"]
    assert measured == pytest.approx(steps, abs=1e-6)


def test_a_shifted_sentinel_is_seen_without_claims_and_target() -> None:
    bad = changed(shifted(HEALTHY["multihead"](), 1, 1, 0.5), lambda _, head: replace(head, claims=None))
    found = af.diagnose(bad.network, np.linspace(-2, 2, 200).reshape(-1, 1, 1))
    assert [f.where.keys for f in found.faults] == [(1,)]
    good = changed(HEALTHY["multihead"](), lambda _, head: replace(head, claims=None))
    assert af.diagnose(good.network, np.linspace(-2, 2, 200).reshape(-1, 1, 1)).healthy


def test_a_missing_sentinel() -> None:
    def change(i: int, head: Head) -> Head:
        if i != 1:
            return head
        return replace(head, memory_keys=head.memory_keys[2:], memory_values=head.memory_values[2:], claims=None)

    found = af.diagnose(changed(HEALTHY["multihead"](), change))
    assert any("no sentinel at its lower end" in f.cause for f in found.faults)


def test_too_many_anchors_for_float16_and_float32() -> None:
    net = C.truncated_linear([1.0], 0, 2, 4, anchors=400)
    assert af.diagnose(net, points=256).healthy
    found = af.diagnose(net, points=256, dtype="float16")
    assert [f.signature for f in found.faults] == ["lost argmax"]
    assert "float64" in found.faults[0].remedy
    assert "gate" in found.faults[0].remedy
    overflow = af.diagnose(C.truncated_linear([1.0], 0, -1, 1, anchors=4000), points=256, dtype="float16")
    assert [f.signature for f in overflow.faults] == ["score overflow"]
    many = C.truncated_linear([1.0], 0, -1, 1, anchors=8192, sharpness="hard")
    assert [f.signature for f in af.diagnose(many, points=64, dtype="float32").faults] == ["lost argmax"]


def test_two_thousand_anchors_are_named_as_too_many_for_float16() -> None:
    (fault,) = af.diagnose(C.truncated_linear([1.0], 0, -1, 1, anchors=2000), points=256, dtype="float16").faults
    assert "2,000 keys are too many for float16" in fault.cause
    assert "Use float64" in fault.remedy
    assert "use at most about 511 keys a head" in fault.remedy
    assert "gate" in fault.remedy


def test_drift_either_way() -> None:
    smooth = af.diagnose(scaled(HEALTHY["max_affine hard"](), 0.01))
    assert ("interpolation drift", "warning") in [(f.signature, f.severity) for f in smooth.findings]
    steps = af.diagnose(scaled(HEALTHY["tensor_grid"](), 8.0))
    assert [f.signature for f in steps.faults if f.signature != "contradicted claims"] == ["interpolation drift"]
    note = af.diagnose(HEALTHY["hard"]())
    assert [(f.signature, f.severity) for f in note.findings] == [("interpolation drift", "note")]


def test_torch_attention_anywhere() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(4, 10, 16)
    with torch.no_grad():
        attention.in_proj_weight[:32] *= 1e-3
        attention.in_proj_bias[:32] = 0
    found = af.diagnose(attention, x)
    assert [f.signature for f in found.findings] == ["uniform attention"] * 4
    with torch.no_grad():
        attention.in_proj_weight[:32] *= 4e3
    assert af.diagnose(attention, x).healthy
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2).eval()
    seen = af.diagnose(encoder, x)
    assert [(h.layer, h.head) for h in seen.heads] == [(i, j) for i in range(2) for j in range(4)]
    assert not any(part._forward_pre_hooks for part in encoder.modules())


def test_torch_weights_are_those_of_torch() -> None:
    from attnforge.measurement.diagnosis import module_views

    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)
    x, mask = torch.randn(3, 5, 8), torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = attention

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x, x, x, attn_mask=mask)[0]

    views = module_views(Masked(), (x,))
    expected = attention(x, x, x, attn_mask=mask, average_attn_weights=False)[1].detach().double().numpy()
    for view in views:
        assert np.allclose(view.ran, expected[:, view.head].reshape(15, 7), atol=1e-6)
        scores = view.scores(slice(None))
        exact = np.exp(scores - scores.max(axis=1, keepdims=True))
        assert np.allclose((exact / exact.sum(axis=1, keepdims=True)).astype(float), view.ran, atol=1e-5)


def test_our_own_modules_and_in_context_networks() -> None:
    net = HEALTHY["truncated_linear"]()
    found = af.diagnose(net.module(), torch.zeros(50, 1, 2).uniform_(-2, 2))
    assert found.healthy
    assert found.heads[0].keys == 21
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    for route in ("small_sharpness", "interpolation"):
        fit = af.in_context.LeastSquares(steps=3, learning_rate=0.1, route=route).build(features=3)
        assert af.diagnose(fit, (x, x @ [1.0, 2.0, 3.0])).healthy


def test_text_and_json() -> None:
    found = af.diagnose(soft(0.05))
    text = str(found)
    assert text.startswith("1 fault (1 head in float64")
    for word in ("evidence", "cause", "remedy"):
        assert word in text
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["healthy"] is False
    assert data["findings"][0]["signature"] == "uniform attention"
    assert str(af.diagnose(HEALTHY["gate"]())).startswith("healthy")


def test_an_error_above_the_certificate_is_a_fault() -> None:
    net = HEALTHY["gate"]()
    bad = changed(net, lambda _, head: replace(head, memory_values=head.memory_values * 1.5))
    assert "contradicted claims" in [f.signature for f in af.diagnose(bad).faults]


def test_what_cannot_be_diagnosed_is_refused() -> None:
    net = HEALTHY["truncated_linear"]()
    with pytest.raises(af.DomainError, match="`x` must be given"):
        af.diagnose(net.network)
    with pytest.raises(af.TargetError, match="can be diagnosed"):
        af.diagnose(3, 1.0)
    with pytest.raises(af.TargetError, match="MultiheadAttention"):
        af.diagnose(nn.Linear(2, 2), torch.zeros(3, 2))
    with pytest.raises(af.DomainError, match="certified domain"):
        af.diagnose(net, np.full((1, 1, 2), 99.0))
    with pytest.raises(af.TargetError, match="own dtype"):
        af.diagnose(nn.MultiheadAttention(4, 1), torch.zeros(3, 1, 4), dtype="float16")
    with pytest.raises(af.TargetError, match="at least 1"):
        af.diagnose(net, points=0)


def test_a_module_with_equal_scores_is_not_healthy() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        attention.in_proj_weight[:] = 0
        attention.in_proj_bias[:] = 0
    found = af.diagnose(attention, torch.randn(2, 6, 8))
    assert [(f.signature, f.severity) for f in found.findings] == [("uniform attention", "warning")] * 2


def test_masks_token_numbers_and_none_are_passed_on() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = np.random.default_rng(0).normal(size=(2, 5, 8))
    padding = np.zeros((2, 5), dtype=bool)
    padding[:, 3:] = True
    found = af.diagnose(attention, (x, x, x, padding, False))
    assert {round(head.entropy_if_uniform, 9) for head in found.heads} == {round(np.log(3), 9)}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 1).eval()
    assert len(af.diagnose(encoder, (x, None, padding)).heads) == 2
    causal = np.where(np.triu(np.ones((5, 5), dtype=bool), 1), -np.inf, 0.0)
    assert len(af.diagnose(encoder, (x, causal)).heads) == 2

    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.attention = nn.Embedding(10, 8), attention

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            x = self.words(words)
            return self.attention(x, x, x)[0]

    assert len(af.diagnose(Reading(), np.array([[1, 2, 3], [4, 5, 6]])).heads) == 2


def test_networks_that_read_a_prompt() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    kernel = af.in_context.KernelRegression(bandwidth=0.5).build(features=2)
    found = af.diagnose(kernel, (x, y, rng.normal(size=(30, 2))))
    assert [(head.keys, head.queries) for head in found.heads] == [(20, 30)]
    with pytest.raises(af.DomainError, match="x, y, x_query"):
        af.diagnose(kernel, (x, y))
    net, prompt = af.in_context.function_prompt("sin(3*x)", {"x": (-1, 1)}, tol=1e-3, dtype="float32")
    found = af.diagnose(net, (np.linspace(-1, 1, 50), prompt))
    assert found.dtype == "float32"
    assert found.heads[0].keys == len(prompt.tokens)
    assert found.healthy, str(found)


def test_an_iteration_that_diverges_is_not_healthy() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    for route in ("small_sharpness", "interpolation"):
        fit = af.in_context.LeastSquares(steps=60, learning_rate=5.0, route=route).build(features=3)
        found = af.diagnose(fit, (x, x @ [1.0, 2.0, 3.0]))
        seen = [f for f in found.findings if f.severity != "note"]
        assert {f.signature for f in seen} == {"interpolation drift"}
        assert all("diverges" in f.cause and "call 60 of 60" in str(f.where) for f in seen)
    classes = af.in_context.SoftmaxRegression(steps=60, learning_rate=2.0, classes=10).build(features=3)
    assert af.diagnose(classes, (x, np.arange(20) % 10)).healthy


@pytest.mark.parametrize("name", ["max_affine", "max_affine tokens", "cross", "max_affine mean"])
def test_a_loaded_model_of_a_callable(name: str, tmp_path: Path) -> None:
    HEALTHY[name]().save(tmp_path / "model.safetensors")
    found = af.diagnose(af.load(tmp_path / "model.safetensors"), points=64)
    assert found.healthy, str(found)
    assert found.heads
    assert any("a callable is not stored" in text for text in found.unknown)


def test_a_loaded_model_of_a_callable_can_be_ill() -> None:
    net = scaled(HEALTHY["max_affine"](), 0.1)
    stored = type(net.target).from_data(*net.target.to_data())
    found = af.diagnose(af.Compiled(net.network, stored, net.certificate, net.construction, net.dtype), points=64)
    assert "c claimed" in found.findings[0].evidence


def test_a_table_at_its_points_and_nowhere_else() -> None:
    points = np.linspace(0, 0.9, 10)[:, None]
    net = af.compile((points, points[:, 0] ** 2), None, 1e-6)
    for x in (points, points.astype(np.float32), -points[:1], points[:, 0], torch.from_numpy(points)):
        assert af.diagnose(net, x).healthy
    with pytest.raises(af.DomainError, match="listed points only"):
        af.diagnose(net, points[:-1] + 1e-3)
    with pytest.raises(af.DomainError, match="must have shape"):
        af.diagnose(net, np.zeros((3, 2)))


PLANE, CROSS = "tensor_grid plane", "cross"
ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True)
WRONG: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "wrong number of inputs": (lambda: HEALTHY[PLANE](), np.zeros(3), "must have shape"),
    "no points": (lambda: HEALTHY[PLANE](), np.zeros((0, 2)), "at least one point"),
    "batches": (lambda: HEALTHY[CROSS](), (np.zeros((3, 1)), np.zeros((2, 1))), "must broadcast"),
    "one of two": (lambda: HEALTHY[CROSS](), (np.zeros((3, 1)),), "takes two inputs"),
    "words": (lambda: HEALTHY[PLANE](), "junk", "must be real numbers"),
    "network, nothing": (lambda: HEALTHY[PLANE]().network, (), "number of inputs"),
    "network, no tokens": (lambda: HEALTHY[PLANE]().network, np.zeros((0, 1, 2)), "at least one point"),
    "network, two inputs": (lambda: HEALTHY[PLANE]().network, (np.zeros((1, 2)),) * 2, "number of inputs"),
    "network, None": (lambda: HEALTHY[PLANE]().network, (None,), "must be real numbers"),
    "network, second input": (lambda: HEALTHY[CROSS]().network, (np.zeros((1, 1)), np.zeros((1, 9))), "second input"),
    "network, batches": (
        lambda: HEALTHY[CROSS]().network,
        (np.zeros((3, 1, 1)), np.zeros((2, 1, 1))),
        "must broadcast",
    ),
    "module, nothing": (lambda: ATTENTION, (), "`x` must be given"),
    "module, no tokens": (lambda: ATTENTION, torch.zeros(0, 5, 8), "at least one number"),
    "module, half": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True).half(),
        torch.zeros(1, 5, 8),
        "must run on x",
    ),
    "module, width": (lambda: ATTENTION, torch.zeros(1, 5, 7), "must run on x"),
    "module, NaN": (lambda: ATTENTION, torch.full((1, 5, 8), np.nan), "must be finite"),
    "module, words": (lambda: ATTENTION, "junk", "must be real numbers"),
    "weights, no tokens": (lambda: af.AttentionWeights(np.eye(2), np.eye(2)), np.zeros((0, 2)), "at least one point"),
}


@pytest.mark.parametrize("name", WRONG)
def test_inputs_that_do_not_fit_are_refused_in_three_parts(name: str) -> None:
    make, x, text = WRONG[name]
    with pytest.raises(af.DomainError, match=text) as caught:
        af.diagnose(make(), x)
    assert caught.value.got
    assert caught.value.remedy


@pytest.mark.parametrize("options", [{"seed": -1}, {"seed": 0.5}, {"points": 1.5}, {"points": True}])
def test_settings_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(af.TargetError, match="must be a whole number"):
        af.diagnose(HEALTHY["gate"](), **options)
