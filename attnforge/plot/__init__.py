"""Pictures of compiled networks. Every function returns a matplotlib figure, or draws into yours."""

from attnforge.plot.anchors import anchors
from attnforge.plot.attention import attention_map
from attnforge.plot.error_map import error_map
from attnforge.plot.graph import graph
from attnforge.plot.overview import overview
from attnforge.plot.partition import partition
from attnforge.plot.program import program
from attnforge.plot.rates import Curve, rate_curves
from attnforge.plot.section import section
from attnforge.plot.trajectory import trajectory
from attnforge.plot.weighted_sum import weighted_sum

__all__ = [
    "Curve",
    "anchors",
    "attention_map",
    "error_map",
    "graph",
    "overview",
    "partition",
    "program",
    "rate_curves",
    "section",
    "trajectory",
    "weighted_sum",
]
