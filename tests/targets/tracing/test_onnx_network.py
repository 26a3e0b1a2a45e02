"""Networks in ONNX files as targets."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import attnforge as af
from attnforge.compiler.targets import as_target
from attnforge.targets import Formulas, ReluNetwork

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
node, FLOAT = onnx.helper.make_node, onnx.TensorProto.FLOAT

RNG = np.random.default_rng(0)
WEIGHTS = {
    "W": RNG.normal(size=(2, 3)),
    "b": RNG.normal(size=3),
    "V": RNG.normal(size=(3, 4)),
    "c": RNG.normal(size=4),
    "VT": RNG.normal(size=(4, 3)),
    "half": np.array(0.5),
    "low": np.array(-0.5),
    "rows": np.array([-1, 2]),
    "false": np.array(False),
}
HIDDEN, LAST = node("Gemm", ["x", "W", "b"], ["h"]), node("Gemm", ["r", "V", "c"], ["y"])
DOMAIN = [(-1, 1)] * 2


def saved(path: Path, nodes: list, outputs: int = 4, shape: tuple = ("N", 2), weights: dict | None = None) -> Path:
    used = {name for each in nodes for name in each.input}
    arrays = {name: array for name, array in (weights or WEIGHTS).items() if name in used}
    tensors = [
        onnx.numpy_helper.from_array(array.astype(np.float32) if array.dtype.kind == "f" else array, name)
        for name, array in arrays.items()
    ]
    x = onnx.helper.make_tensor_value_info("x", FLOAT, list(shape))
    y = onnx.helper.make_tensor_value_info("y", FLOAT, [outputs] if len(shape) == 1 else ["N", outputs])
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), path)
    return path


def hidden(*middle) -> list:
    return [HIDDEN, *middle, LAST]


ACTIVATIONS = {
    "Tanh": [node("Tanh", ["h"], ["r"])],
    "Sigmoid": [node("Sigmoid", ["h"], ["r"])],
    "Erf": [node("Erf", ["h"], ["r"])],
    "Gelu": [node("Gelu", ["h"], ["r"])],
    "Gelu tanh": [node("Gelu", ["h"], ["r"], approximate="tanh")],
    "Softplus": [node("Softplus", ["h"], ["r"])],
    "Elu": [node("Elu", ["h"], ["r"], alpha=0.5)],
    "Clip": [node("Clip", ["h", "low", "half"], ["r"])],
    "residual": [node("Relu", ["h"], ["k"]), node("Add", ["k", "h"], ["r"])],
    "gelu by erf": [
        node("Constant", [], ["root"], value=onnx.numpy_helper.from_array(np.float32(1.4142135))),
        node("Constant", [], ["one"], value_float=1.0),
        node("Div", ["h", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["s"]),
        node("Mul", ["h", "s"], ["p"]),
        node("Mul", ["p", "half"], ["r"]),
    ],
    "difference": [node("Sub", ["h", "half"], ["d"]), node("Tanh", ["d"], ["r"])],
    "dropout": [node("Tanh", ["h"], ["t"]), node("Dropout", ["t", "half", "false"], ["r"])],
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_layers(tmp_path, name):
    """Values are compared with ONNX's own evaluation by `as_target`."""
    target = as_target(saved(tmp_path / "net.onnx", hidden(*ACTIVATIONS[name])), DOMAIN)
    assert isinstance(target, Formulas)
    assert target.outputs == 4


@pytest.mark.parametrize(
    "nodes",
    [
        hidden(node("Relu", ["h"], ["r"])),
        hidden(node("LeakyRelu", ["h"], ["r"])),
        hidden(node("LeakyRelu", ["h"], ["r"], alpha=0.25)),
        [node("MatMul", ["x", "W"], ["a"]), node("Add", ["b", "a"], ["h"]), node("Relu", ["h"], ["r"]), LAST],
        [node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "W"], ["h"]), node("Relu", ["h"], ["r"]), LAST],
        [HIDDEN, node("Relu", ["h"], ["r"]), node("Gemm", ["r", "VT"], ["y"], transB=1)],
    ],
)
def test_chains_of_relus_are_relu_networks(tmp_path, nodes):
    target = as_target(saved(tmp_path / "net.onnx", nodes), DOMAIN)
    assert isinstance(target, ReluNetwork)
    assert target.describe() == "ReLU network 2-3-4"


