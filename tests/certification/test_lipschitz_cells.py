"""The proof of cross-attention reads the numbers: what departs from the theorem is charged or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.constructions import cross_attention
from attnforge.effort import EFFORTS
from attnforge.network import Linear, Network, Rows, Softmax, Term, editing, flatten, unflatten
from attnforge.network.flatten import is_weight
from attnforge.targets import JointFunction

ONE = af.Box(0, 1, shape=(1,))
TWO = af.Box(0, 1, shape=(2, 1))

# |x + y| reaches L times half a cell, so these hard bounds are tight: little can go wrong unseen.
NETS = {
    "numbers": cross_attention(lambda x, y: x[..., 0] + y[..., 0], ONE, ONE, grid=4, sharpness="hard", lipschitz=2),
    "sequences": cross_attention(
        lambda x, y: y + x[..., :1, :], TWO, TWO, grid=(3, 1, 2, 2), sharpness="hard", lipschitz=2
    ),
    "ghosts": cross_attention(lambda x, y: x[..., 0] + y[..., 0], ONE, ONE, grid=3, lipschitz=2),
}


def points(net, count: int = 600) -> np.ndarray:
    rng = np.random.default_rng(0)
    axes = net.domain.lower.size
    corners = rng.integers(0, 25, (count, axes)) / 24  # edges of cells among them
    ends = np.stack(np.meshgrid(*[[0.0, 1.0]] * axes), axis=-1).reshape(-1, axes)
    return np.concatenate([rng.random((count, axes)), corners, np.clip(corners + 1e-9, 0, 1), ends])


def error(net, network: Network) -> float:
    """The largest error of another network against the net's target, in NumPy."""
    z = points(net)
    x, y = net.target.split(z)
    keys, query = (part.reshape(len(z), -1, part.shape[-1]) for part in (x, y))
    found = network(query, keys).reshape(len(z), -1)
    gap = np.abs(found - net.target.values(z).reshape(len(z), -1)).max()
    return np.inf if np.isnan(gap) else float(gap)


def edited(net, name: str, index, value) -> Network:
    skeleton, arrays = flatten(net.network)
    array = arrays[name].copy()
    array[index] = value(array[index]) if callable(value) else value
    return unflatten(skeleton, {**arrays, name: array})


@pytest.mark.parametrize("name", NETS)
def test_the_bound_holds_and_is_the_lemmas(name):
    net = NETS[name]
    found = certify(net.network, net.target)
    assert error(net, net.network) <= found.bound == net.certificate.bound
    assert found.parts["rounding"] < 1e-10
    if name != "ghosts":
        assert error(net, net.network) > 0.9 * found.bound or name == "sequences"


@pytest.mark.parametrize("name", NETS)
def test_changed_weights_are_refused_or_charged(name):
    net, seen = NETS[name], {"refused": 0, "charged": 0}
    skeleton, arrays = flatten(net.network)
    names = sorted(n for n in arrays if is_weight(n))

    @settings(max_examples=60, derandomize=True)
    @given(
        st.sampled_from(names),
        st.integers(0, 10**6),
        st.floats(-14, 0.5),
        st.sampled_from(["by", "times", "zero", "minus"]),
    )
    def law(which, index, exponent, how):
        array = arrays[which].copy()
        old = array.flat[index % array.size]
        new = {"by": old + 10**exponent, "times": old * (1 + 10**exponent), "zero": 0.0, "minus": -old}[how]
        array.flat[index % array.size] = new
        mutant = unflatten(skeleton, {**arrays, which: array})
        try:
            bound = certify(mutant, net.target, effort=EFFORTS["low"]).bound
        except (af.CertificateError, af.RefusalError):
            seen["refused"] += 1
            return
        seen["charged"] += 1
        assert error(net, mutant) <= bound

    law()
    assert seen["charged"] >= 30, seen


def test_a_changed_value_is_charged_in_full():
    net = NETS["numbers"]
    mutant = edited(net, "context1.constant", (5, -1), lambda old: old + 3.0)
    assert certify(mutant, net.target).bound >= net.certificate.bound + 3.0


@pytest.mark.parametrize(
    ("name", "index"),
    [("context1.constant", (5, 0)), ("context1.constant", (5, 1)), ("context1.term0.mix", (5, 0)),
     ("context0.term0.map", (0, 0)), ("context0.constant", (0, 0)), ("layer0.term0.map", (0, 0)),
     ("layer1.head0.key", (0, 0)), ("layer1.head0.query", (0, 1))],
)  # fmt: skip
def test_a_changed_key_is_caught(name, index):
    net = NETS["numbers"]
    small = certify(edited(net, name, index, lambda old: old + 1e-5), net.target)
    assert small.bound > net.certificate.bound + 1e-7
    large = edited(net, name, index, lambda old: old + 1.0)
    try:
        bound = certify(large, net.target).bound
    except (af.CertificateError, af.RefusalError):
        return
    assert bound >= error(net, large)  # no grid any more: found by looking at the cells that are there


