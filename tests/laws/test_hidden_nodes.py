"""Laws about what sampling does not meet: nodes behind thin factors, targets without values on thin sets, run modes."""

import numpy as np
import pytest
import torch

import attnforge as af

CUBE = dict.fromkeys("xyz", (-1, 1))
THIN = "relu(0.01 - 10000*(x - 0.2371)^2 - 10000*(z - 0.3137)^2)"  # zero but within 0.001 of a line
ON_THE_LINE = np.array([[0.2371, y, 0.3137] for y in np.linspace(-1, 1, 41)])
GAP = "((x - 0.2371)^2 - 1e-10)"  # negative for |x - 0.2371| < 1e-5


@pytest.mark.parametrize(
    ("node", "meaning"),
    [
        ("clamp(y, 0.5, -0.5)", lambda y: np.full_like(y, -0.5)),
        ("clamp(y, 0.25, 0.25)", lambda y: np.full_like(y, 0.25)),
        ("clamp(3*y - 1, 2, -1)", lambda y: np.full_like(y, -1.0)),
        ("clamp(y, -0.5, 0.5)", lambda y: np.minimum(np.maximum(y, -0.5), 0.5)),
        ("max(y, 0.5, y)", lambda y: np.maximum(y, 0.5)),
    ],
)
def test_a_node_behind_a_thin_factor_is_within_the_bound(node, meaning):
    net = af.compile(f"{node}*{THIN}", CUBE, tol=1e-3)
    assert net.certificate.status == "proved"
    exact = 0.01 * meaning(ON_THE_LINE[:, 1])
    assert np.abs(net(ON_THE_LINE) - exact).max() <= net.certificate.bound


@pytest.mark.parametrize(
    "text", ["clamp(x, 0.5, -0.5)*y", "clamp(x*y, 0.5, -0.5)*z", "clamp(x, 0.5, 0.5)", "exp(0*max(2, x))"]
)
def test_a_clamp_without_room_is_its_upper_end(text):
    net = af.compile(text, {name: (-1, 1) for name in "xyz" if name in text.replace("max", "")}, tol=1e-3)
    assert net.certificate.status == "proved"
    assert net.certificate.bound <= 1e-3


@pytest.mark.parametrize(
    "part",
    [
        f"exp(log({GAP}))",
        f"sqrt({GAP})^2",
        f"{GAP}^2/{GAP}",
        f"{GAP} + log({GAP}) - log({GAP})",
        f"{GAP} + 0*log({GAP})",
        f"{GAP}*{GAP}^0.5/{GAP}^0.5",
    ],
)
def test_nothing_is_proved_of_a_target_without_values(part):
    net = af.compile(f"{GAP} + sin(y)*z", CUBE, tol=1e-3, construction="graph")
    try:
        found = af.certify(net.network, f"{part} + sin(y)*z", CUBE)
    except af.AttnforgeError:
        return
    assert found.status == "sampled"


def test_what_cancels_is_the_same_where_it_has_values():
    """The side condition, met: the law above would hold of a prover that cancels nothing."""
    net = af.compile("(x^2 + 1) + sin(y)*z", CUBE, tol=1e-3, construction="graph")
    found = af.certify(net.network, "exp(log(x^2 + 1)) + sin(y)*z", CUBE)
    assert found.bound == net.certificate.bound


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_a_forward_derivative_leaves_the_values_within_the_bound(dtype):
    net = af.constructions.tensor_grid("exp(2*x)", {"x": (-3, -1)}, anchors=80, dtype=dtype)
    x = torch.linspace(-3, -1, 2001, dtype=torch.float64).to(getattr(torch, dtype)).unsqueeze(-1)
    values, _ = torch.func.jvp(net.module(), (x,), (torch.ones_like(x),))  # the first call of this module
    assert np.abs(values.double().numpy() - np.exp(2 * x[:, 0].double().numpy())).max() <= net.certificate.bound
    assert net.anchors > 64
