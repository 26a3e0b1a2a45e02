"""Careful evaluation: every value once, batches, workers, a cache that resumes, and errors that name a point."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.effort import at_least, until
from attnforge.errors import FileFormatError, OutOfTimeError, TargetError
from attnforge.targets import Box, evaluation
from attnforge.targets.evaluation import Evaluation, failing_row
from attnforge.targets.sample_cache import append_samples, read_samples
from tests.clock import at_most


class Counted:
    """A function of (N, d) rows that notes how often it was called, and on which rows."""

    def __init__(self, function):
        self.function, self.batches = function, []

    def __call__(self, rows):
        self.batches.append(rows.copy())
        return self.function(rows)

    @property
    def sizes(self):
        return [len(batch) for batch in self.batches]

    @property
    def rows(self):
        return np.concatenate(self.batches)


def squares(rows):
    return (rows**2).sum(axis=1)


def column(*numbers):
    return np.array(numbers, dtype=np.float64)[:, None]


def grid(count):
    return np.linspace(-1, 1, count)[:, None]


def test_each_value_is_computed_once():
    f, careful = Counted(squares), Evaluation()
    assert careful.values(f, column(1, 2, 1, 3, 2)).tolist() == [1, 4, 1, 9, 4]
    assert careful.values(f, column(3, 4, 1)).tolist() == [9, 16, 1]
    assert careful.values(f, column(4, 4)).tolist() == [16, 16]
    assert [batch[:, 0].tolist() for batch in f.batches] == [[1, 2, 3], [4]]
    assert careful.remembered == 4


def test_both_zeros_are_one_point():
    f, careful = Counted(lambda rows: np.copysign(1.0, rows[:, 0])), Evaluation()
    assert careful.values(f, column(-0.0, 0.0)).tolist() == [1, 1]
    assert f.sizes == [1]


def test_an_empty_request_calls_nothing():
    f, careful = Counted(lambda rows: np.repeat(rows, 3, axis=1)), Evaluation()
    careful.values(f, grid(2))
    assert careful.values(f, np.empty((0, 1))).shape == (0, 3)
    assert f.sizes == [2]


def test_values_that_are_not_finite_are_remembered_too():
    f, careful = Counted(lambda rows: np.where(rows[:, 0] > 0, np.nan, np.inf)), Evaluation()
    for _ in range(2):
        assert np.array_equal(careful.values(f, column(1, -1)), [np.nan, np.inf], equal_nan=True)
    assert f.sizes == [2]


def test_answers_are_copies():
    careful = Evaluation()
    careful.values(squares, column(1, 2))[:] = 7
    careful.values(squares, column(1, 2))[:] = 7
    assert careful.values(squares, column(1, 2)).tolist() == [1, 4]


@given(st.lists(st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), max_size=12), max_size=6))
def test_memory_changes_no_value_and_saves_every_repetition(requests):
    f, careful = Counted(lambda rows: np.stack([rows[:, 0] - rows[:, 1], rows[:, 0]], axis=1)), Evaluation()
    for request in requests:
        rows = np.array(request, dtype=np.float64).reshape(-1, 2)
        found = careful.values(f, rows)
        if len(rows):
            assert np.array_equal(found, f.function(rows))
    seen = [tuple(row) for batch in f.batches for row in batch.tolist()]
    assert len(seen) == len(set(seen)) == len({tuple(row) for request in requests for row in request})


@pytest.mark.parametrize(("name", "limit"), [("MOST_ROWS", 5), ("MOST_NUMBERS", 10)])
def test_no_more_is_remembered_than_there_is_room_for(monkeypatch, tmp_path, name, limit):
    monkeypatch.setattr(evaluation, name, limit)
    f, careful = Counted(squares), Evaluation(cache=tmp_path / "c")
    for _ in range(2):
        assert np.array_equal(careful.values(f, grid(9)), squares(grid(9)))
    assert f.sizes == [9, 4]
    assert careful.remembered == 5
    assert len(read_samples(tmp_path / "c", 1, (), 100)[0]) == 5


def test_memory_is_quick():
    careful, rows = Evaluation(), np.random.default_rng(0).uniform(size=(100_000, 2))
    with at_most(len(rows) // 100):  # none of them once a row
        for _ in range(2):
            careful.values(squares, rows)


def test_one_evaluation_serves_one_function():
    careful = Evaluation()
    careful.values(squares, grid(3))
    with pytest.raises(TargetError, match=r"values of one function.*Make one for each"):
        careful.values(lambda rows: rows[:, 0], grid(3))


@pytest.mark.parametrize("workers", [0, -2, 1.5, True, "2", None])
def test_senseless_workers_are_refused(workers):
    with pytest.raises(TargetError, match="`workers` must be at least 1, or -1"):
        Evaluation(workers=workers)


@pytest.mark.parametrize("batch", [0, -1, 2.0, True])
def test_senseless_batches_are_refused(batch):
    with pytest.raises(TargetError, match="`batch` must be at least 1"):
        Evaluation(batch=batch)


def test_all_rows_go_in_one_call_unless_there_is_a_reason():
    f = Counted(squares)
    Evaluation().values(f, grid(5000))
    assert f.sizes == [5000]


def test_very_many_rows_are_cut(monkeypatch):
    monkeypatch.setattr(evaluation, "ALL_AT_ONCE", 100)
    f = Counted(squares)
    assert np.array_equal(Evaluation().values(f, grid(1000)), squares(grid(1000)))
    assert max(f.sizes) <= 100
    assert sum(f.sizes) == 1000


def test_batches_grow_while_they_are_quick(tmp_path):
    f = Counted(squares)
    Evaluation(cache=tmp_path / "c").values(f, grid(5000))
    assert f.sizes == [16, 64, 256, 1024, 3640]


def test_batches_of_slow_rows_take_about_a_second(clock):
    f = slowly(clock, lambda rows: 0.1 * rows)
    Evaluation(progress=lambda done, rows: None).values(f, grid(46))
    assert f.sizes == [16, 10, 10, 10]


def test_a_slow_start_makes_small_batches():
    f, careful = Counted(squares), Evaluation(progress=lambda done, rows: None)
    careful.remember(f, column(5, 6), np.array([25.0, 36.0]), seconds=120.0)
    careful.values(f, grid(4))
    assert f.sizes[0] == 1


def slowly(clock, seconds):
    """A function that takes so long for a number of rows."""

    def slow(rows):
        clock.passes(seconds(len(rows)))
        return squares(rows)

    return Counted(slow)


def test_where_there_is_an_end_it_is_looked_at_between_batches(clock):
    f = slowly(clock, lambda rows: 0.1 * rows)
    evaluated = Evaluation()
    evaluated.remember(f, column(5, 6), np.array([25.0, 36.0]), seconds=0.2)
    with until(4.0), pytest.raises(OutOfTimeError, match="evaluating the function unfinished when time was up"):
        evaluated.values(f, grid(1000))
    assert 4.0 <= clock.now < 4.2
    assert evaluated.remembered == 2 + sum(f.sizes)  # what was done is kept
    with until(1.0), pytest.raises(OutOfTimeError):
        evaluated.values(f, grid(1000))
    assert len(np.unique(f.rows)) == sum(f.sizes)


def test_an_end_that_is_far_for_quick_rows_changes_nothing(clock):
    f = slowly(clock, lambda rows: 1e-5 * rows)
    evaluated = Evaluation()
    evaluated.remember(f, column(5, 6), np.array([25.0, 36.0]), seconds=2e-5)
    with until(60.0):
        evaluated.values(f, grid(5000))
    assert f.sizes == [5000]


def test_calls_that_take_long_whatever_their_rows_get_more_of_them(clock):
    f = slowly(clock, lambda rows: 0.5)
    evaluated = Evaluation()
    evaluated.remember(f, column(5, 6), np.array([25.0, 36.0]), seconds=0.5)
    with until(20.0):
        evaluated.values(f, grid(1000))
    assert len(f.sizes) <= 10
    assert clock.now <= 5.0


def test_what_chose_by_the_clock_is_not_cut_off_at_once(clock):
    f = slowly(clock, lambda rows: 0.1 * rows)
    with until(1.0):
        clock.passes(2.0)
        with pytest.raises(OutOfTimeError):
            Evaluation().values(f, grid(2))
        with at_least(0.5):
            assert np.array_equal(Evaluation().values(f, grid(2)), squares(grid(2)))


def test_a_given_batch_is_kept_to():
    f = Counted(squares)
    Evaluation(batch=3).values(f, grid(8))
    assert f.sizes == [3, 3, 2]


def test_progress_counts_the_rows_of_the_request():
    seen = []
    careful = Evaluation(batch=2, progress=lambda done, rows: seen.append((done, rows)))
    careful.values(squares, column(1, 2, 1, 3))
    careful.values(squares, column(3, 4, 5, 6))
    careful.values(squares, column(1, 6))
    careful.values(squares, np.empty((0, 1)))
    assert seen == [(3, 4), (4, 4), (3, 4), (4, 4), (2, 2)]


def test_values_computed_elsewhere_are_taken_in(tmp_path):
    f, careful = Counted(squares), Evaluation(cache=tmp_path / "c")
    careful.remember(f, column(1, 2, 2), np.array([1.0, 4.0, 4.0]), seconds=0.1)
    assert careful.values(f, column(2, 1)).tolist() == [4, 1]
    assert f.batches == []
    assert read_samples(tmp_path / "c", 1, (), 9)[0].tolist() == [[1], [2]]


@pytest.mark.parametrize("found", [np.zeros(()), np.zeros(3), np.zeros((1, 4))])
def test_one_value_a_point_is_asked_for(found):
    with pytest.raises(TargetError, match="one value a point"):
        Evaluation().values(lambda rows: found, grid(4))


def test_a_shape_that_changes_is_refused():
    with pytest.raises(TargetError, match=r"same shape.*Got shape \(2,\) after \(3,\)"):
        Evaluation(batch=3).values(lambda rows: np.zeros((len(rows), len(rows))), grid(5))


# A function that raises.


def raising_at(*numbers):
    def function(rows):
        if np.isin(rows[:, 0], numbers).any():
            raise ZeroDivisionError("no value here")
        return rows[:, 0]

    return Counted(function)


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000, 2**17])
@pytest.mark.parametrize("where", [0.0, 0.37, 1.0])
def test_a_failing_point_is_named_after_few_calls(size, where):
    bad = round(where * (size - 1))
    f = raising_at(bad)
    match = rf"every point of its domain\. Got ZeroDivisionError: no value here at \[{bad}\.\]\. Shrink the domain"
    with pytest.raises(TargetError, match=match) as caught:
        Evaluation().values(f, np.arange(float(size))[:, None])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert len(f.batches) <= 1 + 18 + 1


@given(st.sets(st.integers(0, 99), min_size=1))
def test_the_row_named_is_one_that_fails(bad):
    rows = np.arange(100.0)[:, None]
    assert failing_row(raising_at(*bad), rows)[0] in bad


def test_a_failure_of_no_single_point_is_told_as_such():
    def single(rows):
        if len(rows) > 1:
            raise ValueError("one at a time")
        return rows[:, 0]

    f = Counted(single)
    with pytest.raises(TargetError, match=r"one at a time on 500 points from \[-1\.\] on.*batch=1"):
        Evaluation().values(f, grid(500))
    assert len(f.batches) <= 1 + evaluation.EXTRA_CALLS
    assert np.array_equal(Evaluation(batch=1).values(f, grid(5)), grid(5)[:, 0])


def test_what_came_before_a_failure_is_kept(tmp_path):
    f, careful = raising_at(5.0), Evaluation(cache=tmp_path / "c", batch=2)
    with pytest.raises(TargetError, match=r"at \[5\.\]"):
        careful.values(f, np.arange(8.0)[:, None])
    assert read_samples(tmp_path / "c", 1, (), 9)[1].tolist() == [0, 1, 2, 3]
    f.batches.clear()
    assert careful.values(f, np.arange(4.0)[:, None]).tolist() == [0, 1, 2, 3]
    assert f.batches == []


# A cache.


def test_a_second_run_computes_only_what_is_new_and_a_few_points_again(tmp_path):
    first, second = Counted(squares), Counted(squares)
    Evaluation(cache=tmp_path / "c").values(first, grid(1001))
    again = Evaluation(cache=tmp_path / "c")
    assert np.array_equal(again.values(second, np.concatenate([grid(1001), column(7)])), [*squares(grid(1001)), 49])
    assert second.sizes == [5, 1]
    checked = second.batches[0][:, 0]
    assert checked.tolist() == grid(1001)[[0, 250, 500, 750, 1000], 0].tolist()


def test_fewer_points_than_five_are_checked_once_each(tmp_path):
    Evaluation(cache=tmp_path / "c").values(squares, column(1, 2))
    f = Counted(squares)
    assert Evaluation(cache=tmp_path / "c").values(f, column(2)).tolist() == [4]
    assert f.rows[:, 0].tolist() == [1, 2]


def test_several_outputs_are_stored(tmp_path):
    def f(rows):
        return np.stack([rows, -rows], axis=1)

    rows = np.random.default_rng(0).normal(size=(40, 3))
    for _ in range(2):
        assert np.array_equal(Evaluation(cache=tmp_path / "c").values(f, rows), f(rows))


def test_the_cache_of_another_function_is_refused(tmp_path):
    Evaluation(cache=tmp_path / "c").values(squares, column(3, 2))
    before = (tmp_path / "c").read_bytes()
    match = r"must hold values of this function\. Got 9\.0? stored and 27\.0? computed at \[3\.\].*another cache path"
    with pytest.raises(TargetError, match=match):
        Evaluation(cache=tmp_path / "c").values(lambda rows: rows[:, 0] ** 3, column(4))
    assert (tmp_path / "c").read_bytes() == before


@pytest.mark.parametrize(("change", "agrees"), [(1e-13, True), (1e-11, False), (np.nan, False)])
def test_stored_values_agree_to_rounding(tmp_path, change, agrees):
    append_samples(tmp_path / "c", column(2.0), np.array([4.0]))
    careful = Evaluation(cache=tmp_path / "c")
    if agrees:
        assert careful.values(lambda rows: squares(rows) * (1 + change), column(2.0)).tolist() == [4.0]
    else:
        with pytest.raises(TargetError, match="another function"):
            careful.values(lambda rows: squares(rows) * (1 + change), column(2.0))


def test_points_outside_the_domain_are_not_evaluated(tmp_path):
    Evaluation(cache=tmp_path / "c").values(squares, grid(101))
    f = Counted(squares)
    Evaluation(cache=tmp_path / "c").values(f, column(0.1), Box([0.0], [0.5]))
    assert f.rows.min() >= 0
    assert f.rows.max() <= 0.5


def test_a_cache_without_a_point_that_may_be_checked_is_not_believed(tmp_path):
    append_samples(tmp_path / "c", column(2, 3), np.array([-1.0, -1.0]))
    careful = Evaluation(cache=tmp_path / "c")
    assert careful.values(squares, column(0.5), Box([0.0], [1.0])).tolist() == [0.25]
    assert careful.values(squares, column(2), Box([0.0], [2.0])).tolist() == [4]


def test_stored_rows_without_a_finite_value_are_computed(tmp_path):
    append_samples(tmp_path / "c", column(1), np.array([1.0]))
    with (tmp_path / "c").open("ab") as file:
        file.write(np.array([2.0, np.nan]).tobytes())
    assert Evaluation(cache=tmp_path / "c").values(squares, column(1, 2)).tolist() == [1, 4]


def test_repeated_rows_and_negative_zeros_in_a_file_do_no_harm(tmp_path):
    append_samples(tmp_path / "c", column(1, 1, -0.0, 2), np.array([1.0, 1.0, 0.0, 4.0]))
    f = Counted(squares)
    careful = Evaluation(cache=tmp_path / "c")
    assert careful.values(f, column(0, 2, 1, 3)).tolist() == [0, 4, 1, 9]
    assert careful.values(f, column(3, 2, 1, 0)).tolist() == [9, 4, 1, 0]
    assert f.batches[-1].tolist() == [[3]]


def test_a_cache_of_other_shapes_is_refused(tmp_path):
    Evaluation(cache=tmp_path / "c").values(squares, grid(3))
    with pytest.raises(FileFormatError, match="samples of 2 inputs"):
        Evaluation(cache=tmp_path / "c").values(squares, np.zeros((1, 2)))
    with pytest.raises(FileFormatError, match=r"values of shape \(1,\).*another cache path"):
        Evaluation(cache=tmp_path / "c").values(lambda rows: rows, grid(3))


def test_a_folder_that_does_not_exist_is_told_before_anything_is_computed(tmp_path):
    f = Counted(squares)
    with pytest.raises(FileFormatError, match="existing folder"):
        Evaluation(cache=tmp_path / "no" / "c").values(f, grid(3))
    assert f.batches == []


# Workers.


def test_workers_give_the_same_values_in_other_processes(tmp_path):
    shift, rows = 0.25, np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    here = os.getpid()

    def function(rows):
        return np.stack(
            [np.sin(rows[:, 0] + shift) * rows[:, 1], np.full(len(rows), float(os.getpid() == here))], axis=1
        )

    seen = []
    careful = Evaluation(workers=2, cache=tmp_path / "c", progress=lambda done, rows: seen.append((done, rows)))
    found = careful.values(function, rows)
    assert np.array_equal(found[:, 0], Evaluation().values(lambda rows: function(rows)[:, 0], rows))
    assert found[:16, 1].tolist() == [0.0] * 16
    assert seen[-1] == (300, 300)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    points, values = read_samples(tmp_path / "c", 2, (2,), 1000)
    assert sorted(map(tuple, points.tolist())) == sorted(map(tuple, rows.tolist()))
    assert np.array_equal(values[np.lexsort(points.T)], found[np.lexsort(rows.T)])


def test_a_failure_in_a_worker_names_the_point_and_keeps_the_others_work():
    def function(rows):
        if (rows[:, 0] == 37).any():
            raise ZeroDivisionError("no value here")
        return rows[:, 0]

    careful = Evaluation(workers=2, batch=10)
    with pytest.raises(TargetError, match=r"no value here at \[37\.\]\. Shrink") as caught:
        careful.values(function, np.arange(60.0)[:, None])
    assert "ZeroDivisionError" in str(caught.value.__cause__)
    assert careful.remembered == 50


def test_what_cannot_travel_is_refused_with_the_remedy():
    lock = threading.Lock()
    with pytest.raises(TargetError, match=r"able to travel.*workers=1"):
        Evaluation(workers=2).values(lambda rows: rows[:, 0] + lock.locked(), grid(40))


def test_a_worker_that_dies_is_told():
    with pytest.raises(TargetError, match=r"must not end the process.*from \[-1\.\] on.*fewer workers"):
        Evaluation(workers=2).values(lambda rows: os._exit(3), grid(40))


def test_settings_for_warnings_travel():
    with np.errstate(divide="raise"), pytest.raises(TargetError, match=r"FloatingPointError.*at \[0\.\]"):
        Evaluation(workers=2).values(lambda rows: 1 / rows[:, 0], grid(41))


def test_quick_rows_are_not_sent():
    f, careful = Counted(squares), Evaluation(workers=-1)
    careful.remember(f, column(5), np.array([25.0]), seconds=1e-5)
    careful.values(f, grid(1000))
    assert sum(f.sizes) == 1000
