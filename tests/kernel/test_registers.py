"""The rule registers: errors against exact fractions, functions against balls, and networks against their runs."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from flint import arb

import attnforge as af
from attnforge.certification.graph.by_registers import prove
from attnforge.certification.graph.recognition import of_graph, of_relu_network
from attnforge.errors import AttnforgeError, CertificateError
from attnforge.expression import parse
from attnforge.expression.evaluate import at_point
from attnforge.expression.tree import joined
from attnforge.kernel.cover import Cover, Cut
from attnforge.kernel.degrees import degrees
from attnforge.kernel.local import Heads, Reading
from attnforge.kernel.models import Models
from attnforge.kernel.registers import Errors, Group, OnCells, Registers
from attnforge.kernel.slopes import moved, ranges, slopes
from attnforge.kernel.steps import Block, Forms, Steps, extended
from attnforge.kernel.stream import Projection
from attnforge.network import Attention, Network, flatten, unflatten
from attnforge.outward import Balls, Up, machine, precision
from attnforge.targets import Box, ReluNetwork
from attnforge.targets.relu_network import Activation, Affine

DRAWS = int(os.environ.get("ATTNFORGE_EXAMPLES", "60"))


def exact(array):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, dtype=np.float64))


# Errors by adjoints


def chain(rng, kinds):
    """Blocks of random shapes, the bounds the rule gives for forms of the last, and what some run's errors are."""
    sizes = rng.integers(1, 4, size=int(rng.integers(2, 5)))
    local = rng.uniform(0, 1, (sizes[0], 1)) * ("inputs" in kinds)
    errors, e = Errors(Up.of(local)), [exact(local[:, 0] * rng.choice([-1, 1], sizes[0]))]

    def read(count):
        weights, total = {}, exact(np.zeros(count))
        for b in rng.choice(len(e), size=int(rng.integers(1, len(e) + 1)), replace=False):
            mid = rng.normal(size=(len(e[b]), count))
            rad = rng.uniform(0, 1, mid.shape) * ("weights" in kinds)
            weights[int(b)] = Balls(mid, rad)
            total = total + e[b] @ (exact(mid) + exact(rad * rng.choice([-1, 1], mid.shape)))
        rho = rng.uniform(0, 1, (count, 1)) * ("forms" in kinds)
        return errors.read(weights, Up.of(rho)), total + exact(rho[:, 0] * rng.choice([-1, 1], count))

    for count in sizes[1:]:
        known = [read(count) for _ in range(int(rng.integers(1, 3)))]
        mid = rng.normal(size=(count, len(known)))
        rad = rng.uniform(0, 1, mid.shape) * ("slopes" in kinds)
        d = rng.uniform(0, 1, (count, 1)) * ("heads" in kinds)
        errors.write([forms for forms, _ in known], Balls(mid, rad), Up.of(d))
        slope = exact(mid) + exact(rad * rng.choice([-1, 1], mid.shape))
        e.append(sum(slope[:, i] * p for i, (_, p) in enumerate(known)) + exact(d[:, 0] * rng.choice([-1, 1], count)))
        assert np.all(np.abs(e[-1]) <= exact(errors.of(-1).values[:, 0]))
    forms, p = read(2)
    return forms.error.values[:, 0], np.abs(p)


@pytest.mark.parametrize("kinds", [("inputs",), ("forms",), ("heads",), ("inputs", "slopes"), ("inputs", "weights"),
                                   ("forms", "slopes"), ("inputs", "slopes", "weights"),
                                   ("inputs", "forms", "heads", "slopes", "weights")])  # fmt: skip
def test_errors_are_within_what_adjoints_make_of_them(kinds):
    rng, tightest = np.random.default_rng(len(kinds) + ord(kinds[-1][0])), 0.0
    for _ in range(3 * DRAWS):
        bound, seen = chain(rng, kinds)
        assert np.all(seen <= exact(bound))
        tightest = max(tightest, float(np.max(seen.astype(float) / np.maximum(bound, 1e-300))))
    assert tightest > 0.98  # some draw attains it, so that no part of the sum can be left out


