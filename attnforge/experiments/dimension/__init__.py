"""Keys against the number of inputs: product grids, sparse grids, and constructions that use structure."""

from attnforge.experiments.dimension.experiment import Dimension, DimensionSettings

__all__ = ["Dimension", "DimensionSettings"]
