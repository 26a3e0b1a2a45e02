"""The points of an input file, checked against what a model takes; whatever is wrong is named with its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.compiler.inside import inside
from attnforge.errors import DomainError

if TYPE_CHECKING:
    from attnforge import Compiled

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Points:
    """Points as the model takes them, and how their places are called in the file they come from."""

    values: AnyArray
    place: Callable[[tuple[int, ...]], str]


def input_names(model: Compiled) -> tuple[str, ...]:
    """What the inputs are called; x, or x[0], x[1], .., where the target does not say."""
    d = model.network.features
    return model.target.names or (("x",) if d == 1 else tuple(f"x[{i}]" for i in range(d)))


def check_points(points: Points, model: Compiled) -> None:
    """Raise unless the shape fits, and every number is finite and in the certified domain."""
    values = check_shape(points.values, model)
    near = inside(values, model.domain, str(values.dtype))  # a rounding outside is taken as the end
    outside = ~((near >= model.domain.lower) & (near <= model.domain.upper))  # NaN is not inside either
    if outside.any():
        raise _fault(points, model, values, outside)


def check_shape(values: AnyArray, model: Compiled) -> AnyArray:
    """The points as (..., d) or (..., n, d); plain numbers are points where there is one input."""
    d, tokens = model.network.features, model.network.tokens
    if model.target.layout == "function":
        values = values[..., None] if d == 1 and values.ndim <= 1 else values
        fits, wanted = values.ndim >= 1 and values.shape[-1] == d, f"(..., {d})" + (" or (N,)" if d == 1 else "")
    else:
        fits = values.ndim >= 2 and values.shape[-1] == d and tokens in (None, values.shape[-2])
        wanted = f"(..., {tokens or 'n'}, {d})"
    if not fits:
        raise DomainError(f"This model takes points of shape {wanted}", f"shape {values.shape}", "Reshape the input")
    if not values.size:
        raise DomainError("The input must hold at least one point", "none", "Check the file")
    return values


def _fault(points: Points, model: Compiled, values: AnyArray, fault: AnyArray) -> DomainError:
    """The first fault, by row and input, and how many rows have one."""
    where = tuple(int(i) for i in np.argwhere(fault)[0])
    own = where[values.ndim - model.domain.lower.ndim :] if model.domain.lower.ndim else ()
    low, high = model.domain.lower[own], model.domain.upper[own]
    name = input_names(model)[where[-1]]
    rows = int(fault.any(axis=-1).sum())
    more = "" if rows == 1 else f" (and {rows - 1:,} more like it)"
    got = f"{name} = {values[where]} in {points.place(where)}{more}"
    wanted = f"Every point must lie in the certified domain, here {name} in [{low}, {high}]"
    return DomainError(wanted, got, "Leave it out, or compile for a larger domain")
