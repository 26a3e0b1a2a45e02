"""What to write instead of a function that the parser does not know: its formula, or the name that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from string import ascii_lowercase, digits

JUMPS = "; it jumps, and attention is continuous: for domains without a jump only"
WRITTEN = {
    "ceil": "-floor(-x)",
    "ceiling": "-floor(-x)",
    "round": "floor(x + 1/2)",
    "rint": "floor(x + 1/2)",
    "trunc": "sign(x)*floor(abs(x))",
    "int": "sign(x)*floor(abs(x))",
    "mod": "x - y*floor(x/y)",
    "fmod": "x - y*floor(x/y)",
    "frac": "x - floor(x)",
    "fract": "x - floor(x)",
    "heaviside": "step(x)",
    "sgn": "sign(x)",
    "signum": "sign(x)",
    "if": "where(x < 0, -x, x)",
    "ifelse": "where(x < 0, -x, x)",
    "piecewise": "where(x < 0, -x, x)",
    "clip": "clamp(x, -1, 1)",
    "minimum": "min(x, y)",
    "maximum": "max(x, y)",
    "fabs": "abs(x)",
    "absolute": "abs(x)",
    "pow": "x^y",
    "power": "x^y",
    "square": "x^2",
    "root": "sqrt(x)",
    "squareroot": "sqrt(x)",
    "cbrt": "x^(1/3)",
    "log2": "log(x)/log(2)",
    "log10": "log(x)/log(10)",
    "log1p": "log(1 + x)",
    "exp2": "2^x",
    "expm1": "exp(x) - 1",
    "expit": "sigmoid(x)",
    "logistic": "sigmoid(x)",
    "logit": "log(x/(1 - x))",
    "cosine": "cos(x)",
    "tg": "tan(x)",
    "cot": "cos(x)/sin(x)",
    "ctg": "cos(x)/sin(x)",
    "sec": "1/cos(x)",
    "csc": "1/sin(x)",
    "asinh": "log(x + sqrt(x^2 + 1))",
    "arcsinh": "log(x + sqrt(x^2 + 1))",
    "acosh": "log(x + sqrt(x^2 - 1))",
    "arccosh": "log(x + sqrt(x^2 - 1))",
    "atanh": "log((1 + x)/(1 - x))/2",
    "arctanh": "log((1 + x)/(1 - x))/2",
    "leaky_relu": "max(x, 0.01*x)",
    "elu": "where(x < 0, exp(x) - 1, x)",
    "factorial": "gamma(x + 1)",
}
LETTERS = ascii_lowercase + digits + "_"


def instead_of(name: str, known: Collection[str]) -> str | None:
    """A remedy for an unknown function; None where nothing comes near it, as of a product without its sign.

    >>> instead_of("sine", ["asin", "sin"]), instead_of("log2", ["log"]), instead_of("foo", ["floor"])
    ('Did you mean `sin`?', 'Write `log(x)/log(2)`', None)
    """
    word = name.lower()
    if word in WRITTEN:
        return f"Write `{WRITTEN[word]}`{JUMPS if _jumps(WRITTEN[word]) else ''}"
    slips = _slips(word) if 1 < len(word) <= 20 else set()
    close = difflib.get_close_matches(word, [each for each in known if each in slips], n=1, cutoff=0.0)
    return f"Did you mean `{close[0]}`?" if close else None


def _jumps(formula: str) -> bool:
    return any(f"{name}(" in formula for name in ("floor", "step", "sign"))


def _slips(word: str) -> set[str]:
    """The word, and all that differ from it by a letter left out, added, replaced, or exchanged with its neighbour."""
    halves = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    left_out = {a + b[1:] for a, b in halves if b}
    exchanged = {a + b[1] + b[0] + b[2:] for a, b in halves if len(b) > 1}
    replaced = {a + letter + b[1:] for a, b in halves if b for letter in LETTERS}
    added = {a + letter + b for a, b in halves for letter in LETTERS}
    return {word, *left_out, *exchanged, *replaced, *added}
