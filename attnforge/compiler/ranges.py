"""Where the outputs of a compiled target lie on a box of its domain: those of the network, and those of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.certification.output_range import output_range, target_range
from attnforge.compiler.inside import inside
from attnforge.effort import Effort, as_effort
from attnforge.errors import CertificateError, DomainError, RefusalError
from attnforge.targets import Box, JointFunction, PromptFormula, PromptTarget, as_box, part_of

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled

Array = npt.NDArray[np.float64]


class Range(NamedTuple):
    """Lower and upper ends, numbers or arrays of the shape of one value: every value lies between them."""

    lower: Any
    upper: Any


def range_on(net: Compiled, box: Any, effort: str | Effort | None, *, of_target: bool) -> Range:
    """Of the network as it runs, or of the target, on a box of the domain; None is all of it."""
    given = _checked(net, box)
    if of_target:
        found = target_range(net.target, given, as_effort(effort))
    else:
        found = output_range(net.network, net.target, given, net.dtype, as_effort(effort))
    shape = _shape(net, given)
    if found[0].size != int(np.prod(shape)):
        got = f"{found[0].size} numbers for values of shape {shape}"
        raise CertificateError("The network must write the target's outputs", got, "Use a network of this target")
    lower, upper = (end.reshape(shape)[()] for end in found)
    return Range(lower, upper) if shape else Range(float(lower), float(upper))


def _shape(net: Compiled, box: Box) -> tuple[int, ...]:
    """Of one value."""
    target = net.target
    if isinstance(target, JointFunction):
        return target.value_shape
    rows = box.shape[:-1] if target.layout == "tokens" else ()
    return rows if target.outputs is None else (*rows, target.outputs)


def _checked(net: Compiled, box: Any) -> Box:
    """The box with the shape of points, inside the domain; ends that rounding alone took out of it are its ends."""
    target = net.target
    if isinstance(target, PromptTarget) and not isinstance(target, PromptFormula):
        wanted, got = "Ranges are proved of functions of the points of a box", f"{target.describe()}, of a prompt"
        raise RefusalError(wanted, got, f"{target.certify} bounds the error on a prompt")
    found = _shaped(net, net.domain if box is None else _given(net, box))
    lower, upper = (inside(end, net.domain) for end in (found.lower, found.upper))
    outside = (lower < net.domain.lower) | (upper > net.domain.upper)
    if np.any(outside):
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        own = [np.broadcast_to(end, lower.shape)[at] for end in (net.domain.lower, net.domain.upper)]
        wanted = f"A range is of a box inside the domain ([{own[0]}, {own[1]}] at entry {at})"
        raise DomainError(wanted, f"[{lower[at]}, {upper[at]}]", "Shrink the box, or compile for a larger domain")
    return Box(lower, upper)


def _given(net: Compiled, box: Any) -> Box:
    """The box as people write it, of two inputs by their names."""
    target = net.target
    if isinstance(target, JointFunction) and isinstance(box, Mapping) and set(box) == {"X", "Y"}:
        parts = [as_box(box["X"])[0].fixed(target.keys.shape), as_box(box["Y"])[0].fixed(target.query.shape)]
        lower, upper = (np.concatenate([getattr(each, end).ravel() for each in parts]) for end in ("lower", "upper"))
        return Box(lower, upper)
    return part_of(net.domain, net.target.names, box)


def _shaped(net: Compiled, box: Box) -> Box:
    """With the shape of the target's points; of tokens as many as the network takes, or as the box says."""
    if net.target.layout != "tokens" or isinstance(net.target, JointFunction):
        return box.fixed(net.domain.shape)
    tokens, features = net.network.tokens, net.network.features
    if tokens is not None or len(net.domain.shape) == 2:
        return box.fixed((tokens or net.domain.shape[0], features))
    if len(box.shape) == 2:
        return box.fixed((box.shape[0], features))
    alone = all(head.key_rows is None or head.key_rows.kind == "own" for head in net.network.heads)
    if not alone:
        wanted = "The box of a network whose tokens attend to each other must say how many there are"
        raise DomainError(wanted, f"shape {box.shape}", f"Write af.Box(lower, upper, shape=(n, {features}))")
    return box.fixed((features,))
