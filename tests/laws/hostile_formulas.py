"""Random formulas that hide what they mean from sampling, and what they mean in 50 digits.

A drawn formula is a tree of tuples. ``written`` writes it in the grammar; ``plain`` says what it is worth at a point,
by mpmath alone, or that it has no value there: it shares no line with the package.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath as mp

DIGITS = 50
NAMES = "xyz"
Tree = Any  # a number, a name, or (function, *trees)


class NoValueError(ArithmeticError):
    """The formula has no value there."""


def written(tree: Tree) -> str:
    """The formula in the grammar, every part in brackets."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, float):
        return repr(tree) if tree >= 0 else f"({tree!r})"
    function, *parts = tree
    texts = [written(part) for part in parts]
    if function == "where":
        return "where({} < {}, {}, {})".format(*texts)
    if function in ("+", "*", "/", "^", "-"):
        return "(" + f" {function} ".join(texts) + ")"
    return f"{function}({', '.join(texts)})"


def plain(tree: Tree, point: dict[str, float]) -> Any:
    """The value at a point in 50 digits; raises NoValueError where there is none."""
    if isinstance(tree, str):
        return mp.mpf(point[tree])
    if isinstance(tree, float):
        return mp.mpf(tree)
    function, *parts = tree
    if function == "where":
        u, v = (plain(part, point) for part in parts[:2])
        return plain(parts[2] if u < v else parts[3], point)
    return MEANING[function](*(plain(part, point) for part in parts))


def _needs(condition: bool) -> None:
    if not condition:
        raise NoValueError


def _quotient(u: Any, v: Any) -> Any:
    _needs(v != 0)
    return u / v


def _power(u: Any, v: Any) -> Any:
    whole = v == mp.floor(v)
    _needs((u > 0) or (u == 0 and v >= 0) or (u < 0 and whole))
    return mp.mpf(1) if v == 0 else mp.mpf(0) if u == 0 else mp.power(u, v)


def _root(u: Any) -> Any:
    _needs(u >= 0)
    return mp.sqrt(u)


def _log(u: Any) -> Any:
    _needs(u > 0)
    return mp.log(u)


