"""Train the small networks that the zoo compiles: ``python scripts/zoo_weights.py`` writes their weights.

They are trained by scikit-learn and by torch, as anyone would, on data that scikit-learn brings along or on a function
that is written down. Nothing of attnforge takes part. The weights are kept in the repository, since training rounds
otherwise on every machine, and the zoo's networks must be the same to the byte.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import minmax_scale
from torch import Tensor, nn

WEIGHTS = Path(__file__).resolve().parent.parent / "attnforge" / "zoo" / "weights"
Array = np.ndarray[Any, np.dtype[np.float64]]
Layers = list[tuple[Array, Array]]


def by_sklearn(model: MLPRegressor | MLPClassifier, x: Array, y: Array) -> Layers:
    """Weights (inputs, outputs) and biases of a fitted perceptron."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it has learnt enough for a zoo
        model.fit(x, y)
    return list(zip(model.coefs_, model.intercepts_, strict=True))


def by_torch(
    sizes: tuple[int, ...], activation: type[nn.Module], loss: Callable[..., Tensor], x: Any, y: Any
) -> Layers:
    """The same of a torch network, after 2,000 steps of Adam on all points at once."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    parts: list[nn.Module] = []
    for a, b in pairwise(sizes):
        parts += [nn.Linear(a, b, dtype=torch.float64), activation()]
    net, x, y = nn.Sequential(*parts[:-1]), torch.as_tensor(x), torch.as_tensor(y)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(2000):
        optimiser.zero_grad()
        loss(net(x), y).backward()
        optimiser.step()
    linear = [part for part in net if isinstance(part, nn.Linear)]
    return [(part.weight.detach().numpy().T.copy(), part.bias.detach().numpy().copy()) for part in linear]


def franke(x: Array) -> Array:
    """Franke's function, the sum of four bumps on the unit square."""
    a, b = 9 * x[:, 0], 9 * x[:, 1]
    first = 0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4) + 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
    return np.asarray(
        first + 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4) - 0.2 * np.exp(-((a - 4) ** 2) - (b - 7) ** 2)
    )


def diabetes() -> Layers:
    """The progression of diabetes from ten measurements scaled to [-1, 1]; in units of 100."""
    x, y = load_diabetes(return_X_y=True)
    model = MLPRegressor(
        hidden_layer_sizes=(8,), activation="tanh", alpha=0.1, solver="lbfgs", max_iter=200, random_state=0
    )
    return by_sklearn(model, minmax_scale(x, (-1, 1)), y / 100)


def iris() -> Layers:
    """Three species of iris from four lengths scaled to [0, 1]."""
    x, y = load_iris(return_X_y=True)
    model = MLPClassifier(
        hidden_layer_sizes=(4,), activation="logistic", alpha=3.0, solver="lbfgs", max_iter=200, random_state=0
    )
    return by_sklearn(model, minmax_scale(x), y)


def digits() -> Layers:
    """Ten digits from images of 8 x 8 pixels in [0, 1]: logits."""
    x, y = load_digits(return_X_y=True)
    return by_torch((64, 24, 24, 10), nn.ReLU, nn.functional.cross_entropy, x / 16, y)


def moons() -> Layers:
    """Two half moons: the logit of the second."""
    x, y = make_moons(400, noise=0.15, random_state=0)
    loss = nn.functional.binary_cross_entropy_with_logits
    return by_torch((2, 16, 16, 1), nn.SiLU, loss, x, y[:, None].astype(np.float64))


def bumps() -> Layers:
    """Franke's function at 1,000 points."""
    x = np.random.default_rng(0).uniform(size=(1000, 2))
    return by_torch((2, 20, 1), nn.GELU, nn.functional.mse_loss, x, franke(x)[:, None])


TRAINED = {"diabetes": diabetes, "iris": iris, "digits": digits, "moons": moons, "bumps": bumps}

if __name__ == "__main__":
    for name in sys.argv[1:] or TRAINED:
        layers = TRAINED[name]()
        tensors = {
            f"{kind}{i}": part
            for i, each in enumerate(layers)
            for kind, part in zip(("weight", "bias"), each, strict=True)
        }
        path = WEIGHTS / f"{name}.safetensors"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(save(tensors))
        sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")
