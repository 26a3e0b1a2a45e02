"""Formulas of several inputs as graphs of registers: one small head a node."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import attnforge as af
from attnforge.zoo.citations import FEYNMAN, OURS
from attnforge.zoo.entry import UNHURRIED, Entry

KIND = "graph"
Domain = dict[str, tuple[float, float]]


def compiled(text: str, domain: Domain, tol: float) -> af.Compiled:
    """The graph of a formula, or of several in brackets."""
    return af.compile(text, domain, tol, construction="graph", effort=UNHURRIED)


def graph(
    name: str, computes: str, inputs: str, mechanism: str, citation: str, text: str, domain: Domain, tol: float
) -> Entry:
    """A record whose network is the graph of a formula."""
    return Entry(name, KIND, computes, inputs, mechanism, citation, partial(compiled, text, domain, tol))


def on(names: str, lower: float, upper: float) -> Domain:
    """The same interval for all of the names."""
    return dict.fromkeys(names.split(), (lower, upper))


JOINTS, LENGTHS = ["a", "b", "c", "d", "g", "h"], (1.0, 0.8, 0.6, 0.5, 0.3, 0.2)
ANGLES = ["+".join(JOINTS[: i + 1]) for i in range(len(JOINTS))]
ARM = (
    "["
    + ", ".join(" + ".join(f"{r}*{f}({a})" for r, a in zip(LENGTHS, ANGLES, strict=True)) for f in ("cos", "sin"))
    + "]"
)
TEN = [f"x[{i}]" for i in range(10)]
ROSENBROCK = " + ".join(f"100*({b} - {a}^2)^2 + (1 - {a})^2" for a, b in pairwise(TEN))
CALL = "S*normcdf((log(S/K) + (r + v^2/2)*T)/(v*sqrt(T))) - K*exp(-r*T)*normcdf((log(S/K) + (r - v^2/2)*T)/(v*sqrt(T)))"
TOTAL = "exp(a) + exp(b) + exp(c)"

ENTRIES = (
    graph(
        "gravity",
        "G m n / |x - a|^2 of two bodies in space: nine inputs",
        "G, m, n, a, b, c in [1, 2]; x, y, z in [3, 4]",
        "three layers: rows of anchors square the differences, a row takes the logarithm of their sum, two multipliers "
        "make G m n, and a head of two keys multiplies that by an exponential",
        f"{FEYNMAN}, I.9.18",
        "G*m*n/((x - a)^2 + (y - b)^2 + (z - c)^2)",
        on("G m n a b c", 1, 2) | on("x y z", 3, 4),
        1e-6,
    ),
    graph(
        "black_scholes",
        "the price of a European call option: five inputs",
        "S, K in [50, 150], r in [0.01, 0.1], v in [0.1, 0.5], T in [0.25, 2]",
        "six layers: logarithms by rows, products by multipliers, quotients and roots by exponentials of logarithms, "
        "the normal distribution function by a row, twice",
        "Black and Scholes 1973, Journal of Political Economy 81",
        CALL,
        on("S K", 50, 150) | {"r": (0.01, 0.1), "v": (0.1, 0.5), "T": (0.25, 2)},
        1e-3,
    ),
    graph(
        "robot_arm",
        "where the hand of a planar arm of six joints is: two outputs",
        "a, b, c, d, g, h in [-pi/2, pi/2], the angles of the joints",
        "one layer of twelve rows: a cosine and a sine along each partial sum of angles, added up by the output map",
        "forward kinematics; Craig 2005, Introduction to Robotics, chapter 3",
        ARM,
        on(" ".join(JOINTS), -math.pi / 2, math.pi / 2),
        1e-6,
    ),
    graph(
        "planck",
        "2 h n^3 / (c^2 (exp(h n/(k T)) - 1)), radiance of a black body",
        "h, n, c, k, T in [1, 5]",
        "four layers: five logarithms by rows, a row of 1/(exp(exp(s)) - 1) along their sum s, a multiplier by h, an "
        "exponential for n^3/c^2",
        "Planck 1901, Annalen der Physik 309",
        "2*h*n^3/c^2/(exp(h*n/(k*T)) - 1)",
        on("h n c k T", 1, 5),
        1e-3,
    ),
    graph(
        "velocity_addition",
        "(u + v)/(1 + u v/c^2), relativistic",
        "u, v in [0.1, 0.9], c in [1, 2]",
        "four layers: a multiplier, an exponential for 1/c^2, the logarithm of the denominator by a row, an "
        "exponential for the quotient",
        f"{FEYNMAN}, I.16.6",
        "(u + v)/(1 + u*v/c^2)",
        on("u v", 0.1, 0.9) | {"c": (1, 2)},
        1e-6,
    ),
    graph(
        "rosenbrock",
        "Rosenbrock's function of ten inputs",
        "x[0], ..., x[9] in [-2, 2]",
        "two layers of rows, which square: each input and its distance from 1, then each difference x[i + 1] - x[i]^2",
        "Rosenbrock 1960, The Computer Journal 3",
        ROSENBROCK,
        on(" ".join(TEN), -2, 2),
        1e-2,
    ),
    graph(
        "ackley",
        "Ackley's function of two inputs, with a cusp at 0",
        "x, y in [-5, 5]",
        "three layers: squares and cosines by rows, a root that reaches 0 as a sum of exponentials, an exponential",
        "Ackley 1987, A Connectionist Machine for Genetic Hillclimbing",
        "-20*exp(-0.2*sqrt((x^2 + y^2)/2)) - exp((cos(2*pi*x) + cos(2*pi*y))/2) + 20 + exp(1)",
        on("x y", -5, 5),
        1e-4,
    ),
    graph(
        "lorenz",
        "[10 (y - x), x (28 - z) - y, x y - 8 z/3], the vector field of Lorenz's attractor",
        "x in [-20, 20], y in [-30, 30], z in [0, 50]",
        "one layer of two multipliers; all else is linear and free",
        "Lorenz 1963, Journal of the Atmospheric Sciences 20",
        "[10*(y - x), x*(28 - z) - y, x*y - 8/3*z]",
        {"x": (-20, 20), "y": (-30, 30), "z": (0, 50)},
        1e-6,
    ),
    graph(
        "median",
        "the median of three numbers",
        "x, y, z in [-1, 1]",
        "max(min(x, y), min(max(x, y), z)) by four gates of two keys in three layers, exact to rounding",
        OURS,
        "max(min(x, y), min(max(x, y), z))",
        on("x y z", -1, 1),
        1e-12,
    ),
    graph(
        "largest_of_eight",
        "the largest of eight numbers",
        "a, b, c, d, g, h, p, q in [-1, 1]",
        "a tournament of seven gates in three layers",
        OURS,
        "max(max(max(a, b), max(c, d)), max(max(g, h), max(p, q)))",
        on("a b c d g h p q", -1, 1),
        1e-12,
    ),
    graph(
        "distance",
        "sqrt(x^2 + y^2 + z^2), which has no slope at 0",
        "x, y, z in [-1, 1]",
        "squares by rows; the root of what reaches 0 is a sum of exponentials with positive weights",
        OURS,
        "sqrt(x^2 + y^2 + z^2)",
        on("x y z", -1, 1),
        1e-5,
    ),
    graph(
        "softmax_of_three",
        "softmax(a, b, c), three outputs, computed by attention from the formula",
        "a, b, c in [-2, 2]",
        "three exponentials of two keys, the logarithm of their sum by a row, three exponentials of differences",
        "Bridle 1990, Probabilistic Interpretation of Feedforward Classification Network Outputs",
        f"[exp(a)/({TOTAL}), exp(b)/({TOTAL}), exp(c)/({TOTAL})]",
        on("a b c", -2, 2),
        1e-6,
    ),
    graph(
        "product_of_sixteen",
        "x[0] x[1] ... x[15]",
        "x[0], ..., x[15] in [0.5, 1.5]",
        "a binary tree of fifteen multipliers of nine keys, four layers deep",
        OURS,
        "*".join(f"x[{i}]" for i in range(16)),
        {f"x[{i}]": (0.5, 1.5) for i in range(16)},
        1e-9,
    ),
    graph(
        "wave_and_kink",
        "exp(-z^2) sin(3 x) + |x - y|",
        "x, y, z in [-1, 1]",
        "two layers: a row of anchors for -z^2, another for sin(3 x), a gate for |x - y|, and a head of two keys that "
        "multiplies the wave by the exponential: one head of every kind",
        OURS,
        "exp(-z^2)*sin(3*x) + abs(x - y)",
        on("x y z", -1, 1),
        1e-3,
    ),
)
