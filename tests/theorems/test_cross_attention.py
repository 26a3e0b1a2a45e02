"""Cross-attention: keys and values from X, queries from Y, joint targets, their orders, shapes and doors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.constructions import cross_attention, max_affine
from attnforge.network import count_parameters
from attnforge.runtime import audit
from attnforge.targets import JointFunction
from attnforge.theorems.cross_attention import CrossAttention
from attnforge.theorems.max_affine import CellsPlan

ONE = af.Box(0, 1, shape=(1,))
TWO = af.Box(0, 1, shape=(2, 1))


def wave(x, y):
    """The issue's target; |df/dx| + |df/dy| <= 9."""
    return np.sin(4 * x[..., 0]) * np.cos(3 * y[..., 0]) + x[..., 0] * y[..., 0]


def mixing(x, y):
    """Tokens of Y, each seen through X in its own way: (N, 2, 1)."""
    first = np.sin(2 * x[..., 0, :]) * y[..., 0, :]
    return np.stack([first, y[..., 1, :] - 0.5 * x[..., 1, :] * y[..., 0, :]], axis=-2)


def net(f=wave, keys=ONE, query=ONE, *, grid=8, lipschitz=9, effort="low", **options):
    return cross_attention(f, keys, query, grid=grid, lipschitz=lipschitz, effort=effort, **options)


def sup(compiled) -> float:
    return af.measure(compiled, points=4000).sup


def slope(sharpness: str, grids: tuple[int, ...]) -> float:
    errors = []
    for grid in grids:
        found = net(grid=grid, sharpness=sharpness)
        errors.append(sup(found))
        assert errors[-1] <= found.certificate.bound
    return float(np.polyfit(np.log(grids), np.log(errors), 1)[0])


def test_hard_is_of_order_one():
    assert -1.15 < slope("hard", (8, 16, 32)) < -0.9


def test_tuned_is_of_order_two():
    assert slope("tuned", (8, 16, 32)) < -1.85


def test_the_hard_bound_is_half_a_cell():
    found = net(grid=(10, 20), sharpness="hard")
    assert found.certificate.parts["spacing"] == pytest.approx(9 * 0.05)
    assert found.certificate.bound == pytest.approx(0.45, rel=0.05)
    assert found.certificate.status == "conditional"


def test_the_network_is_the_papers():
    """K_j = (2<v^X, X> - |v|^2 ; 2 v^Y), Q = c (1 ; Y) in places: scores fall with the squared distance to a centre."""
    found = net(grid=5, sharpness="hard")
    assert (found.layers, found.heads, found.anchors) == (1, 1, 25)
    assert found.network.heads[0].memory_size == 0
    x, y = np.array([0.33]), np.array([0.71])
    ((weights,),) = found.attention(x, y)
    centres, c = found.network.heads[0].claims.positions, found.network.heads[0].claims.sharpness
    scores = -c * ((centres - [0.33, 0.71]) ** 2).sum(axis=1) * 25
    wanted = np.exp(scores - scores.max())
    np.testing.assert_allclose(weights.ravel(), wanted / wanted.sum(), rtol=1e-9, atol=1e-300)


