"""Gradient descent on the examples of a prompt: frozen attention against exact iteration.

One file a part of the experiment, each with its cases, what is measured of one, what the results say and the curves
drawn of them: ``drift`` along the stack of blocks, ``sharpness`` and ``interpolation`` for the two routes, ``sizes`` of
the prompt, functions as ``prompts`` and ``kernel`` regression. ``problems`` holds the regressions.
"""

from attnforge.experiments.in_context.experiment import InContext
from attnforge.experiments.in_context.settings import InContextSettings

__all__ = ["InContext", "InContextSettings"]
