"""What every head, key and register of a network is: one reading of weights and claims, for figures, files and people.

A claim says what its builder meant; a label says what the numbers make of it. Nothing here is a proof.
"""

from attnforge.labels.forms import LONGEST, form_text
from attnforge.labels.labels import ColumnLabel, HeadLabel, KeyLabel, Labels, LayerLabel, labels_of
from attnforge.labels.named_graph import named_graph
from attnforge.labels.of_target import target_labels

__all__ = [
    "LONGEST",
    "ColumnLabel",
    "HeadLabel",
    "KeyLabel",
    "Labels",
    "LayerLabel",
    "form_text",
    "labels_of",
    "named_graph",
    "target_labels",
]
