"""No false proof of a formula, wherever it hides a part from sampling; and one meaning of every part, node by node."""

import os
import warnings
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from flint import arb

import attnforge as af
from attnforge.balls import precision
from attnforge.certification.graph import prove
from attnforge.targets.expression import parse
from attnforge.targets.expression.evaluate import at_point, bounds, evaluate
from attnforge.targets.expression.functions import FUNCTIONS
from attnforge.targets.expression.intervals import Interval, is_undefined
from attnforge.targets.expression.tree import joined
from tests.laws import hostile_formulas as hostile

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "80"))
SECONDS = 200  # of a compile, and of a certificate: looks at the clock, where one is drawn at random
TOLERANCE = 1e-2


@pytest.fixture(autouse=True)
def fifty_digits(clock):
    with mp.workdps(hostile.DIGITS):
        yield


def value(tree, point):
    """In 50 digits; None where there is none."""
    try:
        return hostile.plain(tree, point)
    except hostile.NoValueError:
        return None


def certified(case):
    net = af.compile(hostile.written(case.built), case.domain, tol=TOLERANCE, timeout=SECONDS)
    if case.built is case.target:
        return net, net.certificate
    return net, af.certify(net.network, hostile.written(case.target), case.domain, timeout=SECONDS)


def judged(case) -> str:
    """What became of a formula: a status, or refused; or a sentence that says what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            net, certificate = certified(case)
    except af.AttnforgeError as error:
        sentence = isinstance(error, af.RefusalError | TimeoutError) or (error.requirement and error.got)
        return "refused" if sentence else f"wrong: a refusal without its parts: {error!r}"
    except Exception as error:  # what the law forbids
        return f"wrong: {type(error).__name__}: {error}"
    if certificate.bound is None:
        return certificate.status
    outputs = np.asarray(net(np.array([list(point.values()) for point in case.points])))
    somewhere = any("has values where" in text for text in certificate.assumptions)
    for point, output in zip(case.points, outputs.ravel().tolist(), strict=True):
        exact = value(case.target, point)
        if exact is None and certificate.status == "conditional" and somewhere:
            continue
        if exact is None:
            return f"wrong: {certificate.status} {certificate.bound:g} of what has no value at {point}"
        if not abs(output - exact) <= certificate.bound:
            return f"wrong: {certificate.status} {certificate.bound:g}, off by {mp.nstr(output - exact, 4)} at {point}"
    return certificate.status


def meanings(tree, point):
    """What the package takes a part for at a point: in float64, as a ball, as an interval."""
    node = parse(hostile.written(tree))
    (ball,) = at_point(joined([node]), {name: arb(v) for name, v in point.items()})
    interval = bounds(node, {name: Interval(arb(v), arb(v)) for name, v in point.items()})
    return float(evaluate(node, point)), ball, interval


def differing(case) -> list[str]:
    """The parts of a formula that the package and 50 digits take for different things."""
    found = []
    for tree in filter(hostile.is_call, hostile.parts(case.target)):
        for point in case.points[:24]:
            exact = value(tree, point)
            with precision(200):
                if not agrees(tree, point, exact):
                    meant = ", ".join(map(str, meanings(tree, point)))
                    found.append(f"{hostile.written(tree)} at {point}: {meant}, not {exact}")
                    break
    return found


def agrees(tree, point, exact) -> bool:
    """Whether the package's three readings of a part agree with its exact value, or with there being none."""
    number, ball, interval = meanings(tree, point)
    if exact is None:
        return not ball.is_finite() and is_undefined(interval)
    wanted = arb(exact, abs(exact) * 1e-40 + 1e-40)
    if ball.is_finite() and not ball.overlaps(wanted):
        return False
    if not is_undefined(interval) and not (interval.lower <= wanted.upper() and interval.upper >= wanted.lower()):
        return False
    largest = max(1, *(abs(value(part, point) or 0) for part in hostile.parts(tree)))
    return not np.isfinite(number) or hostile.is_steep(tree) or abs(number - exact) <= 1e-9 * largest


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_what_is_proved_holds_in_fifty_digits(seed, record_property, clock):
    case, clock.tick = hostile.drawn(seed), 1.0
    outcome = judged(case)
    record_property("outcome", outcome)
    assert not outcome.startswith("wrong"), f"{hostile.written(case.target)} on {case.domain}: {outcome}"


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_every_part_has_one_meaning(seed):
    assert not differing(hostile.drawn(seed))


THIN = ("-", ("^", ("-", "x", 0.2371), 2.0), 1e-10)
BESIDE = ("*", ("sin", "y"), "z")
CUBE = dict.fromkeys("xyz", (-1.0, 1.0))
CENTRE = {"x": 0.2371, "y": 0.5, "z": 0.5}


@pytest.mark.parametrize("part", [("exp", ("log", THIN)), ("^", ("sqrt", THIN), 2.0)], ids=["log", "root"])
def test_the_law_of_values_can_fail(part, monkeypatch):
    """The square is negative on a thin set: what cancels there is proved only if values are taken for granted."""
    case = hostile.Drawn(("+", part, BESIDE), ("+", THIN, BESIDE), CUBE, (CENTRE,))
    assert judged(case) == "refused"
    monkeypatch.setattr(prove, "has_values", lambda *given: True)
    assert judged(case).startswith("wrong: proved")


def test_the_law_of_conditions_can_fail(monkeypatch):
    """The arc has no values for y close to 1: the bound is about the others, and is not called proved."""
    tree = ("*", ("asin", ("*", 1.0000001, "y")), "x")
    case = hostile.Drawn(tree, tree, {"x": (-1.0, 1.0), "y": (0.0, 1.0)}, ({"x": 0.5, "y": 1.0},))
    assert judged(case) in ("conditional", "refused")
    monkeypatch.setattr(prove, "_check_defined", lambda *given: ())
    assert judged(case).startswith("wrong: proved")


def test_the_law_of_one_meaning_can_fail(monkeypatch):
    """A clamp with exchanged ends is its upper one; NumPy's clip, with ends in order, is another function."""
    tree = ("clamp", "x", 0.5, -0.5)
    case = hostile.Drawn(tree, tree, {"x": (-1.0, 1.0)}, ({"x": 0.0},))
    assert not differing(case)
    other = replace(FUNCTIONS["clamp"], array=lambda u, a, b: np.maximum(np.minimum(u, b), a))
    monkeypatch.setitem(FUNCTIONS, "clamp", other)
    assert differing(case)
