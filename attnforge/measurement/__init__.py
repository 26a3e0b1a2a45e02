"""Lower bounds: the largest error that can be found by grids, random points and a search for the worst."""

from attnforge.measurement.attack import Attack, attack
from attnforge.measurement.diagnosis import AttentionWeights, Diagnosis, Finding
from attnforge.measurement.search import Measurement, search

__all__ = ["Attack", "AttentionWeights", "Diagnosis", "Finding", "Measurement", "attack", "search"]
