"""One record a construction: what it accepts, its size, weights and bound, and what is to be said and tested of it.

Tables and pages of the documentation are made from these records (``scripts/tables.py``, ``scripts/documentation``),
and ``tests/laws/test_registry.py`` tries each on its own case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
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


@dataclass(frozen=True)
class Documentation:
    """What a referee asks: the theorem, its hypotheses, the bound with its norms, and the size of the network.

    ``width`` counts the features of a token that the heads read. ``example`` is an expression of the public functions
    that gives such a network; the documentation's page of the construction prints and draws it.
    """

    theorem: str
    hypotheses: str
    bound: str
    heads: str
    keys: str
    width: str
    example: str


@dataclass(frozen=True)
class Law:
    """A case on which the laws are tried: a target, two tolerances, and how fast the error falls between them.

    Between plans for the two the measured error falls like keys^-order; infinity stands for faster than any power.
    ``refused`` is a target that must not be accepted.
    """

    target: Callable[[], Target]
    refused: Callable[[], Target]
    tols: tuple[float, float]
    order: float


P = TypeVar("P")


class Construction(ABC, Generic[P]):
    """A theorem as pure functions of a target and a plan (anchors, heads, sharpness, layout), and what is said of it.

    ``rate`` is the error against the size, under ``conditions``. ``fitted`` marks constructions whose values come from
    a fit rather than from a closed form.
    """

    name: str
    variant: str = ""  # what tells it from another one of the same name
    function_class: str
    rate: str
    conditions: str
    reference: str
    documentation: Documentation
    law: Law
    fitted: bool = False

    @abstractmethod
    def accepts(self, target: Target) -> str | None:
        """None where the construction applies, else the reason why not."""

    def offers(self, target: Target) -> str | None:
        """As :meth:`accepts`, where nobody asked for this construction by name."""
        return self.accepts(target)

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
