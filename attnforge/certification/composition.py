r"""Certificates of stacks: the run and the target followed side by side, layer by layer.

At every stage each feature of the target lies in a known interval, and the run is off by at most e, the sum of named
parts. An affine stage with the target's W, b and the run's $\tilde W, \tilde b$ takes $e$ to
$$ |\tilde W|^T e + |\tilde W - W|^T |z| + |\tilde b - b| + \gamma_k(|\tilde W|^T|\tilde z| + |\tilde b|) . $$
An activation is Lipschitz with constant $\max(1, |s|)$, so it carries e through and adds the local error of its head:
the theorem bound of a gate or a row of anchors (:mod:`.three_keys`, :mod:`.anchored`), read from that head's numbers
with the layer's run values as its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, Machine, gamma
from attnforge.certification.anchored import Problem, bound_anchored
from attnforge.certification.three_keys import bound_gate
from attnforge.certification.tokens import count_roundings
from attnforge.effort import check_time
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Network
from attnforge.targets import Activation, Affine, Box, ReluNetwork, Target, TruncatedForm
from attnforge.targets.relu_network import interval_stage

Array = npt.NDArray[np.float64]

PARTS = ("spacing", "leakage", "rounding")
SLACK = 1 + 2.0**-40
LOCAL = {"gate": bound_gate, "truncated_linear": bound_anchored}


@dataclass(frozen=True, eq=False)
class State:
    """Bounds of the target's features, the run's error by parts (3, m), and whether a constant 1 follows them."""

    low: Array
    high: Array
    error: Array
    with_one: bool = False

    @property
    def size(self) -> Array:
        """Upper bound of |value| of the run."""
        return np.asarray((np.maximum(np.abs(self.low), np.abs(self.high)) + self.error.sum(axis=0)) * SLACK)

    def run(self) -> tuple[Array, Array]:
        """Bounds of the run's features, the constant included."""
        off = self.error.sum(axis=0) * SLACK
        low, high = np.nextafter(self.low - off, -np.inf), np.nextafter(self.high + off, np.inf)
        return (np.append(low, 1.0), np.append(high, 1.0)) if self.with_one else (low, high)


