r"""Is the sharpness right? Turned up and down, scores multiplied by $\lambda$, does the error fall?

This asks the network itself instead of a formula: a fitted head is best as it is, a tuned row too ($E(c)$ has its
minimum at c = 2.7), a row that is too soft improves as $\lambda$ grows until it is tuned. An error that falls by a
factor 4 is a warning, by 10 a fault: *uniform attention*, sharpness too low. The factor 4 leaves alone what differs in
kind only: the row with the smallest mean square error, c = 1.4, has a sup error 3.2 times that at c = 2.7. On coarse
grids no sharpness is good, and errors cannot fall that far; where the weight is spread over half of the keys
($e^H \ge N/2$), a factor 2 is a warning. Where the target hardly changes on the domain, sharper attention may win by
giving one key all: a constant. What gains no more than a constant would says nothing about selection: it is left alone.

The reverse, an error that falls when scores are softened, is the staircase of a hard row, 8 times the tuned error. It
is what the papers build, so it is a note, unless the head claims to be softer than it is
(:mod:`.claims`): then it is *interpolation drift*, and a fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attnforge.measurement.diagnosis.findings import Finding, Place, Severity
from attnforge.measurement.diagnosis.subject import Subject, attention_index, run, sharpened, sites
from attnforge.network import Attention
from attnforge.outward import machine

Array = npt.NDArray[np.float64]

WARNING, FAULT = 4.0, 10.0  # by how much the error falls
DIFFUSE_WARNING, HALF = 2.0, 0.5  # the same where a head looks at half of its keys
TURN = 2.0  # factor between two sharpnesses tried
FAR = 4  # turns at once where the error hardly moves: nearly uniform attention, or a staircase
FLAT, IDLE = 0.05, 6  # less change than this is no movement; so often, and the search ends
MOST_TURNS = 20
PATIENCE = 2  # turns with a larger error
CONSTANT = 0.8  # of the error of the best constant, half the target's range: to be better is to select
NEGLIGIBLE = 1e-11  # of the target's range: rounding
MOST_SITES = 8


def sharpness_findings(
    subject: Subject,
    points: Array,
    sharpness: Callable[[int], float | None],
    claimed: Callable[[int], bool],
    spread: Callable[[int], float],
) -> list[Finding]:
    """Layers whose error falls when their scores are multiplied.

    ``sharpness`` gives c of a layer of attention as seen, where it is known; ``claimed`` whether its heads claim to be
    softer than they are; ``spread`` the largest share of its keys that a head of it effectively looks at.
    """
    wanted = subject.wanted(points)
    now = _error(subject, subject.errors(points, wanted))
    size = float(np.abs(np.where(np.isfinite(wanted), wanted, 0.0)).max(initial=0.0))
    plain = CONSTANT * _half_range(wanted)
    floor = size * max(NEGLIGIBLE, machine(subject.dtype).roundoff)  # the dtype cannot do better
    if not (now > WARNING * floor and math.isfinite(now)):
        return []
    findings = []
    for site in sites(subject.network)[:MOST_SITES]:

        def error(factor: float, site: int = site) -> float:
            with np.errstate(all="ignore"):
                found = subject.errors(points, wanted, sharpened(subject.network, site, factor))
                return max(floor, _error(subject, found))

        layer = attention_index(subject.network, site)
        where = Place(layer if isinstance(subject.network.layers[site], Attention) else None)
        c = sharpness(layer) if where.layer is not None else None
        share = spread(layer) if where.layer is not None else _share(subject, points, site)
        least = DIFFUSE_WARNING if share >= HALF else WARNING
        found = _too_soft(where, error, now, c, least, plain) or _too_sharp(where, error, now, c, claimed(layer))
        findings += [found] if found else []
    return findings


def _too_soft(
    where: Place, error: Callable[[float], float], now: float, c: float | None, least: float, plain: float
) -> Finding | None:
    factor, best = _best(error, TURN, now)
    gain = now / best
    if gain < least or best >= plain:
        return None
    severity: Severity = "fault" if gain >= FAULT else "warning"
    evidence = {"error now": now, f"error with scores times {factor:g}": best, "falls by": gain}
    said = ""
    if c is not None:
        evidence |= {"c now": c, "c then": c * factor}
        said = f" (c = beta h^2 = {c:.3g}, where {c * factor:.3g} is better)"
    cause = f"The sharpness is too low{said}: weight spreads over keys far from the query"
    remedy = f"Multiply the sharpness (the query map) by about {factor:g}"
    return Finding("uniform attention", severity, where, evidence, cause, remedy)


def _too_sharp(
    where: Place, error: Callable[[float], float], now: float, c: float | None, claims_softer: bool
) -> Finding | None:
    factor, best = _best(error, 1 / TURN, now)
    gain = now / best
    if gain < WARNING:
        return None
    evidence = {"error now": now, f"error with scores times {factor:g}": best, "falls by": gain}
    evidence |= {} if c is None else {"c now": c, "c then": c * factor}
    if claims_softer:
        cause = "The row snaps to its anchors where a smooth transition was built: scores are sharper than claimed"
        remedy = f"Multiply the query map by {factor:g}"
        return Finding("interpolation drift", "fault", where, evidence, cause, remedy)
    cause = "The output is a staircase: hard selection, one value for each anchor or cell"
    remedy = (
        f"Nothing to do if a staircase is meant; with scores times {factor:g} the error is {gain:.2g} times smaller"
    )
    return Finding("interpolation drift", "note", where, evidence, cause, remedy)


def _best(error: Callable[[float], float], turn: float, now: float) -> tuple[float, float]:
    """The factor, a power of ``turn``, with the smallest error, searched until it stops falling."""
    factor, best, worse, still, tried, last = 1.0, now, 0, 0, 1.0, now
    for _ in range(MOST_TURNS):
        tried *= turn if still == 0 else turn**FAR
        before, last = last, error(tried)
        still = still + 1 if abs(last - before) <= FLAT * before else 0
        worse = worse + 1 if last > (1 + FLAT) * best else 0
        if last < best:
            factor, best = tried, last
        if worse >= PATIENCE or still >= IDLE:
            break
    return factor, best


def _share(subject: Subject, points: Array, site: int) -> float:
    """The share of the features that a softmax over features effectively looks at."""
    before = replace(subject.network, layers=subject.network.layers[:site])
    scores = run(before, *subject.inputs(points[:64]))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    entropy = -(weights * np.log(np.maximum(weights, np.finfo(np.float64).tiny))).sum(axis=-1)
    return float(np.exp(np.median(entropy)) / scores.shape[-1])


def _half_range(wanted: Array) -> float:
    """Half the range of the output that has the largest: the largest error of the best constants."""
    flat = np.where(np.isfinite(wanted), wanted, np.nan).reshape(len(wanted), -1)
    spans = np.nanmax(flat, axis=0, initial=-np.inf) - np.nanmin(flat, axis=0, initial=np.inf)
    return float(np.max(spans, initial=0.0)) / 2


def _error(subject: Subject, errors: Array) -> float:
    """The largest error, or the mean one where the target is only integrable."""
    errors = errors[~np.isnan(errors)] if subject.norm != "sup" else np.nan_to_num(errors, nan=np.inf)
    if not len(errors):
        return 0.0
    return float(errors.max()) if subject.norm == "sup" else float(np.mean(errors[np.isfinite(errors)]))
