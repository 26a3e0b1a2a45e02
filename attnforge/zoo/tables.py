"""Tables of points: the certificate is about the listed points, since a table says nothing between them."""

from __future__ import annotations

import numpy as np

import attnforge as af
from attnforge.zoo.citations import MAZYA
from attnforge.zoo.entry import UNHURRIED, Entry

KIND = "table"

PLACES = np.linspace(-1, 1, 9)
CORNERS, EXCLUSIVE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0.0, 1.0, 1.0, 0.0])

# Hubble's table: distances of 24 nebulae in megaparsecs, and their velocities in km/s.
DISTANCES = (
    0.032, 0.034, 0.214, 0.263, 0.275, 0.275, 0.45, 0.5, 0.5, 0.63, 0.8, 0.9,
    0.9, 0.9, 0.9, 1.0, 1.1, 1.1, 1.4, 1.7, 2.0, 2.0, 2.0, 2.0,
)  # fmt: skip
VELOCITIES = (
    170, 290, -130, -70, -185, -220, 200, 290, 270, 200, 300, -30,
    650, 150, 500, 920, 450, 500, 500, 960, 500, 850, 800, 1090,
)  # fmt: skip


ENTRIES = (
    Entry(
        "table_of_a_kink",
        KIND,
        "|x| at nine points, met",
        "x in [-1, 1]; listed are -1, -0.75, ..., 1",
        "one head; anchors at and beyond the points, values that solve a linear system",
        MAZYA,
        lambda: af.compile((PLACES, np.abs(PLACES)), tol=1e-6, effort=UNHURRIED),
    ),
    Entry(
        "truth_table",
        KIND,
        "exclusive or of two bits",
        "a, b in [0, 1]; listed are the four corners",
        "one head over a product of anchors: keys answer to both bits at once, which no linear map does",
        "Minsky and Papert 1969, Perceptrons",
        lambda: af.compile((CORNERS, EXCLUSIVE), tol=1e-9, effort=UNHURRIED),
    ),
    Entry(
        "hubble",
        KIND,
        "velocity of a nebula (km/s) against its distance (Mpc), smoothed: the residuals are the data's scatter",
        "distance in [0.032, 2]; listed are 24 nebulae",
        "one head; anchors among the points, values by ridge regression; how many, how sharp and which ridge by "
        "leaving points out",
        "Hubble 1929, Proceedings of the National Academy of Sciences 15",
        lambda: af.constructions.table(DISTANCES, VELOCITIES, names=["distance"], effort=UNHURRIED),
    ),
)
