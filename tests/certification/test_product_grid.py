"""The grid behind scores, and the values it should hold: by hand, and against what a builder writes."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import attnforge as af
from attnforge import certification
from attnforge.anchors.cells import reflected_values
from attnforge.anchors.product_grid import ProductGrid as Built
from attnforge.balls import Balls
from attnforge.certification.product_grid import Cells, recognised

ZERO, ONE = np.zeros(2), np.array([1.0, 3.0])


def seen(centres: np.ndarray, steps: np.ndarray, lower: np.ndarray, upper: np.ndarray, c: float = 2.0) -> Cells:
    """What is recognised in scores -c |x - centre|^2 / step^2, up to a term common to all."""
    return recognised(2 * c * centres / steps**2, -c * np.square(centres / steps).sum(axis=1), lower, upper)


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.integers(0, 3),
    st.integers(1, 3),
    st.floats(-50, 50),
    st.floats(0.1, 40),
    st.integers(0, 99),
)
def test_what_a_builder_writes_is_recognised(counts, ghosts, blocks, shift, c, seed):
    """In any order, as often as there are tokens."""
    ghosts = min(ghosts, *counts)
    assume(ghosts or counts != (1, 1))  # one cell shows nothing
    built = Built(ZERO + shift, ONE + shift, counts, ghosts)
    order = np.random.default_rng(seed).permutation(blocks * len(built.positions))
    cells = seen(np.tile(built.positions, (blocks, 1))[order], built.steps, built.lower, built.upper, c)
    found = cells.grid
    assert (found.counts, found.ghosts) == (counts, ghosts)
    assert np.array_equal(found.places, built.places)
    assert np.array_equal(found.origin, built.origin)
    assert np.array_equal(found.centres, built.positions)
    assert np.array_equal(cells.place, order % len(built.positions))
    assert np.array_equal(cells.place[cells.own], np.arange(len(built.positions)))
    assert len(cells.copies) == (blocks - 1) * len(built.positions)
    assert cells.sharpness == pytest.approx(c, rel=1e-6)
    f = lambda x: np.column_stack([np.sin(x[:, 0] + 2 * x[:, 1]), x[:, 0] * x[:, 1]])  # noqa: E731
    held = found.values(lambda points: Balls.exact(f(points)))
    assert np.all(np.abs(held.mid - reflected_values(f, built.lower, built.upper, counts, ghosts)) <= held.rad)


GRID = Built(ZERO, ONE, (2, 3), 1)
LESS = GRID.positions[:-1]
MOVED = GRID.positions + 0.5 * GRID.steps * (np.arange(20) == 7)[:, None]
OTHERS = {
    "a key less": LESS,
    "a key moved by half a cell": MOVED,
    "half a cell aside": GRID.positions + 0.5 * GRID.steps,
    "cells of another size": GRID.positions * 1.3,
    "axes exchanged": GRID.positions[:, ::-1],
    "nothing but ghosts": Built(ZERO, ONE, (1, 3), 2).positions,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_centres_are_refused(name):
    with pytest.raises(af.CertificateError, match="product grid of the domain's cells"):
        seen(OTHERS[name], GRID.steps, ZERO, ONE)


def test_infinite_scores_are_refused():
    with pytest.raises(af.CertificateError, match="differ by float64 numbers"):
        seen(GRID.positions * np.inf, GRID.steps, ZERO, ONE)


def test_an_axis_without_length_is_refused():
    with pytest.raises(af.CertificateError, match="product grid"):
        seen(GRID.positions, GRID.steps, ZERO, np.array([1.0, 0.0]))


def test_no_proof_shares_code_with_the_builder():
    for path in Path(certification.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith("attnforge.anchors") for name in names), path
