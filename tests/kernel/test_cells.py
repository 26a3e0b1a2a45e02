"""Covers: no gap whatever is cut, variables that hold every input, bounds above errors, and what a plan may ask for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from attnforge.errors import CertificateError
from attnforge.expression import parse
from attnforge.kernel import cells as kernel
from attnforge.kernel.bernstein import Largest
from attnforge.kernel.cells import PARTS, Block, Cover, Enclosure, cells, errors_on, parts_of
from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.kernel.plan import Plan, Variables
from attnforge.kernel.theorem import Domain, Formulas, Output, Run, Statement
from attnforge.network import Linear, Network, Term
from attnforge.outward import Up
from attnforge.proving.cells import prove_by_cells
from tests.kernel.subjects import NAMES, computed, largest_error, points_of, statement


def plain(stated: Statement, **how) -> Plan:
    """A plan of all outputs without first edges."""
    outputs = tuple(range(len(stated.target.outputs)))
    return replace(Plan(outputs, ((),) * stated.inputs, 4), **how)


def tripled(lower, upper, tree="3*x") -> Statement:
    """3 x in every input, against a formula of the first."""
    inputs = len(lower)
    network = Network((Linear((Term(3.0 * np.eye(inputs)),)),), inputs)
    target = Formulas((Output(0, 0, parse(tree), {"x": 0}),))
    return Statement(Run(network, "float64"), target, Domain(np.array([lower]), np.array([upper])))


def cut_at_random(cover: Cover, rng: np.random.Generator, rounds: int) -> Cover:
    for _ in range(rounds):
        some = rng.choice(cover.cells, size=min(len(cover.cells), 3), replace=False)
        cover.cut(some, rng.integers(0, cover.statement.inputs, size=len(some)), int(rng.integers(2, PARTS + 1)))
    return cover


def volume(lower, upper) -> Fraction:
    """The exact sum of the volumes of cells."""
    sides = [[Fraction(b) - Fraction(a) for a, b in zip(*cell, strict=True)] for cell in zip(lower, upper, strict=True)]
    return sum((Fraction(np.prod(np.array(cell, dtype=object))) for cell in sides), start=Fraction(0))


ENDS = [
    ([-1.0], [1.0]), ([0.1, -0.7], [0.3, 1e-3]), ([1.0, 0.0], [1.0 + 2.0**-50, 1e-300]), ([-1e300], [1.7e308]),
    ([-1.0], [2.0**-60]), ([-1.7e308], [1.7e308]), ([0.0, 0.5, -3.0], [5e-324, 0.5, 4.0]),
]  # fmt: skip


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_cells_fill_the_box_whatever_is_cut(ends, seed):
    """They lie in it, and their volumes add up to its own, exactly."""
    rng, (low, high) = np.random.default_rng(seed), map(np.array, ends)
    lower, upper, wide = low[None], high[None], low < high
    for _ in range(6):
        axes = rng.choice(np.flatnonzero(wide), size=len(lower))
        lower, upper = parts_of(lower, upper, axes, rng.integers(1, PARTS + 1, size=len(lower)))
        if len(lower) > 400:
            break
    assert (lower <= upper).all()
    assert (lower >= low).all()
    assert (upper <= high).all()
    assert volume(lower[:, wide], upper[:, wide]) == volume(low[None, wide], high[None, wide])


@pytest.mark.parametrize("seed", range(6))
def test_covers_keep_the_box_covered(seed):
    rng = np.random.default_rng(seed)
    stated = tripled([-1.0, 0.1], [1.0, 0.7])
    plan = plain(stated, edges=(tuple(sorted(rng.uniform(-1, 1, 3).tolist())), (0.1, 0.3, 0.3)), degree=1)
    cover = cut_at_random(Cover(stated, plan), rng, 8)
    lower, upper = cover.between(cover.cells)
    low, high = stated.domain.ends
    assert volume(lower, upper) == volume(low[None], high[None])


@pytest.mark.parametrize(
    "edges", [(2.0,), (-2.0,), (0.5, 0.25), (-1.0 - 2.0**-52,), (1.0 + 2.0**-52,), (np.nan,), (np.inf,)], ids=str
)
def test_edges_lie_in_the_box_in_order(edges):
    with pytest.raises(CertificateError):
        Cover(tripled([-1.0], [1.0]), Plan((0,), (edges,), 2))


@pytest.mark.parametrize("seed", range(20))
def test_the_box_of_a_form_holds_every_input(seed):
    rng = np.random.default_rng(seed)
    inputs, pivot = 4, int(rng.integers(4))
    weights = rng.normal(size=inputs) * 10.0 ** rng.integers(-20, 20, size=inputs)
    weights[pivot] = 1.0
    middle, reach = rng.normal(size=inputs) * 10.0 ** rng.integers(-9, 9, size=inputs), np.abs(rng.normal(size=inputs))
    domain = Domain((middle - reach)[None], (middle + reach)[None])
    plan = Plan((0,), ((),) * inputs, 1, pivot=pivot, weights=tuple(weights.tolist()))
    variables = Variables.of(plan, domain)
    for corner in np.ndindex(*(2,) * inputs):
        ends = [Fraction(domain.ends[side][i]) for i, side in enumerate(corner)]
        form = sum(Fraction(w) * x for w, x in zip(weights, ends, strict=True))
        assert variables.lower[pivot] <= form <= variables.upper[pivot]


@pytest.mark.parametrize("seed", range(10))
def test_models_of_inputs_hold_what_a_form_makes_of_them(seed):
    """At any point of a cell of the variables the pivot's model is near the exact form."""
    rng = np.random.default_rng(seed)
    weights = np.array([rng.normal(), 1.0, rng.normal()])
    domain = Domain(-np.ones((1, 3)), np.ones((1, 3)))
    plan = Plan((0,), ((),) * 3, 1, pivot=1, weights=tuple(weights.tolist()))
    variables, lower = Variables.of(plan, domain), rng.uniform(-1, 0, size=(5, 3))
    models = variables.inputs(degrees(3, 1), lower, lower + rng.uniform(0, 1, size=(5, 3)))
    low, high = models.range()
    for cell in range(5):
        points = lower[cell]
        form = Fraction(points[1]) - sum(Fraction(weights[i]) * Fraction(points[i]) for i in (0, 2))
        assert low[cell, 1] <= form <= high[cell, 1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("degree", [1, 3, 8])
def test_no_error_exceeds_the_bound_of_its_cell(name, degree):
    stated, rng = statement(name), np.random.default_rng(degree)
    cover = Cover(stated, plain(stated, degree=degree))
    cut_at_random(cover, rng, 6)
    lower, upper = cover.between(cover.cells)
    for low, high, bound in zip(lower, upper, cover.bounds(cover.cells), strict=True):
        shape = stated.domain.shape
        part = replace(stated, domain=Domain(low.reshape(shape), high.reshape(shape)))
        assert largest_error(part, points_of(part.domain, 60)) <= bound


@pytest.mark.parametrize("name", ["row", "gate"])
def test_forms_that_functions_do_not_follow_are_sound(name):
    """Variables are a matter of where to look: along a wrong form bounds are larger, not smaller."""
    stated = statement(name)
    right, wrong = (-0.5, 1.0), (0.75, 1.0)
    edges = ((), tuple(np.linspace(-2.9, 2.9, 30).tolist()))
    bounds = [
        cells(stated, [Cover(stated, plain(stated, edges=edges, pivot=1, weights=each))]).bound
        for each in (right, wrong)
    ]
    assert largest_error(stated) <= min(bounds)
    assert bounds[0] < bounds[1]


def test_the_largest_bound_of_any_output_and_cell_counts():
    stated, edges = statement("two outputs"), (tuple(np.linspace(-0.95, 0.95, 39).tolist()),)
    both = Cover(stated, plain(stated, edges=edges))
    first, second = (Cover(stated, plain(stated, edges=edges, outputs=(i,))) for i in range(2))
    assert cells(stated, [both]).bound == cells(stated, [first, second]).bound == second.bound > 0.2
    assert first.bound < 0.1
    for covers in ([first], [second], [], [first, first]):
        with pytest.raises(CertificateError):
            cells(stated, covers)


def test_covers_of_another_statement_prove_nothing():
    one, other = statement("fit"), tripled([-1.0], [1.0])
    with pytest.raises(CertificateError):
        cells(one, [Cover(other, plain(other))])


def test_a_function_that_is_not_defined_on_a_cell_has_no_bound():
    stated = tripled([-1.0], [1.0], "3*x + log(x - 1/2)*0")
    cover = Cover(stated, plain(stated))
    assert cover.bound == np.inf
    with pytest.raises(CertificateError):
        cells(stated, [cover])


@pytest.mark.parametrize(
    ("some", "axes", "parts"),
    [([0, 0], [0, 0], 2), ([1], [0], 2), ([-1], [0], 2), ([0], [1], 2), ([0], [-1], 2), ([0], [0], 1),
     ([0], [0], PARTS + 1)],
)  # fmt: skip
def test_only_cells_of_the_cover_are_cut(some, axes, parts):
    stated = tripled([-1.0], [1.0])
    cover = Cover(stated, plain(stated))
    with pytest.raises(CertificateError):
        cover.cut(np.array(some), np.array(axes), parts)
    assert cover.cells.tolist() == [0]


def test_a_cell_is_not_cut_twice():
    stated = tripled([-1.0], [1.0])
    cover = Cover(stated, plain(stated))
    parts = cover.cut(np.array([0]), np.array([0]), 3)
    assert cover.cells.tolist() == parts.tolist() == [1, 2, 3]
    with pytest.raises(CertificateError):
        cover.cut(np.array([0]), np.array([0]), 2)


def test_work_that_is_given_up_leaves_the_cover_as_it_was():
    class EnoughError(Exception):
        pass

    def observe(_):
        if len(blocks) == 1:
            raise EnoughError
        blocks.append(1)

    blocks: list[int] = []
    stated = tripled([-1.0], [1.0])
    cover = Cover(stated, plain(stated), observe)
    before = cover.bound
    with pytest.raises(EnoughError):
        cover.cut(np.array([0]), np.array([0]), 2)
    assert cover.cells.tolist() == [0]
    assert cover.bound == before


@pytest.mark.parametrize(
    "how",
    [
        {"degree": 0}, {"degree": 33}, {"degree": 2.0}, {"degree": True}, {"limits": (1,)}, {"limits": (0, 1)},
        {"outputs": ()}, {"outputs": (1,)}, {"outputs": (-1,)}, {"edges": ((),)}, {"edges": ((), (), ())},
        {"weights": (1.0,)}, {"weights": (0.5, 1.0)}, {"weights": (1.0, np.nan)}, {"pivot": 2}, {"pivot": -1},
        {"weights": (1.0, 1e308)}, {"far": -1.0}, {"far": np.nan}, {"far": np.inf}, {"lone": 1},
    ],
    ids=str,
)  # fmt: skip
def test_plans_are_checked(how):
    stated = tripled([-2.0, -2.0], [2.0, 2.0])
    with pytest.raises(CertificateError):
        Cover(stated, plain(stated, **how))


def test_limits_come_before_memory():
    stated = tripled([-1.0] * 6, [1.0] * 6)
    with pytest.raises(CertificateError):
        Cover(stated, plain(stated, degree=32))
    with pytest.raises(CertificateError):
        Cover(tripled([-1.0] * 3, [1.0] * 3), Plan((0,), ((),) * 3, 32))
    many = tuple(np.linspace(-0.9, 0.9, 2000).tolist())
    with pytest.raises(CertificateError):
        Cover(stated, plain(stated, edges=(many,) * 6))
    with pytest.raises(CertificateError):
        Cover(tripled([-1.0] * 17, [1.0] * 17), Plan((0,), ((),) * 17, 1))
    deep = tripled([-1.0], [1.0])
    with pytest.raises(CertificateError):
        errors_on(deep, plain(deep, degree=32), np.broadcast_to(-1.0, (2**29, 1)), np.broadcast_to(1.0, (2**29, 1)))


def test_limits_are_those_of_one_cell_and_of_all(monkeypatch):
    stated = tripled([-1.0], [1.0])
    monkeypatch.setattr(kernel, "CELLS", 4)
    cover = Cover(stated, plain(stated))
    parts = cover.cut(np.array([0]), np.array([0]), 3)
    with pytest.raises(CertificateError):
        cover.cut(parts[:1], np.array([0]), 2)
    monkeypatch.setattr(kernel, "NUMBERS", 4)
    with pytest.raises(CertificateError):
        Cover(stated, plain(stated))


@pytest.mark.parametrize(
    ("polynomial", "rest", "least"),
    [(1.0, 2.0**-60, np.nextafter(1.0, 2.0)), (np.nan, 0.0, np.inf), (0.0, np.inf, np.inf), (0.5, 0.25, 0.75)],
)
def test_bounds_are_rounded_up_and_nothing_is_known_of_what_is_no_number(polynomial, rest, least):
    table = degrees(1, 1)
    error = Models(table, np.zeros((2, 1)), Up(np.array([rest])))
    output = Output(0, 0, parse("x"), {"x": 0})
    enclosure = Enclosure(output, error, error, error, Largest(np.array([polynomial]), np.zeros(1), np.zeros((1, 1))))
    assert enclosure.bound[0] >= least
    assert Block(np.zeros((1, 1)), np.ones((1, 1)), (enclosure,)).bound[0] >= least


@pytest.mark.parametrize(
    "cuts", [[[1, 0]], [[]], [[1], [0]], [[1], [0, 0, 0]], [[7]], [[8]], [[-1]], [[1], [0, 0], [0]]]
)
def test_every_cell_of_a_level_has_one_code(cuts):
    stated = tripled([-1.0], [1.0])
    data = {"plan": plain(stated).data(), "cuts": cuts}
    if cuts == [[7]]:  # into eight parts
        assert len(Cover.replayed(stated, data).cells) == PARTS
        return
    with pytest.raises(CertificateError):
        Cover.replayed(stated, data)


def test_what_is_exact_and_what_is_rounding_add_up():
    for name in ("fit", "gate"):
        stated = statement(name)
        theorem = prove_by_cells(stated).theorem
        exact, rounding = theorem.parts["exact"], theorem.parts["rounding"]
        assert (rounding > exact) == (name == "gate")
        assert exact + rounding <= theorem.bound <= (exact + rounding) * (1 + 1e-12)
        assert name == "gate" or exact >= largest_error(stated)


def test_blocks_make_no_difference(monkeypatch):
    stated = statement("product")
    lower, upper = parts_of(*(end[None] for end in stated.domain.ends), np.array([0]), np.array([7]))
    whole = errors_on(stated, plain(stated), lower, upper)
    monkeypatch.setattr(kernel, "BLOCK", 1)
    assert np.allclose(errors_on(stated, plain(stated), lower, upper), whole, rtol=1e-12, atol=0)


def test_the_run_that_is_bounded_is_one_of_the_dtype():
    stated = statement("gate")
    points, double = points_of(stated.domain), Run(stated.run.network, "float64")
    assert np.abs(computed(stated.run, points) - computed(double, points)).max() > 1e-4
    assert Cover(stated, plain(stated)).bound >= largest_error(stated)
