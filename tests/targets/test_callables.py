"""Callables as targets: shapes found by calling, each value computed once, caches that resume, errors with a point."""

from __future__ import annotations

import json
import math
import os
import threading

import numpy as np
import pytest
import torch

import attnforge as af
from tests.refusals import refused

LINE, PAIR, TOKENS = [(-1, 1)], af.Box(0, 1, shape=(2,)), af.Box(0, 1, shape=(3, 2))
LOOSE = {"tol": 1e9, "effort": "low"}  # the target is made, and hardly a network


class Counted:
    """A function that keeps every point it was asked for."""

    def __init__(self, function):
        self.function, self.batches = function, []

    def __call__(self, points):
        self.batches.append(np.stack([np.asarray(point) for point in points]))
        return self.function(points)

    @property
    def points(self):
        return np.concatenate(self.batches)


SHAPES = [
    (np.sin, LINE, None, (5,)), (lambda x: x[..., 0] * x[..., 1], PAIR, None, (5,)),
    (lambda x: np.stack([x[..., 0]] * 4, axis=-1), PAIR, 4, (5, 4)), (lambda x: x.sum(axis=-1), TOKENS, None, (5, 3)),
    (lambda x: np.sort(x, axis=-2), TOKENS, 2, (5, 3, 2)), (lambda x: torch.relu(x).sum(dim=-1), PAIR, None, (5,)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "box", "outputs", "shape"), SHAPES)
def test_shapes_are_found_by_calling(function, box, outputs, shape):
    target = af.compile(function, box, **LOOSE).target
    points = np.full((5, *target.domain.shape), 0.5)
    assert target.outputs == outputs
    assert target.values(points).shape == shape
    assert target.values(np.stack([points, points])).shape == (2, *shape)


def raising(error):
    def function(x):
        raise error

    return function


