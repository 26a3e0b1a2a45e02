"""Data of the views, against what the public interface says."""

import re
from typing import Any

import numpy as np
import pytest

import attnforge as af
from attnforge.errors import DomainError, TargetError
from attnforge.web.index import INDEX
from attnforge.web.jobs import ANSWERS
from attnforge.web.jobs.plane import coloured
from attnforge.web.packing import unpacked

SQUARE = {"x": [-1, 1], "y": [-1, 1]}
WAVE = {"function": "sin(8*x)", "domain": {"x": [-1, 1]}}


def run(job: str, **request):
    return ANSWERS[job](INDEX[job].request.model_validate(request), lambda fraction, text: None)


def test_heads_add_up_and_sentinels_sit_on_the_neighbours_anchors() -> None:
    request = {
        "function": "clamp(x, -1, 1)",
        "domain": {"x": [-1.5, 1.5]},
        "construction": "multihead_truncated_linear",
    }
    found = run("line", **request, p=24, heads=4, sentinels=2)
    assert np.abs(unpacked(found["parts"]).sum(axis=0) - unpacked(found["output"])).max() < 1e-5
    anchors = {
        round(x, 6)
        for keys in found["keys"]
        for x, role in zip(keys["x"], keys["role"], strict=True)
        if role == "anchor"
    }
    sentinels = [
        x for keys in found["keys"] for x, role in zip(keys["x"], keys["role"], strict=True) if role == "sentinel"
    ]
    assert len(anchors) == 24
    assert {round(x, 6) for x in sentinels} <= anchors
    assert found["facts"]["sharpness"] == pytest.approx(2.7, abs=0.1)


def test_the_plane_has_cells_and_a_worst_point() -> None:
    found = run("plane", function="sin(3*x)*cos(2*y)", domain=SQUARE, p=4, sharpness="hard")
    net = af.constructions.max_affine("sin(3*x)*cos(2*y)", {"x": (-1, 1), "y": (-1, 1)}, cells=4, sharpness="hard")
    winners = unpacked(found["cells"]["winner"])
    points = np.stack(np.meshgrid(unpacked(found["x"]), unpacked(found["y"])), axis=-1)
    assert np.mean(winners == net.partition(points.reshape(-1, 2)).reshape(winners.shape)) > 0.99  # borders tie
    assert found["worst"]["error"] == pytest.approx(net.certificate.estimate.error, rel=0.1)
    assert len(found["centres"]["inside"]) == 16


def test_cells_side_by_side_differ_in_colour() -> None:
    winners = np.arange(36).reshape(6, 6).repeat(3, axis=0).repeat(3, axis=1)
    colours = coloured(winners)
    across, down = winners[:, 1:] != winners[:, :-1], winners[1:] != winners[:-1]
    assert (colours[:, 1:] != colours[:, :-1])[across].all()
    assert (colours[1:] != colours[:-1])[down].all()
    assert colours.max() == 3  # of a grid, where corners meet, four will do


def test_a_graph_has_nodes_edges_shares_and_heads() -> None:
    found = run("graph", function="exp(-x^2)*sin(y) + x*y", domain=SQUARE)
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
def test_iterates_drift_less_than_is_proved(algorithm: str) -> None:
    x = np.linspace(-1, 1, 12)
    found = run("in_context", algorithm=algorithm, x=x[:, None].tolist(), y=(0.5 * x + 0.2).tolist(), steps=10)
    assert found["drift"][-1] <= found["certificate"]["bound"]
    assert len(found["weights"]) == 10


def test_too_large_a_step_is_said_to_be_so() -> None:
    found = run("in_context", x=[[1.0], [-1.0], [0.5]], y=[0, 1, 0], learning_rate=50.0, steps=5)
    assert found["certificate"]["bound"] is None
    assert "step size" in found["certificate"]["statement"]


def test_programs_compute_and_show_where_they_look() -> None:
    found = run("program", program="sort", tokens=list("cab"))
    assert found["result"] == ["a", "b", "c"]
    last = unpacked(found["maps"][-1]["weights"])
    assert last.argmax(axis=1).tolist() == [1, 2, 0]  # a, b, c are the second, the third and the first token
    assert all(register["error"] <= register["bound"] for register in found["registers"])
    with pytest.raises(DomainError, match="vocabulary"):
        run("program", program="sort", tokens=["zebra"])
    with pytest.raises(TargetError, match="library"):
        run("program", program="nothing", tokens=["a"])


@pytest.mark.parametrize(
    ("fault", "signature", "p"),
    [("none", None, 33), ("missing ghosts", "boundary artefact", 33), ("too soft", "uniform attention", 33),
     ("float16", "lost argmax", 400)],
)  # fmt: skip
def test_every_fault_is_diagnosed(fault: str, signature: str | None, p: int) -> None:
    found = run("diagnosis", **WAVE, construction="tensor_grid", sharpness=0.5, p=p, fault=fault)
    assert {each["signature"] for each in found["diagnosis"]["findings"]} == ({signature} if signature else set())
    if signature:
        assert unpacked(found["error"]).max() > 100 * unpacked(found["sound"]).max()


def test_a_shifted_sentinel_is_diagnosed_and_needs_several_heads() -> None:
    clamp = {"function": "clamp(2*x, -1, 1)", "domain": {"x": [-1, 1]}, "fault": "shifted sentinel"}
    found = run("diagnosis", **clamp, construction="multihead_truncated_linear")
    assert found["diagnosis"]["findings"][0]["signature"] == "boundary artefact"
    with pytest.raises(TargetError, match="several heads"):
        run("diagnosis", **clamp, construction="truncated_linear")
    with pytest.raises(TargetError, match="has some"):
        run("diagnosis", **WAVE, sharpness="hard", fault="missing ghosts")


CLAMP = {"function": "clamp(2*x, -1, 1)", "domain": {"x": [-1, 1]}, "construction": "multihead_truncated_linear"}
GRID = {**WAVE, "construction": "tensor_grid", "sharpness": 0.5}


@pytest.mark.parametrize(
    ("asked", "fault", "signature"),
    [(GRID, "missing ghosts", "boundary artefact"), (GRID, "too soft", "uniform attention"),
     (CLAMP, "shifted sentinel", "boundary artefact"), (GRID, "float16", "in float16")],
)  # fmt: skip
def test_python_lines_of_a_fault_find_the_fault(capsys, asked: dict[str, Any], fault: str, signature: str) -> None:
    found = run("diagnosis", **asked, fault=fault)
    assert not re.search(r"attnforge\.|^from", found["python"], re.MULTILINE)  # through public names alone
    exec(found["python"], {})
    assert signature in capsys.readouterr().out


def test_python_lines_of_a_sweep_give_its_errors(capsys) -> None:
    found = run("temperature", **WAVE, p=9)
    exec(found["python"], {})
    printed = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert printed == pytest.approx(found["curves"]["float64"]["error"], rel=0.1)  # a search finds more than a drawing
    with pytest.raises(TargetError, match="row of anchors"):
        run("temperature", **WAVE, construction="gate")
