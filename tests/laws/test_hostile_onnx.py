"""What is proved of an ONNX file holds for what ONNX Runtime computes; every other file is refused in three parts."""

import os
from pathlib import Path

import numpy as np
import pytest

import attnforge as af

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from tests.laws.hostile_onnx import THIN, Draft, drawn, node, opset, spiked  # noqa: E402
from tests.refusals import refused  # noqa: E402

COUNT = int(os.environ.get("ATTNFORGE_EXAMPLES", "45"))
SECONDS = 500  # of a compile: looks at the clock, where one is drawn at random
ROUNDING = 1e-5  # of the largest value: ONNX Runtime computes in float32
TOLERANCE = 0.05
READER = "attnforge.targets.tracing"


@pytest.fixture(autouse=True)
def _no_clock(clock):
    """Time passes only where a test says so."""


def judged(draft: Draft, folder: Path) -> str:
    """What became of a file: refused, proved, sampled; or a sentence that says what is wrong."""
    path = folder / "net.onnx"
    path.write_bytes(draft.model().SerializeToString())
    features = [side for side in draft.shape[1:] if side]
    domain = [(-1, 1)] * int(np.prod(features))
    try:
        net = af.compile(path, domain, tol=TOLERANCE, timeout=SECONDS)
    except af.AttnforgeError as error:
        listed = isinstance(error, af.RefusalError)  # the reasons of constructions, one each
        whole = listed or (error.requirement and error.got and error.remedy)
        return "refused" if whole else f"wrong: a refusal without its parts: {error}"
    except Exception as error:  # what the law forbids
        return f"wrong: {type(error).__name__}: {error}"
    if net.certificate.bound is None:
        return "sampled"
    points = looked_at(draft, len(domain))
    try:
        expected = computed(path, draft, points)
    except Exception as error:  # ONNX Runtime has errors of its own kinds
        return f"wrong: proved {net.certificate.bound:g} of what ONNX Runtime refuses: {error}"
    found = np.asarray(net(points)).reshape(len(points), -1)
    slack = ROUNDING * max(1.0, float(np.abs(expected).max()))
    off = np.abs(found - expected).max() if found.shape == expected.shape else np.inf
    fits = off <= net.certificate.bound + slack
    return "proved" if fits else f"wrong: proved {net.certificate.bound:g}, off by {off:g}"


def looked_at(draft: Draft, features: int) -> np.ndarray:
    """Random points, corners, zeros of both signs, kinks and their neighbours."""
    edges = np.float32([-1, 1, 0.0, -0.0, *draft.edges, THIN])
    near = np.concatenate([edges, np.nextafter(edges, np.float32(2)), np.nextafter(edges, np.float32(-2))])
    rng = np.random.default_rng(0)
    crafted = rng.choice(np.clip(near, -1, 1), (100, features))
    crafted[: len(near)] = np.clip(near, -1, 1)[:, None]  # ties
    return np.concatenate([crafted, rng.uniform(-1, 1, (100, features))]).astype(np.float32).astype(np.float64)


def computed(path: Path, draft: Draft, points: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    rows = [point.reshape(1, *draft.shape[1:]).astype(kind) for point in points]
    return np.stack([np.ravel(session.run(None, {"x": each})[0]) for each in rows])


@pytest.mark.parametrize("seed", range(COUNT))
def test_what_is_proved_is_what_onnx_runtime_computes(tmp_path, seed, clock):
    (kind, draft), clock.tick = drawn(seed), 1.0
    outcome = judged(draft, tmp_path)
    assert not outcome.startswith("wrong"), f"{kind}: {outcome}"


def spike() -> Draft:
    """`my.Relu`, which is ONNX's Relu up to the end of the box, and there 51."""
    nodes = [node("Relu", ["x"], ["h"], domain="my"), node("Gemm", ["h", "w"], ["y"])]
    imports, weights = [opset("", 20), opset("my", 1)], {"w": np.float32([[1.0]])}
    return Draft(nodes, weights, imports=imports, functions=[spiked("Relu", None)], edges=(THIN,))


def test_a_function_in_the_file_is_what_it_says(tmp_path):
    assert judged(spike(), tmp_path) in ("proved", "refused")


def test_a_reader_that_ignores_domains_is_seen(tmp_path, monkeypatch):
    """The mutation: names without their domains."""

    def nameless(path: Path) -> tuple:
        model, opset = onnx.load(path), 20
        for each in model.graph.node:
            each.domain = ""
        return model, opset

    monkeypatch.setattr(f"{READER}.onnx_network.read_model", nameless)
    assert "off by" in judged(spike(), tmp_path)


def test_a_reader_that_ignores_opsets_is_seen(tmp_path, monkeypatch):
    """The mutation: a softmax of opset 12 read as one of today, which ONNX's own evaluation does, too."""
    draft = Draft([node("Softmax", ["x"], ["y"], axis=0)], shape=("N", 2), version=12)
    assert judged(draft, tmp_path) == "refused"
    monkeypatch.setattr(f"{READER}.onnx_network.SOFTMAX", 0)
    assert "off by" in judged(draft, tmp_path)


def undefined_at_zero() -> Draft:
    """1/x with a weight of zero, and x: without a value at zero."""
    nodes = [node("Reciprocal", ["x"], ["p"]), node("MatMul", ["p", "w"], ["h"]), node("Add", ["h", "x"], ["y"])]
    return Draft(nodes, {"w": np.zeros((1, 1), np.float32)})


def test_zero_times_nothing_is_nothing(tmp_path, monkeypatch):
    """And the mutation: a reader that leaves out what has a weight of zero."""
    assert judged(undefined_at_zero(), tmp_path) == "refused"
    monkeypatch.setattr(f"{READER}.operations.is_total", lambda node: True)
    assert "off by nan" in judged(undefined_at_zero(), tmp_path)


def test_a_batch_of_a_fixed_size_is_no_point(tmp_path):
    assert judged(Draft([node("Softmax", ["x"], ["y"], axis=0)], shape=(5, 2)), tmp_path) == "refused"


def test_the_node_of_an_unknown_domain_is_named(tmp_path):
    draft = spike()
    draft.functions, draft.nodes[0].name = [], "first"
    (tmp_path / "net.onnx").write_bytes(draft.model().SerializeToString())
    with pytest.raises(af.TargetError, match=r"my\.Relu of the node .first"):
        af.compile(tmp_path / "net.onnx", [(-1, 1)])


def test_functions_have_domains_of_their_own(tmp_path):
    """ONNX Runtime takes its own Relu, the inliner the file's: what is meant cannot be known."""
    draft = spike()
    draft.nodes[0].domain = draft.functions[0].domain = ""
    (tmp_path / "net.onnx").write_bytes(draft.model().SerializeToString())
    with refused(af.FileFormatError):
        af.compile(tmp_path / "net.onnx", [(-1, 1)])


@pytest.mark.parametrize("ends", [(0.5, -0.25), (0.25, 0.25)])
def test_exchanged_ends_give_the_upper_one(tmp_path, ends):
    """min(max(x, a), b), as in ONNX Runtime."""
    draft = Draft(
        [node("Clip", ["x", "a", "b"], ["y"])], dict(zip("ab", map(np.float32, ends), strict=True)), edges=ends
    )
    assert judged(draft, tmp_path) == "proved"


def test_a_layer_of_width_zero_is_refused(tmp_path):
    weights = {"w": np.ones((1, 0), np.float32), "v": np.ones((0, 2), np.float32)}
    nodes = [node("Gemm", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("Gemm", ["r", "v"], ["y"])]
    assert judged(Draft(nodes, weights), tmp_path) == "refused"
