"""What targets have in common that take the examples of a prompt: a data box, and no points of a box."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from attnforge.errors import DomainError, TargetError
from attnforge.targets.domain import Box
from attnforge.targets.target import Target, TruncatedForm

EVERYTHING = float(np.finfo(np.float64).max)


class PromptTarget(Target):
    """A frozen dataclass with ``data_bound``, which bounds the data of a prompt; None where nothing is known."""

    layout: Literal["function", "tokens", "prompt"] = "prompt"
    data_bound: float | None
    examples: int | None

    @property
    def domain(self) -> Box:  # type: ignore[override]
        """The data box: bounds of every number of a prompt; all finite numbers where none are known."""
        bound = EVERYTHING if self.data_bound is None else self.data_bound
        return Box(-bound, bound)

    def on(self, domain: Box) -> Self:
        """The same on another data box, symmetric about zero."""
        if domain.shape != () or float(domain.lower) != -float(domain.upper):
            raise TargetError("A data box is |x|, |y| <= bound", f"shape {domain.shape}", "Use af.Box(-bound, bound)")
        frozen: Any = self
        found: Self = replace(frozen, data_bound=float(domain.upper))
        return found

    def truncated_form(self) -> TruncatedForm:
        """Refused: no function of examples is a truncated linear one."""
        raise TargetError("The target must be a truncated linear function", self.describe(), "Use a formula")

    def check_data_bound(self) -> None:
        """Raise unless the bound is a positive number, or there is none."""
        if self.data_bound is not None and not (np.isfinite(self.data_bound) and self.data_bound > 0):
            raise TargetError("`data_bound` must be positive and finite", repr(self.data_bound), "Bound |x| and |y|")

    def check_examples(self, count: int, remedy: str) -> None:
        """Raise where the network was built for another number of examples."""
        if self.examples not in (None, count):
            raise DomainError(f"This network was built for {self.examples} examples", str(count), remedy)

    def check_within(self, names: str, largest: float) -> None:
        """Raise where data are beyond the data bound."""
        if self.data_bound is not None and largest > self.data_bound:
            got, remedy = f"{largest:g}", "Build with a larger data_bound, or without one"
            raise DomainError(f"{names} must lie within the data bound {self.data_bound:g}", got, remedy)
