r"""Reading bumps: what the layers up to the ramps compute, from their numbers alone.

The collapse must give every row the same features, affine in X: feature r is $s_r x_r + t_r$ up to ``shift`` (other
inputs, other rows, rounding: a *backward* error, as harmless as moving $x_r$ by it over $s_r$), the last one is 1.
Each head of the next layer claims to be a ramp $\mathrm{clamp}(u_r - a, 0, 1)$ of one feature, and is judged by the
theorem bound of a gate (:mod:`.three_keys`) with the run's own u as exact input. A bump feature is written by two of
them, +1 with its start at a and -1 at a + 2: it is $\psi(u_r - a - \frac32)$ up to the two gates' errors and the
rounding of their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.three_keys import bound_layer
from attnforge.certification.tokens import Tokens, inner, linear, project, whole_input
from attnforge.errors import CertificateError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Layer, Linear
from attnforge.outward import Balls, Machine, add_up, gamma, product_up
from attnforge.targets import Box, TruncatedForm

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
SLACK = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Inputs as the ramps see them: u_r = scale_r x_r + start_r within ``shift`` (D,), between low and high (D,)."""

    scale: Array
    start: Array
    shift: Array
    low: Array
    high: Array
    rows: int


@dataclass(frozen=True, eq=False)
class Bumps:
    """Features: the input each belongs to, where it stands in u, and how far the run is from psi (all (m,))."""

    owner: Indices
    place: Array
    error: Array


def read_coordinates(layers: list[Layer], domain: Box, tokens: int, machine: Machine) -> Coordinates:
    """The rows before the ramps; linear maps and at most a uniform head are taken off the list."""
    lower, upper = (side.reshape(tokens, -1) for side in (domain.lower, domain.upper))
    rows = whole_input(lower, upper, machine)
    while layers and not _is_ramps(layers[0]):
        layer = layers.pop(0)
        if isinstance(layer, Linear):
            rows = linear(layer, rows, machine)
        elif isinstance(layer, Attention):
            rows = uniform(layer, rows, machine)
        else:
            raise CertificateError("Before the ramps stand linear maps and a uniform head", type(layer).__name__)
    return _coordinates(rows)


def _is_ramps(layer: Layer) -> bool:
    return isinstance(layer, Attention) and all(head.claims is not None for head in layer.heads)


def uniform(layer: Attention, rows: Tokens, machine: Machine) -> Tokens:
    """Rows after one head whose scores are all zero: each is the mean of the value rows."""
    head, count = layer.heads[0], len(rows.source)
    zero = not head.query.any() or (head.key is not None and not head.key.any())
    everywhere = head.key_rows is not None and head.key_rows.kind == "all" and head.key_rows.source == "state"
    plain = len(layer.heads) == 1 and not layer.residual and head.memory_size == 0 and head.query_rows.indices is None
    if not (zero and everywhere and plain) or head.value is None:
        raise CertificateError("Attention before the ramps is one head with all scores zero", "another head")
    values = project(rows, head.value, machine)
    relative = float(SoftmaxArithmetic(machine, count).mean())
    made = relative * values.magnitude().mean(axis=0) + count * machine.underflow
    error = np.broadcast_to((values.error.mean(axis=0) + made) * SLACK, values.error.shape)
    mean = Tokens(rows.source, rows.box, _mean(values.slope), _mean(values.constant), error)
    return project(mean, head.output, machine)


def _mean(balls: Balls) -> Balls:
    """The mean over rows, at every row."""
    count = balls.mid.shape[0]
    flat = Balls(balls.mid.reshape(count, -1), balls.rad.reshape(count, -1))
    total = Balls.exact(np.ones((count, count))) @ flat
    share = Balls(np.array(1.0 / count), np.array(2.0**-52 / count if count & (count - 1) else 0.0))
    mean = total * share
    return Balls(mean.mid.reshape(balls.mid.shape), mean.rad.reshape(balls.mid.shape))


