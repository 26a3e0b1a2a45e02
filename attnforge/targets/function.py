"""A function of the user's, handed in as a callable: evaluated with care, never trusted to be smooth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets.domain import Box
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
    ) -> None:
        if len(domain.shape) not in (1, 2):
            got = f"shape {domain.shape}"
            raise TargetError(
                "The box of a callable has shape (d,) or (n, d)", got, "Give it: af.Box(-1, 1, shape=(2,))"
            )
        self.layout: Literal["function", "tokens"] = "function" if len(domain.shape) == 1 else "tokens"
        self.domain, self._names, self._lipschitz = domain, names, lipschitz
        self.plain = plain and domain.shape == (1,)
        self._function, self._torch = function, False
        self.outputs = outputs if function is None else self._probe()

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the inputs, where they have any."""
        return self._names

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
        batch = points.shape[: points.ndim - len(self.domain.shape)]
        flat = np.ascontiguousarray(points.reshape(-1, *self.domain.shape), dtype=np.float64)
        found = self._evaluate(flat)
        expected = (len(flat), *self._value_shape())
        if found.shape != expected:
            got = f"shape {found.shape} for inputs of shape {flat.shape}"
            remedy = "Vectorise it over leading axes (np.vectorize, or torch.vmap)"
            raise TargetError(f"The callable must return an array of shape {expected}", got, remedy)
        return found.reshape(*batch, *found.shape[1:])

    def truncated_form(self) -> TruncatedForm:
        """Refused: a callable's inside is not known."""
        raise TargetError("The target must be a truncated linear function", "a callable", "Write it as an expression")

    def on(self, domain: Box) -> Function:
        """The same function on another box; what was said of its smoothness is kept."""
        box = domain.fixed(self.domain.shape)
        return Function(
            self._function, box, lipschitz=self._lipschitz, names=self._names, plain=self.plain, outputs=self.outputs
        )

    def describe(self) -> str:
        """Its name, if it has one."""
        name = getattr(self._function, "__name__", None) or "callable"
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

    def _evaluate(self, flat: Array) -> Array:
        """Call the function on (N, d), (N, n, d) or plain (N,) points, with NumPy or torch arrays as it likes."""
        if self._function is None:
            raise TargetError("A callable is not stored in a file", "a loaded model", "Hand the function in again")
        points = flat[:, 0] if self.plain else flat
        if self._torch:
            import torch

            return _as_numpy(self._function(torch.from_numpy(points.copy())))
        return _as_numpy(self._function(points.copy()))

    def _probe(self) -> int | None:
        """Call it on two points to learn whether it takes NumPy or torch, and how many outputs it has."""
        points = np.stack([self.domain.middle, self.domain.middle])
        found = self._first_call(points)
        tokens = self.domain.shape[:-1]
        if found.shape == (2, *tokens):
            return None
        if found.shape[:-1] == (2, *tokens):
            return int(found.shape[-1])
        wanted = f"(N, {', '.join(str(n) for n in (*tokens, 'k'))})" if tokens else "(N,) or (N, k)"
        shape = (2,) if self.plain else points.shape
        got = f"shape {found.shape} for inputs of shape {shape}"
        raise TargetError(f"The callable must return an array of shape {wanted}", got, "Vectorise it over leading axes")

    def _first_call(self, points: Array) -> Array:
        try:
            return self._evaluate(points)
        except TargetError:
            raise
        except Exception as first:
            self._torch = True
            try:
                return self._evaluate(points)
            except Exception:
                got = f"{type(first).__name__}: {first}"
                remedy = "It must be vectorised: (..., d) arrays in, (...) or (..., k) out"
                raise TargetError("The callable must run on NumPy or torch arrays", got[:300], remedy) from first

    def _check_finite(self, points: Array, found: Array) -> None:
        bad = ~np.isfinite(found.reshape(len(found), -1)).all(axis=1)
        if bad.any():
            where = np.array2string(points[bad.argmax()], precision=6, threshold=8)
            remedy = "Shrink the domain, or use norm=1 (max_affine) for unbounded functions"
            raise TargetError("The function must be finite on its domain", f"NaN or infinity at {where}", remedy)


def _as_numpy(found: Any) -> Array:
    if hasattr(found, "detach"):
        found = found.detach().to("cpu").double().numpy()
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        got = type(found).__name__
        raise TargetError("The callable must return numbers", got, "Return a NumPy array or a torch tensor") from None
