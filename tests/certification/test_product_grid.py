"""The grid behind claimed centres, and the values it should hold: by hand, and against what a builder writes."""

import ast
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge import certification
from attnforge.anchors.cells import reflected_values
from attnforge.anchors.product_grid import ProductGrid as Built
from attnforge.balls import Balls
from attnforge.certification.product_grid import ProductGrid, recognised, stray
from attnforge.certification.target_range import values_at
from attnforge.targets import Formula

ZERO, ONE = np.zeros(2), np.array([1.0, 3.0])


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)), st.integers(0, 3), st.integers(1, 3), st.floats(-50, 50), st.data()
)
def test_what_a_builder_writes_is_recognised(counts, ghosts, blocks, shift, data):
    ghosts = min(ghosts, *counts)
    built = Built(ZERO + shift, ONE + shift, counts, ghosts)
    found = recognised(np.tile(built.positions, (blocks, 1)), blocks, built.lower, built.upper)
    assert (found.counts, found.ghosts) == (counts, ghosts)
    assert np.array_equal(found.places, built.places)
    assert np.array_equal(found.origin, built.origin)
    assert np.array_equal(found.centres, built.positions)
    f = lambda x: np.column_stack([np.sin(x[:, 0] + 2 * x[:, 1]), x[:, 0] * x[:, 1]])  # noqa: E731
    held = found.values(lambda points: Balls.exact(f(points)))
    assert np.all(np.abs(held.mid - reflected_values(f, built.lower, built.upper, counts, ghosts)) <= held.rad)
    moved = np.tile(built.positions, (blocks, 1))
    moved[data.draw(st.integers(0, len(moved) - 1)), data.draw(st.integers(0, 1))] += 1e-6
    with pytest.raises(af.CertificateError, match="product grid of the domain's cells"):
        recognised(moved, blocks, built.lower, built.upper)


GRID = Built(ZERO, ONE, (2, 3), 1).positions


@pytest.mark.parametrize(
    ("positions", "blocks"),
    [(GRID[::-1], 1), (GRID[:-1], 1), (GRID[:, :1], 1), (GRID[:, ::-1], 1), (GRID[:0], 1), (GRID, 2), (GRID[:, 0], 1),
     (GRID * np.nan, 1), (np.tile(GRID[:1], (20, 1)), 1), (Built(ZERO, ONE, (1, 3), 2).positions, 1)],
)  # fmt: skip
def test_other_centres_are_refused(positions, blocks):
    with pytest.raises(af.CertificateError, match="product grid"):
        recognised(positions, blocks, ZERO, ONE)


def test_an_axis_without_length_is_refused():
    with pytest.raises(af.CertificateError, match="product grid"):
        recognised(GRID, 1, ZERO, np.array([1.0, 0.0]))


def test_stray_values_by_hand():
    """Cells of [0, 1] at 1/4 and 3/4 hold x^2 = 1/16, 9/16."""
    grid = ProductGrid(np.zeros(1), np.ones(1), (2,), 0)
    square = Formula("x^2", af.Box([0], [1]), ("x",))
    off, sizes = stray(np.array([[0.0625], [0.5]]), grid, partial(values_at, square), 1)
    np.testing.assert_allclose(off, [[0.0], [0.0625]], atol=1e-15)
    np.testing.assert_allclose(sizes, [[0.0625], [0.5625]], rtol=1e-15)
    assert np.all(off >= [[0.0], [0.0625]])
    assert np.all(sizes >= [[0.0625], [0.5625]])


def test_no_proof_shares_code_with_the_builder():
    for path in Path(certification.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith("attnforge.anchors") for name in names), path
