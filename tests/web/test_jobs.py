"""Data of the views, asked for as the page does, against what the public interface says."""

import re
from typing import Any

import numpy as np
import pytest

import attnforge as af
from tests.web.conftest import unpacked

SQUARE = {"x": [-1, 1], "y": [-1, 1]}
WAVE = {"function": "sin(8*x)", "domain": {"x": [-1, 1]}}
CLAMP = {"function": "clamp(2*x, -1, 1)", "domain": {"x": [-1, 1]}, "construction": "multihead_truncated_linear"}
GRID = {**WAVE, "construction": "tensor_grid", "sharpness": 0.5}


def test_heads_add_up_and_sentinels_sit_on_the_neighbours_anchors(result) -> None:
    wide = CLAMP | {"function": "clamp(x, -1, 1)", "domain": {"x": [-1.5, 1.5]}}
    found = result("line", **wide, p=24, heads=4, sentinels=2)
    assert np.abs(unpacked(found["parts"]).sum(axis=0) - unpacked(found["output"])).max() < 1e-5
    pairs = [pair for keys in found["keys"] for pair in zip(keys["x"], keys["role"], strict=True)]
    anchors, sentinels = ({round(x, 6) for x, of in pairs if of == role} for role in ("anchor", "sentinel"))
    assert len(anchors) == 24
    assert sentinels <= anchors
    assert found["facts"]["sharpness"] == pytest.approx(2.7, abs=0.1)


def test_the_plane_has_cells_of_many_colours_and_a_worst_point(result) -> None:
    found = result("plane", function="sin(3*x)*cos(2*y)", domain=SQUARE, p=4, sharpness="hard")
    net = af.constructions.max_affine("sin(3*x)*cos(2*y)", {"x": (-1, 1), "y": (-1, 1)}, cells=4, sharpness="hard")
    winners = unpacked(found["cells"]["winner"])
    points = np.stack(np.meshgrid(unpacked(found["x"]), unpacked(found["y"])), axis=-1)
    assert np.mean(winners == net.partition(points.reshape(-1, 2)).reshape(winners.shape)) > 0.99  # borders tie
    assert found["worst"]["error"] == pytest.approx(net.certificate.estimate.error, rel=0.1)
    assert len(found["centres"]["inside"]) == 16
    colours = unpacked(found["cells"]["colour"])
    assert (colours[:, 1:] != colours[:, :-1])[winners[:, 1:] != winners[:, :-1]].all()
    assert (colours[1:] != colours[:-1])[winners[1:] != winners[:-1]].all()


def test_a_graph_has_nodes_edges_shares_and_heads(result) -> None:
    found = result("graph", function="exp(-x^2)*sin(y) + x*y", domain=SQUARE)
    names = [node["name"] for node in found["nodes"]]
    assert all(a in names and b in names for a, b in found["edges"])
    heads = [node for node in found["nodes"] if node["layer"]]
    assert sum(node["bound"]["share"] for node in heads) == pytest.approx(1.0, abs=0.05)
    for node in heads:
        assert unpacked(node["error"]).max() <= found["certificate"]["bound"] * 10
        weights = unpacked(node["head"]["weights"])
        assert weights.shape == (200, node["keys"])
        assert np.allclose(weights.sum(axis=1), 1.0, atol=1e-3)


@pytest.mark.parametrize("algorithm", ["LeastSquares", "Ridge", "Lasso", "Huber"])
def test_iterates_drift_less_than_is_proved(result, algorithm: str) -> None:
    x = np.linspace(-1, 1, 12)
    found = result("in_context", algorithm=algorithm, x=x[:, None].tolist(), y=(0.5 * x + 0.2).tolist(), steps=10)
    assert found["drift"][-1] <= found["certificate"]["bound"]
    assert len(found["weights"]) == 10


def test_too_large_a_step_is_said_to_be_so(result) -> None:
    found = result("in_context", x=[[1.0], [-1.0], [0.5]], y=[0, 1, 0], learning_rate=50.0, steps=5)
    assert found["certificate"]["bound"] is None
    assert "step size" in found["certificate"]["statement"]


