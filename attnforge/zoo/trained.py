"""Networks that others' programs trained, compiled: attention with the same values, and the proof.

``scripts/zoo_weights.py`` trained them, by scikit-learn and by torch; ``weights/`` holds what came out. Training is no
part of attnforge: it takes the weights as exact numbers, and what is certified is that attention computes the network,
not that the network has learnt anything.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attnforge as af
from attnforge.zoo.entry import UNHURRIED, Entry
from attnforge.zoo.perceptron import Layer, perceptron

KIND = "trained"
WEIGHTS = Path(__file__).parent / "weights"


def stored(name: str) -> list[Layer]:
    """Weights and biases of the layers, from first to last."""
    from safetensors.numpy import load_file

    arrays = load_file(WEIGHTS / f"{name}.safetensors")
    return [(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(len(arrays) // 2)]


def compiled(name: str, activation: str, lower: float, upper: float, tol: float, classes: bool = False) -> af.Compiled:
    """The network on a box, its outputs turned into probabilities where it tells ``classes``."""
    from torch import nn

    layers = stored(name)
    module = perceptron(layers, activation, [nn.Softmax(-1)] if classes else [])
    inputs = len(layers[0][0])  # type: ignore[arg-type]
    return af.compile(module, af.Box(lower, upper, shape=(inputs,)), tol, effort=UNHURRIED)


def trained(
    name: str, computes: str, inputs: str, mechanism: str, by: str, data: str, build: partial[af.Compiled]
) -> Entry:
    """A record of a network that was trained."""
    return Entry(name, KIND, computes, inputs, mechanism, f"weights trained by {by}, then compiled; {data}", build)


ENTRIES = (
    trained(
        "trained_digits",
        "logits of ten digits from 8 x 8 pixels: a ReLU network 64-24-24-10",
        "64 pixels in [0, 1]",
        "a gate of two keys a neuron, 48 in two layers; linear maps are the network's own",
        "torch (2,000 steps of Adam)",
        "data: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI",
        partial(compiled, "digits", "ReLU", 0, 1, 1e-9),
    ),
    trained(
        "trained_moons",
        "the logit of the second of two half moons: a SiLU network 2-16-16-1",
        "x0, x1 in [-2, 3]",
        "a head of two keys a neuron: the logistic function weighs the neuron's own value against 0",
        "torch (2,000 steps of Adam)",
        "data: make_moons of scikit-learn",
        partial(compiled, "moons", "SiLU", -2, 3, 1e-6),
    ),
    trained(
        "trained_bumps",
        "Franke's function as a GELU network 2-20-1 has learnt it",
        "x0, x1 in [0, 1]",
        "a row of anchors along its form a neuron, all in one layer",
        "torch (2,000 steps of Adam)",
        "data: values of `franke`",
        partial(compiled, "bumps", "GELU", 0, 1, 1e-6),
    ),
    trained(
        "trained_diabetes",
        "the progression of diabetes from ten measurements: a tanh network 10-8-1",
        "10 measurements in [-1, 1]",
        "a head of two constant keys a neuron: tanh is the difference of two softmax weights, exactly",
        "scikit-learn (MLPRegressor, L-BFGS)",
        "data: Efron et al. 2004, Annals of Statistics 32",
        partial(compiled, "diabetes", "Tanh", -1, 1, 1e-9),
    ),
    trained(
        "trained_iris",
        "probabilities of three species of iris: a logistic network 4-4-3 and a softmax",
        "4 lengths in [0, 1]",
        "logistic neurons of two keys; gates find the largest logit; then exponentials, the logarithm of their sum by "
        "a row, and exponentials of differences",
        "scikit-learn (MLPClassifier, L-BFGS)",
        "data: Fisher 1936, Annals of Eugenics 7",
        partial(compiled, "iris", "Sigmoid", 0, 1, 1e-6, classes=True),
    ),
)