def test_unknown_slopes_meet_bounds_of_forms_and_not_sums_of_sizes():
    errors = Errors(Up.of([[1.0]]))
    kink = Balls(np.full((2, 1), 0.5), np.full((2, 1), 0.5))
    forms = errors.read({0: Balls.exact([[1.0, -1.0]])}, Up.zeros(2, 1))
    errors.write([forms], kink, Up.zeros(2, 1))
    cancelling = errors.read({1: Balls.exact([[1.0], [1.0]])}, Up.zeros(1, 1))
    assert 1.0 <= cancelling.error.values[0, 0] < 1.0 + 1e-12  # relu(e) - relu(-e) = e


def test_norms_are_used_where_they_are_smaller():
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    errors = Errors(Up.of(np.eye(30)[:, :1]))
    for block in range(6):
        forms = errors.read({block: Balls.exact(turn)}, Up.zeros(30, 1))
        errors.write([forms], Balls(np.full((30, 1), 0.5), np.full((30, 1), 0.5)), Up.zeros(30, 1))
    assert float(errors.of(6).norm(-2).values[0]) < 12  # by sums of |W| over a hundred


# Functions of forms

FUNCTIONS = ["sin(y[0])", "y[0]*y[1]", "y[0]*exp(y[1])", "relu(y[0])", "clamp(y[0], -1/2, 1)", "y[0]^2", "abs(y[0])",
             "max(y[0], y[1])", "1/(1 + exp(y[0]))", "y[0]"]  # fmt: skip
ENDED = ["sqrt(y[0])", "asin(y[0])", "y[0]^0.3", "sqrt(1 + sqrt(y[0]))", "acos(y[0])*y[1]", "y[0]^1.5"]


def drawn_boxes(rng, count, k):
    low = rng.normal(size=(count, k)) * 10.0 ** rng.integers(-2, 1, (count, 1))
    return low, low + rng.exponential(size=(count, k)) * 10.0 ** rng.integers(-3, 1, (count, 1))


def value(tree, point):
    with precision(200):
        return at_point(joined([tree]), {f"y[{i}]": arb(float(x)) for i, x in enumerate(point)})[0]


