"""Sums that provers bound, against runs with all that is allowed: registers, linear maps, examples, eigenvalues."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

import attnforge as af
from attnforge.balls import MACHINES, Balls, Up, machine, round_to
from attnforge.certification.bracket import cut, distance
from attnforge.certification.graph.blocks import Blocks
from attnforge.certification.in_context.aggregation import LANES, summation
from attnforge.certification.in_context.spectral import Commuting, cells, eigenvalues
from attnforge.certification.known_answers import Subject, close_box, question
from attnforge.certification.registers import Registers
from attnforge.certification.tokens import input_tokens, linear, project, whole_input
from attnforge.network import Linear, Term, apply
from attnforge.targets.expression import evaluate
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.parse import parse
from attnforge.targets.graph import Graph
from attnforge.targets.in_context.features import places
from attnforge.targets.in_context.schedule import chebyshev

RNG = np.random.default_rng


def signs(rng, shape):
    return rng.choice([-1.0, 1.0], size=shape)


# Registers


def composed(start, blocks):
    registers = Registers()
    last = registers.start(Up.of(start))
    for weight, mid, rad, before, after in blocks:
        forms = registers.read({last: Balls.exact(weight)}, Up.of(before))
        last = registers.write(forms, Balls(mid, rad), Up.of(after))
    return registers.error(last).values


@pytest.mark.parametrize("seed", range(5))
def test_no_run_leaves_the_bounds_of_registers(seed):
    """Weights, slopes between bounds, errors of the forms and of the functions; some slopes are known."""
    rng, blocks = RNG(seed), []
    for _ in range(4):
        rad = np.where(rng.random(5) < 0.5, 0.5, 0.0)
        errors = rng.random((2, 5, 2)) * rng.choice([0.0, 1.0], size=(2, 5, 2))
        blocks.append((rng.normal(size=(5, 5)), np.where(rad > 0, 0.5, rng.integers(0, 2, 5)), rad, *errors))
    start = rng.random((5, 2))
    bound, worst = composed(start, blocks), np.zeros((5, 2))
    for _ in range(2000):
        delta, aims = start * signs(rng, start.shape), signs(rng, (4, 5, 2))
        for (weight, mid, rad, before, after), aim in zip(blocks, aims, strict=True):
            form = weight.T @ delta + before * signs(rng, delta.shape)
            steep = mid[:, None] + rad[:, None] * (
                np.sign(form * aim) if rng.random() < 0.5 else signs(rng, form.shape)
            )
            delta = steep * form + after * signs(rng, delta.shape)
        worst = np.maximum(worst, np.abs(delta))
    assert np.all(worst <= bound)
    assert np.all(bound.max(axis=0) <= 12 * worst.max(axis=0))
    known = [(w, np.ones(5), np.zeros(5), 0 * before, 0 * after) for w, _, _, before, after in blocks]
    product = np.abs(np.linalg.multi_dot([w for w, *_ in blocks])).T @ start
    assert composed(start, known) == pytest.approx(product, rel=1e-12)
    stacked = [
        (a[0], *(np.stack(each) for each in zip(a[1:], b[1:], strict=True))) for a, b in zip(blocks, known, strict=True)
    ]
    together = composed(np.stack([start, start]), stacked)
    assert together[0] == pytest.approx(bound, rel=1e-9)
    assert together[1] == pytest.approx(product, rel=1e-9)


def test_euclidean_lengths_beat_absolute_values_in_deep_stacks():
    """Rotations do not expand: unknown slopes in [0, 1] cannot either, whatever |W| says."""
    rng, width = RNG(0), 40
    weights = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(6)]
    half, none, start = np.full(width, 0.5), np.zeros((width, 1)), np.ones((width, 1))
    bound = composed(start, [(w, half, half, none, none) for w in weights])
    assert bound.max() <= 2 * np.sqrt(width)
    assert (np.linalg.multi_dot([np.abs(w) for w in weights]).T @ start).max() > 500 * bound.max()


@pytest.mark.parametrize("seed", range(3))
def test_no_iteration_leaves_its_bounds(seed):
    """Symmetric Jacobians of norm 0.9, known up to a spread; some slopes are not known at some steps."""
    rng, steps, registers = RNG(seed), 30, Registers()
    basis = np.linalg.qr(rng.normal(size=(steps, 4, 4)))[0]
    middles = basis * rng.uniform(-0.9, 0.9, size=(steps, 1, 4)) @ np.swapaxes(basis, 1, 2)
    spreads, entered, unsure = 1e-3 * rng.random((steps, 4, 4)), rng.random((steps, 4, 2)), rng.random((steps, 4)) < 0.1
    mids, rads = np.where(unsure, 0.5, 1.0), np.where(unsure, 0.5, 0.0)
    block = registers.start(Up.zeros(4, 2))
    for middle, spread, mid, rad, each in zip(middles, spreads, mids, rads, entered, strict=True):
        block = registers.step(block, Balls(middle, spread), Balls(mid, rad), Up.of(0.92), Up.of(each))
    bound, worst, length = registers.swept(block).values, np.zeros((4, 2)), np.zeros(2)
    for _ in range(600):
        delta = np.zeros((4, 2))
        for middle, spread, mid, rad, each in zip(middles, spreads, mids, rads, entered, strict=True):
            matrix, slope = middle + spread * signs(rng, (4, 4)), mid + rad * signs(rng, 4)
            delta = slope[:, None] * (matrix.T @ delta) + each * signs(rng, (4, 2))
        worst, length = np.maximum(worst, np.abs(delta)), np.maximum(length, np.linalg.norm(delta, axis=0))
    assert np.all(worst <= bound)
    assert np.all(length <= registers.length(block).values)
    assert np.all(bound.max(axis=0) <= 6 * worst.max(axis=0))


def test_adjoints_of_long_chains_do_not_blow_up():
    """|J| expands by 1.4 a step, J by nothing: a thousand roundings later the bound is still that of J."""
    turn, registers = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]]), Registers()
    block, local = registers.start(Up.zeros(2, 1)), np.full((2, 1), 1e-3)
    for t in range(1000):
        block = registers.step(
            block, Balls.exact(turn), Balls.exact(np.ones(2)), Up.of(1 + 1e-15), Up.of(local * (t == 0))
        )
    wanted = np.abs(np.linalg.matrix_power(turn, 999)).T @ local
    assert registers.swept(block).values == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.25, 0.5), (-0.9, -0.8)])
def test_no_run_of_a_graph_leaves_its_blocks(ends):
    steps = ["sin(r[1] + 2*r[2])", "r[3]*(r[2] - r[1])", "relu(r[3] - r[4])", "r[4]*exp(r[5] - 1)",
             "tanh(r[6] + r[3] - r[5])"]  # fmt: skip
    outputs, local = ["r[7] - r[6] + 0.5*r[3]", "3*r[5] - r[1]"], np.array([1e-7, 0.0, 1e-6, 3e-6, 2e-7, 1e-6, 5e-7])
    graph = Graph([Interval(*map(arb, ends))] * 2, [parse(step) for step in steps], [parse(out) for out in outputs])
    whole, rng = graph.compose(local.tolist()), RNG(0)
    bound = Blocks(graph).errors([whole], local / 4).values[0].sum(axis=-1)
    points, off = rng.uniform(*ends, size=(2, 20_000)), local[:, None] * signs(rng, (7, 20_000))

    def run(off):
        found = {f"r[{i + 1}]": points[i] + off[i] for i in range(2)}
        for i, step in enumerate(steps, start=2):
            found[f"r[{i + 1}]"] = evaluate(parse(step), found) + off[i]
        return np.stack([evaluate(parse(out), found) for out in outputs])

    errors = np.abs(run(off) - run(0 * off)).max(axis=1)
    assert np.all((errors <= bound) & (bound <= 4 * errors))
    paths = [np.dot(graph.sensitivities(whole.slopes, output), local) for output in graph.outputs]
    assert np.all(bound <= np.array(paths) * (1 + 1e-9))
    last = Blocks(graph).errors([graph.compose(local.tolist())], [0.0] * 6 + [5e-7]).values[0][:, 1]
    assert last.tolist() == [pytest.approx(5e-7), 0.0]  # the last register is read once, by the first output


# Linear maps of tokens


def exact_map(x, layer):
    """The map in rational arithmetic: (n, d) to (n', m)."""
    term = layer.terms[0]
    maps = np.broadcast_to(term.map, (len(x), *term.map.shape[-2:]))
    rows = [[sum(Fraction(v) * Fraction(p) for v, p in zip(row, column, strict=True)) for column in each.T.tolist()]
            for row, each in zip(x.tolist(), maps, strict=True)]  # fmt: skip
    if term.mix is not None:
        rows = [
            [sum(int(q) * row[j] for q, row in zip(m, rows, strict=True)) for j in range(len(rows[0]))]
            for m in term.mix
        ]
    constant = np.broadcast_to(layer.constant, (len(rows), len(rows[0]))).tolist()
    return [[v + Fraction(c) for v, c in zip(row, line, strict=True)] for row, line in zip(rows, constant, strict=True)]


@pytest.mark.parametrize("dtype", MACHINES)
@pytest.mark.parametrize("kind", ["shared", "each", "longer"])
def test_errors_of_linear_maps_cover_the_run_and_forms_are_exact(kind, dtype):
    rng, model = RNG(12), machine(dtype)
    weights = round_to(rng.normal(size=(3, 4) if kind == "shared" else (2, 3, 4)), dtype)
    constant = round_to(rng.normal(size={"shared": (1, 4), "each": (2, 4), "longer": (5, 4)}[kind]), dtype)
    layer = Linear((Term(weights, np.eye(5, 2) if kind == "longer" else None),), constant)
    lower, upper = -np.abs(rng.normal(size=(2, 3))), np.abs(rng.normal(size=(2, 3)))
    tokens, largest = linear(layer, input_tokens(lower, upper, model), model), 0.0
    for point in rng.uniform(lower, upper, size=(60, 2, 3)):
        wanted, near = exact_map(point, layer), round_to(point, dtype)
        for i, row in enumerate(wanted):
            read = min(i, 1)
            for j, value in enumerate(row):
                column = (weights if weights.ndim == 2 else weights[read])[:, j] * (kind != "longer" or i < 2)
                total = np.float64(0.0)
                for k in rng.permutation(3):
                    total = round_to(total + round_to(near[read, k] * column[k], dtype), dtype)
                total = round_to(total + np.broadcast_to(constant, (len(wanted), 4))[i, j], dtype)
                gap = abs(Fraction(float(total)) - value)
                assert gap <= Fraction(float(tokens.error[i, j]))
                assert abs(value) <= Fraction(float(tokens.magnitude()[i, j]))
                largest = max(largest, float(gap) / max(tokens.error[i, j], 1e-300))
                slope, given = tokens.slope.mid[i, :, j], point[tokens.source[i]]
                form = sum(Fraction(float(s)) * Fraction(float(v)) for s, v in zip(slope, given, strict=True))
                slack = tokens.slope.rad[i, :, j] @ np.abs(given) + tokens.constant.rad[i, j]
                off = abs(form + Fraction(float(tokens.constant.mid[i, j])) - value)
                assert off <= Fraction(float(slack) * (1 + 1e-12))
    assert largest > 0.02  # not absurdly loose: some run comes within a factor of fifty


def test_products_that_are_exact_are_not_charged():
    """Of powers of two, and of inputs that do not vary and are 1 or 0."""
    plain = input_tokens(-np.ones((1, 2)), np.ones((1, 2)), machine("float64"))
    assert not project(plain, np.diag([0.5, -4.0]), machine("float64")).error.any()
    first, second = project(plain, np.diag([0.3, -4.0]), machine("float64")).error[0]
    assert first > 0 == second
    ends = np.array([[1.0, -3.0]]), np.array([[1.0, 2.0]])
    told = whole_input(*ends, machine("float32"), exact=True)
    assert told.is_simple().tolist() == [[True, False]]
    assert not whole_input(*ends, machine("float32")).is_simple().any()  # where inputs are rounded, it is only near
    assert project(told, np.array([[0.3, 0.3], [0.0, 2.0]]), machine("float32")).error[0, 0] == 0.0


# Sums over examples, and steps that expand


def added(terms, lanes):
    """The sum of exact terms in float32, in so many interleaved running sums."""
    sums = [np.float32(0.0)] * lanes
    for i, term in enumerate(terms):
        sums[i % lanes] = np.float32(np.float64(sums[i % lanes]) + np.float64(term))  # one rounding: 24 of 53 bits
    total = sums[0]
    for each in sums[1:]:
        total = np.float32(total + each)
    return float(total)


def bound(terms, ahead=0, departed=0.0):
    return float(summation(terms[ahead:, None], ahead, machine("float32"), Up.of(1.0), Up.of(departed))[0])


@pytest.mark.parametrize("lanes", LANES)
def test_no_order_of_kernels_loses_more_and_some_nearly_as_much(lanes):
    for seed in range(5):
        x = RNG(seed).normal(size=100 + 7 * seed)
        terms, (first, images) = np.zeros(2 + 2 * len(x)), places(len(x))
        terms[2 + first], terms[2 + images] = x * (1 + 1e-3), -x * (1 - 1e-3)
        terms = terms.astype(np.float32).astype(np.float64)
        assert abs(added(terms, lanes) - math.fsum(terms)) <= bound(terms, 2)
    x = RNG(1).normal(size=64)  # images cancel exactly: all that is left to round is by how much terms depart
    exact = np.concatenate([x, -x])[np.argsort(np.concatenate(places(64)))]
    departed = exact * (1 + 1e-2 * RNG(2).uniform(-1, 1, size=128))
    assert abs(added(departed, lanes) - math.fsum(departed)) <= bound(exact, departed=1e-2)
    terms, running = RNG(0).normal(size=300) + 0.5, np.float32(0.0)
    for i, term in enumerate(terms):  # each is moved so that the running sum falls short by half a unit
        near = np.float32(float(running) + term)
        terms[i] = float(near) + 0.499 * float(np.spacing(abs(near))) - float(running)
        running = np.float32(float(running) + terms[i])
    lost = abs(Fraction(float(running)) - sum(map(Fraction, terms)))
    assert 0.9 * bound(terms) <= lost <= bound(terms)
    with np.errstate(over="ignore"):
        for scale, off in ((math.inf, 0.0), (1.0, math.inf), (1e308, 0.0)):
            assert (
                float(summation(np.full((4, 1), 100.0), 0, machine("float32"), Up.of(scale), Up.of(off))[0]) == math.inf
            )


@pytest.mark.parametrize("seed", range(5))
def test_eigenvalues_are_enclosed_and_errors_along_them_bounded(seed):
    rng = RNG(seed)
    values, q = np.sort(10.0 ** rng.uniform(-6, 3, 6)), np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix, spread = (q * values) @ q.T, 1e-9 * rng.random()
    off = rng.uniform(-spread, spread, (6, 6))
    found = eigenvalues(Balls(matrix, np.full((6, 6), spread)))
    for held in (matrix, matrix + (off + off.T) / 2):
        assert np.all(np.abs(np.linalg.eigvalsh((held + held.T) / 2) - found.mid) <= found.rad + 1e-12 * values[-1])
    assert found.rad.max() <= 6 * spread + 1e-11 * values[-1]
    for _ in range(40):
        rates, values, q = rng.uniform(0, 2, 4), rng.uniform(0, 2, 3), np.linalg.qr(rng.normal(size=(3, 3)))[0]
        errors, reached = Commuting(Balls.exact(values), 3, Up.of([0.0])), np.zeros(3)
        for rate in rates:
            entered = rng.normal(size=3) * 10.0 ** rng.uniform(-3, 0)
            reached = reached - rate * (q * values) @ q.T @ reached + entered
            errors.step(rate, Up.of([np.linalg.norm(entered)]))
            assert np.linalg.norm(reached) <= float(errors.length()[0]) * (1 + 1e-12)
        assert np.linalg.norm(reached) <= float(errors.swept()[0]) * (1 + 1e-12)


def test_the_bound_over_cells_of_a_spectrum_is_above_every_eigenvalue_and_not_far():
    spectrum, steps = (0.01, 1.0), 60
    parts, rates, points = cells(spectrum, steps), chebyshev(steps, spectrum), np.linspace(*spectrum, 20_001)
    low, high = parts.mid - parts.rad, parts.mid + parts.rad
    assert low[0] <= 0.01 < 1.0 <= high[-1]
    assert np.all(high[:-1] >= low[1:])
    errors, worst = Commuting(parts, 1, Up.of([0.0])), np.zeros_like(points)
    for rate in rates:
        errors.step(rate, Up.of([rate]))
        worst = np.abs(1 - rate * points) * worst + rate
        assert worst.max() <= float(errors.length()[0])
    assert worst.max() == pytest.approx(1 / spectrum[0], rel=1e-3)  # a gradient off by one, over m
    assert float(errors.swept()[0]) <= 2 * worst.max()
    product = np.abs(np.prod(1 - np.array(rates)[:, None] * points, axis=0)).max()
    assert product <= float(errors.grown()) <= 4 * product


# Pieces near a target, and questions whose answers are known


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("text", ["sin(8*x)*y", "abs(x - 0.3) + y/7", "sqrt(x + 2)", "x*exp(-x^2 - y^2)"])
def test_no_point_is_farther_from_its_piece_and_some_are_nearly_as_far(text, affine):
    target, rng = af.compile(text, {"x": (-2, 2), "y": (-1, 1)}, 10.0).target, RNG(0)
    pieces, spread = cut(target, target.domain, 8, affine=affine, dtype="float32")
    assert (pieces.upper - pieces.lower).prod(axis=1).sum() == pytest.approx(8.0, rel=1e-12)
    for numbers in (pieces.lower, pieces.upper, pieces.slopes, pieces.offsets):
        np.testing.assert_array_equal(numbers, numbers.astype(np.float32))

    def seen(pieces):
        points = rng.uniform(pieces.lower, pieces.upper, (400, *pieces.lower.shape))
        points[:2] = pieces.lower, pieces.upper
        forms = np.einsum("pci,coi->pco", points, pieces.slopes) + pieces.offsets
        return float(np.abs(target.values(points)[..., None] - forms).max())

    proved = distance(target, pieces)
    assert seen(pieces) <= proved <= 1.3 * max(seen(pieces), spread)
    farther = replace(pieces, offsets=pieces.offsets + 10 * proved * (np.arange(len(pieces.offsets)) == 2)[:, None])
    assert distance(target, farther) >= max(seen(farther), 1.5 * proved)


def test_answers_end_where_what_is_known_ends():
    net = af.compile("x^2", {"x": (-1, 1)}, 1e-2)
    subject = Subject.proved(net.network, net.target, net.domain, "float64")
    asked, points = question(subject, subject.box, 4, affine=True), np.linspace(-1, 1, 20_001)[:, None]
    apart = np.abs(apply(subject.network, points[:, None])[:, 0] - asked.pieces.at(points)).max()
    witness, offsets = asked.witness, asked.pieces.offsets
    assert apart <= asked.most <= 1.2 * apart
    assert float(witness.distance) == pytest.approx(apart, rel=1e-3)
    low, high = witness.between
    slope, offset = asked.pieces.slopes[witness.cell, 0, 0], offsets[witness.cell, 0]
    at = Fraction(slope) * Fraction(witness.point[0]) + Fraction(offset)
    assert low <= apply(subject.network, witness.point[None])[0][0] <= high <= low + 1e-12
    assert witness.distance == max(Fraction(low) - at, at - Fraction(high))
    wide, place = (offsets - 1.01 * asked.most, offsets + 1.01 * asked.most), (witness.cell, witness.output)
    assert (asked.holds(*wide), asked.fails(*wide)) == (True, False)
    for end, way in ((0, 1), (1, -1)):
        nearer = [each.copy() for each in wide]
        nearer[end][2, 0] = offsets[2, 0] - way * asked.most + way * 1e-9  # less than is proved
        assert not asked.holds(*nearer)
    for factor, fails in ((0.999, True), (1.001, False)):
        ends = [each.copy() for each in wide]
        for end, way in ((0, -1), (1, 1)):
            ends[end][place] = offsets[place] + way * factor * float(witness.distance)
        assert asked.fails(*ends) == fails
    near = question(subject, close_box(subject, 4), 4, affine=True)
    assert near.radius <= 1.1 * subject.bound
