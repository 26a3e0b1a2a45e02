"""torch modules as targets, through their own forward."""

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.compiler.targets import as_target
from attnforge.targets import Formula, Formulas, ReluNetwork, target_from_data
from attnforge.targets.expression.tree import Apply, bottom_up, joined

DOMAIN = [(-1, 1)] * 2
ACTIVATIONS = [
    nn.Tanh(),
    nn.Sigmoid(),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.SiLU(),
    nn.Softplus(beta=2.0),
    nn.Softplus(threshold=0.1),
    nn.ELU(0.5),
    nn.CELU(2.0),
    nn.Mish(),
    nn.Hardswish(),
    nn.PReLU(),
    nn.LogSigmoid(),
]


def mlp(*layers: nn.Module, inputs: int = 2, outputs: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 3), *layers, nn.Linear(3, outputs)).eval()


def values(module: nn.Module, points: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module.double()(torch.as_tensor(points)).numpy()


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
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if x.sum():
            return x
        return -x


@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if getattr(a, "threshold", 20) == 20], ids=repr)
def test_activations(activation):
    module = mlp(activation)
    target = as_target(module, DOMAIN)
    assert isinstance(target, Formulas)
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    assert np.allclose(target.values(points), values(module, points), rtol=0, atol=1e-8)


def test_softplus_means_the_function_and_not_its_threshold():
    """A threshold that changes the function is seen when it is compared."""
    with pytest.raises(af.TargetError, match="where the formula is"):
        as_target(mlp(nn.Softplus(threshold=0.1)), DOMAIN)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dim", [1, -1])
def test_softmax_last(classes, dim):
    module = mlp(nn.ReLU(), outputs=classes).append(nn.Softmax(dim=dim))
    target = as_target(module, DOMAIN)
    assert target.outputs == classes
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    assert np.allclose(target.values(points), values(module, points), rtol=0, atol=1e-12)
    assert np.allclose(target.values(points).sum(axis=-1), 1)


def test_softmax_of_large_scores_does_not_overflow():
    module = nn.Sequential(nn.Linear(1, 3), nn.Softmax(dim=-1))
    with torch.no_grad():
        module[0].weight[:] = torch.tensor([[2000.0], [-2000.0], [0.0]])
    assert np.isfinite(as_target(module, [(-1, 1)]).values(np.array([[1.0], [-1.0]]))).all()


def test_piecewise_linear_networks_stay_what_they_were():
    target = as_target(mlp(nn.ReLU(), nn.Dropout(), nn.Hardtanh(), nn.Identity()), DOMAIN)
    assert isinstance(target, ReluNetwork)
    with pytest.raises(af.TargetError, match=r"module.eval\(\)"):
        as_target(mlp(nn.ReLU(), nn.Dropout()).train(), DOMAIN)
    with pytest.raises(af.TargetError, match=r"module.eval\(\)"):
        as_target(mlp(nn.Tanh(), nn.Dropout()).train(), DOMAIN)


def test_each_unit_is_one_shared_sum():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    target = as_target(module, [(-1, 1)] * 4)
    nodes = [node for node in bottom_up(joined(target.trees)) if isinstance(node, Apply)]
    count = {name: sum(node.function == name for node in nodes) for name in ("+", "tanh")}
    assert count == {"+": 19, "tanh": 16}
    assert len(target.trees[0].arguments) == 9  # eight units and a bias, in one sum
    weight = module[4].weight[0, 0].item()
    assert target.trees[0].arguments[0].arguments[0].value == weight  # float32 numbers are float64 numbers


def test_residual_blocks():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 6), Residual(6), Residual(6), nn.Linear(6, 2))
    target = as_target(module, {"a": (-1, 1), "b": (-1, 1)})
    assert target.names == ("a", "b")
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    assert np.allclose(target.values(points), values(module, points), rtol=0, atol=1e-13)
    again = target_from_data(*target.to_data())
    assert again.values(points).tolist() == target.values(points).tolist()


def test_a_scalar_network_is_a_formula():
    torch.manual_seed(0)
    module = Gated()
    target = as_target(module, DOMAIN)
    assert isinstance(target, Formula)
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    assert np.allclose(target.values(points), values(module, points), rtol=0, atol=1e-13)


def test_normalisation_as_it_is_evaluated():
    module = mlp(nn.BatchNorm1d(3), nn.Tanh())
    module[1].running_mean[:] = torch.tensor([0.1, 0.2, 0.3])
    as_target(module, DOMAIN)
    with pytest.raises(af.TargetError, match=r"module.eval\(\)"):
        as_target(module.train(), DOMAIN)


def test_the_module_is_not_changed():
    module = mlp(nn.Tanh()).train()
    as_target(module, af.Box(-1, 1))
    assert module.training
    assert module[0].weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("module", "domain", "match"),
    [
        (Branching(), DOMAIN, r"choice by a value.*line \d+ of test_torch_network.py: `if x.sum\(\):`"),
        (nn.Conv1d(2, 3, 1), DOMAIN, "`conv1d`"),
        (mlp(nn.Tanh()).append(nn.LogSoftmax(dim=-1)), DOMAIN, "`log_softmax`"),
        (mlp(nn.Tanh()), [(-1, 1)] * 3, "must have 2 features. Got 3"),
        (mlp(nn.Tanh()), af.Box(0, 1, shape=(4, 2)), "function of a vector"),
        (nn.Tanh(), af.Box(0, 1), "number of inputs must be known"),
        (nn.Sequential(nn.Linear(600, 600), nn.Tanh()), af.Box(0, 1), "at most 200,000 nodes"),
        (nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 3)), DOMAIN, "symbols"),
    ],
)
def test_refusals(module, domain, match):
    with pytest.raises(af.TargetError, match=match):
        as_target(module, domain)
