"""Graphs of registers as people see them: printed, traced, saved."""

import numpy as np
import pytest

import attnforge as af


@pytest.fixture(scope="module")
def net():
    return af.compile("x*y/sqrt(1 + z^2)", {"x": (-1, 1), "y": (-1, 1), "z": (0, 2)}, tol=1e-6)


def test_it_is_a_graph_and_says_why(net):
    assert net.construction == "graph"
    assert net.reason.startswith("a graph of 3 registers in 2 layers")


def test_of_two_inputs_it_is_taken_where_a_grid_needs_more_keys():
    few = af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6)
    assert (few.construction, few.anchors) == ("graph", 5)
    assert "one head over a grid would need about 40 keys" in few.reason
    factors = "*".join(f"(2 + sin(x + {k}*y)/{k})" for k in range(1, 12))
    many = af.compile(factors, {"x": (0, 0.1), "y": (0, 0.1)}, tol=1e-2)
    assert many.construction == "tensor_grid"
    assert many.anchors < af.constructions.graph(factors, {"x": (0, 0.1), "y": (0, 0.1)}, 1e-2).anchors


@pytest.mark.parametrize("formula", ["exp(-x^2)*cos(3*y)*z", "x*log(y)*z", "x*z*(1 + sqrt(2 - y))"])
def test_an_input_that_does_not_vary_is_no_obstacle(formula):
    net = af.compile(formula, {"x": (-1, 1), "y": (1, 1), "z": (0, 2)}, tol=1e-4)
    assert net.certificate.status == "proved"
    assert af.measure(net, points=1000).sup <= net.certificate.bound <= 1e-4


def test_the_logarithm_of_an_exponential_is_its_exponent():
    wave = af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-3)
    assert wave.network.heads[0].claims.formula == "-r[1]^2"


def test_the_logarithm_of_a_product_is_the_sum_of_those_of_its_factors():
    """Rows over [1, 5] twice, not one over [1, 25] of a product that would be written for it."""
    net = af.compile("1/(exp(x*y/z) - 1)", dict.fromkeys("xyz", (1, 5)), tol=1e-6)
    formulas = [head.claims.formula for head in net.network.heads]
    assert formulas[:3] == ["log(r[3])", "log(r[1])", "log(r[2])"]
    assert len(formulas) == 4
    assert net.certificate.bound <= 1e-6


def test_the_report_lists_registers(net):
    text = net.report()
    assert "registers" in text
    assert "r[4] " in text
    assert "sharpness" not in text


def test_every_register_is_traced_beside_its_exact_value(net):
    x = np.array([[0.5, -0.25, 1.0], [-1.0, 1.0, 0.0]])
    rows = net.trace(x)
    assert [row.name for row in rows] == [f"r[{i}]" for i in range(1, 7)]
    assert all(np.allclose(row.computed, row.exact, atol=1e-6) for row in rows)
    assert np.array_equal(rows[0].exact, x[:, 0])


def test_by_name_and_one_point(net):
    assert net.trace(x=0.5, y=1.0, z=0.0)[0].computed.tolist() == [0.5]


def test_other_networks_have_none():
    with pytest.raises(af.TargetError, match="Graphs of registers"):
        af.compile("sin(x)", {"x": (0, 1)}, tol=1e-3).trace([0.5])


def test_saved_and_loaded(net, tmp_path):
    net.save(tmp_path / "net.safetensors")
    again = af.load(tmp_path / "net.safetensors")
    assert again.certificate == net.certificate
    assert af.certify(again).bound == pytest.approx(net.certificate.bound)
    x = np.random.default_rng(0).uniform(net.domain.lower, net.domain.upper, (10, 3))
    assert np.array_equal(again(x), net(x))


def test_several_outputs_share_nodes():
    net = af.compile("[x*y, sin(x*y), exp(x*y)]", {"x": (-1, 1), "y": (-1, 1)}, tol=1e-6)
    assert net.certificate.status == "proved"
    assert net.heads == 3
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    assert np.abs(net(x) - net.target.values(x)).max() <= net.certificate.bound


@pytest.mark.parametrize("count", [4, 16])
def test_products_of_many_factors(count):
    names = [f"x[{i}]" for i in range(count)]
    net = af.compile("*".join(names), dict.fromkeys(names, (0.5, 1.5)), tol=1e-9)
    assert net.certificate.bound <= 1e-9
    x = np.random.default_rng(0).uniform(0.5, 1.5, (2000, count))
    assert np.abs(net(x) - x.prod(axis=1)).max() <= net.certificate.bound


def test_a_network_with_smooth_units():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    net = af.compile(model, af.Box(-1, 1, shape=(4,)), tol=1e-6)
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 4))
    wanted = model(torch.from_numpy(x)).detach().numpy()
    assert net.certificate.bound <= 1e-6
    assert np.abs(net(x).reshape(-1, 1) - wanted).max() <= net.certificate.bound + 1e-15


@pytest.mark.parametrize("text", ["log(x)*y*z", "sign(x)*y*z", "floor(x)*y*z"])
def test_what_is_unbounded_or_jumps_is_refused_with_the_node(text):
    with pytest.raises(af.AttnforgeError):
        af.compile(text, dict.fromkeys("xyz", (0, 1)), tol=1e-6, construction="graph")


@pytest.mark.parametrize(
    "text",
    [
        "sqrt(x)*y*z",
        "exp(-sqrt(x*y + z))",
        "hypot(x - y, z)",
        "sqrt(x) + y*z",
        "asin(x*y) + z",
        "acos(-x*y*z)",
        "acos(x*y) + z",
    ],
)
def test_roots_at_the_end_of_their_domain_are_proved(text):
    net = af.compile(text, dict.fromkeys("xyz", (0, 1)), tol=1e-5, construction="graph")
    x = np.random.default_rng(0).uniform(0, 1, (2000, 3)) ** 4
    x[1000:1500] = 1 - x[1000:1500]
    x[:10] = np.linspace(0, 1, 10)[:, None] * [1, 1, 0]
    assert np.abs(net(x) - net.target.values(x)).max() <= net.certificate.bound <= 1e-5


def test_roots_that_rounding_moves_by_more_than_the_tolerance_are_refused_with_the_node():
    with pytest.raises(af.RefusalError, match=r"sqrt\(r"):
        af.compile("hypot(x - y, z)", dict.fromkeys("xyz", (0, 1)), tol=1e-10, construction="graph")


def test_the_report_and_the_certificate_say_what_each_register_adds():
    net = af.compile("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), tol=1e-6)
    local = net.certificate.registers
    assert sum(each.share for each in local) == pytest.approx(1.0)
    assert [each.name for each in local] == [each.name for each in net.trace(np.zeros((1, 3)))[3:]]
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 3))
    for each, traced in zip(local, net.trace(x)[3:], strict=True):
        assert each.lower <= traced.computed.min()
        assert traced.computed.max() <= each.upper
    assert af.Certificate.from_json(net.certificate.to_json()) == net.certificate
    assert "sensitivity" in str(net)
    assert all(each.name in str(net) for each in local)
