"""Regressions on the examples of a prompt: algorithms, kernels, and how tokens hold them."""

from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features
from attnforge.targets.in_context.iteration import Iteration
from attnforge.targets.in_context.kernel import KernelAverage
from attnforge.targets.in_context.prompt_target import PromptTarget

__all__ = ["Algorithm", "Features", "Iteration", "KernelAverage", "PromptTarget"]
