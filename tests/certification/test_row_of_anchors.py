"""What the reader says of a head against the head's scores in exact rational arithmetic."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.balls import Balls, machine
from attnforge.certification.anchored import Problem, bound_anchored, read_grid
from attnforge.certification.row_of_anchors import Form, read_keys, read_row
from attnforge.network import rounded
from tests.laws.cases import changed, with_claims, with_head

W, T = [0.7, -1.3], 0.4


def build(layout="memory", dtype="float64", anchors=9):
    return af.constructions.truncated_linear(
        W, T, -1, 2, anchors=anchors, layout=layout, dtype=dtype, domain=af.Box(-1, 1)
    )


def problem_of(net, network=None):
    run = rounded(net.network if network is None else network, net.dtype)
    box = net.target.domain.fixed((run.tokens or 1, run.features))
    form = net.target.truncated_form()
    return Problem((run.layers[0],), run.heads, form, box.lower, box.upper, 0, machine(net.dtype)), run


def read(net, network=None):
    problem, run = problem_of(net, network)
    tokens = problem.tokens(problem.lower, problem.upper)
    keys = read_keys(run.heads[0], tokens, problem.machine, 0)
    asking = problem.asking(tokens)
    grid = read_grid(problem, [keys], asking)
    weights, offsets = problem.forms(asking)
    places = grid.places[0]
    middle = int(places[len(places) // 2])
    reference = Balls.exact(grid.first) + Balls.exact(grid.step) * Balls.exact(float(middle))
    form = Form(weights, offsets, -3.0, 3.0)
    row = read_row(run.heads[0], keys, places, asking, form, grid.step, reference, None, problem.machine)
    return row, grid, asking, run


def rational_scores(run, x):
    """Scores of the first token against every key, as rationals, from the rounded weights and an exact input."""

    def times(rows, matrix):
        return [
            [sum(v * Fraction(float(m)) for v, m in zip(row, column, strict=True)) for column in np.asarray(matrix).T]
            for row in rows
        ]

    first, head = run.layers[0], run.heads[0]
    term = first.terms[0]
    rows = times([[Fraction(float(v)) for v in x]], term.map if term.map.ndim == 2 else term.map[0])
    if term.mix is not None:
        rows = rows + [[Fraction(0)] * len(rows[0])] * (len(term.mix) - 1)
    constant = np.broadcast_to(first.constant, (len(rows), len(rows[0])))
    rows = [
        [v + Fraction(float(c)) for v, c in zip(r, line, strict=True)] for r, line in zip(rows, constant, strict=True)
    ]
    query = times(rows[:1], head.query)[0]
    keys = (
        [[Fraction(float(v)) for v in key] for key in head.memory_keys]
        if head.memory_keys is not None
        else times(rows, head.key)
    )
    return [sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]


@pytest.mark.parametrize("layout", ["memory", "literal"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_scores_are_a_parabola_within_what_the_reader_claims(layout, dtype):
    net = build(layout, dtype)
    row, grid, asking, run = read(net)
    rng = np.random.default_rng(0)
    steps = np.arange(9) - 9 // 2
    seen = 0.0
    for x in rng.uniform(-1, 1, size=(60, 2)):
        x = torch.tensor(x).to(getattr(torch, dtype)).to(torch.float64).numpy()  # exact inputs of the dtype
        y = sum(Fraction(float(w)) * Fraction(float(v)) for w, v in zip(W, x, strict=True)) + Fraction(T)
        upsilon = (y - Fraction(grid.first) - Fraction(grid.step) * 4) / Fraction(grid.step)
        scores = rational_scores(run, x)
        relative = [float(s - scores[4]) for s in scores]
        position = row.position(asking)
        for ell, score in zip(steps, relative, strict=True):
            # score = -c (v - l)^2 + c v^2 with v within `position` of upsilon, and a disturbance of at most `scores`
            ideal = float(2 * Fraction(row.c) * upsilon * int(ell) - Fraction(row.c) * int(ell) ** 2)
            allowed = 2 * row.c * position * abs(int(ell)) + 2 * row.scores
            assert abs(score - ideal) <= allowed * (1 + 1e-12)
            seen = max(seen, abs(score - ideal) / max(allowed, 1e-300))
    assert seen > 1e-4  # some of the allowance is really used


@pytest.mark.parametrize("layout", ["memory", "literal"])
def test_sharpness_is_read_from_the_numbers(layout):
    net = build(layout)
    row, grid, _, _ = read(net)
    assert row.c == pytest.approx(net.network.heads[0].claims.sharpness * grid.step**2, rel=1e-9)
    lied = with_claims(net.network, sharpness=1e-3)
    assert read(net, lied)[0].c == row.c


@pytest.mark.parametrize("by", [1e-9, 1e-4, 1e-2])
def test_a_moved_key_disturbs_the_scores_by_as_much(by):
    net = build()
    keys = net.network.heads[0].memory_keys
    moved = with_head(net.network, memory_keys=changed(keys, (2, 1), keys[2, 1] + by))
    row, calm = read(net, moved)[0], read(net)[0]
    assert row.scores - calm.scores >= 0.99 * row.c * by  # the feature's query is -c


def test_a_shifted_form_is_a_shifted_position():
    net = build()
    first = net.network.layers[0]
    shifted = type(first)(first.terms, changed(first.constant, (0, 0), first.constant[0, 0] + 0.125))
    moved = replace(net.network, layers=(shifted, *net.network.layers[1:]))
    row, _, asking, _ = read(net, moved)
    assert 0.125 <= row.position(asking) <= 0.125 + 1e-9
    parts = bound_anchored(problem_of(net, moved)[0])
    assert parts["rounding"] >= 0.125 * 3 / 8 > net.certificate.parts["rounding"]


@pytest.mark.parametrize("count", [2, 3])
def test_two_and_three_anchors(count):
    net = build(anchors=count)
    x = np.random.default_rng(1).uniform(-1, 1, size=(4000, 1, 2))
    error = np.abs(net(x) - net.target.values(x)).max()
    assert 0.1 * net.certificate.bound < error <= net.certificate.bound
