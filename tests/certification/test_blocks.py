"""Graphs as blocks of registers: no error of a run leaves its bound, and no bound exceeds sums over paths."""

import numpy as np
import pytest
from flint import arb

from attnforge.certification.graph.blocks import Blocks
from attnforge.targets.expression import evaluate
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.parse import parse
from attnforge.targets.graph import Graph

STEPS = [
    "sin(r[1] + 2*r[2])",
    "r[3]*(r[2] - r[1])",
    "relu(r[3] - r[4])",
    "r[4]*exp(r[5] - 1)",
    "tanh(r[6] + r[3] - r[5])",
]
OUTPUTS = ["r[7] - r[6] + 0.5*r[3]", "3*r[5] - r[1]"]
LOCAL = [1e-7, 0.0, 1e-6, 3e-6, 2e-7, 1e-6, 5e-7]


def graph_on(low: float, high: float) -> Graph:
    return Graph([Interval(arb(low), arb(high))] * 2, [parse(step) for step in STEPS], [parse(out) for out in OUTPUTS])


def run(points: np.ndarray, off: np.ndarray) -> np.ndarray:
    """The outputs (2, N) where every register is off by so much (7, N) from its formula of those before."""
    registers = {f"r[{i + 1}]": points[i] + off[i] for i in range(2)}
    for i, step in enumerate(STEPS, start=2):
        registers[f"r[{i + 1}]"] = evaluate(parse(step), registers) + off[i]
    return np.stack([evaluate(parse(out), registers) for out in OUTPUTS])


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.25, 0.5), (-0.9, -0.8)])
def test_no_run_leaves_the_bound(ends):
    graph = graph_on(*ends)
    blocks, composed = Blocks(graph), graph.compose(LOCAL)
    bound = blocks.errors([composed], np.array(LOCAL) / 4).values[0].sum(axis=-1)
    rng = np.random.default_rng(0)
    points = rng.uniform(*ends, size=(2, 20_000))
    off = np.array(LOCAL)[:, None] * rng.choice([-1.0, 1.0], size=(7, 20_000))
    errors = np.abs(run(points, off) - run(points, 0 * off)).max(axis=1)
    assert np.all(errors <= bound)
    assert np.all(bound <= 4 * errors)
    paths = [np.dot(graph.sensitivities(composed.slopes, output), LOCAL) for output in graph.outputs]
    assert np.all(bound <= np.array(paths) * (1 + 1e-9))


def test_boxes_are_looked_at_together():
    graph = graph_on(-1.0, 1.0)
    blocks = Blocks(graph)
    parts = [graph.compose(LOCAL, [Interval(arb(a), arb(a + 0.5))] * 2) for a in (-1.0, 0.0, 0.5)]
    alone = [blocks.errors([part], [0.0] * 7).values[0] for part in parts]
    assert np.allclose(blocks.errors(parts, [0.0] * 7).values, alone, rtol=1e-9)


def test_errors_add_up_by_part():
    graph = graph_on(-1.0, 1.0)
    made = [0.0] * 6 + [5e-7]
    found = Blocks(graph).errors([graph.compose(LOCAL)], made).values[0]
    assert found[0, 1] == pytest.approx(5e-7)  # the last register is read once, by the first output
    assert found[1, 1] == 0.0
