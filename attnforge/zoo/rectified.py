"""ReLU networks whose weights are known by heart, one head a neuron."""

from __future__ import annotations

import attnforge as af
from attnforge.zoo.citations import HU
from attnforge.zoo.entry import UNHURRIED, Entry
from attnforge.zoo.perceptron import Layer, perceptron

KIND = "relu"
NEURON = "a gate of two keys, itself and zero, is a neuron; linear maps between layers are the network's own"

# 2 relu(x) - 4 relu(x - 1/2) is a tooth on [0, 1]; put into itself three times it has eight of them.
FOLD: list[Layer] = [([[1.0, 1.0]], [0.0, -0.5])]
AGAIN: Layer = ([[2.0, 2.0], [-4.0, -4.0]], [0.0, -0.5])
UNFOLD: Layer = ([[2.0], [-4.0]], [0.0])

HAT: list[Layer] = [([[1.0, 1.0, 1.0]], [1.0, 0.0, -1.0]), ([[1.0], [-2.0], [1.0]], [0.0])]
XOR: list[Layer] = [([[1.0, 1.0], [1.0, 1.0]], [0.0, -1.0]), ([[1.0], [-2.0]], [0.0])]
# max(x, y) = x + relu(y - x), and x = relu(x) - relu(-x)
LARGER: list[Layer] = [([[1.0, -1.0, -1.0], [0.0, 0.0, 1.0]], [0.0, 0.0, 0.0]), ([[1.0], [-1.0], [1.0]], [0.0])]
ROTATION: list[Layer] = [([[0.8, -0.6], [0.6, 0.8]], [0.0, 0.0]), ([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])]

ENTRIES = (
    Entry(
        "hat",
        KIND,
        "relu(x + 1) - 2 relu(x) + relu(x - 1), the hat function of finite elements",
        "x in [-2, 2]",
        NEURON,
        f"{HU} (subsumption of ReLU networks); the gate is attnforge's",
        lambda: af.constructions.relu_network(perceptron(HAT, "ReLU"), af.Box(-2, 2), effort=UNHURRIED),
    ),
    Entry(
        "sawtooth",
        KIND,
        "eight teeth between 0 and 1: a tooth put into itself, by four layers of two neurons",
        "x in [0, 1]",
        f"{NEURON}; each layer folds the interval once, so that depth doubles the teeth",
        "Telgarsky 2015, Representation Benefits of Deep Feedforward Networks, arXiv:1509.08101",
        lambda: af.constructions.relu_network(
            perceptron([*FOLD, AGAIN, AGAIN, AGAIN, UNFOLD], "ReLU"), af.Box(0, 1), effort=UNHURRIED
        ),
    ),
    Entry(
        "xor_by_neurons",
        KIND,
        "relu(a + b) - 2 relu(a + b - 1): exclusive or at the corners, linear between",
        "a, b in [0, 1]",
        NEURON,
        "Goodfellow et al. 2016, Deep Learning, section 6.1",
        lambda: af.constructions.relu_network(perceptron(XOR, "ReLU"), af.Box(0, 1), effort=UNHURRIED),
    ),
    Entry(
        "maximum_by_anchors",
        KIND,
        "max(x, y) = relu(x) - relu(-x) + relu(y - x), by the papers' heads",
        "x, y in [-1, 1]",
        "every neuron is a row of 33 anchors on its range, as of `ramp`; errors of layers add up",
        HU,
        lambda: af.constructions.relu_network(
            perceptron(LARGER, "ReLU"), af.Box(-1, 1), by="anchors", anchors=33, effort=UNHURRIED
        ),
    ),
    Entry(
        "rectified_rotation",
        KIND,
        "relu of a rotation by asin(3/5), of each of four tokens",
        "4 tokens (4, 2) in [-1, 1]",
        f"{NEURON}; the same for every token",
        HU,
        lambda: af.constructions.relu_network(
            perceptron(ROTATION, "ReLU"), af.Box(-1, 1, shape=(4, 2)), effort=UNHURRIED
        ),
    ),
)
