r"""Certificates of stacks: the run and the target followed side by side, layer by layer.

The stages of a target network are blocks of :mod:`.registers`: an affine stage with W, b, computed by the run with
$\tilde W, \tilde b$, reads them up to
$$ |\tilde W - W|^T |\tilde z| + |\tilde b - b| + \text{rounding of } \tilde W^T \tilde z + \tilde b , $$
and an activation writes a function of them whose slopes are known where the run and the target stay on one side of
its kinks. What its heads add are the theorem bounds of gates or rows of anchors (:mod:`.three_keys`, :mod:`.anchored`),
read from their numbers with the layer's run values as inputs.

Where the target's values lie is the smaller of two enclosures: interval arithmetic, and the values at the middle of the
domain with the distance from them as one more part of the same equation, whose noise is the radius of the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.anchored import Problem, bound_anchored
from attnforge.certification.registers import Forms, Registers
from attnforge.certification.three_keys import PARTS, bound_layer
from attnforge.effort import check_time
from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.rounding import count_roundings
from attnforge.network import Attention, Head, Layer, Linear, Network
from attnforge.outward import Balls, Machine, Up, gamma, sum_rounding
from attnforge.targets import Activation, Affine, Box, ReluNetwork, Target, TruncatedForm
from attnforge.targets.relu_network import interval_stage

Array = npt.NDArray[np.float64]

MOVED, ROUNDING = 0, 3  # columns: the distance from the middle of the domain, and PARTS, the last of which is rounding


@dataclass(frozen=True, eq=False)
class Place:
    """Values at a stage: bounds of the target's (m,), their values at the middle of the domain, the run's error."""

    low: Array
    high: Array
    middle: Balls
    error: Up

    @property
    def run(self) -> tuple[Array, Array]:
        """Bounds of the run's values."""
        off = self.error[:, 1:].sum().values
        return np.nextafter(self.low - off, -np.inf), np.nextafter(self.high + off, np.inf)

    @property
    def size(self) -> Up:
        """Upper bounds of |value| of the run."""
        return Up.between(*self.run)


@dataclass(frozen=True, eq=False)
class State:
    """The registers so far, the block and the place of the last ones; or forms without an activation so far.

    ``one`` is the constant that follows the features, if one does.
    """

    registers: Registers
    block: int
    place: Place
    forms: Forms | None = None
    one: float | None = None