@pytest.mark.parametrize("text", [*FUNCTIONS, *ENDED])
def test_ranges_slopes_and_moduli_hold_between_any_points_of_a_box(text):
    tree = extended(parse(text))
    rng = np.random.default_rng(4)
    low, high = drawn_boxes(rng, 12, 2)
    (below, above), (least, most) = ranges(tree, low, high), slopes(tree, low, high)
    for i in range(len(low)):
        for _ in range(max(3, DRAWS // 12)):
            one, two = (np.clip(low[i] + (high[i] - low[i]) * rng.choice([0.0, 1.0, rng.uniform()], 2), low[i], high[i])
                        for _ in range(2))  # fmt: skip
            u, v = value(tree, one), value(tree, two)
            if not (u.is_finite() and v.is_finite()):
                continue
            assert not u < below[i]
            assert not u > above[i]
            off = np.nextafter(np.abs(one - two), np.inf)
            assert not abs(u - v) > moved(tree, low[i : i + 1], high[i : i + 1], off[None])[0]
            for axis in range(2):
                step = one.copy()
                step[axis] = two[axis]
                if np.isfinite(least[i]).all() and one[axis] != two[axis]:
                    with precision(200):
                        slope = (value(tree, step) - u) / (arb(step[axis]) - arb(one[axis]))
                    assert not slope < least[i, axis]
                    assert not slope > most[i, axis]


def test_what_ends_is_moved_by_its_modulus():
    box = np.array([[0.0]]), np.array([[1.0]])
    assert 1e-4 <= moved(extended(parse("sqrt(y[0])")), *box, np.array([[1e-8]]))[0] < 1.001e-4
    assert not np.isfinite(slopes(extended(parse("sqrt(y[0])")), *box)[1]).any()
    assert not np.isfinite(moved(parse("1/y[0]"), np.array([[-1.0]]), np.array([[1.0]]), np.array([[0.1]]))[0])
    end = moved(extended(parse("asin(y[0])")), np.array([[0.9]]), np.array([[1.0]]), np.array([[0.1]]))[0]
    assert np.arccos(0.9) <= end <= np.arccos(0.9) * np.pi / 2
    assert not np.isfinite(slopes(parse("log(y[0])"), np.array([[-2.0]]), np.array([[-1.0]]))).any()
    assert moved(parse("step(y[0])"), np.array([[-1.0]]), np.array([[1.0]]), np.array([[0.1]]))[0] >= 1.0


# Covers


def test_cells_cover_their_boxes_whatever_is_cut():
    rng = np.random.default_rng(5)
    low, high = drawn_boxes(rng, 3, 2)
    cover = Cover(low, high, lambda which, low, high: (high - low).max(axis=1))
    for _ in range(30):
        which = cover.cells[0]
        some = rng.choice(len(which), size=min(3, len(which)), replace=False)
        cover.cut(Cut(some, rng.integers(0, 2, len(some)), rng.normal(size=(len(some), 2))))
    points = low + (high - low) * rng.uniform(size=(200, 3, 2))
    which, lows, highs = cover.cells
    for box in range(3):
        inside = (lows[which == box] <= points[:, None, box]) & (points[:, None, box] <= highs[which == box])
        assert inside.all(axis=2).any(axis=1).all()
    assert np.isfinite(cover.largest().values).all()


@pytest.mark.parametrize("cut", [
    Cut(np.array([1]), np.array([0]), np.zeros((1, 1))), Cut(np.array([0, 0]), np.array([0, 0]), np.zeros((2, 1))),
    Cut(np.array([0]), np.array([2]), np.zeros((1, 1))), Cut(np.array([0]), np.array([0]), np.full((1, 1), np.nan)),
    Cut(np.array([-1]), np.array([0]), np.zeros((1, 1))), Cut(np.array([0]), np.array([0]), np.zeros((1, 10**6))),
    Cut(np.array([0.0]), np.array([0]), np.zeros((1, 1))),  # type: ignore[arg-type]
])  # fmt: skip
def test_cuts_of_what_is_not_there_are_refused(cut):
    cover = Cover(np.zeros((1, 1)), np.ones((1, 1)), lambda which, low, high: np.zeros(len(which)))
    with pytest.raises(CertificateError):
        cover.cut(cut)


# Whole networks


def relu_network(widths, seed, activation=None):
    rng, stages = np.random.default_rng(seed), []
    for a, b in pairwise(widths):
        stages.append(Affine(rng.normal(size=(a, b)) / a**0.5, rng.normal(size=b) / 2))
        stages.append(activation or Activation(0.0, None))
    return ReluNetwork(tuple(stages[:-1]), Box(-1.0, 1.0, shape=(widths[0],)))


def exact_values(target, points):
    """Values at points, in fractions."""
    x = exact(points)
    for stage in target.stages:
        if isinstance(stage, Affine):
            x = x @ exact(stage.weight) + exact(stage.bias)
        else:
            slope, clamped = Fraction(stage.slope), x
            if stage.lower is not None:
                clamped = np.maximum(clamped, Fraction(stage.lower))
            if stage.upper is not None:
                clamped = np.minimum(clamped, Fraction(stage.upper))
            x = slope * x + (1 - slope) * clamped
    return x


def proved(network, claim, dtype="float64", low=-1.0, high=1.0):
    ends = np.full(network.features, low), np.full(network.features, high)
    return prove(network, machine(dtype), claim, *ends).bound


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("activation", "loose"), [(Activation(0.0, None), 3.0), (Activation(-0.5, 1.0), 6.0),
                                                   (Activation(0.0, None, 0.125), 4.0)])  # fmt: skip
def test_relu_networks_are_near_their_targets(dtype, activation, loose):
    target = relu_network((3, 6, 5, 2), 1, activation)
    net = af.constructions.relu_network(_module(target), target.domain, dtype=dtype)
    run = af.network.rounded(net.network, dtype)
    bound = proved(run, of_relu_network(run, net.target), dtype)
    points = np.random.default_rng(0).uniform(-1, 1, (DRAWS * 4, 3))
    outputs = net.module()(torch.tensor(points, dtype=getattr(torch, dtype))).double().numpy()
    cast = torch.tensor(points, dtype=getattr(torch, dtype)).double().numpy()
    error = np.abs(exact(outputs) - exact_values(net.target, cast)).max()
    assert error <= bound < loose * net.certificate.bound


def _module(target):
    parts = []
    for stage in target.stages:
        if isinstance(stage, Affine):
            linear = torch.nn.Linear(*stage.weight.shape).double()
            with torch.no_grad():
                linear.weight.copy_(torch.tensor(stage.weight.T))
                linear.bias.copy_(torch.tensor(stage.bias))
            parts.append(linear)
        elif stage.slope:
            parts.append(torch.nn.LeakyReLU(stage.slope))
        else:
            parts.append(torch.nn.ReLU() if stage.upper is None else torch.nn.Hardtanh(stage.lower, stage.upper))
    return torch.nn.Sequential(*parts)


GRAPHS = {
    "product": ("x*y*exp(-z^2)", 1.3),
    "sum": ("sin(x*y) + exp(-(x + z)^2)*y", 1.3),
    "kinks": ("max(x, y)*abs(z) + relu(x - z)", 1.3),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_are_near_their_formulas(name):
    text, loose = GRAPHS[name]
    net = af.constructions.graph(text, dict.fromkeys("xyz", (-1.0, 1.0)), 1e-3)
    claim = of_graph(net.network, machine("float64"))
    bound = proved(net.network, claim)
    points = np.random.default_rng(0).uniform(-1, 1, (20_000, 3))
    wanted = claim.steps.values(points)
    assert np.abs(wanted[:, 0] - net.target.values(points).ravel()).max() < 1e-12
    assert np.abs(net.network(points[:, None])[:, 0] - wanted).max() <= bound + 1e-13
    assert bound < loose * net.certificate.bound


def changed(network, rng):
    """One number of a network is another one; None where that is no network."""
    skeleton, arrays = flatten(network)
    names = [name for name, array in arrays.items() if array.size and array.dtype == np.float64 and "claim" not in name]
    name = names[rng.integers(len(names))]
    arrays = {each: array.copy() for each, array in arrays.items()}
    flat = arrays[name].reshape(-1)
    at = rng.integers(flat.size)
    flat[at] = flat[at] * (1 + 10.0 ** -rng.integers(1, 12)) + (rng.random() < 0.5) * 10.0 ** -rng.integers(0, 12)
    return unflatten(skeleton, arrays)


@pytest.mark.parametrize("name", ["relu", "kinks", "product"])
def test_bounds_follow_networks_whose_numbers_change(name):
    rng, points = np.random.default_rng(7), np.random.default_rng(8).uniform(-1, 1, (4000, 3))
    if name == "relu":
        target = relu_network((3, 5, 4, 1), 2)
        net = af.constructions.relu_network(_module(target), target.domain)
        claim = of_relu_network(net.network, net.target)
        wanted = net.target.values(points)
    else:
        net = af.constructions.graph(GRAPHS[name][0], dict.fromkeys("xyz", (-1.0, 1.0)), 1e-3)
        claim = of_graph(net.network, machine("float64"))
        wanted = claim.steps.values(points)
    refused, grown = 0, 0
    before = proved(net.network, claim)
    for _ in range(max(4, DRAWS // 10)):
        other = changed(net.network, rng)
        with np.errstate(all="ignore"):
            error = np.abs(other(points[:, None])[:, 0] - wanted).max()
        try:
            bound = proved(other, claim)
        except AttnforgeError:
            refused += 1
            continue
        assert error <= bound + 1e-13
        grown += bound > 1.01 * before
    assert grown + refused > 0


def test_other_places_and_programs_are_refused():
    target = relu_network((2, 3, 3, 1), 3)
    net = af.constructions.relu_network(_module(target), target.domain)
    claim = of_relu_network(net.network, net.target)
    cover = Cover(np.full((1, 2), -1.0), np.ones((1, 2)), lambda which, *_: np.zeros(len(which)))
    ends = np.full(2, -1.0), np.ones(2)
    one, two = claim.places
    for places in ((one,), (one, one), (one, two + 100), (two, one), (one[:-1], two)):
        with pytest.raises(AttnforgeError):
            Registers(net.network, machine("float64"), claim.steps, ends, places, cover).proceed()
    with pytest.raises(CertificateError):
        Registers(net.network, machine("float64"), claim.steps, (ends[0], 2 * ends[1]), claim.places, cover)
    with pytest.raises(CertificateError):
        Registers(net.network, machine("float64"), claim.steps, ends, claim.places, cover).outputs()
    swapped = (one[[1, 0, 2]], two)
    with suppress(AttnforgeError):
        assert prove(net.network, machine("float64"), replace(claim, places=swapped), *ends).bound > 1e-3


def test_programs_that_make_no_sense_are_refused():
    form = Forms({0: Balls.exact([[1.0]])}, Balls.exact([0.0]))
    later = Forms({1: Balls.exact([[1.0]])}, Balls.exact([0.0]))
    with pytest.raises(CertificateError):
        Steps(1, (Block(parse("y[0]"), (later,)),), form)
    with pytest.raises(CertificateError):
        Steps(1, (Block(parse("x"), (form,)),), form)
    with pytest.raises(CertificateError):
        Steps(1, (Block(parse("1"), ()),), form)
    with pytest.raises(CertificateError):
        Forms({0: Balls.exact([[np.nan]])}, Balls.exact([0.0]))


def test_registers_lie_in_their_ranges_on_every_cell():
    rng = np.random.default_rng(9)
    form = Forms({0: Balls.exact([[1.0, 2.0], [-1.0, 0.5]])}, Balls.exact([0.25, 0.0]))
    more = Forms({0: Balls.exact([[0.5], [0.5]]), 1: Balls.exact([[1.0], [-1.0]])}, Balls.exact([0.5]))
    steps = Steps(2, (Block(parse("sin(y[0])"), (form,)), Block(parse("y[0]^2"), (more,))),
                  Forms({2: Balls.exact([[1.0]])}, Balls.exact([0.0])))  # fmt: skip
    low, high = drawn_boxes(rng, 20, 2)
    on = OnCells(steps, low, high, Up.zeros(2))
    for block in steps.blocks:
        read, inside = on.forms(block, Up.zeros(1, block.count))
        on.write(block, read, inside, Up.zeros(block.count))
    for _ in range(DRAWS):
        points = low + (high - low) * rng.choice([0.0, 1.0, 0.5, rng.uniform()], low.shape)
        x = np.clip(points, low, high)
        first = np.sin(x @ form.weights[0].mid + form.offset.mid)
        second = (x @ more.weights[0].mid + first @ more.weights[1].mid + 0.5) ** 2
        for found, values in ((on.registers[1], first), (on.registers[2], second)):
            slack = 1e-12 * (1 + np.abs(values))
            assert np.all(found.low - slack <= values)
            assert np.all(values <= found.high + slack)


# Each error enters


def lines(function="y[0]"):
    """One number, passed on twice: by the function, and as it is."""
    forms = [Forms({b: Balls.exact([[1.0]])}, Balls.exact([0.0])) for b in range(3)]
    return Steps(1, (Block(parse(function), (forms[0],)), Block(parse("y[0]"), (forms[1],))), forms[2])


def after(steps, low, high, cast, forms, heads):
    on = OnCells(steps, np.array([[low]]), np.array([[high]]), Up.of([cast]))
    for block in steps.blocks:
        read, inside = on.forms(block, Up.of([[forms]]))
        on.write(block, read, inside, Up.of([heads]))
    return on


@pytest.mark.parametrize(("cast", "forms", "heads"), [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
def test_what_is_cast_read_and_computed_enters(cast, forms, heads):
    error = after(lines(), 2.0, 4.0, cast, forms, heads).errors.of(-1).values[0, 0]
    expected = cast + 2 * (forms + heads)
    assert 1.0 <= error[0] <= 1.0 + 1e-12  # the radius of the cell
    assert expected <= error[1] <= expected + 1e-12


def test_slopes_are_those_of_the_whole_cell_and_of_the_run():
    error = after(lines("y[0]^2"), 0.0, 1.0, 0.5, 0.0, 0.0).errors.of(-1).values[0, 0, 1]
    assert 1.5**2 - 1.0 <= error <= 2 * 1.5 * 0.5 + 1e-12
    root = after(lines("sqrt(y[0])"), 0.0, 1.0, 1e-4, 0.0, 0.0).errors.of(-1).values[0, 0, 1]
    assert 1e-2 <= root <= 1e-2 + 1e-12


def test_heads_are_proved_where_runs_read():
    head = af.network.Head(
        np.array([[1.0]]),
        np.array([[1.0]]),
        memory_keys=np.array([[0.0], [1.0]]),
        memory_values=np.array([[0.0], [1.0]]),
    )
    network = Network((Attention((head,)),), 1, 1)
    form, out = (Forms({b: Balls.exact([[1.0]])}, Balls.exact([0.0])) for b in range(2))
    steps = Steps(1, (Block(parse("1/(1 + exp(-y[0]))"), (form,)),), out)
    ends = np.array([0.1]), np.array([0.3])  # no numbers of float32
    cover = Cover(ends[0][None], ends[1][None], lambda which, *_: np.zeros(len(which)))
    registers = Registers(network, machine("float32"), steps, ends, [np.array([2])], cover)
    assert registers.sources.low[1] < 0.1
    assert registers.sources.high[1] >= np.float32(0.3)
    registers.proceed()
    reading = Reading(np.ones((1, 1, 1)))
    (heads,) = registers.open([Group(np.array([0]), reading, 8)], np.ones((1, 1, 1)))
    _, low, high = heads.cells
    assert low[0, 0] <= np.float32(0.1) - 2 * abs(np.float32(0.1) - 0.1)
    assert high[0, 0] >= np.float32(0.3)
    assert low[0, 0] < 0.1
    assert high[0, 0] > 0.3
    registers.close()
    bound = registers.outputs().largest().values[0]
    points = np.linspace(0.1, 0.3, 1001)
    single = points.astype(np.float32)
    run = 1 / (1 + np.exp(-single))
    assert np.abs(run - 1 / (1 + np.exp(-points))).max() <= bound < 1e-5


@pytest.mark.parametrize("part", ["rest", "made", "rates"])
def test_what_is_read_beside_moves_queries_and_values(part):
    number, none = Up.of([[1.0]]), Up.zeros(1, 1)
    parts = {"rest": none, "made": none, "rates": Up.zeros(1, 1, 1)} | {
        part: number[..., None] if part == "rates" else number
    }
    query = Projection(np.ones((1, 1, 1)), np.zeros((1, 1)), **parts)
    keys, values = np.array([[[-1.0], [1.0]]]), np.array([[[0.0], [1.0]]])
    heads = Heads(query, None, None, keys, values, machine("float64"))
    y = Models.variables(degrees(1, 2), np.array([[1.0]]), np.array([[1.0]]))
    low, high = heads.values_on(np.array([0]), y).range()
    assert low[0] <= 0.5 + 1e-15  # of 1 - 1
    assert high[0] >= 1 / (1 + np.exp(-4.0)) - 1e-15  # of 1 + 1