def test_numpy_torch_and_the_representation_agree():
    found, rng = net(grid=(6, 9)), np.random.default_rng(0)
    x, y = rng.random((50, 1)), rng.random((50, 1))
    values = found(x, y)
    np.testing.assert_allclose(found.network(y[:, None], x[:, None])[:, 0, 0], values, rtol=1e-12)
    np.testing.assert_allclose(found.module()(torch.tensor(x), torch.tensor(y)).numpy(), values, rtol=1e-12)
    tensor = found(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    assert tensor.dtype == torch.float32
    assert found(x.astype(np.float32), y.astype(np.float32)).dtype == np.float32
    assert found(torch.tensor([0, 1]), torch.tensor([1, 1])).dtype == torch.float64


def test_it_equals_max_affine_on_the_joint_point():
    """The scores are max_affine's, split between keys and queries."""
    joint = max_affine(lambda z: wave(z[..., :1], z[..., 1:]), af.Box(0, 1, shape=(2,)), cells=(7, 5), lipschitz=9)
    points = np.random.default_rng(1).random((200, 2))
    np.testing.assert_allclose(net(grid=(7, 5))(points[:, :1], points[:, 1:]), joint(points), rtol=1e-11, atol=1e-13)


def test_leading_axes_broadcast_and_numbers_are_taken():
    found = net()
    grid = found(np.linspace(0, 1, 4)[:, None], np.linspace(0, 1, 3)[:, None][:, None])
    assert grid.shape == (3, 4)
    assert float(found(0.5, 0.25)) == pytest.approx(float(found(np.array([[0.5]]), np.array([[0.25]]))[0]), rel=1e-12)
    assert found(0.5, np.linspace(0, 1, 6)).shape == (6,)
    assert np.isscalar(found(0.5, 0.25))
    assert found(X=0.5, Y=0.25) == found(0.5, 0.25)
    assert found(np.zeros((0, 1)), np.zeros((0, 1))).shape == (0,)


def test_large_batches_run_in_pieces(monkeypatch):
    found, rng = net(), np.random.default_rng(2)
    x, y = rng.random((2, 31, 1)), rng.random((31, 1))
    whole = found(x, y)
    monkeypatch.setattr("attnforge.compiler.two_inputs.CHUNK", 2000)
    np.testing.assert_allclose(found(x, y), whole, rtol=1e-13)


@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
def test_sequences_give_every_token_its_own_value(sharpness):
    found = net(mixing, TWO, TWO, grid=4 if sharpness == "hard" else 2, lipschitz=3, sharpness=sharpness)
    rng = np.random.default_rng(3)
    x, y = rng.random((40, 2, 1)), rng.random((40, 2, 1))
    out = found(x, y)
    assert out.shape == (40, 2, 1)
    assert found.module()(torch.tensor(x), torch.tensor(y)).shape == (40, 2, 1)
    assert found(x[0], y).shape == (40, 2, 1)
    assert np.abs(out[:, 0] - out[:, 1]).max() > 0.3
    assert np.abs(out - mixing(x, y)).max() <= found.certificate.estimate.error <= found.certificate.bound
    assert found.certificate.estimate.error < (0.45 if sharpness == "hard" else 0.35)


def test_the_order_of_outputs_follows_the_order_of_queries():
    found = net(lambda x, y: y * x.sum(axis=-2, keepdims=True), TWO, TWO, grid=4, lipschitz=4, sharpness="hard")
    x, y = np.array([[0.5], [0.4]]), np.array([[0.1], [0.9]])
    np.testing.assert_allclose(found(x, y[::-1]), found(x, y)[::-1], atol=1e-12)


def test_several_outputs_and_unequal_shapes():
    def pair(x, y):
        return np.stack([x.sum(axis=(-1, -2)) * y[..., 0], y[..., 1] ** 2], axis=-1)

    found = net(pair, af.Box(-1, 1, shape=(2, 1)), [(0, 2), (1, 3)], grid=(2, 2, 3, 3), lipschitz=10, sharpness="hard")
    x, y = np.zeros((7, 2, 1)), np.full((7, 2), 1.5)
    assert found(x, y).shape == (7, 2)
    assert found(x[0], y[0]).shape == (2,)
    one_token = net(lambda x, y: y * x[..., None, :], ONE, af.Box(0, 1, shape=(1, 1)), grid=4, lipschitz=2)
    assert one_token(np.zeros((5, 1)), np.ones((5, 1, 1))).shape == (5, 1, 1)
    plain = net(lambda x, y: (y * x)[..., 0], TWO, TWO, grid=3, lipschitz=2, sharpness="hard")
    assert plain(np.zeros((5, 2, 1)), np.ones((5, 2, 1))).shape == (5, 2)


def test_many_features_of_x():
    found = net(lambda x, y: x @ [1.0, 2.0, -1.0] + y[..., 0], af.Box(0, 1, shape=(3,)), ONE, grid=2, lipschitz=5)
    assert found.certificate.estimate.error <= found.certificate.bound

    def weighted(x, y):
        return (x * [[1.0, 2.0], [3.0, -1.0]]).sum(axis=(-1, -2)) - y[..., 0]

    tokens = net(weighted, af.Box(0, 1, shape=(2, 2)), ONE, grid=3, lipschitz=8, sharpness="hard")
    assert 0.5 < tokens.certificate.estimate.error <= tokens.certificate.bound


@pytest.mark.parametrize("keys", [None, ONE])
def test_a_target_of_the_query_alone_has_constant_keys(keys):
    found = net(lambda y: np.sin(3 * y[..., 0]), keys, ONE, grid=32, lipschitz=3)
    assert found.network.context is None
    assert found.network.heads[0].memory_size == found.anchors > 0
    assert found.construction == "max_affine"
    assert sup(found) <= min(0.003, found.certificate.bound)
    assert float(found(0.5)) == pytest.approx(np.sin(1.5), abs=0.003)


def test_torch_functions_are_taken():
    found = net(lambda x, y: torch.sin(x[..., 0]) * y[..., 0], grid=6, lipschitz=2)
    assert sup(found) <= found.certificate.bound


def test_the_module_is_linear_maps_and_softmax_attention_only():
    for found, shape in ((net(), (3, 1)), (net(mixing, TWO, TWO, grid=2, lipschitz=3, sharpness="hard"), (3, 2, 1))):
        x = torch.rand(shape, dtype=torch.float64)
        seen = audit(found.module(), x, x)
        assert any("attention" in name or "softmax" in name for name in seen)


@pytest.mark.parametrize(("dtype", "grid"), [("float32", 16), ("float16", 6), ("bfloat16", 4)])
@pytest.mark.parametrize("sharpness", ["hard", "tuned"])
def test_other_dtypes_stay_within_their_certificates(dtype, grid, sharpness):
    found = net(lambda x, y: x[..., 0] + y[..., 0], grid=grid, dtype=dtype, lipschitz=2, sharpness=sharpness)
    assert sup(found) <= found.certificate.bound
    assert found.certificate.dtype == dtype
    if dtype == "float32":
        assert found.certificate.parts["rounding"] < 0.02 * found.certificate.bound


def test_save_and_load(tmp_path):
    found = net(mixing, TWO, TWO, grid=2, lipschitz=af.Lipschitz(3.0, "l2"), sharpness="hard")
    found.save(tmp_path / "net.safetensors")
    again = af.load(tmp_path / "net.safetensors")
    x, y = np.full((4, 2, 1), 0.3), np.full((4, 2, 1), 0.8)
    np.testing.assert_array_equal(again(x, y), found(x, y))
    assert again.certificate.to_json() == found.certificate.to_json()
    assert again.target.lipschitz() == af.Lipschitz(3.0, "l2")
    with pytest.raises(af.TargetError, match="not stored in a file"):
        af.measure(again)
    target = JointFunction(mixing, TWO, TWO, lipschitz=af.Lipschitz(3.0, "l2"))
    assert af.measure(again, target, points=500).sup <= found.certificate.bound
    assert af.certify(again, target).bound == found.certificate.bound


def test_the_report_names_both_inputs():
    text = net().report()
    assert "function wave of X of (1,) and Y of (1,) inputs" in text
    assert ", 64 keys" not in text  # ghosts are counted
    assert "[0, 1]^(2,)" in text


def test_without_a_lipschitz_constant_nothing_is_proved():
    found = net(lipschitz=None)
    assert found.certificate.status == "sampled"
    assert found.certificate.bound is None
    assert found.certificate.estimate.error < 0.2


def test_two_builds_are_identical():
    assert net().certificate.digest == net().certificate.digest


def test_compile_takes_joint_targets():
    found = af.compile(JointFunction(wave, ONE, ONE, lipschitz=af.Lipschitz(9.0)), tol=0.3)
    assert found.construction == "cross_attention"
    assert found.certificate.bound <= 0.3
    reason = CrossAttention().accepts(max_affine(lambda x: x[..., 0], ONE, cells=2, lipschitz=1).target)
    assert reason == "the target is not a function of two inputs"


@pytest.mark.parametrize(
    ("f", "keys", "query", "grid"),
    [
        (wave, ONE, ONE, (4, 7)),
        (mixing, TWO, TWO, (2, 3, 2, 2)),
        (
            lambda x, y: y * x[..., :1, 1:],
            af.Box(0, 1, shape=(3, 2)),
            af.Box(0, 1, shape=(1, 1)),
            (2, 1, 2, 1, 1, 1, 2),
        ),
    ],
)
@pytest.mark.parametrize("sharpness", ["hard", 5.0])
def test_the_cost_is_what_is_built(f, keys, query, grid, sharpness):
    found = net(f, keys, query, grid=grid, lipschitz=9, sharpness=sharpness)
    claims, axes = found.network.heads[0].claims, found.domain.lower.size
    counts = (grid,) * axes if isinstance(grid, int) else grid
    per_token = found.anchors // (keys_tokens := found.network.tokens or 1)
    ghosts = next(g for g in range(9) if np.prod([count + 2 * g for count in counts]) == per_token)
    cost = CrossAttention().cost(found.target, CellsPlan(counts, claims.sharpness, ghosts))
    assert (cost.anchors, cost.parameters) == (per_token * keys_tokens, count_parameters(found.network)[0])


WRONG_CALLS = {
    "one input": (lambda f: f(0.5), "two inputs.*Got 1 positional.*Call net"),
    "three inputs": (lambda f: f(0.5, 0.5, 0.5), "Got 3 positional"),
    "a wrong name": (lambda f: f(X=0.5, Z=0.5), "two inputs"),
    "X of a wrong shape": (lambda f: f(np.zeros((5, 2)), 0.5), r"X must have shape \(\.\.\., 1\).*Got shape \(5, 2\)"),
    "Y of a wrong shape": (lambda f: f(0.5, np.zeros((5, 2))), r"Y must have shape \(\.\.\., 1\).*Got shape \(5, 2\)"),
    "NaN in X": (lambda f: f(np.nan, 0.5), "X: Inputs must be finite"),
    "infinity in Y": (lambda f: f(0.5, torch.tensor(torch.inf)), "Y: Inputs must be finite"),
    "X outside": (lambda f: f(1.5, 0.5), r"X: Inputs must lie in the certified domain \(\[0\.0, 1\.0\].*Got 1\.5"),
    "Y outside": (lambda f: f(0.5, [0.1, -0.1]), r"Y: Inputs must lie in the certified domain"),
    "unequal batches": (lambda f: f(np.zeros((3, 1)), np.zeros((4, 1))), r"must broadcast\. Got \(3,\) and \(4,\)"),
    "attention of one input": (lambda f: f.attention(0.5), "two inputs"),
    "attention outside": (lambda f: f.attention(0.5, 2.0), "Y: Inputs must lie"),
}
FOUND = net(grid=3)


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls_are_refused(name):
    call, message = WRONG_CALLS[name]
    with pytest.raises(af.DomainError, match=message):
        call(FOUND)


WRONG_REQUESTS = {
    "a norm": ({"norm": 0.5}, af.RefusalError, "norm"),
    "no cells": ({"grid": 0}, af.RefusalError, "`grid` must be a number of cells, at least 1, or 2 of them.*Got 0"),
    "too few numbers": ({"grid": (3,)}, af.RefusalError, r"or 2 of them, one an axis\. Got \(3,\)"),
    "half a cell": ({"grid": 2.5}, af.RefusalError, "`grid` must be a whole number"),
    "too many cells": ({"grid": 10**5}, af.RefusalError, "may use at most"),
    "a sharpness": ({"sharpness": "soft"}, af.RefusalError, "'hard', 'tuned'"),
    "a dtype": ({"dtype": "int8"}, af.RefusalError, "`dtype` must be"),
    "no shape": ({"query": af.Box(0, 1)}, af.TargetError, r"box of Y has shape \(d,\) or \(n, d\)\. Got shape \(\)"),
    "no length": ({"keys": af.Box(1, 1, shape=(1,))}, af.RefusalError, "must have a length. Got length 0 at entry 0"),
    "a domain of text": ({"keys": "x"}, af.DomainError, "A domain is"),
    "a wrong value": ({"f": lambda x, y: x * y * np.ones(3)[:, None, None]}, af.TargetError, "must return an array"),
    "a raising function": ({"f": lambda x, y: x @ 1}, af.TargetError, "must run on NumPy or torch"),
    "a pole": ({"f": lambda x, y: 1 / (x[..., 0] - 1)}, af.TargetError, "finite on its domain"),
}


@pytest.mark.parametrize("name", WRONG_REQUESTS)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_wrong_requests_are_refused(name):
    options, error, message = WRONG_REQUESTS[name]
    with pytest.raises(error, match=message):
        net(**options)


def step_and_line(x, y):
    return (x[..., 0] > 0.3) + y[..., 0]


@pytest.mark.parametrize("exponent", [1, 2])
def test_averages_over_cells_report_their_mean_error(exponent):
    """A target with a jump: the reported L_p norm agrees with a sum over a fine grid, and falls with the cells."""
    box, s = af.Box(0, 1, shape=(1,)), (np.arange(200) + 0.5) / 200
    errors = []
    for grid in (4, 8):
        net = af.constructions.cross_attention(step_and_line, box, box, grid=grid, norm=exponent, effort="low")
        assert (net.certificate.status, net.certificate.norm) == ("sampled", f"L{exponent}")
        gap = np.abs(net(s[:, None, None], s[None, :, None]) - step_and_line(s[:, None, None], s[None, :, None]))
        errors.append(net.certificate.estimate.error)
        assert errors[-1] == pytest.approx(np.mean(gap**exponent) ** (1 / exponent), rel=0.02)
    assert errors[1] < 0.9 * errors[0]
