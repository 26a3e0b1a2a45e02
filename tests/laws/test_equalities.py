"""Two ways to the same thing: builds, layouts, and NumPy against torch."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.network import rounded
from tests.laws.cases import DTYPES, SMALL, changed, crossing, running, with_head

LITERAL = {
    "truncated_linear": lambda **k: af.constructions.truncated_linear(
        [[1.0, -0.5]] * 3, [0.25, 0.0, 1.0], -1, 2, anchors=12, **k
    ),
    "multihead_truncated_linear": lambda **k: af.constructions.multihead_truncated_linear(
        [[1.0, -0.5]] * 10, 0.25, -1, 2, tokens=10, heads=3, **k
    ),
    "gate": lambda **k: af.constructions.gate([[1.0, -0.5]] * 3, [0.25, 0.0, 1.0], -1, 2, sharpness=1e4, **k),
}


@pytest.mark.parametrize("layout", ["memory", "literal"])
@pytest.mark.parametrize("name", LITERAL)
def test_building_twice_gives_the_same_bytes(name, layout, tmp_path):
    first, second = (LITERAL[name](layout=layout) for _ in range(2))
    first.save(tmp_path / "first")
    second.save(tmp_path / "second")
    assert first.certificate == second.certificate
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("name", SMALL)
def test_one_bit_of_a_weight_changes_the_digest(name):
    """The mutation of determinism: the digest sees the last bit of every weight."""
    net = SMALL[name]()
    query = net.network.heads[0].query
    other = with_head(net.network, query=changed(query, (0, 0), np.nextafter(query[0, 0], np.inf)))
    assert af.certify(other, net.target).digest != net.certificate.digest


@pytest.mark.parametrize("name", LITERAL)
def test_layouts_agree(name):
    memory, literal = LITERAL[name](layout="memory"), LITERAL[name](layout="literal")
    x = crossing(memory, 200)
    assert memory(x).shape == literal(x).shape == x.shape[:-1]
    assert np.abs(memory(x) - literal(x)).max() <= 1e-12 * 2.0  # relative to the largest value


def test_layouts_of_different_anchors_do_not_agree():
    few = af.constructions.truncated_linear([1.0], 0.0, -1, 2, anchors=12)
    many = af.constructions.truncated_linear([1.0], 0.0, -1, 2, anchors=13, layout="literal")
    x = crossing(few, 200)
    assert np.abs(few(x) - many(x)).max() > 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SMALL)
def test_numpy_and_torch_agree_within_the_rounding_part(name, dtype):
    options = {"domain": af.Box(-2, 2), "dtype": dtype}
    if name == "multihead_truncated_linear" and dtype == "bfloat16":
        net = af.constructions.multihead_truncated_linear([1.0], 0.25, -1, 2, tokens=6, heads=1, sentinels=1, **options)
    elif dtype in ("bfloat16", "float16") and name == "truncated_linear":
        net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=8, **options)
    else:
        net = SMALL[name](**options)
    x = crossing(net, 300)
    exact = net.network(x)[..., 0]  # float64 weights: the network as designed
    module = net.module()(torch.from_numpy(x)).to(torch.float64).numpy()
    rounding = net.certificate.parts["rounding"]
    # both runs depart from the exact network, each by at most its own rounding
    slack = af.certify(net.network, net.target).parts["rounding"]
    assert np.abs(module - exact).max() <= rounding + slack
    if dtype != "float64":
        assert np.abs(module - exact).max() > 0  # rounding happens: the comparison is not of a thing with itself
        same = rounded(net.network, dtype)(x)[..., 0]
        assert np.abs(module - same).max() <= rounding + slack


@pytest.mark.parametrize("name", SMALL)
def test_a_perturbed_weight_leaves_the_rounding_part(name):
    """The mutation: one weight off by far more than the slack is seen by the comparison with NumPy."""
    net = SMALL[name]()
    output = net.network.heads[0].output
    mutant = with_head(net.network, output=changed(output, (0, 0), 1.0 + 1e-6))
    x = crossing(net, 100)
    gap = np.abs(running(net, mutant)(x) - net.network(x)[..., 0]).max()
    assert gap > 100 * net.certificate.parts["rounding"]
    assert np.abs(net(x) - net.network(x)[..., 0]).max() <= 2 * net.certificate.parts["rounding"]