def _coordinates(rows: Tokens) -> Coordinates:
    inputs = rows.slope.shape[1]
    one = rows.constant[:, -1]
    exact = not (np.any(rows.slope.magnitude()[:, :, -1]) or np.any(rows.error[:, -1]) or np.any(one.rad))
    if rows.slope.shape[2] != inputs + 1 or not exact or np.any(one.mid != 1.0):
        raise CertificateError("Ramps read every input and a constant 1", f"{rows.slope.shape[2]} features")
    scale = rows.slope.mid[0, np.arange(inputs), np.arange(inputs)]
    start = rows.constant.mid[0, :-1]
    wanted = Balls.exact(np.broadcast_to(np.diag(scale), (len(rows.source), inputs, inputs)))
    gap = inner(rows.slope[:, :, :-1] - wanted, rows.box, rows.constant[:, :-1] - Balls.exact(start[None]))
    seen = inner(rows.slope[:, :, :-1], rows.box, rows.constant[:, :-1])
    reach = (seen.rad + rows.error[:, :-1]) * SLACK
    low, high = np.nextafter(seen.mid - reach, -np.inf), np.nextafter(seen.mid + reach, np.inf)
    shift = ((gap.magnitude() + rows.error[:, :-1]) * SLACK).max(axis=0)
    return Coordinates(scale, start, shift, low.min(axis=0), high.max(axis=0), len(rows.source))


def read_bumps(layer: Layer, seen: Coordinates, machine: Machine) -> Bumps:
    """Every bump feature, from the two ramps that write it."""
    if not isinstance(layer, Attention) or layer.residual or not _is_ramps(layer):
        raise CertificateError("Bumps are written by a layer of ramps without residual", type(layer).__name__)
    features = layer.heads[0].output.shape[1]
    write = np.vstack([_written(head, features) for head in layer.heads])
    ramps = _ramps(layer.heads, seen, machine)
    owner, place, error = np.zeros(features, dtype=np.int64), np.zeros(features), np.zeros(features)
    for feature in range(features):
        rising, falling = np.flatnonzero(write[:, feature] > 0), np.flatnonzero(write[:, feature] < 0)
        if len(rising) != 1 or len(falling) != 1:
            raise CertificateError("A bump is one ramp minus another", f"{np.count_nonzero(write[:, feature])} heads")
        up, down = ramps[rising[0]], ramps[falling[0]]
        if up.owner != down.owner or down.start != up.start + 2.0:
            raise CertificateError("The ramps of a bump read one input, two steps apart", f"feature {feature}")
        owner[feature], place[feature] = up.owner, up.start + 1.5
        error[feature] = add_up(_off(up, write[rising[0], feature]), _off(down, -write[falling[0], feature]))
    # two products and one addition round, of numbers between 0 and 1 and their errors; a half type may round once more
    exact = bool(np.isin(np.abs(write), (0.0, 1.0)).all())
    error = (error + gamma(2 if exact else 4, machine.roundoff) * (1 + error)) * SLACK
    return Bumps(owner, place, np.asarray(error))


@dataclass(frozen=True)
class _Ramp:
    owner: int
    start: float
    error: float


def _off(ramp: _Ramp, weight: float) -> float:
    """How far a ramp with a weight near 1 is from one between 0 and 1."""
    departed = Balls.exact(weight) - Balls.exact(1.0)
    return add_up(product_up(weight, ramp.error), float(departed.magnitude()))


def _written(head: Head, features: int) -> Array:
    if head.output.shape != (1, features) or head.query_rows.indices is not None:
        raise CertificateError("A ramp has one value, written at every token", f"shape {head.output.shape}")
    return head.output


def _ramps(heads: Sequence[Head], seen: Coordinates, machine: Machine) -> list[_Ramp]:
    """The heads' errors as gates for clamp(u - a, 0, 1) on the ranges of u."""
    found = [_claimed(head, len(seen.scale)) for head in heads]
    owner, start = (np.array(each) for each in zip(*found, strict=True))
    zeros = np.zeros(len(heads))
    own = Balls.exact(np.eye(len(seen.scale) + 1)[owner])
    form = TruncatedForm(own, Balls.exact(-start), Balls.exact(zeros), Balls.exact(zeros + 1))
    alone = [replace(head, output=np.ones((1, 1))) for head in heads]
    parts = bound_layer(alone, form, np.append(seen.low, 1.0), np.append(seen.high, 1.0), machine)
    return [_Ramp(*ramp, add_up(*each)) for ramp, each in zip(found, parts.tolist(), strict=True)]


def _claimed(head: Head, inputs: int) -> tuple[int, float]:
    """The feature that a ramp reads, and where it starts."""
    claims = head.claims
    if claims is None or head.value is None or head.value.shape != (inputs + 1, 1) or "low" not in claims.roles:
        raise CertificateError("A ramp is a gate on one feature, with a low key", "another head")
    return int(np.abs(head.value[:-1, 0]).argmax()), float(claims.positions[claims.roles.index("low")])
