"""Formulas as models: their values at points of cells, in balls of 400 bits, lie in them; at points almost alone."""

from __future__ import annotations

import os

import numpy as np
import pytest
from flint import arb

from attnforge.expression import enclose, parse
from attnforge.kernel.degrees import degrees
from attnforge.kernel.formula import formula_models, pair
from attnforge.kernel.models import Models
from attnforge.outward import precision

CELLS = int(os.environ.get("ATTNFORGE_EXAMPLES", "10"))
TABLES = [degrees(2, 5), degrees(2, 7, (6, 1)), degrees(2, 1), degrees(2, 3, (3, 1), lone=True), degrees(2, 4, (0, 4))]
SMOOTH = [
    "x*y + x^3 - 2*y^2 + pi*x^5 - e/3", "exp(-(x^2 + y^2)/0.3)*cos(3*y)", "1/(3 + x - y^2)", "sqrt(4 + x*y)/7",
    "log(3 + x + y)*tanh(x - 2*y)", "(3 + x)^1.5/(2 + y)^2", "(2 + x^2)^y", "sin(8*x)*exp(y) + erf(x - y)",
    "atan2(x, 4 + y) + atan2(4 + x, y) - atan2(x - 4, y)", "hypot(x, y, 2) + unit(x, y, 2)", "sigmoid(9*x) - gelu(y)",
    "lgamma(2 + y/4)*besselj0(3*x)", "x/1e-160*1e-160 + y*1e200/1e200",
]  # fmt: skip
KINKED = [
    "abs(x - y/2)", "max(x, y, x*y)", "clamp(2*x - y, -1, 1)^2", "min(x, relu(y)) + tanh(x)", "sign(x)*step(y)",
    "where(x < 0, 1/(x - 2), log(1 + x))", "abs(abs(x) - 0.25)/3", "sqrt(1 + x)^3",
]  # fmt: skip


def random_cells(rng):
    """Cells of many sizes in [-1, 1]^2, points among them, and some that end at zero."""
    radius = rng.choice([0.0, 1e-9, 1e-4, 0.02, 0.3], size=(CELLS, 1)) * np.ones((1, 2))
    middle = np.clip(rng.uniform(-1, 1, size=(CELLS, 2)), -1 + radius, 1 - radius)
    middle[::5] = radius[::5]
    return middle - radius, middle + radius


def modelled(text, lower, upper, table):
    inputs = Models.variables(table, lower, upper)
    with np.errstate(all="ignore"):
        return inputs, formula_models(parse(text), {name: inputs[:, i] for i, name in enumerate("xy")})


def at_point(model, cell, t):
    """The polynomial's value, low parts included."""
    total = arb(float(np.broadcast_to(model.centre.lo, model.shape)[cell]))
    for exponent, c in zip(model.table.exponents.tolist(), model.c[:, cell].tolist(), strict=True):
        term = arb(c)
        for x, power in zip(t, exponent, strict=True):
            term *= arb(x) ** power
        total += term
    return total


@pytest.mark.parametrize("table", TABLES, ids=str)
@pytest.mark.parametrize("text", SMOOTH + KINKED)
def test_values_lie_in_the_models(text, table):
    rng = np.random.default_rng(len(text))
    lower, upper = random_cells(rng)
    inputs, found = modelled(text, lower, upper, table)
    known = 0
    with precision(400):
        for cell in range(CELLS):
            for t in ([0.0, 0.0], rng.choice([-1.0, 1.0], size=2).tolist(), rng.uniform(-1, 1, size=2).tolist()):
                at = {n: at_point(inputs[:, i], cell, t) + arb(float(inputs.remainder.values[cell, i])) * arb(t[i])
                      for i, n in enumerate("xy")}  # fmt: skip
                exact, bound = enclose(parse(text), at), float(found.remainder.values[cell])
                if exact.is_finite() and np.isfinite(bound):
                    known += 1
                    assert abs(exact - at_point(found, cell, t)).lower() <= bound
    assert known > CELLS


@pytest.mark.parametrize("text", SMOOTH)
def test_at_points_almost_nothing_is_left_out(text):
    points = np.random.default_rng(1).uniform(-1, 1, size=(CELLS, 2))
    _, found = modelled(text, points, points, degrees(2, 3))
    assert (found.remainder.values <= 2.0**-70 * (1 + np.abs(found.c[0]))).all()
    for radius in (1e-3, 1e-4):
        _, found = modelled(text, points - radius, points + radius, degrees(2, 5))
        assert np.median(found.remainder.values) <= 3e4 * (20 * radius) ** 6 + 1e3 * radius * 2.0**-53


@pytest.mark.parametrize("text", ["pi", "e"])
def test_constants_are_two_numbers_and_what_these_leave_out(text):
    points = np.zeros((1, 2))
    _, found = modelled(text, points, points, degrees(2, 1))
    with precision(400):
        miss = abs(enclose(parse(text), {}) - at_point(found, 0, [0.0, 0.0]))
    assert miss.lower() > 0
    assert miss.lower() <= found.remainder.values[0] <= 2.0**-104


def test_balls_as_pairs():
    rng = np.random.default_rng(2)
    with precision(128):
        values = [arb.pi(), arb(1) / 3, arb(0), arb(5), arb(2) ** -1074, arb(2) ** -1200, arb(1e300) / 7]
        values += [arb(float(m), float(r)) for m, r in zip(rng.normal(size=50), rng.uniform(size=50) ** 9, strict=True)]
        for value in values:
            hi, lo, radius = pair(value)
            whole = arb(hi) + arb(lo)
            assert value.upper() <= (whole + arb(radius)).upper()
            assert (whole - arb(radius)).lower() <= value.lower()
            assert value.rad() > 0 or radius <= abs(hi) * 2.0**-104 + 2.0**-1073
        assert pair(arb(5)) == (5.0, 0.0, 0.0)
        assert not np.isfinite(pair(arb.nan())[2])
        assert not np.isfinite(pair(arb(10) ** 400)[2])


@pytest.mark.parametrize("text", ["asin(1 + 1e-9 - x)*relu(-1 - x)", "(asin(1.1 - x) - asin(1.1 - x))*step(-1 - x)"])
def test_zero_times_what_has_no_value_is_not_known(text):
    for table in (degrees(1, 6), degrees(1, 1)):
        inputs = Models.variables(table, np.zeros((1, 1)), np.full((1, 1), 0.01))
        assert not np.isfinite(formula_models(parse(text), {"x": inputs[:, 0]}).size().values).any()
