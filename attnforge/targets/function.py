"""A function of the user's, handed in as a callable: evaluated with care, never trusted to be smooth."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets.domain import Box
from attnforge.targets.evaluation import Evaluation, reason_of
from attnforge.targets.regularity import Lipschitz
from attnforge.targets.target import AnyArray, Target, TruncatedForm, box_from_data, box_to_data, whole_or_none

Array = npt.NDArray[np.float64]


class Function(Target):
    """A vectorised callable on a box.

    Args:
        function: takes float64 arrays, NumPy or torch, batched over leading axes: (..., d) on a box of d inputs,
            (..., n, d) on a box of n tokens; with ``plain`` and one input, (N,) arrays instead.
        domain: the box; of shape (d,) for functions, (n, d) for sequence maps.
        lipschitz: what is known of it; None if nothing.
        names: of the inputs.
        plain: whether a function of one input takes (N,) arrays.
        outputs: of a function that is not known any more (back from a file).
        evaluation: how it is evaluated: workers, a cache on disk, progress. None: each value once, in this process.
    """

    def __init__(
        self,
        function: Callable[[Any], Any] | None,
        domain: Box,
        *,
        lipschitz: Lipschitz | None = None,
        names: tuple[str, ...] | None = None,
        plain: bool = False,
        outputs: int | None = None,
        evaluation: Evaluation | None = None,
    ) -> None:
        if len(domain.shape) not in (1, 2):
            got = f"shape {domain.shape}"
            raise TargetError(
                "The box of a callable has shape (d,) or (n, d)", got, "Give it: af.Box(-1, 1, shape=(2,))"
            )
        self.layout: Literal["function", "tokens"] = "function" if len(domain.shape) == 1 else "tokens"
        self.domain, self._names, self._lipschitz = domain, names, lipschitz
        self.plain = plain and domain.shape == (1,)
        self.evaluation = Evaluation() if evaluation is None else evaluation
        self._call = None if function is None else self._probed(_Call(function, domain.shape, self.plain))
        self.outputs = outputs if self._call is None else self._call.outputs

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the inputs, where they have any."""
        return self._names

    @property
    def code(self) -> Callable[..., Any] | None:
        """The callable; None where it came back from a file."""
        return None if self._call is None else self._call.function

    def lipschitz(self) -> Lipschitz | None:
        """What the user said."""
        return self._lipschitz

    def values(self, points: AnyArray) -> AnyArray:
        """Values at the points, in float64: (...), (..., k), (..., n) or (..., n, k)."""
        found = self.unchecked(points)
        flat = points.reshape(-1, *self.domain.shape)
        self._check_finite(flat, found.reshape(len(flat), *self._value_shape()))
        return found

    def unchecked(self, points: AnyArray) -> AnyArray:
        """Values that may be infinite or NaN: for functions that are only integrable."""
        if self._call is None:
            raise TargetError("A callable is not stored in a file", "a loaded model", "Hand the function in again")
        batch = points.shape[: points.ndim - len(self.domain.shape)]
        rows = np.asarray(points, dtype=np.float64).reshape(-1, self.domain.lower.size)
        found = self.evaluation.values(self._call, rows, self.domain)
        return found.reshape(*batch, *self._value_shape())

    def truncated_form(self) -> TruncatedForm:
        """Refused: a callable's inside is not known."""
        raise TargetError("The target must be a truncated linear function", "a callable", "Write it as an expression")

    def on(self, domain: Box) -> Function:
        """The same function on another box; its values so far and what was said of its smoothness are kept."""
        moved = copy.copy(self)
        moved.domain = domain.fixed(self.domain.shape)
        return moved

    def describe(self) -> str:
        """Its name, if it has one."""
        name = getattr(self._call and self._call.function, "__name__", None) or "callable"
        kind = "sequence map" if self.layout == "tokens" else "function"
        return f"{kind} {name if name != '<lambda>' else '(a lambda)'} of {self.domain.shape} inputs"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: shapes and constants; the code itself is not stored."""
        known = self._lipschitz
        data = {
            "kind": "callable",
            "outputs": self.outputs,
            "names": None if self._names is None else list(self._names),
            "plain": self.plain,
            "lipschitz": None if known is None else [known.constant.hex(), known.norm],
        }
        return data, box_to_data(self.domain)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Function:
        """From a file: a target whose values are not known any more."""
        known, names, outputs = data["lipschitz"], data["names"], data["outputs"]
        return cls(
            None,
            box_from_data(arrays),
            lipschitz=None if known is None else Lipschitz(float.fromhex(known[0]), str(known[1])),
            names=None if names is None else tuple(str(name) for name in names),
            plain=bool(data["plain"]),
            outputs=whole_or_none(outputs),
        )

    def _value_shape(self) -> tuple[int, ...]:
        tokens = self.domain.shape[:-1]
        return tokens if self.outputs is None else (*tokens, self.outputs)

    def _probed(self, call: _Call) -> _Call:
        """Call it on two points to learn whether it takes NumPy or torch, and the shape of its values; keep these."""
        rows, started = _two_points(self.domain), time.perf_counter()
        call, found = _first_call(call, rows)
        seconds, tokens = time.perf_counter() - started, self.domain.shape[:-1]
        if found.shape != (2, *tokens) and (found.shape[:-1] != (2, *tokens) or not found.shape[-1]):
            wanted = f"(N, {tokens[0]}) or (N, {tokens[0]}, k)" if tokens else "(N,) or (N, k)"
            raise _wrong_shape(call, rows, found, wanted)
        call = replace(call, value_shape=found.shape[1:])
        self.evaluation.remember(call, rows, found, seconds, self.domain)
        return call

    def _check_finite(self, points: Array, found: Array) -> None:
        bad = ~np.isfinite(found.reshape(len(found), -1)).all(axis=1)
        if bad.any():
            where = np.array2string(points[bad.argmax()], precision=17, threshold=8)
            remedy = "Shrink the domain, define the value there, or use norm=1 (max_affine) for unbounded functions"
            raise TargetError("The function must be finite on its domain", f"NaN or infinity at {where}", remedy)


def check_importable(function: Callable[..., Any] | None, remedy: str) -> None:
    """Raise where pickle could not find a function by its name: a lambda, or one that was defined inside another."""
    while isinstance(function, partial):
        function = function.func
    if not isinstance(function, FunctionType):
        return
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not function:
        requirement = "A pickle holds functions by their names in modules, so that of a target must have one"
        raise TargetError(requirement, f"{function.__qualname__} of {function.__module__}", remedy)


@dataclass(frozen=True)
class _Call:
    """A user's callable as a function of flat rows, (N, D) -> (N, ...); the same one if only learned fields differ."""

    function: Callable[[Any], Any]
    shape: tuple[int, ...]
    plain: bool
    torch: bool = field(default=False, compare=False)
    value_shape: tuple[int, ...] | None = field(default=None, compare=False)

    @property
    def outputs(self) -> int | None:
        """The number of outputs; None for a scalar function."""
        tokens = len(self.shape) - 1
        return self.value_shape[-1] if self.value_shape and len(self.value_shape) > tokens else None

    def __call__(self, rows: Array) -> Array:
        """Its values, of the shape they had at first."""
        found = self.on(self.points(rows))
        if self.value_shape is not None and found.shape != (len(rows), *self.value_shape):
            wanted = f"(N, {', '.join(map(str, self.value_shape))})" if self.value_shape else "(N,)"
            raise _wrong_shape(self, rows, found, wanted)
        return found

    def points(self, rows: Array) -> Array:
        """The rows as the callable takes them: (N,) if plain, (N, d) or (N, n, d). A copy, which it may write to."""
        return rows[:, 0].copy() if self.plain else rows.reshape(-1, *self.shape).copy()

    def on(self, points: Any) -> Array:
        """The callable on a NumPy array or a number, handed over as a tensor if it likes torch."""
        if self.torch:
            import torch

            points = torch.as_tensor(points, dtype=torch.float64)
        return _as_numpy(self.function(points))

    def alone(self, row: Array) -> Array | None:
        """Its value at one point that is not in a batch: a float if plain, else (d,) or (n, d). None if it has none."""
        tokens = self.shape[:-1]
        try:
            found = self.on(float(row[0]) if self.plain else row.reshape(self.shape).copy())
        except Exception:
            return None
        return found if tokens in (found.shape, found.shape[:-1]) else None

    def spread(self, rows: Array) -> Array | None:
        """Its values if it wants each input as an argument of its own; None if it does not."""
        if len(self.shape) != 1 or self.shape[0] < 2:
            return None
        try:
            found = _as_numpy(self.function(*rows.T.copy()))
        except Exception:
            return None
        return found if found.shape == (len(rows),) else None


