"""scikit-learn's fitted networks as targets."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attnforge.errors import TargetError
from attnforge.targets.comparing import compared
from attnforge.targets.domain import Box
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas
from attnforge.targets.relu_network import Activation, Affine, ReluNetwork, Stage
from attnforge.targets.tracing.network import input_names, network_target
from attnforge.targets.tracing.operations import softmax
from attnforge.targets.tracing.symbol import Symbol, call

ACTIVATIONS = {"logistic": "sigmoid", "tanh": "tanh", "relu": "relu", "exp": "exp"}


def is_sklearn(target: Any) -> bool:
    """Whether this is an object of scikit-learn, which is not imported to find out."""
    return (type(target).__module__ or "").split(".")[0] == "sklearn"


def from_sklearn(model: Any, domain: Box, names: tuple[str, ...] | None = None) -> ReluNetwork | Formula | Formulas:
    """A fitted ``MLPRegressor``, or ``MLPClassifier``; its weights are meant exactly.

    A classifier's outputs are probabilities: of the second class where there are two, and of every class otherwise.
    """
    if type(model).__name__ not in ("MLPRegressor", "MLPClassifier"):
        got = type(model).__name__
        raise TargetError("Of scikit-learn, MLPRegressor and MLPClassifier are taken", got, "Give a callable instead")
    if not hasattr(model, "coefs_"):
        raise TargetError("The network must be fitted", f"an unfitted {type(model).__name__}", "Call fit first")
    layers = [
        Affine(np.asarray(weight, np.float64), np.asarray(bias, np.float64))
        for weight, bias in zip(model.coefs_, model.intercepts_, strict=True)
    ]
    if model.activation in ("relu", "identity") and model.out_activation_ == "identity":
        return compared(ReluNetwork(_stages(layers, model.activation), domain), partial(_values, model))
    named = input_names(domain, names, layers[0].weight.shape[0])
    nodes = _run(layers, model, Symbol.variables(named)).nodes[None]
    return compared(network_target(nodes, domain, named), partial(_values, model))


def _stages(layers: list[Affine], activation: str) -> tuple[Stage, ...]:
    between = (Activation(0.0, None),) if activation == "relu" else ()
    hidden: list[Stage] = [stage for layer in layers[:-1] for stage in (layer, *between)]
    return (*hidden, layers[-1])


def _run(layers: list[Affine], model: Any, x: Symbol) -> Symbol:
    for i, layer in enumerate(layers):
        x = call("add", (call("matmul", (x, layer.weight)), layer.bias))
        activation = model.activation if i < len(layers) - 1 else model.out_activation_
        if activation == "softmax":
            x = Symbol(softmax(x))
        elif activation != "identity":
            x = call(ACTIVATIONS[activation], (x,))
    return x


def _values(model: Any, points: Any) -> Any:
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(points), np.float64)
    found = np.asarray(model.predict_proba(points), np.float64)
    return found if model.n_outputs_ > 1 else found[:, 1]