def bound_relu_network(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """Named parts of the error at the output feature where their sum is largest."""
    if not isinstance(target, ReluNetwork):
        raise CertificateError("This network claims to be a ReLU network", target.describe(), "Pass its own target")
    lower, upper = (np.atleast_2d(bound) for bound in (domain.lower, domain.upper))
    low, high = lower.min(axis=0), upper.max(axis=0)
    state = State(low, high, _input_error(low, high, machine))
    layers = list(network.layers)
    for stage in target.stages:
        if isinstance(stage, Affine):
            state = _affine(stage, _next(layers, Linear), state, machine)
        else:
            if not state.with_one:
                identity = Affine(np.eye(len(state.low)), np.zeros(len(state.low)))
                state = _affine(identity, _next(layers, Linear), state, machine)
            state = _activation(stage, _next(layers, Attention), state, machine)
    if layers or state.with_one:
        raise CertificateError("The network has the layers of the target, no more", f"{len(layers)} further layers")
    worst = int(state.error.sum(axis=0).argmax())
    return {name: float(state.error[i, worst]) * SLACK for i, name in enumerate(PARTS)}


def _input_error(low: Array, high: Array, machine: Machine) -> Array:
    error = np.zeros((3, len(low)))
    if machine.name != "float64":
        error[2] = machine.roundoff * (1 + 2.0**-10) * np.maximum(np.abs(low), np.abs(high)) + machine.underflow
    return error


def _next(layers: list[Layer], kind: type) -> Layer:
    if not layers or not isinstance(layers[0], kind):
        found = type(layers[0]).__name__ if layers else "nothing"
        raise CertificateError(
            f"The next layer must be {kind.__name__}, as in the target", found, "Rebuild the network"
        )
    return layers.pop(0)


def _affine(stage: Affine, layer: Layer, state: State, machine: Machine) -> State:
    weight, bias, with_one = _matrices(layer, stage)
    magnitude, size = np.abs(weight), state.size
    error = state.error @ magnitude
    departure = np.abs(weight - stage.weight).T @ size + np.abs(bias - stage.bias)
    roundings = count_roundings(weight) + (bias != 0)
    rates = np.array([gamma(int(k), machine.roundoff) for k in roundings])
    made = rates * (magnitude.T @ size + np.abs(bias)) + roundings * machine.underflow
    error[2] += departure * SLACK + made
    low, high = interval_stage(stage, state.low, state.high)
    if not float(np.max(magnitude.T @ size + np.abs(bias))) < machine.largest:
        got = "sums beyond it"
        raise RefusalError(f"The run must fit {machine.name}, up to {machine.largest:g}", got, "Use a wider dtype")
    return State(low, high, error * SLACK, with_one)


def _matrices(layer: Layer, stage: Affine) -> tuple[Array, Array, bool]:
    """The layer's W and b without the column that makes the constant 1, and whether there is one."""
    if not isinstance(layer, Linear) or len(layer.terms) != 1 or layer.terms[0].mix is not None:
        raise CertificateError("An affine stage is one linear map on features", "another map")
    weight, constant = layer.terms[0].map, layer.constant
    if weight is None or weight.ndim != 2 or constant is None or len(constant) != 1:
        raise CertificateError("An affine stage has a weight and a bias, the same for all tokens", "none")
    with_one = weight.shape[1] == stage.weight.shape[1] + 1
    if with_one:
        if np.any(weight[:, -1]) or constant[0, -1] != 1.0:
            raise CertificateError("Before an activation the last feature is the constant 1", "another feature")
        weight, constant = weight[:, :-1], constant[:, :-1]
    if weight.shape != stage.weight.shape:
        raise CertificateError("The layers have the target's widths", f"{weight.shape}, {stage.weight.shape}")
    return weight, constant[0], with_one


def _activation(stage: Activation, layer: Layer, state: State, machine: Machine) -> State:
    if not isinstance(layer, Attention) or layer.residual:
        raise CertificateError("An activation is a layer of heads without residual", type(layer).__name__)
    n = len(state.low)
    expected = n + (1 if stage.slope else 0)
    if len(layer.heads) != expected:
        raise CertificateError(f"The activation has {expected} heads, one a neuron", f"{len(layer.heads)}")
    for head in layer.heads:
        _check_alone(head)
    error = state.error * max(1.0, abs(stage.slope))
    for j, head in enumerate(layer.heads[:n]):
        check_time("proving neurons")
        error[:, j] += _neuron(j, head, stage, state, machine)
    if stage.slope:
        error[2] += _copied(layer.heads[n], stage, state, machine)
    low, high = interval_stage(stage, state.low, state.high)
    error[2] += gamma(3, machine.roundoff) * (np.maximum(np.abs(low), np.abs(high)) + error.sum(axis=0))
    return State(low, high, error * SLACK)


def _check_alone(head: Head) -> None:
    """Raise unless every token asks and, beside memory, attends to itself only: any number is as good as one."""
    if head.query_rows.indices is not None or (head.key_rows is not None and head.key_rows.kind != "own"):
        raise CertificateError("Every token asks the heads of an activation, about itself", "another row set")


def _neuron(j: int, head: Head, stage: Activation, state: State, machine: Machine) -> Array:
    """The local error (3,) of the head that computes feature j, times the weight it writes with."""
    weight = head.output[0, j] if head.output.shape == (1, len(state.low)) else np.nan
    others = np.delete(head.output[0], j)
    if not np.isfinite(weight) or np.any(others):
        raise CertificateError(f"Head {j} writes feature {j} alone", "other features", "Rebuild the network")
    name = None if head.claims is None else head.claims.construction
    if name not in LOCAL or head.claims is None:
        raise CertificateError("Neurons are gates or rows of anchors", str(name), "Rebuild the network")
    low, high = state.run()
    used = _used(head, j)
    small = _restricted(head, used)
    a, b = _interval(stage, head, low[j], high[j])
    form = TruncatedForm(
        Balls.exact((used == j).astype(np.float64)[None]),
        Balls.exact(np.zeros(1)),
        Balls.exact(a),
        Balls.exact(b),
    )
    problem = Problem((), (small,), form, low[None, used], high[None, used], 0, machine, exact_inputs=True)
    parts = LOCAL[name](problem)
    local = np.array([parts[part] for part in PARTS]) * abs(weight)
    # where the stage has no end, the head's interval must hold the target's values, around which clamp is 1-Lipschitz
    local[0] += max(0.0, state.high[j] - b) if stage.upper is None else 0.0
    local[0] += max(0.0, a - state.low[j]) if stage.lower is None else 0.0
    local[2] += abs(weight - (1 - stage.slope)) * max(abs(a), abs(b)) + gamma(1, machine.roundoff) * max(abs(a), abs(b))
    return np.asarray(local * SLACK)


def _interval(stage: Activation, head: Head, low: float, high: float) -> tuple[float, float]:
    """The interval of the clamp; a missing end lies at the head's last anchor, or beyond the run's range for a gate."""
    a, b = stage.lower, stage.upper
    if head.claims is not None and head.claims.construction != "gate":
        a = float(head.claims.positions[0]) if a is None else a
        b = float(head.claims.positions[-1]) if b is None else b
    a = min(low, (b or 0.0) - 1.0) if a is None else a
    b = max(high, a + 1.0) if b is None else b
    return a, b


def _used(head: Head, j: int) -> npt.NDArray[np.int64]:
    """The features the head reads, feature j among them."""
    touched = np.any(head.query != 0, axis=1)
    for matrix in (head.key, head.value):
        touched = touched if matrix is None else touched | np.any(matrix != 0, axis=1)
    touched[j] = True
    return np.flatnonzero(touched)


def _restricted(head: Head, used: npt.NDArray[np.int64]) -> Head:
    """The head on these features only, writing 1 into a single output feature."""
    return replace(
        head,
        query=head.query[used],
        key=None if head.key is None else head.key[used],
        value=None if head.value is None else head.value[used],
        output=np.ones((1, 1)),
    )


def _copied(head: Head, stage: Activation, state: State, machine: Machine) -> Array:
    """The error of the head that copies slope times its token: rounding of the slope and of two products."""
    n = len(state.low)
    alone = head.key_rows is not None and head.key_rows.kind == "own" and head.memory_size == 0
    if not alone or head.value is None or not np.array_equal(head.output, np.eye(n)):
        raise CertificateError("A leaky slope is a head whose only key is its token", "another head")
    wanted = np.vstack([stage.slope * np.eye(n), np.zeros((head.value.shape[0] - n, n))])
    size = np.maximum(*map(np.abs, state.run()))  # of all that is read, the constant included
    departure = size @ np.abs(head.value - wanted)
    rates = np.array([gamma(int(k) + 4, machine.roundoff) for k in count_roundings(head.value)])
    return np.asarray((departure + rates * (size @ np.abs(head.value))) * SLACK)
