"""Smooth functions of one, two and more inputs by one head with fitted values, or one a term."""

from __future__ import annotations

import attnforge as af
from attnforge.zoo.citations import MAZYA, OURS
from attnforge.zoo.entry import UNHURRIED, Entry

ROW, GRID = "row", "grid"
ONE = "one head; scores beta (2 x L_k - L_k^2) weigh anchors by a Gaussian around x; values are fitted to the function"

FRANKE = (
    "0.75*exp(-((9*x - 2)^2 + (9*y - 2)^2)/4) + 0.75*exp(-(9*x + 1)^2/49 - (9*y + 1)/10)"
    " + 0.5*exp(-((9*x - 7)^2 + (9*y - 3)^2)/4) - 0.2*exp(-(9*x - 4)^2 - (9*y - 7)^2)"
)


ENTRIES = (
    Entry(
        "sine",
        ROW,
        "sin(8 x)",
        "x in [-1, 1]",
        f"{ONE}, far from hard: neighbours weigh alike, and errors fall faster than any power of their number",
        MAZYA,
        lambda: af.compile("sin(8*x)", {"x": (-1, 1)}, 1e-10, effort=UNHURRIED),
    ),
    Entry(
        "runge",
        ROW,
        "1/(1 + 25 x^2), on which polynomials of equidistant points fail",
        "x in [-1, 1]",
        ONE,
        f"Runge 1901, Zeitschrift für Mathematik und Physik 46; {MAZYA}",
        lambda: af.constructions.tensor_grid("1/(1 + 25*x^2)", {"x": (-1, 1)}, tol=1e-6, effort=UNHURRIED),
    ),
    Entry(
        "sine_with_a_kink",
        ROW,
        "sin(8 x) + |x|",
        "x in [-1, 1]",
        f"{ONE}; anchors are graded towards the kink at 0, which was found by bisection",
        MAZYA,
        lambda: af.constructions.tensor_grid("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-6, effort=UNHURRIED),
    ),
    Entry(
        "chebyshev",
        ROW,
        "the Chebyshev polynomial 16 x^5 - 20 x^3 + 5 x",
        "x in [-1, 1]",
        "one head; values are those of the inverse heat polynomial, in closed form, so that a Gaussian average of them "
        "is the polynomial, up to saturation",
        MAZYA,
        lambda: af.constructions.polynomial("16*x^5 - 20*x^3 + 5*x", {"x": (-1, 1)}, tol=1e-10, effort=UNHURRIED),
    ),
    Entry(
        "gelu_in_float32",
        ROW,
        "x times the normal distribution function, in float32",
        "x in [-6, 6]",
        f"{ONE}; the bound holds for float32 arithmetic",
        "Hendrycks and Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415",
        lambda: af.compile("gelu(x)", {"x": (-6, 6)}, 1e-4, dtype="float32", effort=UNHURRIED),
    ),
    Entry(
        "himmelblau",
        GRID,
        "(x^2 + y - 11)^2 + (x + y^2 - 7)^2",
        "x, y in [-5, 5]",
        "one head over a product of anchors, with values in closed form as of `chebyshev`",
        "Himmelblau 1972, Applied Nonlinear Programming",
        lambda: af.constructions.polynomial(
            "(x^2 + y - 11)^2 + (x + y^2 - 7)^2", {"x": (-5, 5), "y": (-5, 5)}, tol=1e-6, effort=UNHURRIED
        ),
    ),
    Entry(
        "franke",
        GRID,
        "Franke's function, four bumps",
        "x, y in [0, 1]",
        "one head over a product of anchors: its weights are products of those of two rows",
        "Franke 1979, A Critical Comparison of Some Methods for Interpolation of Scattered Data, NPS-53-79-003",
        lambda: af.constructions.tensor_grid(FRANKE, {"x": (0, 1), "y": (0, 1)}, tol=1e-4, effort=UNHURRIED),
    ),
    Entry(
        "plane_wave",
        GRID,
        "cos(a + b + c + d + e1 + f + g + h), one form of eight inputs",
        "a, b, c, d, e1, f, g, h in [0, 1]",
        "one head of one row along the sum of all inputs: keys do not grow with their number",
        OURS,
        lambda: af.constructions.ridge(
            "cos(a + b + c + d + e1 + f + g + h)",
            dict.fromkeys(("a", "b", "c", "d", "e1", "f", "g", "h"), (0, 1)),
            tol=1e-7,
            effort=UNHURRIED,
        ),
    ),
    Entry(
        "sum_of_terms",
        GRID,
        "sin(5 x) + y exp(z) + cos(u + v)",
        "x, y, z, u, v in [-1, 1]",
        "three heads, one a term of one, two inputs or one form, whose values add up",
        "the anchored ANOVA decomposition; Kuo et al. 2010, Mathematics of Computation 79",
        lambda: af.constructions.additive(
            "sin(5*x) + y*exp(z) + cos(u + v)", dict.fromkeys("xyzuv", (-1, 1)), tol=1e-7, effort=UNHURRIED
        ),
    ),
)
