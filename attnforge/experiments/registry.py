"""All experiments, in the order in which they are best read."""

from __future__ import annotations

from typing import Any

from attnforge.errors import TargetError
from attnforge.experiments.boundary import Boundary
from attnforge.experiments.constructed_vs_trained import ConstructedVsTrained
from attnforge.experiments.dimension import Dimension
from attnforge.experiments.dtypes import Dtypes
from attnforge.experiments.experiment import Experiment
from attnforge.experiments.in_context import InContext
from attnforge.experiments.lebesgue import Lebesgue
from attnforge.experiments.length import Length
from attnforge.experiments.rate_anchors import RateAnchors
from attnforge.experiments.rate_heads import RateHeads
from attnforge.experiments.selection import Selection
from attnforge.experiments.temperature import Temperature
from attnforge.experiments.universality import Universality

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    RateAnchors(),
    RateHeads(),
    Selection(),
    Temperature(),
    Boundary(),
    Length(),
    Universality(),
    Lebesgue(),
    InContext(),
    Dimension(),
    Dtypes(),
    ConstructedVsTrained(),
)


def experiment(name: str) -> Experiment[Any]:
    """The experiment of this name.

    >>> experiment("rate-anchors").name
    'rate-anchors'
    """
    for each in EXPERIMENTS:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in EXPERIMENTS)
    raise TargetError(f"The experiments are {known}", repr(name), "Choose one, or all of them")
