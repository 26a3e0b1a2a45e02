"""Networks of torch, scikit-learn and ONNX as targets: the same values, small graphs, and what is refused."""

from __future__ import annotations

import itertools
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from torch import nn

import attnforge as af
from tests.refusals import refused

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
node, FLOAT = onnx.helper.make_node, onnx.TensorProto.FLOAT
SQUARE = [(-1, 1)] * 2
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))


def read(network, domain=SQUARE):
    """The target that a network is taken for; the compiled one is loose."""
    return af.compile(network, domain, tol=1.0, effort="low").target


def is_piecewise_linear(target):
    return target.describe().startswith("ReLU network")


def mlp(*layers: nn.Module, inputs: int = 2, outputs: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 3), *layers, nn.Linear(3, outputs)).eval()


def by_torch(module: nn.Module) -> np.ndarray:
    with torch.no_grad():
        return module.double()(torch.as_tensor(X)).numpy()


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.scale = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.outer(torch.tanh(self.inner(x)))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 3), nn.Linear(5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.cat([nn.functional.relu(self.first(x)), x], dim=1)
        return self.last(hidden).squeeze(-1) * torch.sigmoid(x[:, 0])


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum():
            return x
        return -x


def normalised() -> nn.Module:
    module = mlp(nn.BatchNorm1d(3), nn.Tanh())
    module[1].running_mean[:] = torch.tensor([0.1, 0.2, 0.3])
    return module


MODULES = {
    **{repr(each): (lambda each=each: mlp(each)) for each in (
        nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Softplus(beta=2.0), nn.ELU(0.5),
        nn.CELU(2.0), nn.Mish(), nn.Hardswish(), nn.PReLU(), nn.LogSigmoid(),
    )},
    "softmax of two": lambda: mlp(nn.ReLU()).append(nn.Softmax(dim=1)),
    "softmax of four": lambda: mlp(nn.ReLU(), outputs=4).append(nn.Softmax(dim=-1)),
    "residual": lambda: nn.Sequential(nn.Linear(2, 6), Residual(6), Residual(6), nn.Linear(6, 2)),
    "gated": Gated,
    "normalised": normalised,
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_values_of_torch(name):
    torch.manual_seed(0)
    module = MODULES[name]()
    found = read(module, {"a": (-1, 1), "b": (-1, 1)})
    assert found.names == ("a", "b")
    assert np.allclose(found.values(X), by_torch(module), rtol=0, atol=1e-8)
    assert not is_piecewise_linear(found)


def test_piecewise_linear_modules_stay_what_they_were():
    module = mlp(nn.ReLU(), nn.Dropout(), nn.Hardtanh(), nn.Identity(), nn.LeakyReLU(0.2), nn.ReLU6())
    found = read(module)
    assert is_piecewise_linear(found)
    assert np.allclose(found.values(X), by_torch(module), rtol=0, atol=1e-13)
    assert module[0].weight.dtype == torch.float64  # by ``by_torch``, not by the reader:
    fresh = mlp(nn.Tanh()).train()
    read(fresh, af.Box(-1, 1))
    assert (fresh.training, fresh[0].weight.dtype) == (True, torch.float32)


def test_each_unit_is_one_shared_sum():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    text = af.formula(lambda x: module(x), {"x": 4}).text
    assert text.count("tanh") == 16
    assert f"{module[4].weight[0, 0].item()!r}*" in text  # float32 numbers are float64 numbers


def test_softmax_of_large_scores_does_not_overflow():
    module = nn.Sequential(nn.Linear(1, 3), nn.Softmax(dim=-1))
    with torch.no_grad():
        module[0].weight[:] = torch.tensor([[2000.0], [-2000.0], [0.0]])
    traced = af.formula(lambda x: module(x), {"x": 1})
    assert np.allclose(traced([[1.0], [-1.0]]), [[1, 0, 0], [0, 1, 0]], rtol=0, atol=1e-12)


def fitted(kind, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few steps do not converge, and need not
        return kind(hidden_layer_sizes=(5, 4), max_iter=20, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("activation", ["relu", "identity", "tanh", "logistic"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_regressors_of_scikit_learn(activation, outputs):
    model = fitted(MLPRegressor, X[:, 0] * X[:, 1] if outputs == 1 else X**2, activation=activation)
    found = read(model)
    assert is_piecewise_linear(found) == (activation in ("relu", "identity"))
    assert np.allclose(found.values(X), model.predict(X).reshape(-1, outputs), rtol=0, atol=1e-12)


def values_at_the_worst_point(network, outputs):
    """The largest value of a network, and where: what a network of zeros errs by."""
    zero = af.compile("[" + ", ".join(["0*x"] * outputs) + "]", {"x": (-1, 1), "y": (-1, 1)}, 1e-3)
    found = af.measure(zero, network, points=100)
    return found.sup, np.array([found.at]).reshape(1, 2)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("labels", [X[:, 0] > 0, np.floor(2 * X[:, 0]).astype(int), X > 0], ids=["two", "many", "sets"])
def test_classifiers_of_scikit_learn_give_probabilities(activation, labels):
    model = fitted(MLPClassifier, labels, activation=activation)
    outputs = 1 if model.n_outputs_ == 1 else model.n_outputs_
    largest, at = values_at_the_worst_point(model, outputs)
    assert largest == pytest.approx(model.predict_proba(at)[:, -outputs:].max(), abs=1e-12)


def edited():
    model = fitted(MLPRegressor, X[:, 0], activation="tanh")
    model.predict = lambda points: np.zeros(len(points))
    return model


WRONG = {
    "a choice": (Branching, SQUARE), "a convolution": (lambda: nn.Conv1d(2, 3, 1), SQUARE),
    "log_softmax": (lambda: mlp(nn.Tanh()).append(nn.LogSoftmax(dim=-1)), SQUARE),
    "an unfitted model": (MLPRegressor, SQUARE), "three inputs": (lambda: mlp(nn.Tanh()), [(-1, 1)] * 3),
    "tokens": (lambda: mlp(nn.Tanh()), af.Box(0, 1, shape=(4, 2))),
    "of no size": (nn.Tanh, af.Box(0, 1)), "another model": (LinearRegression, SQUARE), "edited": (edited, SQUARE),
    "large": (lambda: nn.Sequential(nn.Linear(600, 600), nn.Tanh()), af.Box(0, 1)),
    "recurrent": (lambda: nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 3)), SQUARE),
    "in training": (lambda: mlp(nn.ReLU(), nn.Dropout()).train(), SQUARE),
    "in training, smooth": (lambda: mlp(nn.Tanh(), nn.Dropout()).train(), SQUARE),
    "normalised in training": (lambda: normalised().train(), SQUARE),
    "a threshold that changes it": (lambda: mlp(nn.Softplus(threshold=0.1)), SQUARE),
    "three inputs of a regressor": (lambda: fitted(MLPRegressor, X[:, 0], activation="tanh"), [(-1, 1)] * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_other_networks_are_refused(name):
    make, domain = WRONG[name]
    with refused(af.TargetError) as caught:
        af.compile(make(), domain, 1e-2)
    assert caught.value.remedy


# ONNX: random graphs are a law, files by hand are here.

RNG = np.random.default_rng(0)
WEIGHTS = {
    "W": RNG.normal(size=(2, 3)), "b": RNG.normal(size=3), "V": RNG.normal(size=(3, 4)), "c": RNG.normal(size=4),
    "VT": RNG.normal(size=(4, 3)),
}  # fmt: skip
HIDDEN, LAST = node("Gemm", ["x", "W", "b"], ["h"]), node("Gemm", ["r", "V", "c"], ["y"])
TANH = [HIDDEN, node("Tanh", ["h"], ["r"]), LAST]


def saved(path: Path, nodes: list, weights: dict | None = None) -> Path:
    used = {name for each in nodes for name in each.input}
    arrays = {name: array for name, array in (WEIGHTS | (weights or {})).items() if name in used}
    tensors = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    x = onnx.helper.make_tensor_value_info("x", FLOAT, ["N", 2])
    y = onnx.helper.make_tensor_value_info("y", FLOAT, ["N", 4])
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), path)
    return path


@pytest.mark.parametrize(
    "nodes",
    [
        [HIDDEN, node("Relu", ["h"], ["r"]), LAST],
        [HIDDEN, node("LeakyRelu", ["h"], ["r"], alpha=0.25), LAST],
        [node("MatMul", ["x", "W"], ["a"]), node("Add", ["b", "a"], ["h"]), node("Relu", ["h"], ["r"]), LAST],
        [node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "W"], ["h"]), node("Relu", ["h"], ["r"]), LAST],
        [HIDDEN, node("Relu", ["h"], ["r"]), node("Gemm", ["r", "VT"], ["y"], transB=1)],
    ],
)
def test_chains_of_relus_are_relu_networks(tmp_path, nodes):
    assert read(saved(tmp_path / "net.onnx", nodes)).describe() == "ReLU network 2-3-4"


NAMES = ["x", *(f"d{i}" for i in range(60))]
NO_FILES = {
    "Conv": ([node("Conv", ["x", "W"], ["y"])], {}), "a domain": ([node("Tanh", ["x"], ["y"], domain="mine")], {}),
    "NaN": (TANH, {"V": np.full((3, 4), np.nan)}), "an axis": ([HIDDEN, node("Softmax", ["h"], ["y"], axis=5)], {}),
    "shapes": ([node("MatMul", ["x", "V"], ["h"]), node("Tanh", ["h"], ["y"])], {}),
    "a missing input": ([node("Tanh", ["q"], ["y"])], {}),
    "growth": ([*(node("Concat", [a, a], [b], axis=1) for a, b in itertools.pairwise(NAMES)),
                node("Tanh", [NAMES[-1]], ["y"])], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_FILES)
def test_files_that_are_no_network_of_two_inputs(tmp_path, name):
    nodes, weights = NO_FILES[name]
    with refused():
        read(saved(tmp_path / "net.onnx", nodes, weights=weights))


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    path = saved(tmp_path / "net.onnx", TANH)
    with refused(af.TargetError):
        read(path, [(-1, 1)] * 3)
    with monkeypatch.context() as patch, refused(af.FileFormatError) as caught:
        patch.setitem(sys.modules, "onnx", None)
        read(path)
    assert "attnforge[onnx]" in str(caught.value)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with refused(af.FileFormatError):  # weights in other files are not read
        read(path)
    for content in (b"", b"garbage" * 100):
        path.write_bytes(content)
        with refused(af.FileFormatError):
            read(path)
    with refused(af.FileFormatError):
        read(tmp_path / "missing.onnx")
