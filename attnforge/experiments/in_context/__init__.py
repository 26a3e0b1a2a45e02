"""Gradient descent on the examples of a prompt: frozen attention against exact iteration.

``drift`` along stacks of blocks on prompts of several sizes, the two ``routes``, functions as ``prompts`` and
``kernel`` regression are a file each, with what is measured and what the results say. ``problems`` holds the
regressions.
"""

from attnforge.experiments.in_context.experiment import InContext, InContextSettings

__all__ = ["InContext", "InContextSettings"]
