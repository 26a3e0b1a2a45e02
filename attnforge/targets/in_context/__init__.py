"""Regressions on the examples of a prompt: algorithms, kernels, how tokens hold them; heads as prompts."""

from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.attention_head import AttentionHead, HeadShape
from attnforge.targets.in_context.features import Features
from attnforge.targets.in_context.iteration import Iteration
from attnforge.targets.in_context.kernel import KernelAverage
from attnforge.targets.in_context.kernel_system import KernelSystem
from attnforge.targets.in_context.prompt_formula import PromptFormula
from attnforge.targets.in_context.prompt_target import PromptTarget

__all__ = [
    "Algorithm",
    "AttentionHead",
    "Features",
    "HeadShape",
    "Iteration",
    "KernelAverage",
    "KernelSystem",
    "PromptFormula",
    "PromptTarget",
]