def _arc(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def of(u: Any) -> Any:
        _needs(-1 <= u <= 1)
        return function(u)

    return of


def _angle(y: Any, x: Any) -> Any:
    _needs(x != 0 or y != 0)
    return mp.pi if y == 0 and x < 0 else mp.atan2(y, x)


def _product(*factors: Any) -> Any:
    return mp.fprod(factors)


MEANING: dict[str, Callable[..., Any]] = {
    "+": lambda *terms: mp.fsum(terms), "-": lambda u, v: u - v, "*": _product, "/": _quotient, "^": _power,
    "max": max, "min": min, "clamp": lambda u, a, b: min(max(u, a), b), "abs": abs,
    "relu": lambda u: max(u, mp.mpf(0)), "sign": mp.sign, "step": lambda u: (1 + mp.sign(u)) / 2, "sqrt": _root,
    "log": _log, "exp": mp.exp, "sin": mp.sin, "cos": mp.cos, "tanh": mp.tanh, "asin": _arc(mp.asin),
    "acos": _arc(mp.acos), "atan2": _angle, "hypot": mp.hypot, "softplus": lambda u: mp.log1p(mp.exp(u)),
    "sigmoid": lambda u: 1 / (1 + mp.exp(-u)),
}  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A formula to prove something of, the formula that a network is built for, and points worth looking at.

    ``built`` is the same tree where the target is compiled, and another one that is worth as much wherever the target
    has a value where a finished network is certified against the target.
    """

    target: Tree
    built: Tree
    domain: dict[str, tuple[float, float]]
    points: tuple[dict[str, float], ...]


class _Writer:
    """Draws parts of a formula, and remembers where they are worth a look."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = NAMES[: rng.choice((1, 2, 2, 3))]
        self.domain = {name: rng.choice(((-1.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (-0.5, 2.0))) for name in self.names}
        self.worth: dict[str, set[float]] = {name: {*ends, sum(ends) / 2, 0.0} for name, ends in self.domain.items()}

    def one(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def number(self) -> float:
        return self.one(0.0, 0.5, -0.5, 1.0, 0.25, round(self.rng.uniform(-1, 1), 4))

    def name(self) -> str:
        return self.one(*self.names)

    def inside(self, name: str) -> float:
        """A number of four digits in an input's interval, which points will have."""
        low, high = self.domain[name]
        found = round(self.rng.uniform(low, high), 4)
        self.worth[name].add(found)
        return found

    def calm(self) -> Tree:
        """A part without traps."""
        u = self.name()
        return self.one(u, u, ("*", self.number(), u), ("-", u, self.inside(u)), ("*", u, self.name()), ("sin", u))

    def zero(self) -> Tree:
        """What is zero everywhere, and does not look it."""
        u = self.calm()
        return self.one(("*", 0.0, u), ("-", u, u), ("*", u, 0.0), ("-", ("+", u, 1.0), ("+", 1.0, u)))

    def gap(self) -> Tree:
        """Positive but on a thin set, or nearly there: at points and ends."""
        u = self.name()
        low, high = self.domain[u]
        square = ("^", ("-", u, self.inside(u)), 2.0)
        return self.one(
            ("-", square, self.one(1e-10, 1e-8, 1e-6)),
            ("+", square, self.one(1e-3, 0.1)),
            square,
            ("-", u, low),
            ("-", high, u),
            ("-", u, low + 1e-9),
            ("-", ("+", high, 1e-3), u),
            ("+", ("*", u, u), 0.5),
        )

    def ends(self) -> Tree:
        """A clamp: ends in order, exchanged, equal, far away, or of which one is a part itself."""
        a = self.number()
        low, high = self.one((a, a + 0.5), (a + 0.5, a), (a, a), (-1e300, a), (a, 1e300), (1e300, -1e300), (-a, a))
        u = self.one(self.calm(), self.zero(), ("*", self.calm(), self.calm()))
        return self.one(("clamp", u, low, high), ("clamp", u, low, high), ("clamp", u, self.calm(), high))

    def ties(self) -> Tree:
        u, v, c = self.calm(), self.calm(), self.number()
        return self.one(
            ("max", u, u),
            ("max", u, c, u),
            ("min", ("max", u, v), v),
            ("max", u, ("*", -1.0, u)),
            ("min", u, ("+", u, 0.0), c),
            ("max", ("min", u, c), ("min", c, u)),
            ("max", c, c + 0.25),
            ("abs", self.zero()),
            ("relu", self.zero()),
            ("relu", ("max", u, c)),
        )

    def choices(self) -> Tree:
        u, v = self.calm(), self.calm()
        kink = self.name()
        c = self.inside(kink)
        return self.one(
            ("where", u, v, u, u),
            ("where", u, u, u, v),
            ("where", kink, c, ("-", c, kink), ("-", kink, c)),
            ("where", u, v, u, v),
            ("where", v, u, ("-", u, v), 0.0),
            ("where", kink, c, ("log", ("+", 3.0, kink)), ("log", c + 3.0)),
        )

    def jumps(self) -> Tree:
        """Functions that jump, where their argument does not vary or keeps its sign."""
        u = self.zero()
        return self.one(
            ("sign", u), ("step", u), ("*", ("sign", ("exp", self.calm())), self.calm()), ("atan2", u, -1.0),
            ("atan2", self.calm(), 2.0), ("*", ("step", ("+", 3.0, self.name())), self.name()), ("sign", self.gap()),
        )  # fmt: skip

    def powers(self) -> Tree:
        u, w = self.calm(), self.gap()
        return self.one(
            ("^", self.zero(), 2.0),
            ("^", self.zero(), 0.0),
            ("^", u, 0.0),
            ("^", ("abs", u), self.one(0.5, 1.5, 2.5)),
            ("^", ("*", u, u), 0.5),
            ("^", w, self.one(0.5, 1.5, -1.0, -2.0, 0.0)),
            ("^", ("exp", u), self.one(0.5, -1.0)),
            ("^", self.one(0.0, 1.0, 2.0), ("+", 3.0, self.name())),
        )

    def domains(self) -> Tree:
        """Functions at the ends of their natural domains."""
        u, w = self.name(), self.gap()
        low, high = self.domain[u]
        scaled = ("-", ("*", 2.0 / (high - low), u), (high + low) / (high - low))  # from -1 to 1
        return self.one(
            ("sqrt", w), ("log", w), ("/", self.calm(), w), ("asin", scaled), ("acos", scaled),
            ("asin", ("*", 1.0000001, scaled)), ("log", ("+", 1.0, self.zero())), ("sqrt", self.zero()),
            ("/", self.zero(), w), ("hypot", u, self.zero()), ("hypot", u, self.calm()), ("*", w, ("log", w)),
        )  # fmt: skip

    def still(self) -> Tree:
        """Functions of what is zero, or of a constant."""
        u = self.zero()
        inside = self.one(u, ("*", 0.0, ("max", 2.0, self.name())), ("*", 0.0, ("exp", self.calm())))
        return (self.one("exp", "sin", "cos", "tanh", "sigmoid", "softplus", "relu", "abs"), inside)

    def vanishing(self) -> tuple[Tree, Tree]:
        """A part that may have no value somewhere, and what it is worth elsewhere."""
        w, u = self.gap(), self.calm()
        return self.one(
            (("exp", ("log", w)), w),
            (("^", ("sqrt", w), 2.0), w),
            (("/", ("*", w, w), w), w),
            (("-", ("+", w, ("log", w)), ("log", w)), w),
            (("+", u, ("*", 0.0, ("log", w))), u),
            (("+", u, ("*", 0.0, ("/", 1.0, w))), u),
            (("+", u, ("*", ("*", 0.0, u), ("sqrt", w))), u),
            (("*", u, ("^", w, 0.5), ("^", w, -0.5)), u),
            (("log", ("exp", u)), u),
            (("max", u, ("-", ("min", u, ("sqrt", w)), ("abs", ("sqrt", w)))), u),
            (("*", u, ("exp", ("-", ("log", w), ("log", w)))), u),
            (("+", u, ("-", ("asin", ("+", 1.0, ("*", -1.0, w))), ("asin", ("-", 1.0, w)))), u),
        )

    def thin(self) -> Tree:
        """Zero but near a point of one or two inputs, where it is at most one."""
        steep = self.one(1e4, 1e6)
        axes = self.rng.sample(self.names, min(len(self.names), self.one(1, 1, 2)))
        humps = [("*", steep, ("^", ("-", name, self.inside(name)), 2.0)) for name in axes]
        return ("relu", ("-", self.one(0.01, 1.0), humps[0] if len(humps) == 1 else ("+", *humps)))

    def points(self) -> Iterator[dict[str, float]]:
        """Combinations of what is worth a look, their neighbours, and points at random."""
        wide = {name: sorted(self.near(name)) for name in self.names}
        for count in range(160):
            fine = wide if count % 2 else {name: sorted(self.within(name, self.worth[name])) for name in self.names}
            yield {name: self.rng.choice(fine[name]) for name in self.names}
        for _ in range(60):
            yield {name: self.rng.uniform(*self.domain[name]) for name in self.names}

    def near(self, name: str) -> set[float]:
        steps = (0.0, 1e-9, -1e-9, 1e-6, -1e-6, 1e-4, -1e-4, 3e-3, -3e-3)
        return self.within(name, {value + step for value in self.worth[name] for step in steps})

    def within(self, name: str, values: set[float]) -> set[float]:
        low, high = self.domain[name]
        return {value for value in values if low <= value <= high}


def drawn(seed: int) -> Drawn:
    """The formula of a seed."""
    w = _Writer(random.Random(seed))
    kinds = (w.ends, w.ends, w.ties, w.choices, w.jumps, w.powers, w.domains, w.still)
    if seed % 4 == 3:
        part, worth = w.vanishing()
        rest = w.one(w.calm(), ("*", ("sin", w.name()), w.name()), w.ends())
        hidden = w.one(True, False, False)
        factor = w.thin() if hidden else 1.0
        target, built = (("+", ("*", each, factor) if hidden else each, rest) for each in (part, worth))
    else:
        part = w.one(*kinds)()
        if w.rng.random() < 0.3:
            part = w.one(("*", part, w.one(*kinds)()), ("+", part, w.one(*kinds)()), ("tanh", part))
        shape = w.one("hidden", "hidden", "bare", "beside")
        target = ("*", part, w.thin()) if shape == "hidden" else part
        target = ("+", target, w.calm()) if shape != "bare" else target
        built = target
    used = {name for name in w.names if name in _names(target) | _names(built)} or {w.names[0]}
    w.names = "".join(name for name in w.names if name in used)
    if not _names(target):
        target = built = ("+", target, w.names[0])
    return Drawn(target, built, {name: w.domain[name] for name in w.names}, tuple(w.points()))


def _names(tree: Tree) -> set[str]:
    if isinstance(tree, str):
        return {tree}
    return set().union(*map(_names, tree[1:])) if isinstance(tree, tuple) else set()
