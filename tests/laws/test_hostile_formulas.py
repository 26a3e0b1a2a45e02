"""No false proof of a formula, wherever it hides a part from sampling."""

import os
import warnings

import mpmath as mp
import numpy as np
import pytest

import attnforge as af
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


NO_VALUES_TIMES_ZERO = 471  # asin(u) - asin(u) beyond 1, behind a factor that is zero there


@pytest.mark.parametrize("seed", sorted({*range(EXAMPLES), NO_VALUES_TIMES_ZERO}))
def test_what_is_proved_holds_in_fifty_digits(seed, record_property, clock):
    case, clock.tick = hostile.drawn(seed), 1.0
    outcome = judged(case)
    record_property("outcome", outcome)
    assert not outcome.startswith("wrong"), f"{hostile.written(case.target)} on {case.domain}: {outcome}"


THIN = ("-", ("^", ("-", "x", 0.2371), 2.0), 1e-10)
BESIDE = ("*", ("sin", "y"), "z")
CUBE = dict.fromkeys("xyz", (-1.0, 1.0))
CENTRE = {"x": 0.2371, "y": 0.5, "z": 0.5}


@pytest.mark.parametrize("part", [("exp", ("log", THIN)), ("^", ("sqrt", THIN), 2.0)], ids=["log", "root"])
def test_the_law_of_values_can_fail(part, monkeypatch):
    """The square is negative on a thin set: what cancels there is proved only if values are taken for granted."""
    case = hostile.Drawn(("+", part, BESIDE), ("+", THIN, BESIDE), CUBE, (CENTRE,))
    assert judged(case) == "refused"
    monkeypatch.setattr("attnforge.certification.graph.prove.has_values", lambda *given: True)
    assert judged(case).startswith("wrong: proved")


def test_the_law_of_conditions_can_fail(monkeypatch):
    """The arc has no values for y close to 1: the bound is about the others, and is not called proved."""
    tree = ("*", ("asin", ("*", 1.0000001, "y")), "x")
    case = hostile.Drawn(tree, tree, {"x": (-1.0, 1.0), "y": (0.0, 1.0)}, ({"x": 0.5, "y": 1.0},))
    assert judged(case) in ("conditional", "refused")
    monkeypatch.setattr("attnforge.certification.graph.prove._check_defined", lambda *given: ())
    assert judged(case).startswith("wrong: proved")
