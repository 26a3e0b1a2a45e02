"""Samples in a file: back as they were, cut rows dropped, nothing in the file believed."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.errors import FileFormatError
from attnforge.targets.sample_cache import HEADER, append_samples, read_samples

MOST = 1000
POINTS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
VALUES = np.array([-1.0, 0.5, 1e-300])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "samples"


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 2)])
def test_samples_come_back_as_they_were(path, shape):
    values = np.random.default_rng(0).normal(size=(3, *shape))
    append_samples(path, POINTS[:2], values[:2])
    append_samples(path, POINTS[2:], values[2:])
    for asked in (shape, None):
        points, found = read_samples(path, 2, asked, MOST)
        assert points.tobytes() == POINTS.tobytes()
        assert found.shape == values.shape
        assert found.tobytes() == values.tobytes()


def test_the_layout_is_a_header_and_rows_of_doubles(path):
    append_samples(path, POINTS, VALUES)
    data = path.read_bytes()
    assert json.loads(data[:512]) == {
        "format": "attnforge samples",
        "version": 1,
        "dtype": "<f8",
        "inputs": 2,
        "shape": [],
    }
    assert np.frombuffer(data[512:], "<f8").tolist() == [1, 2, -1, 3, 4, 0.5, 5, 6, 1e-300]


def test_a_file_that_does_not_exist_is_made_empty(path):
    assert read_samples(path, 2, None, MOST) is None
    assert path.read_bytes() == b""


def test_no_more_rows_are_read_than_asked_for(path):
    append_samples(path, POINTS, VALUES)
    assert len(read_samples(path, 2, (), 2)[0]) == 2


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_row_cut_short_is_ignored_and_overwritten(path, cut):
    append_samples(path, POINTS, VALUES)
    os.truncate(path, path.stat().st_size - cut)
    assert read_samples(path, 2, (), MOST)[1].tolist() == VALUES[:2].tolist()
    append_samples(path, POINTS[2:] + 1, VALUES[2:] + 1)
    points, values = read_samples(path, 2, (), MOST)
    assert points.tolist() == [[1, 2], [3, 4], [6, 7]]
    assert values.tolist() == [-1.0, 0.5, 1.0]


@pytest.mark.parametrize("size", [0, 1, 20, 60, HEADER - 1])
def test_a_header_cut_short_is_written_again(path, size):
    append_samples(path, POINTS, VALUES)
    os.truncate(path, size)
    assert read_samples(path, 2, None, MOST) is None
    append_samples(path, POINTS, VALUES)
    assert read_samples(path, 2, (), MOST)[1].tolist() == VALUES.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_neither_written_nor_believed(path, bad):
    append_samples(path, POINTS, np.array([1.0, bad, 2.0]))
    assert read_samples(path, 2, (), MOST)[0].tolist() == [[1, 2], [5, 6]]
    for row in ([9.0, 9.0, bad], [bad, 9.0, 9.0]):
        with path.open("ab") as file:
            file.write(np.array(row).tobytes())
    assert read_samples(path, 2, (), MOST)[1].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("inputs", "shape", "got"),
    [(1, (), "inputs 2"), (3, None, "inputs 2"), (2, (1,), r"shape \[\]"), (2, (3, 2), r"shape \[\]")],
)
def test_samples_of_other_shapes_are_refused_with_the_remedy(path, inputs, shape, got):
    append_samples(path, POINTS, VALUES)
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match=rf"must hold samples of {inputs} inputs.*{got}.*another cache path"):
        read_samples(path, inputs, shape, MOST)
    with pytest.raises(FileFormatError, match="another cache path"):
        append_samples(path, np.zeros((1, inputs)), np.zeros((1, *(shape or ()))))
    assert path.read_bytes() == before


def header(**changes):
    known = {"format": "attnforge samples", "version": 1, "dtype": "<f8", "inputs": 2, "shape": []}
    return json.dumps(known | changes).encode().ljust(HEADER - 1) + b"\n"


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04",
        b"x" * 1000,
        b"\x80\x04\x95" + b"\0" * 600,
        header(format="other samples"),
        header(version=2),
        header(dtype=">f8"),
        header(inputs="2"),
        header(shape=[0]),
        header(shape=[-1]),
        header(shape=[True]),
        header(shape=[2.0]),
        header(shape="()"),
        header(shape=[1, 1, 1]),
        header(shape=[10**15, 10**15]),
        header(more=1),
        b'{"format": "attnforge samples"' + b"[" * 1000,
        b'{"format": "attnforge samples"' + b" " * 1000,
        b'{"format": "attnforge samples", "a": ' + b"[" * 1000,
        b'{"format": "attnforge samples", "a": "\xff"}'.ljust(HEADER),
    ],
)
def test_what_is_no_file_of_samples_is_refused_and_left_alone(path, data):
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match="cache"):
        read_samples(path, 2, None, MOST)
    with pytest.raises(FileFormatError, match="cache"):
        append_samples(path, POINTS, VALUES)
    assert path.read_bytes() == data


def test_a_shape_too_large_for_the_file_allocates_nothing(path):
    path.write_bytes(header(shape=[2**20, 2**11]) + bytes(100))
    points, values = read_samples(path, 2, None, MOST)
    assert points.shape == (0, 2)
    assert len(values) == 0


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    for bad in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(FileFormatError, match=r"can be read and written.*existing folder"):
            read_samples(bad, 2, None, MOST)


@given(st.lists(st.lists(st.floats(), min_size=3, max_size=3), max_size=20), st.integers(0, 3))
def test_exactly_the_finite_rows_survive(tmp_path_factory, rows, split):
    path = tmp_path_factory.mktemp("cache") / "samples"
    given_rows = np.array(rows).reshape(-1, 3)
    for part in (given_rows[:split], given_rows[split:]):
        append_samples(path, part[:, :2], part[:, 2])
    points, values = read_samples(path, 2, (), MOST)
    kept = given_rows[np.isfinite(given_rows).all(axis=1)]
    assert np.column_stack([points, values]).tobytes() == kept.tobytes()


def write_many(path, name):
    for i in range(200):
        append_samples(path, np.full((7, 1), name + i), np.full((7, 2), name + i))


def test_a_system_without_locks_does_as_well(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as in Windows: importing it raises ImportError
    append_samples(path, POINTS[:1], VALUES[:1])
    append_samples(path, POINTS[1:], VALUES[1:])
    assert read_samples(path, 2, (), MOST)[1].tobytes() == VALUES.tobytes()


def test_two_writers_mix_batches_and_never_bytes(path):
    processes = [multiprocessing.get_context("fork").Process(target=write_many, args=(path, n)) for n in (0, 1000)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    points, values = read_samples(path, 1, (2,), 10_000)
    assert np.array_equal(values, np.repeat(points, 2, axis=1))
    assert np.array_equal(np.sort(points[:, 0]), np.repeat(np.r_[0:200, 1000:1200], 7))
    assert np.array_equal(points.reshape(-1, 7), np.repeat(points[::7], 7, axis=1))
