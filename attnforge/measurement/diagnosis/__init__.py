"""Failure signatures: what goes wrong with softmax heads, with the evidence, the likely cause and the remedy."""

from attnforge.measurement.diagnosis.diagnose import diagnose_network, diagnose_views
from attnforge.measurement.diagnosis.findings import Diagnosis, Finding, Place
from attnforge.measurement.diagnosis.module_views import module_views
from attnforge.measurement.diagnosis.raw_weights import AttentionWeights, weights_views
from attnforge.measurement.diagnosis.statistics import HeadStatistics
from attnforge.measurement.diagnosis.subject import Subject

__all__ = [
    "AttentionWeights",
    "Diagnosis",
    "Finding",
    "HeadStatistics",
    "Place",
    "Subject",
    "diagnose_network",
    "diagnose_views",
    "module_views",
    "weights_views",
]
