"""Lower bounds: the largest error that can be found by grids, random points and a search for the worst."""

from attnforge.measurement.attack import Attack, attack
from attnforge.measurement.search import Measurement, search

__all__ = ["Attack", "Measurement", "attack", "search"]