def bound_relu_network(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """Named parts of the error at the output feature where their sum is largest."""
    if not isinstance(target, ReluNetwork):
        raise CertificateError("This network claims to be a ReLU network", target.describe(), "Pass its own target")
    lower, upper = (np.atleast_2d(bound) for bound in (domain.lower, domain.upper))
    state, layers = started(lower.min(axis=0), upper.max(axis=0), machine), list(network.layers)
    for stage in target.stages:
        if isinstance(stage, Affine):
            state = _affine(stage, _next(layers, Linear), _plain(state), machine)
        else:
            if state.one is None:
                width = len(state.place.low)
                identity = Affine(np.eye(width), np.zeros(width))
                state = _affine(identity, _next(layers, Linear), _plain(state), machine)
            state = _activation(stage, _next(layers, Attention), state, machine)
    if layers or state.one is not None:
        raise CertificateError("The network has the layers of the target, no more", f"{len(layers)} further layers")
    error = state.place.error.values[:, 1:]
    worst = int(error.sum(axis=1).argmax())
    return dict(zip(PARTS, error[worst].tolist(), strict=True))


def started(low: Array, high: Array, machine: Machine) -> State:
    """The inputs, rounded to the dtype unless it is float64."""
    box, registers = Balls.between(low, high), Registers()
    noise = columns(Up.of(box.rad), machine.cast(Up.between(low, high)))
    return State(registers, registers.start(noise), Place(low, high, Balls.exact(box.mid), noise))


def columns(moved: Up, rounding: Up) -> Up:
    """Errors (m, 4) with these two parts."""
    none = np.zeros_like(moved.values)
    return Up(np.stack([moved.values, none, none, rounding.values], axis=-1))


def _next(layers: list[Layer], kind: type) -> Layer:
    if not layers or not isinstance(layers[0], kind):
        found = type(layers[0]).__name__ if layers else "nothing"
        raise CertificateError(
            f"The next layer must be {kind.__name__}, as in the target", found, "Rebuild the network"
        )
    return layers.pop(0)


def _plain(state: State) -> State:
    """Forms without an activation are registers themselves."""
    if state.forms is None:
        return state
    one, none = Balls.exact(np.ones(len(state.place.low))), state.forms.error * 0.0
    return replace(state, block=state.registers.write(state.forms, one, none), forms=None)


def _affine(stage: Affine, layer: Layer, state: State, machine: Machine) -> State:
    weight, bias, one = _matrices(layer, stage)
    place, weights = state.place, Balls.exact(stage.weight)
    made = _departure(stage, weight, bias, place.size) + _rounding(weight, bias, place, machine)
    forms = state.registers.read({state.block: weights}, columns(made * 0.0, made))
    middle = (place.middle[None] @ weights)[0] + Balls.exact(stage.bias)
    low, high = within(middle, forms.error, *interval_stage(stage, place.low, place.high))
    return replace(state, place=Place(low, high, middle, forms.error), forms=forms, one=one)


def within(middle: Balls, error: Up, low: Array, high: Array) -> tuple[Array, Array]:
    """The smaller of two enclosures: [low, high], and all that is not further from the middle than the noise allows."""
    reach = (Up.of(middle.rad) + error[:, MOVED]).values
    below, above = np.nextafter(middle.mid - reach, -np.inf), np.nextafter(middle.mid + reach, np.inf)
    return np.maximum(low, below), np.minimum(high, above)


def _departure(stage: Affine, weight: Array, bias: Array, size: Up) -> Up:
    """How far the run's weights are from the target's, times its values."""
    apart = Up.of(Balls.exact(weight) - Balls.exact(stage.weight)).T
    return (apart @ size[:, None])[:, 0] + Up.of(Balls.exact(bias) - Balls.exact(stage.bias))


def _rounding(weight: Array, bias: Array, place: Place, machine: Machine) -> Up:
    """What the dtype makes of the products and their sum, in any order, the bias one of the terms."""
    low, high = (end[:, None] for end in place.run)
    ends = np.stack([weight * low, weight * high])
    most, least = np.nextafter(ends.max(axis=0), np.inf), np.nextafter(-ends.min(axis=0), np.inf)
    present = (weight != 0).astype(np.float64)
    positive = np.vstack([np.maximum(most, 0.0) * present, np.maximum(bias, 0.0)])
    negative = np.vstack([np.maximum(least, 0.0) * present, np.maximum(-bias, 0.0)])
    size = Up.between(positive, negative).sum(-2)
    if not float(size.most().values) < machine.largest:
        got = "sums beyond it"
        raise RefusalError(f"The run must fit {machine.name}, up to {machine.largest:g}", got, "Use a wider dtype")
    roundings = count_roundings(weight) + (bias != 0)
    rates = np.array([gamma(int(k), machine.roundoff) for k in roundings])
    in_any_order = sum_rounding(Up.of(positive), Up.of(negative), machine.roundoff)
    return in_any_order.least(size * Up.of(rates)) + Up.of(roundings) * machine.underflow


def _matrices(layer: Layer, stage: Affine) -> tuple[Array, Array, float | None]:
    """The layer's W and b without the column that makes a constant, and that constant, if there is one."""
    if not isinstance(layer, Linear) or len(layer.terms) != 1 or layer.terms[0].mix is not None:
        raise CertificateError("An affine stage is one linear map on features", "another map")
    weight, constant = layer.terms[0].map, layer.constant
    if weight is None or weight.ndim != 2 or constant is None or len(constant) != 1:
        raise CertificateError("An affine stage has a weight and a bias, the same for all tokens", "none")
    one = None
    if weight.shape[1] == stage.weight.shape[1] + 1:
        if np.any(weight[:, -1]):
            raise CertificateError("Before an activation the last feature is a constant", "another feature")
        weight, constant, one = weight[:, :-1], constant[:, :-1], float(constant[0, -1])
    if weight.shape != stage.weight.shape:
        raise CertificateError("The layers have the target's widths", f"{weight.shape}, {stage.weight.shape}")
    return weight, constant[0], one


def _activation(stage: Activation, layer: Layer, state: State, machine: Machine) -> State:
    place, forms = state.place, state.forms
    if not isinstance(layer, Attention) or layer.residual or forms is None or state.one is None:
        raise CertificateError("An activation is a layer of heads without residual", type(layer).__name__)
    n = len(place.low)
    expected = n + (1 if stage.slope else 0)
    if len(layer.heads) != expected:
        raise CertificateError(f"The activation has {expected} heads, one a neuron", f"{len(layer.heads)}")
    for head in layer.heads:
        check_alone(head)
    local, *clamp = _neurons(layer.heads[:n], stage, place, state.one, machine)
    ends = interval_stage(stage, place.low, place.high)
    if stage.slope:
        copied = _copied(layer.heads[n], stage, place, state.one, machine)
        written = Up.between(*ends) + place.error[:, 1:].sum() * max(1.0, abs(stage.slope)) + local.sum() + copied
        local = local + columns(copied * 0.0, copied + written * gamma(3, machine.roundoff))[:, 1:]
    noise = Up(np.hstack([np.zeros((n, 1)), local.values]))
    block = state.registers.write(forms, slopes_between(stage.slope, *place.run, *clamp), noise)
    error = state.registers.error(block)
    below, above = (place.middle.mid - place.middle.rad, place.middle.mid + place.middle.rad)
    middle = Balls.between(*interval_stage(stage, np.nextafter(below, -np.inf), np.nextafter(above, np.inf)))
    low, high = within(middle, error, *ends)
    return State(state.registers, block, Place(low, high, middle, error))


def slopes_between(slope: float, low: Array, high: Array, a: Array, b: Array) -> Balls:
    """The slopes on [low, high] of what heads compute in place of the activation: 1 in [a, b], the stage's beyond."""
    inside, outside = (high > a) & (low < b), (low < a) | (high > b)
    least = np.where(inside & ~outside, 1.0, np.where(inside, min(1.0, slope), slope))
    most = np.where(inside & ~outside, 1.0, np.where(inside, max(1.0, slope), slope))
    slopes = Balls.between(least, most)
    return Balls(slopes.mid, np.where(least == most, 0.0, slopes.rad))


def check_alone(head: Head) -> None:
    """Raise unless every token asks and, beside memory, attends to itself only: any number is as good as one."""
    if head.query_rows.indices is not None or (head.key_rows is not None and head.key_rows.kind != "own"):
        raise CertificateError("Every token asks the heads of an activation, about itself", "another row set")


def _neurons(
    heads: Sequence[Head], stage: Activation, place: Place, one: float, machine: Machine
) -> tuple[Up, Array, Array]:
    """The local errors (n, 3) of the heads that compute the features, and the intervals they clamp them to.

    Where the stage has no end, an interval that does not hold the target's values is charged for what it cuts off.
    """
    low, high = (np.append(ends, one) for ends in place.run)
    weights = np.array([_written(j, head, len(heads)) for j, head in enumerate(heads)])
    local, (a, b) = np.zeros((len(heads), 3)), (np.empty(len(heads)) for _ in range(2))
    for j, head in enumerate(heads):
        a[j], b[j] = interval(stage, head, low[j], high[j])
    ends = Balls.exact(a), Balls.exact(b)
    form = TruncatedForm(Balls.exact(np.eye(len(heads), len(low))), Balls.exact(np.zeros(len(heads))), *ends)
    alone = [replace(head, output=np.ones((1, 1))) for head in heads]
    gates = np.array([j for j, head in enumerate(heads) if head.key_rows is not None], dtype=np.int64)
    some = TruncatedForm(*(each[gates] for each in (form.weights, form.offsets, *ends)))
    local[gates] = bound_layer([alone[j] for j in gates], some, low, high, machine)
    for j in np.setdiff1d(np.arange(len(heads)), gates):
        local[j] = _anchored(alone[j], j, form, low, high, machine)
    beyond = Up.zeros(len(heads)) if stage.upper is not None else Up.of(np.maximum(place.high - b, 0.0))
    beyond = beyond + (Up.zeros(len(heads)) if stage.lower is not None else Up.of(np.maximum(a - place.low, 0.0)))
    size, wanted = Up.between(a, b), Balls.exact(1.0) - Balls.exact(stage.slope)
    exact = np.abs(np.frexp(weights)[0]) == 0.5  # a power of two: its products are
    departed = size * Up.of(Balls.exact(weights) - wanted)
    departed = departed + size * Up.of(np.where(exact, 0.0, gamma(1, machine.roundoff)))
    none = departed * 0.0
    added = Up(np.stack([(beyond * Up.of(weights)).values, none.values, departed.values], axis=1))
    return Up.of(local) * Up.of(weights)[:, None] + added, a, b


def _written(j: int, head: Head, n: int) -> float:
    """The weight with which a head writes feature j alone."""
    weight = head.output[0, j] if head.output.shape == (1, n) else np.nan
    if not np.isfinite(weight) or np.any(np.delete(head.output[0], j)):
        raise CertificateError(f"Head {j} writes feature {j} alone", "other features", "Rebuild the network")
    return float(weight)


def _anchored(head: Head, j: int, form: TruncatedForm, low: Array, high: Array, machine: Machine) -> list[float]:
    """The local error of a row of anchors."""
    check_time("proving neurons")
    used = np.flatnonzero(head.reads | (form.weights.mid[j] > 0))
    own = TruncatedForm(form.weights[j : j + 1, used], form.offsets[j : j + 1], form.lower[j], form.upper[j])
    small, box = replace(head, query=head.query[used]), (low[None, used], high[None, used])
    parts = bound_anchored(Problem((), (small,), own, *box, 0, machine, exact_inputs=True))
    return [parts[part] for part in PARTS]


def interval(stage: Activation, head: Head, low: float, high: float) -> tuple[float, float]:
    """The interval of the clamp; a missing end lies at the head's last anchor, or beyond the run's range for a gate."""
    a, b = stage.lower, stage.upper
    if head.key_rows is None and head.memory_values is not None:
        claimed = head.memory_values[:, 0] if head.claims is None else head.claims.positions
        places = claimed if claimed.ndim == 1 and len(claimed) else head.memory_values[:, 0]
        a = float(places[0]) if a is None else a
        b = float(places[-1]) if b is None else b
    beyond = (abs(low) + abs(high)) * 2.0**-30
    a = min(low - beyond, (b or 0.0) - 1.0) if a is None else a
    b = max(high + beyond, a + 1.0) if b is None else b
    return a, b


def _copied(head: Head, stage: Activation, place: Place, one: float, machine: Machine) -> Up:
    """The error (n,) of the head that copies slope times its token: departures of its maps, and what these round."""
    n = len(place.low)
    alone = head.key_rows is not None and head.key_rows.kind == "own" and head.memory_size == 0
    if not alone or head.value is None or head.output.shape[1] != n:
        raise CertificateError("A leaky slope is a head whose only key is its token", "another head")
    wanted = np.vstack([stage.slope * np.eye(n), np.zeros((head.value.shape[0] - n, n))])
    size = Up.of(np.append(place.size.values, one))[None]  # of all that is read, the constant included
    departure = size @ Up.of(Balls.exact(head.value) @ Balls.exact(head.output) - Balls.exact(wanted))
    rates = [gamma(int(k) + 4, machine.roundoff) for k in count_roundings(head.value)]
    valued = size @ Up.of(head.value)
    made = valued * Up.of(np.array(rates))
    after = np.array([gamma(int(k), machine.roundoff) for k in count_roundings(head.output)])
    return (departure + made @ Up.of(head.output) + (valued + made) @ Up.of(head.output) * Up.of(after))[0]
