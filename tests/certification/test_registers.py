"""Bounds of registers against sampled runs with every slope and error that is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.balls import Balls, Up
from attnforge.certification.registers import Registers

RNG = np.random.default_rng


def chain(seed: int, depth: int = 4, width: int = 5, parts: int = 2):
    """Weights, slopes (mid, rad), errors of the forms and of the functions; some slopes are known."""
    rng = RNG(seed)
    blocks = []
    for _ in range(depth):
        rad = np.where(rng.random(width) < 0.5, 0.5, 0.0)
        mid = np.where(rad > 0, 0.5, rng.integers(0, 2, width).astype(float))
        errors = rng.random((2, width, parts)) * rng.choice([0.0, 1.0], size=(2, width, parts))
        blocks.append((rng.normal(size=(width, width)), mid, rad, errors[0], errors[1]))
    return rng.random((width, parts)), blocks


def composed(start, blocks):
    registers = Registers()
    last = registers.start(Up.of(start))
    for weight, mid, rad, before, after in blocks:
        forms = registers.read({last: Balls.exact(weight)}, Up.of(before))
        last = registers.write(forms, Balls(mid, rad), Up.of(after))
    return registers.error(last).values


def sampled(start, blocks, rng, part: int, signs):
    """A run of errors; where ``signs`` are given, the slopes are those that make the first output large."""
    delta = start[:, part] * rng.choice([-1, 1], size=len(start))
    for k, (weight, mid, rad, before, after) in enumerate(blocks):
        p = weight.T @ delta + before[:, part] * rng.choice([-1, 1], size=len(delta))
        wanted = rng.choice([-1, 1], size=len(p)) if signs is None else np.sign(p * signs[k])
        delta = (mid + rad * wanted) * p + after[:, part] * rng.choice([-1, 1], size=len(delta))
    return np.abs(delta)


@pytest.mark.parametrize("seed", range(8))
def test_no_run_leaves_the_bounds(seed):
    start, blocks = chain(seed)
    bound, rng = composed(start, blocks), RNG(seed)
    worst = np.zeros_like(bound)
    for _ in range(3000):
        signs = None if rng.random() < 0.5 else rng.choice([-1, 1], size=(len(blocks), len(start)))
        for part in range(bound.shape[1]):
            worst[:, part] = np.maximum(worst[:, part], sampled(start, blocks, rng, part, signs))
    assert np.all(worst <= bound)
    assert np.all(bound.max(axis=0) <= 12 * worst.max(axis=0))


def test_known_slopes_compose_exactly():
    """No kinks: the bound is |product| times the noise, signs kept, attained by the right signs."""
    start, blocks = chain(3)
    blocks = [(w, np.ones(len(w)), np.zeros(len(w)), 0 * before, 0 * after) for w, _, _, before, after in blocks]
    product = np.linalg.multi_dot([w for w, *_ in blocks])
    assert composed(start, blocks) == pytest.approx(np.abs(product).T @ start, rel=1e-12)


def test_euclidean_lengths_beat_absolute_values_in_deep_stacks():
    """Rotations do not expand: unknown slopes in [0, 1] cannot either, whatever |W| says."""
    rng, width = RNG(0), 40
    weights = [np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(6)]
    half, none = np.full(width, 0.5), np.zeros((width, 1))
    start = np.full((width, 1), 1.0)
    bound = composed(start, [(w, half, half, none, none) for w in weights])
    plain = np.linalg.multi_dot([np.abs(w) for w in weights]).T @ start
    assert bound.max() <= 2 * np.sqrt(width)
    assert plain.max() > 500 * bound.max()


def test_registers_that_are_read_twice_add_up():
    registers = Registers()
    x = registers.start(Up.of([[1.0]]))
    one, none = Balls.exact(np.ones(1)), Up.zeros(1, 1)
    y = registers.write(registers.read({x: Balls.exact([[3.0]])}, none), one, none)
    both = registers.read({x: Balls.exact([[-2.0]]), y: Balls.exact([[1.0]])}, none)
    assert both.error.values[0, 0] == pytest.approx(1.0, rel=1e-12)


def test_boxes_along_a_leading_axis_are_bounded_each_for_itself():
    start, blocks = chain(5)
    other = [(w, mid, 0 * rad, before, after) for w, mid, rad, before, after in blocks]
    single = [composed(start, blocks), composed(start, other)]
    stacked = [
        (w[0], *(np.stack([a, b]) for a, b in zip(w[1:], v[1:], strict=True)))
        for w, v in zip(blocks, other, strict=True)
    ]
    together = composed(np.stack([start, start]), stacked)
    assert together[0] == pytest.approx(single[0], rel=1e-9)
    assert together[1] == pytest.approx(single[1], rel=1e-9)


def iterated(jacobians, spreads, slopes, local, lipschitz):
    registers = Registers()
    block = registers.start(Up.zeros(*local[0].shape))
    for each in zip(jacobians, spreads, slopes, local, lipschitz, strict=True):
        middle, spread, (mid, rad), entered, q = each
        block = registers.step(block, Balls(middle, spread), Balls(mid, rad), Up.of(q), Up.of(entered))
    return registers, block


def descent(seed: int, steps: int = 30, width: int = 4):
    """Symmetric Jacobians of norm 0.9, known up to a spread; some slopes are not known at some steps."""
    rng = RNG(seed)
    basis = np.linalg.qr(rng.normal(size=(steps, width, width)))[0]
    jacobians = basis * rng.uniform(-0.9, 0.9, size=(steps, 1, width)) @ np.swapaxes(basis, 1, 2)
    spreads = 1e-3 * rng.random((steps, width, width))
    unsure = rng.random((steps, width)) < 0.1
    slopes = [(np.where(each, 0.5, 1.0), np.where(each, 0.5, 0.0)) for each in unsure]
    return jacobians, spreads, slopes, rng.random((steps, width, 2)), np.full(steps, 0.92)


@pytest.mark.parametrize("seed", range(4))
def test_no_iteration_leaves_its_bounds(seed):
    jacobians, spreads, slopes, local, lipschitz = descent(seed)
    registers, block = iterated(jacobians, spreads, slopes, local, lipschitz)
    bound, rng = registers.swept(block).values, RNG(seed)
    worst, length = np.zeros_like(bound), np.zeros(2)
    for _ in range(1000):
        delta = np.zeros_like(bound)
        for middle, spread, (mid, rad), entered in zip(jacobians, spreads, slopes, local, strict=True):
            matrix = middle + spread * rng.choice([-1, 1], size=spread.shape)
            slope = mid + rad * rng.choice([-1, 1], size=rad.shape)
            delta = slope[:, None] * (matrix.T @ delta) + entered * rng.choice([-1, 1], size=entered.shape)
        worst, length = np.maximum(worst, np.abs(delta)), np.maximum(length, np.linalg.norm(delta, axis=0))
    assert np.all(worst <= bound)
    assert np.all(length <= registers.length(block).values)
    assert np.all(bound.max(axis=0) <= 6 * worst.max(axis=0))


def test_adjoints_of_long_chains_do_not_blow_up():
    """|J| expands by 1.4 a step, J by nothing: a thousand roundings later the bound is still that of J."""
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    steps, none = 1000, np.zeros((2, 1))
    chain = [turn] * steps, [0 * turn] * steps, [(np.ones(2), np.zeros(2))] * steps
    local = [np.full((2, 1), 1e-3), *[none] * (steps - 1)]
    registers, block = iterated(*chain, local, np.full(steps, 1 + 1e-15))
    power = np.linalg.matrix_power(turn, steps - 1)
    assert registers.swept(block).values == pytest.approx(np.abs(power).T @ local[0], rel=1e-9)