def test_values_by_hand(tmp_path):
    nodes = [HIDDEN, node("Tanh", ["h"], ["r"]), node("Gemm", ["r", "V", "c"], ["z"], alpha=0.5, beta=2.0)]
    target = as_target(saved(tmp_path / "net.onnx", [*nodes, node("Softmax", ["z"], ["y"])]), DOMAIN)
    points = np.random.default_rng(1).uniform(-1, 1, (10, 2))
    W, b, V, c = (WEIGHTS[name].astype(np.float32).astype(np.float64) for name in "WbVc")
    scores = 0.5 * np.tanh(points @ W + b) @ V + 2 * c
    powers = np.exp(scores)
    assert np.allclose(target.values(points), powers / powers.sum(axis=1, keepdims=True), rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(1, 2), (2,), ("N", 1, 2), ("N", 2, 1)])
def test_shapes_of_the_input(tmp_path, shape):
    first = [node("Reshape", ["x", "rows"], ["f"]), node("Gemm", ["f", "W", "b"], ["h"])]
    if shape == (2,):
        first = [node("MatMul", ["x", "W"], ["h"])]
    target = as_target(saved(tmp_path / "net.onnx", [*first, node("Tanh", ["h"], ["y"])], 3, shape), DOMAIN)
    assert target.outputs == 3


def test_by_path_and_names(tmp_path):
    path = saved(tmp_path / "net.onnx", hidden(*ACTIVATIONS["Tanh"]))
    assert as_target(path, {"a": (-1, 1), "b": (0, 1)}).names == ("a", "b")
    with pytest.raises(af.RefusalError, match="4 formulas of 2 inputs"):
        af.compile(path, DOMAIN, construction="polynomial")


@pytest.mark.parametrize(
    ("nodes", "options", "error", "match"),
    [
        ([node("Conv", ["x", "W"], ["y"])], {}, af.TargetError, "'Conv'"),
        ([node("Tanh", ["x"], ["y"], domain="mine")], {}, af.FileFormatError, "valid ONNX"),
        (hidden(*ACTIVATIONS["Tanh"]), {"domain": [(-1, 1)] * 3}, af.TargetError, "must have 2 features"),
        (hidden(node("Tanh", ["h"], ["r"])), {"weights": WEIGHTS | {"V": np.full((3, 4), np.nan)}}, af.FileFormatError,
         "finite real numbers"),
        ([node("MatMul", ["x", "V"], ["h"]), node("Tanh", ["h"], ["y"])], {}, af.TargetError, "shapes"),
        ([HIDDEN, node("Softmax", ["h"], ["y"], axis=5)], {}, af.TargetError, "Softmax with AxisError"),
        ([node("Tanh", ["q"], ["y"])], {}, af.FileFormatError, "valid ONNX"),
    ],
)  # fmt: skip
def test_refusals(tmp_path, nodes, options, error, match):
    domain = options.pop("domain", DOMAIN)
    with pytest.raises(error, match=match):
        as_target(saved(tmp_path / "net.onnx", nodes, **options), domain)


def test_hostile_growth_is_refused(tmp_path):
    names = ["x", *(f"d{i}" for i in range(60))]
    doubling = [node("Concat", [a, a], [b], axis=1) for a, b in itertools.pairwise(names)]
    path = saved(tmp_path / "net.onnx", [*doubling, node("Tanh", [names[-1]], ["y"])])
    with pytest.raises(af.TargetError, match="at most 200,000 nodes"):
        as_target(path, DOMAIN)


def test_weights_in_other_files_are_not_read(tmp_path):
    path = saved(tmp_path / "net.onnx", hidden(*ACTIVATIONS["Tanh"]))
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(af.FileFormatError):
        as_target(path, DOMAIN)


def test_files_that_are_none(tmp_path):
    for content in (b"", b"garbage" * 100):
        (tmp_path / "net.onnx").write_bytes(content)
        with pytest.raises(af.FileFormatError):
            as_target(tmp_path / "net.onnx", DOMAIN)
    with pytest.raises(af.FileFormatError, match="no file"):
        as_target(tmp_path / "missing.onnx", DOMAIN)


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch):
    path = saved(tmp_path / "net.onnx", hidden(*ACTIVATIONS["Tanh"]))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(af.FileFormatError, match=r"attnforge\[onnx\]"):
        as_target(path, DOMAIN)
