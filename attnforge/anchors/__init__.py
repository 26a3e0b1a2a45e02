"""Where keys sit and how sharp the softmax is: decided before any weight is chosen."""

from attnforge.anchors.adaptive import Adaptive
from attnforge.anchors.temperature import Sharpness, hard, sharpness, tuned
from attnforge.anchors.uniform import Grid, uniform

__all__ = ["Adaptive", "Grid", "Sharpness", "hard", "sharpness", "tuned", "uniform"]
