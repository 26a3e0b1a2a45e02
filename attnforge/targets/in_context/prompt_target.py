"""What targets have in common that take the examples of a prompt: a data box, and no points of a box."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from attnforge.errors import TargetError
from attnforge.targets.domain import Box
from attnforge.targets.target import Target, TruncatedForm

EVERYTHING = float(np.finfo(np.float64).max)


class PromptTarget(Target):
    """A frozen dataclass with ``data_bound``, which bounds the data of a prompt; None where nothing is known."""

    layout: Literal["function", "tokens", "prompt"] = "prompt"
    data_bound: float | None

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
