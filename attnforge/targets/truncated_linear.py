"""Range_[a, b](w_i . x_i + t_i) at every token: the papers' generalized ReLU, as a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.errors import DomainError, TargetError, is_whole
from attnforge.outward import Balls
from attnforge.targets.domain import Box
from attnforge.targets.target import AnyArray, Target, TruncatedForm, box_from_data, box_to_data, whole_or_none

Array = npt.NDArray[np.float64]


class TruncatedLinear(Target):
    r"""min(max(w . x + t, lower), upper), token by token.

    Args:
        w: (d,) for the same weights at every token, or (n, d).
        t: a number, or (n,).
        lower, upper: the interval [a, b], a < b.
        domain: a box for each token, or for all n tokens.
        output, outputs: write the value into entry ``output`` of ``outputs`` features (zero elsewhere) instead of
            returning it alone.
    """

    layout: Literal["tokens"] = "tokens"

    def __init__(
        self,
        w: npt.ArrayLike,
        t: npt.ArrayLike,
        lower: float,
        upper: float,
        domain: Box,
        *,
        output: int = 0,
        outputs: int | None = None,
    ) -> None:
        self.w, self.t = _weights(w), _offsets(t)
        self.lower, self.upper = _interval(lower, upper)
        self.rows = max(len(self.w), len(self.t))
        if {len(self.w), len(self.t)} - {1, self.rows}:
            got = f"{len(self.w)} rows of w and {len(self.t)} offsets"
            raise TargetError("`w` and `t` must agree on the number of tokens", got, "Give one each, or one for all")
        if domain.shape[:-1] not in ((), (1,), (self.rows,)) and self.rows > 1:
            raise TargetError(f"The domain must have {self.rows} tokens", f"shape {domain.shape}", "Fit it to w and t")
        tokens = domain.shape[0] if len(domain.shape) == 2 else self.rows
        self.rows = max(self.rows, tokens)
        self.domain = domain.fixed((self.w.shape[1],) if self.rows == 1 else (self.rows, self.w.shape[1]))
        self.output = output
        self.outputs = _outputs(output, outputs)

    @property
    def features(self) -> int:
        """Number d of features of a token."""
        return int(self.w.shape[1])

    def forms(self, points: AnyArray) -> AnyArray:
        """The linear forms y_i = w_i . x_i + t_i of (..., n, d) points."""
        products = points * self.w.astype(points.dtype)
        return np.asarray(products.sum(axis=-1) + self.t.astype(points.dtype))

    def values(self, points: AnyArray) -> AnyArray:
        """Values (..., n), or (..., n, outputs) where an output feature was chosen."""
        clamped = np.clip(self.forms(points), self.lower, self.upper)
        if self.outputs is None:
            return clamped
        full = np.zeros((*clamped.shape, self.outputs), dtype=clamped.dtype)
        full[..., self.output] = clamped
        return full

    def truncated_form(self) -> TruncatedForm:
        """The given numbers, exactly."""
        weights = np.broadcast_to(self.w, (max(len(self.w), len(self.t)), self.features))
        offsets = np.broadcast_to(self.t, (len(weights),))
        return TruncatedForm(
            Balls.exact(weights), Balls.exact(offsets), Balls.exact(self.lower), Balls.exact(self.upper)
        )

    def on(self, domain: Box) -> TruncatedLinear:
        """The same function on another box."""
        w = self.w[0] if len(self.w) == 1 else self.w
        t = self.t[0] if len(self.t) == 1 else self.t
        return TruncatedLinear(w, t, self.lower, self.upper, domain, output=self.output, outputs=self.outputs)

    def describe(self) -> str:
        """One line."""
        if self.w.size <= 4 and len(self.w) == 1 and len(self.t) == 1:
            terms = " ".join(f"{value:+g}*x[{i}]" for i, value in enumerate(self.w[0]))
            return f"clamp({terms} {self.t[0]:+g}, {self.lower:g}, {self.upper:g}) at every token"
        each = "each with its own w, t" if len(self.w) > 1 or len(self.t) > 1 else "one w, t"
        return f"clamp(w . x + t, {self.lower:g}, {self.upper:g}), {self.features} features, {each}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file."""
        arrays = {"w": self.w, "t": self.t, "interval": np.array([self.lower, self.upper]), **box_to_data(self.domain)}
        return {"kind": "truncated_linear", "output": self.output, "outputs": self.outputs}, arrays

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> TruncatedLinear:
        """From a file."""
        lower, upper = (float(value) for value in arrays["interval"])
        box, outputs = box_from_data(arrays), whole_or_none(data["outputs"])
        return cls(arrays["w"], arrays["t"], lower, upper, box, output=int(data["output"]), outputs=outputs)


def _weights(w: npt.ArrayLike) -> Array:
    array = _finite("w", w)
    if array.ndim not in (1, 2) or array.size == 0:
        raise TargetError("`w` must have shape (d,) or (n, d)", f"shape {array.shape}", "Give one weight a feature")
    return np.atleast_2d(array)


def _offsets(t: npt.ArrayLike) -> Array:
    array = _finite("t", t)
    if array.ndim > 1 or array.size == 0:
        raise TargetError("`t` must be a number or have shape (n,)", f"shape {array.shape}", "Give one a token")
    return np.atleast_1d(array)


def _interval(lower: float, upper: float) -> tuple[float, float]:
    a, b = _finite("lower", lower), _finite("upper", upper)
    if a.ndim or b.ndim:
        raise TargetError("`lower` and `upper` must be numbers", f"shapes {a.shape}, {b.shape}", "Give two numbers")
    if not a < b:
        got = f"lower={float(a)}, upper={float(b)}"
        remedy = "Swap them, or use a constant target"
        raise TargetError("`upper` must exceed `lower` (the interval [a, b] is empty)", got, remedy)
    return float(a), float(b)


def _outputs(output: int, outputs: int | None) -> int | None:
    whole = is_whole(output) and (outputs is None or is_whole(outputs))
    if not whole or (outputs is not None and not 0 <= output < outputs):
        got = f"output={output!r}, outputs={outputs!r}"
        raise TargetError("`output` must name one of the `outputs` features", got, "Count from 0")
    return outputs


def _finite(name: str, values: npt.ArrayLike) -> Array:
    try:
        array = np.array(float64(values))
    except DomainError:
        raise TargetError(f"`{name}` must be numbers", repr(values)[:200], "Give a number or an array") from None
    if not np.all(np.isfinite(array)):
        raise TargetError(f"`{name}` must be finite", "NaN or infinity", "Remove or replace these entries")
    return array