def test_programs_compute_and_show_where_they_look(result) -> None:
    found = result("program", program="sort", tokens=list("cab"))
    assert found["result"] == ["a", "b", "c"]
    last = unpacked(found["maps"][-1]["weights"])
    assert last.argmax(axis=1).tolist() == [1, 2, 0]  # a, b, c are the second, the third and the first token
    assert all(register["error"] <= register["bound"] for register in found["registers"])


REFUSED = {
    "a word of no vocabulary": ("program", {"program": "sort", "tokens": ["zebra"]}, "DomainError"),
    "no program": ("program", {"program": "nothing", "tokens": ["a"]}, "TargetError"),
    "one head": (
        "diagnosis", CLAMP | {"fault": "shifted sentinel", "construction": "truncated_linear"}, "TargetError",
    ),
    "no ghosts": ("diagnosis", WAVE | {"sharpness": "hard", "fault": "missing ghosts"}, "TargetError"),
    "no row of anchors": ("temperature", WAVE | {"construction": "gate"}, "TargetError"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_view_cannot_show_is_refused(ask, what: str) -> None:
    job, request, kind = REFUSED[what]
    assert ask(job, **request)["error"]["kind"] == kind


@pytest.mark.parametrize(
    ("asked", "fault", "signature"),
    [
        (GRID, "none", None),
        (GRID, "missing ghosts", "boundary artefact"),
        (GRID, "too soft", "uniform attention"),
        (CLAMP, "shifted sentinel", "boundary artefact"),
        (GRID | {"p": 400}, "float16", "lost argmax"),
    ],
)
def test_every_fault_is_diagnosed_and_its_python_lines_find_it(result, capsys, asked, fault, signature) -> None:
    found = result("diagnosis", **asked, fault=fault)
    assert {each["signature"] for each in found["diagnosis"]["findings"]} == ({signature} if signature else set())
    if signature:
        assert unpacked(found["error"]).max() > 10 * unpacked(found["sound"]).max()
        assert not re.search(r"attnforge\.|^from", found["python"], re.MULTILINE)  # through public names alone
        exec(found["python"], {})
        assert signature in capsys.readouterr().out


def test_python_lines_make_the_network_of_the_view_and_the_errors_of_a_sweep(result, capsys) -> None:
    lines = result("line", **CLAMP | {"construction": "truncated_linear"}, p=9)["python"]
    made: dict[str, Any] = {}
    exec(lines, made)
    assert "proved" in capsys.readouterr().out
    assert made["net"].anchors == 9
    found = result("temperature", **WAVE, p=9)
    exec(found["python"], {})
    printed = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert printed == pytest.approx(found["curves"]["float64"]["error"], rel=0.1)  # a search finds more than a drawing


def test_the_picture_is_what_the_library_computes(result) -> None:
    found = result("line", **GRID, p=17)
    net = af.constructions.tensor_grid("sin(8*x)", {"x": (-1, 1)}, anchors=17, sharpness=0.5 * 8**2)
    assert np.abs(unpacked(found["output"]) - net(unpacked(found["x"]))).max() < 1e-6  # of float32
    assert found["worst"]["error"] == pytest.approx(net.certificate.estimate.error, rel=0.05)
    assert found["facts"]["keys"] == net.anchors
    weights = unpacked(found["map"]["weights"])
    assert weights.shape == (161, net.anchors)
    assert np.abs(weights - net.attention(np.linspace(-1, 1, 161))[0][0][:, 0]).max() < 2e-5


def test_the_comparison_spans_orders_of_magnitude(result) -> None:
    found = result("comparison", **WAVE, p=33)
    assert found["hard"] > 3 * found["tuned"] > 1000 * found["fitted"]


def test_temperature_names_regimes_and_sees_the_optimum(result) -> None:
    asked = {"function": "clamp(x, -1, 1)", "domain": {"x": [-2, 2]}, "construction": "truncated_linear"}
    found = result("temperature", **asked, p=129)
    errors, h = np.array(found["curves"]["float64"]["error"]), 2 / 128
    assert 2 < found["c"][int(errors.argmin())] < 3.5
    assert 0.0625 * h < errors.min() < 0.09 * h  # 0.0629 h at the very best c, between two that are tried
    assert [regime["name"] for regime in found["regimes"]] == ["uniform", "soft", "tuned", "steps", "hard"]
    assert found["curves"]["float16"]["lost"][-1]  # queries 2 c u exceed 65504
    assert not any(found["curves"]["float64"]["lost"])
