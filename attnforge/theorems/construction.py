"""The questionnaire every construction answers: accepts, size, build, bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from attnforge.network import Network
from attnforge.targets import Target


@dataclass(frozen=True)
class Cost:
    """What a plan will need, known before anything is allocated."""

    anchors: int
    parameters: int
    bytes: int
    pairs: int = 0

    @classmethod
    def of(cls, anchors: int, parameters: int, pairs: int = 0) -> Cost:
        """Weights are held twice: float64 in the network, and in the module that runs.

        ``pairs`` counts the products between tokens, which are not weights, where tokens attend to tokens.
        """
        return cls(anchors, parameters, 16 * parameters, pairs)

    @property
    def flops(self) -> int:
        """Operations for one point: a multiplication and an addition for every weight and every product of tokens."""
        return 2 * (self.parameters + self.pairs)


P = TypeVar("P")


class Construction(ABC, Generic[P]):
    """A theorem as four pure functions of a target and a plan (anchors, heads, sharpness, layout).

    ``fitted`` marks constructions whose values come from a fit rather than from a closed form.
    """

    name: str
    function_class: str
    rate: str
    reference: str
    fitted: bool = False

    @abstractmethod
    def accepts(self, target: Target) -> str | None:
        """None where the construction applies, else the reason why not."""

    @abstractmethod
    def size(self, target: Target, tol: float, dtype: str) -> P:
        """The cheapest plan whose bound, in exact arithmetic, is at most ``tol``."""

    @abstractmethod
    def cost(self, target: Target, plan: P) -> Cost:
        """What the plan needs."""

    @abstractmethod
    def build(self, target: Target, plan: P) -> Network:
        """The weights."""

    @abstractmethod
    def bound(self, target: Target, plan: P) -> dict[str, float]:
        """Named parts of the error bound, in exact arithmetic, rounded up."""
