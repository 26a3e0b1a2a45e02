"""Regressions by gradient and proximal steps on the examples of a prompt: algorithms, and how tokens hold them."""

from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features
from attnforge.targets.in_context.iteration import Iteration

__all__ = ["Algorithm", "Features", "Iteration"]
