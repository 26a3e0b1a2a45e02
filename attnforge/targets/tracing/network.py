"""What traced networks of all origins share: names of their inputs, and the target of what they return."""

from __future__ import annotations

from attnforge.errors import TargetError
from attnforge.targets.domain import Box
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas, formula_target
from attnforge.targets.tracing.arrays import Nodes
from attnforge.targets.tracing.tidying import tidied


def input_names(domain: Box, names: tuple[str, ...] | None, features: int | None) -> tuple[str, ...]:
    """As the domain names them, or x[0], x[1], ..; ``features``: how many the network takes, where it says so."""
    count = len(names) if names else domain.shape[-1] if domain.shape else features
    if count is None:
        raise TargetError("The number of inputs must be known", "an open box", "Give one interval an input")
    if features is not None and count != features:
        raise TargetError(f"The domain must have {features} features", f"{count}", "Give an interval an input")
    return names or (("x",) if count == 1 else tuple(f"x[{i}]" for i in range(count)))


def network_target(nodes: Nodes, domain: Box, names: tuple[str, ...]) -> Formula | Formulas:
    """The target of what a network gives for a batch of one point: (1, k), or (1,) of a scalar."""
    return formula_target(tidied(nodes.ravel().tolist()), domain, names, scalar=nodes.ndim < 2)
