"""A function of two inputs, f(X, Y), seen as a function of the joint point (vec X ; vec Y).

Theorems, proofs and searches work on flat joint points of the product of the two boxes; only calls know two inputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from attnforge.errors import TargetError
from attnforge.targets.domain import Box
from attnforge.targets.function import Function
from attnforge.targets.regularity import Lipschitz
from attnforge.targets.target import AnyArray, Target, TruncatedForm


class JointFunction(Target):
    """A vectorised callable of two inputs on a product of two boxes.

    Args:
        function: takes float64 arrays X and Y, NumPy or torch, with the same leading axes; X (..., d) or (..., n, d) by
            the shape of ``keys``, Y likewise by ``query``. It returns (...) or (..., k); where Y is a sequence of n
            tokens, one value or k values a token, (..., n) or (..., n, k).
        keys, query: the boxes of X and Y, each of shape (d,) or (n, d).
        lipschitz: what is known of f on the joint box: |X - X'| and |Y - Y'| together in one norm; None if nothing.
        value_shape: of one value, for a target whose function is not known (back from a file).

    ``domain`` is the flat joint box; ``values`` takes flat joint points, :meth:`at` the two inputs.
    """

    layout: Literal["function", "tokens"] = "function"

    def __init__(
        self,
        function: Callable[[Any, Any], Any] | None,
        keys: Box,
        query: Box,
        *,
        lipschitz: Lipschitz | None = None,
        value_shape: tuple[int, ...] = (),
    ) -> None:
        for name, box in (("X", keys), ("Y", query)):
            if len(box.shape) not in (1, 2) or 0 in box.shape:
                remedy = "Give it: af.Box(0, 1, shape=(1,))"
                raise TargetError(f"The box of {name} has shape (d,) or (n, d)", f"shape {box.shape}", remedy)
        self.keys, self.query, self._function = keys, query, function
        lower, upper = ([box.lower.ravel() for box in (keys, query)], [box.upper.ravel() for box in (keys, query)])
        self.domain = Box(np.concatenate(lower), np.concatenate(upper))
        joined = _Joined(function, self)
        size = int(np.prod(value_shape)) if value_shape else None
        self._flat = Function(joined if function else None, self.domain, lipschitz=lipschitz, outputs=size)
        self.value_shape = joined.value_shape if function else value_shape
        self.outputs = self.value_shape[-1] if len(self.value_shape) > len(self.tokens_shape) else None

    @property
    def code(self) -> Callable[..., Any] | None:
        """The callable; None where it came back from a file."""
        return self._function

    @property
    def tokens_shape(self) -> tuple[int, ...]:
        """(n,) where Y, and so the output, is a sequence of n tokens; else ()."""
        return self.query.shape[:-1]

    def at(self, keys: AnyArray, query: AnyArray) -> AnyArray:
        """f(X, Y), for X and Y with leading axes that broadcast."""
        pairs = ((keys, self.keys.shape), (query, self.query.shape))
        batch = np.broadcast_shapes(*(given.shape[: given.ndim - len(shape)] for given, shape in pairs))
        flat = [np.broadcast_to(given, (*batch, *shape)).reshape(*batch, -1) for given, shape in pairs]
        return self.values(np.concatenate(flat, axis=-1))

    def values(self, points: AnyArray) -> AnyArray:
        """Values at flat joint points (..., D): (...), followed by the shape of one value."""
        return np.asarray(self._flat.values(points)).reshape(*points.shape[:-1], *self.value_shape)

    def unchecked(self, points: AnyArray) -> AnyArray:
        """Values that may be infinite or NaN: for functions that are only integrable."""
        return np.asarray(self._flat.unchecked(points)).reshape(*points.shape[:-1], *self.value_shape)

    def split(self, points: Any) -> tuple[Any, Any]:
        """X and Y of flat joint points (..., D), NumPy or torch."""
        first = int(np.prod(self.keys.shape))
        batch = points.shape[:-1]
        return (
            points[..., :first].reshape(*batch, *self.keys.shape),
            points[..., first:].reshape(*batch, *self.query.shape),
        )

    def lipschitz(self) -> Lipschitz | None:
        """What the user said, about the joint point."""
        return self._flat.lipschitz()

    def truncated_form(self) -> TruncatedForm:
        """Refused: a callable's inside is not known."""
        return self._flat.truncated_form()

    def on(self, domain: Box) -> JointFunction:
        """The same function on another joint box, flat."""
        box = domain.fixed(self.domain.shape)
        keys, query = (Box(a, b) for a, b in zip(self.split(box.lower), self.split(box.upper), strict=True))
        known = self.lipschitz()
        return JointFunction(self._function, keys, query, lipschitz=known, value_shape=self.value_shape)

    def describe(self) -> str:
        """Its name, if it has one, and the shapes of X and Y."""
        name = getattr(self._function, "__name__", None) or "callable"
        shapes = f"X of {self.keys.shape} and Y of {self.query.shape} inputs"
        return f"function {name if name != '<lambda>' else '(a lambda)'} of {shapes}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: shapes and constants; the code itself is not stored."""
        known = self.lipschitz()
        data = {
            "kind": "joint_callable",
            "value_shape": list(self.value_shape),
            "lipschitz": None if known is None else [known.constant.hex(), known.norm],
        }
        return data, {
            "keys.lower": self.keys.lower,
            "keys.upper": self.keys.upper,
            "query.lower": self.query.lower,
            "query.upper": self.query.upper,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> JointFunction:
        """From a file: a target whose values are not known any more."""
        known, shape = data["lipschitz"], tuple(int(n) for n in data["value_shape"])
        keys, query = (Box(arrays[f"{name}.lower"], arrays[f"{name}.upper"]) for name in ("keys", "query"))
        tokens = query.shape[:-1]
        if shape[: len(tokens)] != tokens or len(shape) > len(tokens) + 1 or min(shape, default=1) < 1:
            raise TargetError(f"One value has shape {tokens} or {(*tokens, 'k')}", str(shape), "Build it anew")
        given = None if known is None else Lipschitz(float.fromhex(known[0]), str(known[1]))
        return cls(None, keys, query, lipschitz=given, value_shape=shape)


def takes_one_input(function: Callable[..., Any]) -> bool:
    """Whether a callable takes one argument and not two, as far as its signature tells.

    >>> takes_one_input(lambda y: y), takes_one_input(lambda x, y: x)
    (True, False)
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return _binds(signature, 1) and not _binds(signature, 2)


def _binds(signature: inspect.Signature, arguments: int) -> bool:
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        return False
    return True


class _Joined:
    """f(X, Y) as a function of flat joint points that returns flat values, and the shape of one value it has seen."""

    def __init__(self, function: Callable[[Any, Any], Any] | None, target: JointFunction) -> None:
        self.function, self.target, self.value_shape = function, target, ()

    def __call__(self, points: Any) -> Any:
        keys, query = self.target.split(points)
        found = self.function(keys, query) if self.function is not None else None
        shape, tokens = tuple(getattr(found, "shape", ())), self.target.tokens_shape
        fits = shape[:1] == (len(points),) and shape[1 : 1 + len(tokens)] == tokens
        if not fits or len(shape) > 2 + len(tokens) or 0 in shape[1:]:
            wanted = f"(N, {tokens[0]}) or (N, {tokens[0]}, k)" if tokens else "(N,) or (N, k)"
            got = f"shape {shape} for inputs of shapes {tuple(keys.shape)} and {tuple(query.shape)}"
            remedy = "Vectorise it over leading axes"
            raise TargetError(f"The callable must return an array of shape {wanted}", got, remedy)
        self.value_shape = shape[1:]
        return found if len(shape) == 1 else found.reshape(len(points), -1)  # type: ignore[union-attr]
