"""Long sequences: error, time and memory against the number of tokens and features."""

from attnforge.experiments.length.experiment import Length, LengthSettings

__all__ = ["Length", "LengthSettings"]
