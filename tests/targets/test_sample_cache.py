"""Samples in a file: exactly the finite rows come back, whoever wrote them, and writers never mix bytes."""

from __future__ import annotations

import multiprocessing

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnforge.targets.sample_cache import append_samples, read_samples


@given(st.lists(st.lists(st.floats(), min_size=3, max_size=3), max_size=20), st.integers(0, 3))
def test_exactly_the_finite_rows_survive(tmp_path_factory, rows, split):
    path = tmp_path_factory.mktemp("cache") / "samples"
    given_rows = np.array(rows).reshape(-1, 3)
    for part in (given_rows[:split], given_rows[split:]):
        append_samples(path, part[:, :2], part[:, 2])
    points, values = read_samples(path, 2, (), 1000)
    kept = given_rows[np.isfinite(given_rows).all(axis=1)]
    assert np.column_stack([points, values]).tobytes() == kept.tobytes()
    assert len(read_samples(path, 2, None, 2)[0]) == min(2, len(kept))


def write_many(path, name):
    for i in range(200):
        append_samples(path, np.full((7, 1), name + i), np.full((7, 2), name + i))


def test_two_writers_mix_batches_and_never_bytes(tmp_path):
    path = tmp_path / "samples"
    processes = [multiprocessing.get_context("fork").Process(target=write_many, args=(path, n)) for n in (0, 1000)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    points, values = read_samples(path, 1, (2,), 10_000)
    assert np.array_equal(values, np.repeat(points, 2, axis=1))
    assert np.array_equal(np.sort(points[:, 0]), np.repeat(np.r_[0:200, 1000:1200], 7))
    assert np.array_equal(points.reshape(-1, 7), np.repeat(points[::7], 7, axis=1))
