"""All experiments, in the order in which they are best read."""

from __future__ import annotations

from typing import Any

from attnforge.errors import TargetError
from attnforge.experiments.experiment import Experiment
from attnforge.experiments.rate_anchors import RateAnchors

EXPERIMENTS: tuple[Experiment[Any], ...] = (RateAnchors(),)


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