def _two_points(domain: Box) -> Array:
    """The middle of the box and a point a little way to its upper corner, as rows (2, D); both in the box."""
    middle = np.clip(domain.middle, domain.lower, domain.upper)
    away = np.clip(middle + 0.1 * (domain.upper - middle), domain.lower, domain.upper)
    return np.stack([middle.ravel(), away.ravel()])


def _first_call(call: _Call, rows: Array) -> tuple[_Call, Array]:
    """The callable with NumPy or torch, whichever runs, and its values."""
    try:
        return call, call(rows)
    except TargetError:
        raise
    except Exception as error:
        try:
            other = replace(call, torch=True)
            return other, other(rows)
        except Exception as second:
            raise _refusal(call, rows, error, second) from error


def _refusal(call: _Call, rows: Array, error: Exception, second: Exception) -> TargetError:
    """Why a callable runs neither on a NumPy array of two points nor on a tensor of them."""
    reason = reason_of(error)
    kinds = (call, replace(call, torch=True))
    for kind in kinds:
        remedy = _vectorise(kind, rows)
        if remedy is not None:
            got = f"one that works at a single point, but not on arrays ({reason})"
            return TargetError("The callable must be vectorised", got, remedy)
    for kind in kinds:
        fails = [_fails(kind, row[None]) for row in rows]
        if sum(fails) == 1:
            where = np.array2string(rows[fails.index(True)], precision=17, threshold=8)
            remedy = "Shrink the domain, or let the function return a finite number there"
            return TargetError("The callable must run at every point of its domain", f"{reason} at {where}", remedy)
    if call.spread(rows) is not None:
        inputs = ", ".join(f"p[..., {i}]" for i in range(len(rows[0])))
        got = f"one that takes {len(rows[0])} ({reason})"
        return TargetError("The callable must take one array (..., d)", got, f"Wrap it: lambda p: f({inputs})")
    if isinstance(second, TargetError):
        return second
    got = f"{reason}; with torch, {reason_of(second)}"
    remedy = "It must be vectorised: (..., d) arrays in, (...) or (..., k) out; torch modules in double precision"
    return TargetError("The callable must run on NumPy or torch arrays", got, remedy)


