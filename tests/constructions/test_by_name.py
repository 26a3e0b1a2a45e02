"""The theorems by name: options, shapes and refusals in three parts."""

import numpy as np
import pytest

import attnforge as af
from tests.refusals import refused

BUILD = {
    "truncated_linear": lambda w=(1.0,), t=0.0, a=-1, b=1, **k: af.constructions.truncated_linear(
        w, t, a, b, **({"anchors": 8} | k)
    ),
    "multihead_truncated_linear": lambda w=(1.0,), t=0.0, a=-1, b=1, **k: af.constructions.multihead_truncated_linear(
        w, t, a, b, **({"tokens": 8, "heads": 2} | k)
    ),
    "gate": lambda w=(1.0,), t=0.0, a=-1, b=1, **k: af.constructions.gate(w, t, a, b, **k),
}


WRONG = {
    **{
        f"{name}, {wrong}": (af.AttnforgeError, name, wrong)
        for name in BUILD
        for wrong in (
            {"a": 1, "b": 1}, {"a": 2, "b": 1}, {"w": [np.nan]}, {"w": [[[1.0]]]}, {"w": []}, {"w": "abc"},
            {"t": np.inf}, {"t": [[0.0]]}, {"w": np.ones((2, 3)), "t": np.ones(5)}, {"a": np.nan},
            {"layout": "sparse"}, {"dtype": "float8"}, {"output": 3, "outputs": 2}, {"output": "a"}, {"outputs": "a"},
            {"domain": (0, 1)}, {"domain": af.Box([-1, -1, -1], [1, 1, 1]), "w": [1.0, -1.0]}, {"a": -np.inf},
            {"a": [-1]}, {"w": 1.0}, {"w": np.ones((3, 2)), "domain": af.Box(-1, 1, shape=(4, 2))},
        )
    },
    **{
        f"{name}, {wrong}": (af.RefusalError, name, wrong)
        for name, wrong in [
            *(("truncated_linear", {"anchors": anchors}) for anchors in (1, -5, 2.5, None)),
            *(("truncated_linear", {"sharpness": beta}) for beta in ("soft", -1.0, np.nan, None, [1])),
            ("truncated_linear", {"grid": "half"}),
            ("truncated_linear", {"w": np.ones((9, 1)), "layout": "literal"}),
            ("multihead_truncated_linear", {"tokens": 4}),
            ("multihead_truncated_linear", {"heads": 0}),
            ("multihead_truncated_linear", {"sentinels": -1}),
            ("multihead_truncated_linear", {"w": np.ones((9, 1)), "layout": "literal"}),
            *(("gate", {"sharpness": beta}) for beta in (0.0, np.inf, "a")),
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_makes_no_sense_is_refused(what):
    kind, name, wrong = WRONG[what]
    with refused(kind):
        BUILD[name](**wrong)


@pytest.mark.parametrize("sharpness", [1e-9, 1e-3])
def test_too_soft_a_head_is_bounded_or_refused(sharpness):
    try:
        net = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=50, sharpness=sharpness)
    except af.RefusalError:
        return
    assert af.measure(net, points=500).sup <= net.certificate.bound <= 2.001


@pytest.mark.parametrize("layout", ["memory", "literal"])
@pytest.mark.parametrize("name", BUILD)
def test_a_chosen_output_feature(name, layout):
    net = BUILD[name](outputs=3, output=1, layout=layout, domain=af.Box(-2, 2))
    tokens = net.network.tokens or 4
    x = np.linspace(-2, 2, 5 * tokens).reshape(5, tokens, 1)
    out = net(x)
    assert out.shape == (5, tokens, 3)
    assert not out[..., 0].any()
    assert not out[..., 2].any()
    assert np.abs(out[..., 1] - np.clip(x[..., 0], -1, 1)).max() <= net.certificate.bound


@pytest.mark.parametrize("name", BUILD)
def test_tokens_keep_to_themselves(name):
    w, t = np.array([[1.0, 0.5], [-2.0, 0.25], [0.0, 1.0]]), np.array([0.0, 0.5, -0.25])
    net = BUILD[name](w=w, t=t, domain=af.Box(-1, 1))
    x = np.random.default_rng(0).uniform(-1, 1, size=(6, 3, 2))
    whole = net(x)
    assert whole.shape == (6, 3)
    other = x.copy()
    other[:, 1] = 0.0
    assert np.array_equal(net(other)[:, [0, 2]], whole[:, [0, 2]])
    assert not np.array_equal(net(other)[:, 1], whole[:, 1])


@pytest.mark.parametrize("name", BUILD)
def test_one_form_takes_any_number_of_tokens(name):
    net = BUILD[name](w=[1.0, 2.0])
    for n in (1, 2, 7):
        assert net(np.zeros((3, n, 2))).shape == (3, n)
    with refused(af.DomainError):
        net(np.zeros((3, 2, 5)))


def test_counts_passed_in_are_those_on_the_interval():
    assert BUILD["truncated_linear"](anchors=21).anchors == 21
    heads = BUILD["multihead_truncated_linear"](tokens=12, heads=3, sentinels=2)
    assert (heads.heads, heads.anchors, heads.layers) == (3, 36, 1)
    assert sum(role == "anchor" for head in heads.network.heads for role in head.claims.roles) == 24
    assert BUILD["gate"]().anchors == 3


@pytest.mark.parametrize("domain", [af.Box(-2, 1), af.Box([-2, 0], [1, 3]), af.Box(-1, 1, shape=(4, 2))])
def test_domains_of_any_shape(domain):
    net = af.constructions.gate([1.0, -1.0], 0.0, -1, 1, domain=domain)
    assert af.measure(net, points=500).sup <= net.certificate.bound
    assert len(net.certificate.domain) == net.target.domain.lower.size
