"""Where formulas have values: never where they have none, and on cells where one interval does not tell."""

from __future__ import annotations

import random

import mpmath as mp
import pytest
from flint import arb

from attnforge.errors import CertificateError
from attnforge.expression import parse
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import Interval
from attnforge.kernel.defined import box_of, cover, defined, is_finite, is_not_negative, is_positive, joined
from tests.laws import hostile_formulas as hostile

WHOLE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}


@pytest.mark.parametrize(
    "text",
    ["log(x^2 - x + 1)", "1/(x*x - x*y + y*y + 0.1)", "sqrt(x^2)", "asin(x)", "sqrt(1 - abs(x))",
     "where(x < 0.125, 1, 1/x)", "gamma(x + 1.5)", "tan(x)", "atan2(y, x + 1.001)", "log(1 + 1e-9 - x*y)", "sign(x)"],
)  # fmt: skip
def test_has_values(text):
    assert defined(parse(text), WHOLE)


@pytest.mark.parametrize(
    "text",
    ["log(x)", "exp(log(x + 1))", "x/x", "sqrt((x - 0.2)^2 - 1e-10)", "0*(1/x)", "sqrt(x)^2", "log(x) - log(x)",
     "asin(1.0000001*x)", "x^0.5", "x^-1", "(-1)^0.5 + 0*x", "where(x < 0, log(x), 1)", "gamma(x)", "tan(2*x)",
     "atan2(y, x)", "1/(x - y)", "where(x < 0.1, 1, 1/(x - 0.1))"],
)  # fmt: skip
def test_has_no_value_somewhere(text):
    assert not defined(parse(text), WHOLE)


@pytest.mark.parametrize("part", range(4))
def test_hostile_formulas_with_values_have_them(part):
    """At special points and at random, in 50 digits."""
    shown = 0
    for seed in range(part, 300, 4):
        case = hostile.drawn(seed)
        if defined(parse(hostile.written(case.target)), case.domain, cells=200):
            shown += 1
            with mp.workdps(hostile.DIGITS):
                for point in case.points[::4]:
                    assert mp.isfinite(hostile.plain(case.target, point)), hostile.written(case.target)
    assert shown > 30


@pytest.mark.parametrize("seed", range(20))
def test_cells_cover_the_box_and_hold_all_values(seed):
    rng = random.Random(seed)
    tree = parse(rng.choice(["x*y - x + 0.8", "sin(3*x)*y + 1.1", "(x - y)^2 + 1e-2", "x^2 - x*y + y^2 + 0.05"]))
    cells: list[dict[str, Interval]] = []

    def within(cell):
        cells.append(cell)
        return bounds(tree, cell)

    found = cover(within, is_positive, box_of(WHOLE), ("x", "y"), 4000)
    if found is None:
        return
    whole, lasting = joined(found), [cell for cell in cells if is_positive(bounds(tree, cell)) and _is_wide(cell)]
    for _ in range(200):
        point = {name: arb(rng.uniform(-1, 1)) for name in "xy"}
        at = bounds(tree, {name: Interval(x, x) for name, x in point.items()})
        assert whole.lower <= at.lower <= at.upper <= whole.upper
        assert any(all(cell[name].lower <= x <= cell[name].upper for name, x in point.items()) for cell in lasting)


def _is_wide(cell):
    return all(side.lower < side.upper for side in cell.values())


@pytest.mark.parametrize(
    ("text", "positive", "not_negative"),
    [("x^2 + 0.1", True, True), ("abs(x) + abs(y)", False, True), ("x", False, False), ("x - 1", False, False)],
)
def test_signs(text, positive, not_negative):
    tree, box = parse(text), box_of(WHOLE)
    cells = [cover(lambda cell: bounds(tree, cell), f, box, "xy") for f in (is_positive, is_not_negative)]
    assert [cell is not None for cell in cells] == [positive, not_negative]


def test_cells_run_out_and_a_wrong_box_is_refused():
    assert not defined(parse("log(x^2 - x + 1)"), WHOLE, cells=1)
    assert not is_finite(joined(None))
    assert not is_finite(Interval(arb(0), arb.pos_inf()))
    for sides in ({"x": (1.0, 0.0)}, {"x": (0.0, float("inf"))}, {}):
        with pytest.raises(CertificateError):
            defined(parse("x"), sides)