WRONG = {
    "one number": (lambda x: 1.0, PAIR), "a number of a point": (lambda x: float(x[0, 0]), PAIR),
    "text": (lambda x: "text", PAIR), "no method": (lambda x: x.no_such_method(), PAIR),
    "a sum": (lambda x: x.sum(), PAIR), "a sum of numbers": (np.sum, LINE), "a maximum": (np.max, TOKENS),
    "kept dimensions": (lambda x: x.sum(keepdims=True), PAIR), "two arguments": (lambda x, y: np.sin(x) * y, PAIR),
    "complex": (lambda x: x[..., 0] + 0j, PAIR), "complex of torch": (lambda x: torch.view_as_complex(x).conj(), PAIR),
    "single precision": (torch.nn.Conv1d(2, 1, 1), PAIR), "too many axes": (np.sin, af.Box(0, 1, shape=(2, 2, 2))),
    "a number for a target": (3, LINE), "nothing": (None, LINE),
    "infinite": (lambda x: np.where(x > 0.3, np.inf, x), LINE),
    "not a number": (lambda x: np.where(x > 0.3, np.nan, x), LINE), "a jump": (lambda x: 1.0 * (x > 0.3), LINE),
    "that raises": (raising(ZeroDivisionError("no value")), LINE),
    "that depends on the batch": (lambda x: x.sum(axis=0), PAIR),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_function_of_points_is_refused(name):
    with refused(af.TargetError) as caught:
        af.compile(*WRONG[name], 1e-2)
    assert caught.value.remedy


ONE, ROW, SEQUENCE = "np.vectorize(f, otypes=[float])", 'signature="(d)->()"', 'signature="(n,d)->(n)"'


@pytest.mark.parametrize(
    ("function", "box", "remedy"),
    [
        (lambda x: math.sin(x), LINE, ONE),
        (lambda x: x if x > 0 else -x, LINE, ONE),
        (lambda x: max(x, 0), LINE, ONE),
        (lambda x: [math.sin(x), x], LINE, 'signature="()->(k)"'),
        (lambda p: math.hypot(*p), PAIR, ROW),
        (lambda p: p[0] if p[0] > p[1] else p[1], PAIR, ROW),
        (lambda p: [math.sin(p[0]), p[1], 1.0], PAIR, 'signature="(d)->(k)"'),
        (lambda x: [math.hypot(*row) for row in x], TOKENS, SEQUENCE),
        (lambda p: torch.dot(p, p), PAIR, "torch.vmap(f)"),
    ],
)
def test_what_works_at_single_points_is_told_how_to_be_vectorised(function, box, remedy):
    with refused(af.TargetError) as caught:
        af.compile(function, box, **LOOSE)
    assert remedy in caught.value.remedy
    wrapped = eval(caught.value.remedy.partition("Wrap it: ")[2], {"np": np, "torch": torch, "f": function})
    target = af.compile(wrapped, box, **LOOSE).target
    points = np.random.default_rng(0).uniform(0.1, 0.9, size=(5, *target.domain.shape))
    plain = target.domain.shape == (1,)
    alone = [function(float(p[0]) if plain else (torch.tensor(p) if "torch" in remedy else p)) for p in points]
    assert np.allclose(target.values(points), np.array(alone), rtol=1e-15)


@pytest.mark.parametrize("box", [LINE, PAIR, TOKENS, [(0, 1e7)]])
def test_no_value_is_asked_for_twice_or_outside(box):
    f = Counted(lambda x: np.cos(x).sum(axis=-1) if x.ndim > 1 else np.cos(x / 1e7))
    target = af.compile(f, box, tol=1e9, effort="low").target
    rows = f.points.reshape(len(f.points), -1)
    assert len(np.unique(rows, axis=0)) == len(rows)
    for low, high, column in zip(target.domain.lower.ravel(), target.domain.upper.ravel(), rows.T, strict=True):
        assert low <= column.min() <= column.max() <= high
    calls = len(f.batches)
    target.values(f.points.reshape(-1, *target.domain.shape)[:7])
    assert len(f.batches) == calls


@pytest.mark.parametrize("given_constant", ["steep", -1.0, float("nan"), float("inf"), [1]])
def test_senseless_constants_are_refused(given_constant):
    with refused(af.TargetError):
        af.compile(np.sin, LINE, lipschitz=given_constant)
    with refused(af.TargetError):
        af.Lipschitz(1.0, "linf")


def test_a_function_may_write_to_its_input(tmp_path):
    def f(x):
        x *= 2
        return x

    target = af.compile(f, LINE, cache=tmp_path / "c", **LOOSE).target
    points = np.array([[0.25], [0.5]])
    assert target.values(points).tolist() == [0.5, 1.0]
    assert points.tolist() == [[0.25], [0.5]]
    assert np.abs(af.compile(lambda x: 2 * x, LINE, 1e-6, cache=tmp_path / "c")(0.3) - 0.6) < 1e-6


# A function that raises.


@pytest.mark.parametrize("where", [-0.9, 0.0, 0.37, 1.0])
def test_a_failing_point_is_named_after_few_calls(where):
    def fails(x):
        if (x >= where).any():
            raise ZeroDivisionError("no value here")
        return np.sin(x)

    f = Counted(fails)
    with refused(af.TargetError) as caught:
        af.compile(f, LINE, 1e-6)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    if where > 0.2:  # else already the two points that tell the shape fail, and no other is looked for
        assert float(str(caught.value).partition(" at [")[2].partition("]")[0]) >= where
    assert len(f.batches) <= 40


# A cache on disk.


def test_a_second_run_computes_only_what_is_new_and_a_few_points_again(tmp_path):
    first, second = Counted(lambda x: np.sin(3 * x)), Counted(lambda x: np.sin(3 * x))
    nets = [af.compile(f, LINE, 1e-5, cache=tmp_path / "c", effort="low") for f in (first, second)]
    assert len(np.intersect1d(first.points, second.points)) <= 8  # a check, and the two that tell the shape
    assert af.network.digest(nets[0].network) == af.network.digest(nets[1].network)


@pytest.mark.parametrize("cut", [1, 7, 8, 15, 100, 10_000])
def test_a_file_cut_short_is_resumed(tmp_path, cut):
    f = Counted(lambda x: np.sin(3 * x))
    af.compile(f, LINE, 1e-3, cache=tmp_path / "c", effort="low")
    os.truncate(tmp_path / "c", max(0, (tmp_path / "c").stat().st_size - cut))
    again = Counted(f.function)
    net = af.compile(again, LINE, 1e-3, cache=tmp_path / "c", effort="low")
    assert np.abs(net(np.linspace(-1, 1, 99)) - np.sin(3 * np.linspace(-1, 1, 99))).max() <= 1e-3
    assert len(again.points) < len(f.points)


def test_the_cache_of_another_function_is_refused_and_left_alone(tmp_path):
    af.compile(np.sin, LINE, 1e-3, cache=tmp_path / "c")
    before = (tmp_path / "c").read_bytes()
    with refused(af.TargetError):
        af.compile(np.cos, LINE, 1e-3, cache=tmp_path / "c")
    for function, box in ((lambda x: x[..., 0], PAIR), (lambda x: np.stack([x, x], axis=-1), LINE)):
        with refused(af.FileFormatError):
            af.compile(function, box, 1e-3, cache=tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == before


def header(**changes):
    known = {"format": "attnforge samples", "version": 1, "dtype": "<f8", "inputs": 1, "shape": []}
    return json.dumps(known | changes).encode().ljust(511) + b"\n"


HOSTILE = [
    b"PK\x03\x04", b"x" * 1000, b"\x80\x04\x95" + b"\0" * 600, header(format="other samples"), header(version=2),
    header(dtype=">f8"), header(inputs="2"), header(shape=[0]), header(shape=[-1]), header(shape=[True]),
    header(shape=[2.0]), header(shape="()"), header(shape=[1, 1, 1]), header(shape=[10**15, 10**15]), header(more=1),
    b'{"format": "attnforge samples"' + b"[" * 1000, b'{"format": "attnforge samples"' + b" " * 1000,
    b'{"format": "attnforge samples", "a": ' + b"[" * 1000, header(shape=[2**20, 2**11]) + bytes(100),
    b'{"format": "attnforge samples", "a": "\xff"}'.ljust(512),
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_file_of_samples_is_refused_and_left_alone(tmp_path, data):
    (tmp_path / "c").write_bytes(data)
    with refused(af.FileFormatError):
        af.compile(np.sin, LINE, 1e-3, cache=tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == data


def test_what_is_not_finite_in_a_file_is_not_believed(tmp_path):
    rows = [[0.1, np.nan], [np.inf, 1.0], [0.2, np.inf], [0.3, np.sin(0.3)], [-0.0, 0.0], [0.3, np.sin(0.3)]]
    (tmp_path / "c").write_bytes(header() + np.array(rows).tobytes())
    net = af.compile(np.sin, LINE, 1e-6, cache=tmp_path / "c")
    assert np.abs(net(np.array([0.1, 0.2, 0.3])) - np.sin([0.1, 0.2, 0.3])).max() <= 1e-6


def test_paths_that_cannot_be_written_are_told_before_anything_is_computed(tmp_path):
    f = Counted(np.sin)
    for path in (tmp_path, tmp_path / "no" / "c"):
        with refused(af.FileFormatError):
            af.compile(f, LINE, 1e-3, cache=path)
    assert len(f.batches) <= 2


# Slow functions: workers, and an end.


def slowly(clock, function, seconds):
    """It takes so long a row where it is called here; other processes have a clock of their own."""
    here = os.getpid()

    def slow(x):
        if os.getpid() == here:
            clock.passes(seconds * len(x))
        return function(x)

    return slow


def test_workers_compute_a_slow_function(clock, tmp_path):
    here, trace = os.getpid(), tmp_path / "trace"

    def traced(x):
        with trace.open("a") as file:
            file.write(f"{os.getpid()} {len(x)}\n")
        return np.sin(x)

    shared = af.compile(slowly(clock, traced, 0.03), LINE, 1e-4, workers=2, effort="low")
    rows = [tuple(map(int, line.split())) for line in trace.read_text().splitlines()]
    assert sum(count for process, count in rows if process != here) > sum(count for process, count in rows) / 2
    alone = af.compile(np.sin, LINE, 1e-4, effort="low")
    assert af.network.digest(shared.network) == af.network.digest(alone.network)


def dying(x):
    os._exit(3)


def failing_at(x):
    if (np.abs(x) > 0.5).any():
        raise ZeroDivisionError("no value here")
    return x


@pytest.mark.parametrize("case", ["that dies", "that fails", "that cannot travel"])
def test_failures_of_workers_are_told(clock, case):
    lock, here = threading.Lock(), os.getpid()
    function = {
        "that dies": lambda x: np.sin(x) if os.getpid() == here else dying(x),
        "that fails": failing_at,
        "that cannot travel": lambda x: np.sin(x) + lock.locked(),
    }[case]
    with refused(af.TargetError) as caught:
        af.compile(slowly(clock, function, 0.03), LINE, 1e-4, workers=2)
    assert caught.value.remedy


@pytest.mark.parametrize("workers", [0, -2, 1.5, True, "2", None])
def test_senseless_workers_are_refused(workers):
    with refused():
        af.compile(np.sin, LINE, 1e-3, workers=workers)


def test_where_there_is_an_end_it_is_looked_at_between_batches(clock, tmp_path):
    f = Counted(slowly(clock, np.sin, 0.1))
    with refused(af.OutOfTimeError):
        af.compile(f, LINE, 1e-6, timeout=4.0, cache=tmp_path / "c")
    assert 4.0 <= clock.now < 6.0
    again = Counted(slowly(clock, np.sin, 0.1))
    with refused(af.OutOfTimeError):
        af.compile(again, LINE, 1e-6, timeout=4.0, cache=tmp_path / "c")
    assert len(np.intersect1d(again.points, f.points)) <= 8  # what was done is kept
