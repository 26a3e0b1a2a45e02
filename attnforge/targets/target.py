"""What every kind of target answers: where it lives, its values, and whether it is a truncated linear function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.outward import Balls
from attnforge.targets.domain import Box
from attnforge.targets.regularity import Lipschitz

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class TruncatedForm:
    """Range_[lower, upper](w_i . x_i + t_i), with every number enclosed: the shape theorems and proofs work on.

    ``weights`` (rows, d) and ``offsets`` (rows,): one row for all tokens, or one a token. ``lower`` and ``upper`` are
    scalars, in order: with exchanged ends clamp is a constant, min(max(u, a), b) = b, which no lemma here is about.
    """

    weights: Balls
    offsets: Balls
    lower: Balls
    upper: Balls

    def __post_init__(self) -> None:
        if np.any(self.lower.mid > self.upper.mid):
            got = f"{float(np.max(self.lower.mid)):g} above {float(np.min(self.upper.mid)):g}"
            raise TargetError("A truncated form has its ends in order", got, "Use the constant that it is")


class Target(ABC):
    """A function to be approximated on a box.

    ``layout`` says how points are shaped: ``function`` targets take (..., d) and return (...), ``tokens`` targets
    take (..., n, d) and return (..., n). With ``outputs`` = k both return k values, (..., k) or (..., n, k). A
    ``prompt`` target takes the examples of a prompt. ``call`` and ``exact`` are what is compared, for people, and
    ``extension`` says where a formula is taken as its continuous extension.
    """

    layout: Literal["function", "tokens", "prompt"]
    domain: Box
    outputs: int | None = None
    call: str = "net(x)"
    exact: str = "f(x)"
    extension: str | None = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the features of a token, where these keep their meaning from layer to layer; None where not."""
        return None

    @property
    def certify(self) -> str:
        """How a difference is bounded, for people."""
        return self.call.replace("net", "net.certify")

    @abstractmethod
    def values(self, points: AnyArray) -> AnyArray:
        """Values at the points, in their precision (float64 or longdouble)."""

    def accurate(self, points: AnyArray) -> AnyArray:
        """Values at float64 points that a run can be measured against: here in extended precision."""
        return self.values(points.astype(np.longdouble))

    @abstractmethod
    def truncated_form(self) -> TruncatedForm:
        """The target as a truncated linear function; a TargetError with the reason where it is not one."""

    @abstractmethod
    def on(self, domain: Box) -> Target:
        """The same function on another box."""

    @abstractmethod
    def describe(self) -> str:
        """One line for people."""

    @abstractmethod
    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """A JSON-able description and named arrays, enough to rebuild the target."""

    def lipschitz(self) -> Lipschitz | None:
        """A Lipschitz constant on the domain, proved or given; None where nothing is known."""
        return None

    @property
    def written(self) -> int:
        """Features that a network of this target writes."""
        return self.outputs or 1

    @property
    def together(self) -> int:
        """Tokens that are looked at together where a network takes any number of them."""
        return 1

    def check_points(self, points: AnyArray) -> None:
        """Raise unless every point (batched over leading axes) is finite and inside."""
        self.domain.check(points)

    @property
    def code(self) -> Callable[..., Any] | None:
        """The user's function that its values come from; None where it is data alone."""
        return None

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the inputs, where they have any."""
        return None


def whole_or_none(value: Any) -> int | None:
    """A stored whole number, or None; anything else is refused."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TargetError("A stored number of outputs is a whole number", repr(value)[:80], "Build the model anew")
    return value


def box_to_data(box: Box) -> dict[str, AnyArray]:
    """The two arrays of a box, for a file."""
    return {"domain.lower": np.asarray(box.lower), "domain.upper": np.asarray(box.upper)}


def box_from_data(arrays: Mapping[str, AnyArray]) -> Box:
    """The box stored by :func:`box_to_data`."""
    return Box(arrays["domain.lower"], arrays["domain.upper"])
