"""Errors at the ends of the domain and between heads: with and without ghosts and sentinels, near sharp transitions."""

from attnforge.experiments.boundary.experiment import Boundary, BoundarySettings

__all__ = ["Boundary", "BoundarySettings"]