def _fails(call: _Call, rows: Array) -> bool:
    try:
        call(rows)
    except Exception:
        return True
    return False


def _vectorise(call: _Call, rows: Array) -> str | None:
    """How to vectorise a callable that works at single points; None if it does not.

    ``otypes`` is named since np.vectorize takes the type of the first value for all: 0 there makes whole numbers of
    the others; and with a signature it takes arrays only, no lists.
    """
    values = [call.alone(row) for row in rows]
    if any(value is None for value in values) or values[0] is None:
        return None
    if call.torch:
        return "Wrap it: torch.vmap(f)"
    tokens, many = len(call.shape) - 1, values[0].ndim == len(call.shape)
    given = "()" if call.plain else ("(d)", "(n,d)")[tokens]
    back = "(" + ",".join(["n"] * tokens + ["k"] * many) + ")"
    function = "f" if back == "()" else "lambda p: np.asarray(f(p))"
    signature = "" if (given, back) == ("()", "()") else f', signature="{given}->{back}"'
    return f"Wrap it: np.vectorize({function}{signature}, otypes=[float])"


def _wrong_shape(call: _Call, rows: Array, found: Array, wanted: str) -> TargetError:
    got = f"shape {found.shape} for inputs of shape {call.points(rows).shape}"
    remedy = _vectorise(call, rows[:1])
    if remedy is None:
        remedy = "Vectorise it over leading axes: N points in, N values out"
    else:
        remedy = f"It works at a single point: keep leading axes apart (sum over axis=-1 only). {remedy}"
    return TargetError(f"The callable must return an array of shape {wanted}", got, remedy)


def _as_numpy(found: Any) -> Array:
    if hasattr(found, "detach"):
        found = found.detach().to("cpu")
        found = found.resolve_conj().numpy() if found.is_complex() else found.double().numpy()
    if np.iscomplexobj(found):
        remedy = "Return real and imaginary parts as two outputs, or take .real"
        raise TargetError("The callable must return real numbers", "complex ones", remedy)
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        got = type(found).__name__
        raise TargetError("The callable must return numbers", got, "Return a NumPy array or a torch tensor") from None
