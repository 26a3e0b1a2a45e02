"""Points of a domain that a figure shows in a row: along the form a network reads, or along the diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.labels import form_text, labels_of
from attnforge.network import Network
from attnforge.plot.keys import Row, single_row
from attnforge.targets import Box, JointFunction, Target, TruncatedForm

Array = npt.NDArray[np.float64]

MARGIN = 0.35  # of the range of a truncated linear function: how far beyond its kinks it is shown


@dataclass(frozen=True, eq=False)
class Path:
    """Points along a line of the box, by a number that grows from ``low`` to ``high``, and what that number is."""

    box: Box
    low: float
    high: float
    name: str
    start: Array
    end: Array

    def at(self, along: Array) -> Array:
        """Points (N, ...) at these numbers (N,), in the box."""
        if self.box.lower.size == 1:
            return np.clip(along.reshape(-1, *self.box.shape), self.box.lower, self.box.upper)
        s = ((along - self.low) / (self.high - self.low)).reshape(-1, *(1,) * self.box.lower.ndim)
        return np.clip((1 - s) * self.start + s * self.end, self.box.lower, self.box.upper)


def path_through(target: Target, row: Row | None) -> Path:
    """All of a domain of one input; else the line on which the row's form takes all its values, or the diagonal."""
    box = target.domain
    if box.lower.size == 1:
        name = (target.names or ("x",))[0]
        return Path(box, float(box.lower.item()), float(box.upper.item()), name, box.lower, box.upper)
    if row is None:
        return Path(box, 0.0, 1.0, "position on the diagonal of the domain", box.lower, box.upper)
    start, end = (np.where(sign * row.weights > 0, box.upper, box.lower) for sign in (-1, 1))
    start, end = (np.where(row.weights == 0, box.middle, corner) for corner in (start, end))
    low, high = (float(row.weights @ corner) + row.offset for corner in (start, end))
    return Path(box, low, high, "linear form  " + form_text(row.weights, row.offset, target.names), start, end)


def input_names(target: Target) -> tuple[str, ...]:
    """A name for every input: the user's; X and Y, by entry, for targets of two; else x, or x0, x1 and so on.

    >>> box = Box(0, 1, shape=(1,))
    >>> input_names(JointFunction(lambda x, y: x[..., 0] * y[..., 0], box, Box(0, 1, shape=(2,))))
    ('X', 'Y0', 'Y1')
    """
    if target.names is not None:
        return target.names
    if isinstance(target, JointFunction):
        return (*_entries("X", target.keys.shape), *_entries("Y", target.query.shape))
    return _entries("x", target.domain.shape)


def shown_inputs(target: Target, network: Network, count: int) -> tuple[Array, Array, str]:
    """So many inputs in a row: numbers along it, points shaped for a call, and what the numbers are.

    A truncated linear function is followed through its kinks by :func:`form_line`, anything else by
    :func:`path_through`; of several tokens only the first one's form, or all of them along the diagonal.
    """
    form = form_of(target, network)
    if form is not None:
        return *form_line(target, form, network, count), "linear form  y = w · x + t"
    path = path_through(target, single_row(network, target.domain))
    along = np.linspace(path.low, path.high, count)
    points = path.at(along)
    is_token = target.layout == "tokens" and points.ndim == 2
    return along, points[:, None] if is_token else points, path.name


def form_of(target: Target, network: Network) -> TruncatedForm | None:
    """The target as a truncated linear function, where the anchors are placed along its form; else None."""
    if any(head.forms is not None for head in labels_of(network).heads):
        return None
    try:
        return target.truncated_form()
    except TargetError:
        return None


def form_line(target: Target, form: TruncatedForm, network: Network, count: int) -> tuple[Array, Array]:
    """Values of the first token's form and the points that have them, shaped for a call."""
    w, t = form.weights.mid[0], float(form.offsets.mid[0])
    tokens = network.tokens or 1
    box = target.domain.fixed((tokens, network.features)) if target.layout == "tokens" else target.domain
    lower, upper = np.atleast_2d(box.lower)[0], np.atleast_2d(box.upper)[0]
    middle, radius = (lower + upper) / 2, (upper - lower) / 2
    reach, start = float(np.abs(w) @ radius), float(w @ middle) + t
    a, b = float(form.lower.mid), float(form.upper.mid)
    margin = MARGIN * (b - a)
    low, high = max(start - reach, a - margin), min(start + reach, b + margin)
    if low >= high:
        low, high = start - reach, start + reach
    if low == high:  # a form that does not vary: a little room for the axis
        low, high = low - 0.5, high + 0.5
    y = np.linspace(low, high, count)
    s = np.clip((y - start) / reach if reach else 0 * y, -1, 1)
    first = middle + s[:, None] * radius * np.sign(w)
    if target.layout == "function":
        return y, first
    points = np.broadcast_to(box.middle, (count, tokens, network.features)).copy()
    points[:, 0] = first
    return y, points


def _entries(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """The name alone for a single entry, else with its place, row and column of several tokens."""
    if np.prod(shape) == 1:
        return (name,)
    return tuple(name + ",".join(str(i) for i in place) for place in np.ndindex(*shape))
