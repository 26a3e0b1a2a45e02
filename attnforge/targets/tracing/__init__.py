"""Python functions and networks as formulas: run once on symbols, through NumPy's and torch's own functions."""

from attnforge.targets.tracing.traced import formula

__all__ = ["formula"]