def with_head(network: Network, **changes) -> Network:
    return editing.with_head(network, -1, 0, **changes)


def with_claims(network: Network, **changes) -> Network:
    return with_head(network, claims=replace(network.heads[0].claims, **changes))


@pytest.mark.parametrize("name", NETS)
def test_claims_change_nothing(name):
    net = NETS[name]
    claims = net.network.heads[0].claims
    lies = [{"sharpness": claims.sharpness * factor} for factor in (0.5, 0.999, 1.001, 2.0, -1.0, np.nan)]
    lies += [{"positions": claims.positions + shift} for shift in (1e-13, 1e-3, 0.5)]
    lies += [{"positions": claims.positions[::-1].copy()}, {"positions": claims.positions[:-1]}]
    lies += [{"positions": claims.positions[:, ::-1].copy()}, {"positions": claims.positions[:, 0]}]
    for lie in lies:
        assert certify(with_claims(net.network, **lie), net.target).bound == net.certificate.bound
    assert certify(with_head(net.network, claims=None), net.target).bound == net.certificate.bound


NET = NETS["numbers"].network
HEAD = NET.heads[0]
REFUSED = {
    "products of X and Y": (edited(NETS["numbers"], "layer1.head0.query", (0, 0), 1.0), "meet constant queries"),
    "values from X": (with_head(NET, value=np.eye(3)[:, :1]), "values are constants"),
    "some rows": (with_head(NET, key_rows=Rows.some(np.arange(16), "context")), "attends to the second input"),
    "a residual": (replace(NET, layers=(NET.layers[0], Linear((Term(np.ones((2, 1))),)))), "one layer of attention"),
    "a softmax before": (replace(NET, layers=(NET.layers[0], Softmax(), NET.layers[1])), "one layer of attention"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_proof_does_not_cover_is_refused(name):
    network, message = REFUSED[name]
    with pytest.raises(af.CertificateError, match=message):
        certify(network, NETS["numbers"].target)


def test_other_targets_domains_and_shapes_are_refused():
    net = NETS["numbers"]
    wide = JointFunction(lambda x, y: x[..., 0] + y[..., 0], ONE, af.Box(0, 2, shape=(1,)), lipschitz=af.Lipschitz(2.0))
    assert certify(net.network, wide).bound >= 1 + 1 / 8  # the values end at 1/4 + 7/8, f at 3
    half = certify(net.network, net.target, af.Box([0, 0], [1, 0.5])).bound
    assert net.certificate.bound / 2 < half <= net.certificate.bound
    with pytest.raises(af.CertificateError, match="on the domain they divide"):
        certify(net.network, net.target, af.Box(0, 2, shape=(2,)))
    with pytest.raises(af.CertificateError, match="must have the same shape"):
        certify(net.network, NETS["sequences"].target)
    flat = af.constructions.max_affine(lambda z: z[..., 0], af.Box(0, 1, shape=(2,)), cells=2, lipschitz=1)
    with pytest.raises(af.CertificateError, match="must take the target's inputs"):
        certify(net.network, flat.target)


def test_another_output_map_is_charged():
    net = NETS["numbers"]
    double = with_head(net.network, output=np.array([[2.0]]))
    assert error(net, double) <= certify(double, net.target).bound <= 1.2 * error(net, double)


def test_a_weaker_bonus_is_charged():
    net = NETS["sequences"]
    weak = edited(net, "layer1.head0.query", (3, 3), 3.0)
    found = certify(weak, net.target)
    assert found.bound >= error(net, weak)
    assert found.parts["leakage"] > net.certificate.parts["leakage"] + 0.05


def test_rounding_of_the_contexts_maps_is_charged():
    """On a box far from zero, counting X in steps loses digits: float32 pays for them, and stays within its bound."""
    far = af.Box(1000, 1001, shape=(1,))
    options = {"grid": 8, "sharpness": "hard", "lipschitz": 2, "dtype": "float32"}
    near = cross_attention(lambda x, y: x[..., 0] + y[..., 0], ONE, ONE, **options)
    away = cross_attention(lambda x, y: x[..., 0] - 1000 + y[..., 0], far, ONE, **options)
    assert away.certificate.parts["rounding"] > 5 * near.certificate.parts["rounding"]
    assert af.measure(away, points=2000).sup <= away.certificate.bound
    with pytest.raises(af.RefusalError, match="must tell the scores of cells apart"):
        cross_attention(lambda x, y: x[..., 0] * 0, af.Box(1e6, 1e6 + 1, shape=(1,)), ONE, **options)
