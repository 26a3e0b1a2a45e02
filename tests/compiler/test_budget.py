"""What a call may spend: effort, time, processes, threads; and what it must reach."""

import hashlib
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.compiler.budget import one_thread

LINE = {"x": (-1, 1)}
PLANE = {"x": (-1, 1), "y": (-1, 1)}
HARD = "sin(9*x*y) + exp(-(3*x - 1)^2 - (4*y)^2)*cos(7*x)"


def test_a_proof_cut_off_leaves_a_true_certificate(clock):
    net = af.compile("sin(8*x) + abs(x)", LINE, 1e-6)
    clock.tick, bounds = 1.0, []
    for timeout in (1, 3, 10, 1000):
        cut = af.certify(net, timeout=timeout)
        assert cut.status == "proved"
        assert any("the time allowed" in text for text in cut.assumptions) == (cut.bound > net.certificate.bound)
        bounds.append(cut.bound)
    assert bounds == sorted(set(bounds), reverse=True)
    assert bounds[-1] == net.certificate.bound >= net.certificate.estimate.error


@pytest.mark.parametrize("timeout", [5, 200, 1000])
def test_a_call_ends_with_its_time(timeout, clock):
    """Every look at the clock is a second; after the end every construction looks once, and a search a few times."""
    clock.tick = 1.0
    try:
        net = af.compile(HARD, PLANE, 1e-7, timeout=timeout)
    except af.OutOfTimeError as error:
        assert "Raise timeout" in str(error)  # noqa: PT017 (either outcome is right)
    else:
        assert net.certificate.estimate.error <= 1e-7
        assert af.measure(net, points=2000).sup <= (net.certificate.bound or np.inf)
    assert clock.looks <= timeout + 60


def test_the_best_so_far_says_why_it_is_no_better(monkeypatch):
    from attnforge.balls import branch_and_bound

    monkeypatch.setattr(branch_and_bound, "time_is_up", lambda: True)
    net = af.compile("1/(1 + 25*x^2 + 25*y^2)", PLANE, 1e-4, construction="tensor_grid")
    assert net.certificate.status == "sampled"
    assert net.certificate.estimate.error <= 1e-4
    assert "the proof ended at the time allowed" in net.certificate.assumptions[0]
    assert "SAMPLED: no error bound is proved" in net.report().splitlines()[1]


def test_a_proof_of_many_neurons_is_cut_off_too(clock):
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 300), torch.nn.ReLU(), torch.nn.Linear(300, 1)
    wide = af.constructions.relu_network(torch.nn.Sequential(*layers).double(), af.Box(-1, 1, shape=(4,)))
    clock.tick = 1.0
    cut = af.certify(wide, timeout=100)
    assert (cut.status, cut.bound) == ("sampled", None)
    assert cut.assumptions == ("nothing is proved: the proof ended at the time allowed",)
    assert cut.estimate.error <= wide.certificate.bound


def test_less_effort_proves_less():
    low = af.Effort(boxes=20)
    net = af.compile("exp(-x^2)*cos(3*y)", PLANE, 1e-6, construction="tensor_grid", effort=low)
    assert net.certificate.status == "sampled" or "20 cells" in " ".join(net.certificate.assumptions)
    assert af.certify(net).status == "proved"


def test_what_is_required_is_reached_or_refused():
    assert af.compile("sin(3*x)", LINE, 1e-4, require="proved").certificate.status == "proved"
    with pytest.raises(af.RefusalError, match=r"sampled only"):
        af.compile(lambda x: np.sin(3 * x), LINE, 1e-2, require="conditional")
    with pytest.raises(af.RefusalError, match=r"`tensor_grid` must reach require='proved'.*sampled only"):
        af.constructions.tensor_grid(lambda x: np.sin(x[..., 0]), [(-1, 1)], tol=1e-3, require="proved")
    given = af.compile(lambda x: np.sin(3 * x), LINE, 0.1, lipschitz=3, require="conditional")
    assert given.certificate.status == "conditional"
    with pytest.raises(af.RefusalError, match="conditional only"):
        af.certify(given, require="proved")
    with pytest.raises(af.RefusalError, match="`require` must be one of"):
        af.compile("x", LINE, require="certain")


def test_whoever_watches_is_told_fractions_and_words():
    told = []
    af.compile("sin(3*x) + y", PLANE, 1e-4, progress=lambda fraction, text: told.append((fraction, text)))
    assert all(0 <= fraction <= 1 for fraction, _ in told)
    words = {text for _, text in told}
    assert {"trying additive", "proving additive", "measuring additive"} <= words
    seen = []
    af.constructions.gate([1.0], 0.0, -1.0, 1.0, progress=lambda fraction, text: seen.append(text))
    assert any(text.startswith("building gate: 3 keys") for text in seen)


def test_searches_take_one_thread_and_give_back_the_others():
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        seen = []
        af.compile(lambda x: seen.append(torch.get_num_threads()) or np.sin(x), LINE, 1e-2)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


PROGRAM = """
import sys
import attnforge as af
net = af.constructions.tensor_grid("sin(60*x)", {"x": (-1, 1)}, anchors=100, effort="low")
net.save(sys.argv[1])
"""


@pytest.mark.slow
def test_the_number_of_threads_does_not_change_a_byte(tmp_path):
    found = set()
    for threads in ("1", "2"):  # fits of so many anchors do differ if both threads are let in
        path = tmp_path / f"{threads}.safetensors"
        wide = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env={**os.environ, **wide}, check=True, timeout=300)
        found.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(found) == 1


def test_a_dtype_is_a_name_or_torchs():
    by_name, by_torch = (af.compile("sin(3*x)", LINE, 1e-3, dtype=d) for d in ("float32", torch.float32))
    assert by_name.certificate == by_torch.certificate
    assert by_torch.dtype == "float32"
    assert by_torch.module(torch.float64)(torch.zeros(2)).dtype == torch.float64
    gate = af.constructions.gate([1.0], 0.0, -1.0, 1.0, dtype=torch.float16)
    assert gate.dtype == "float16"
    for wrong in (torch.int64, "float8", None, 3):
        with pytest.raises(af.RefusalError, match="`dtype` must be one of float64"):
            af.compile("x", LINE, dtype=wrong)


def test_what_takes_long_says_so_at_once(monkeypatch, clock):
    from attnforge.compiler import cost

    many = {"domain": PLANE, "cells": 2304, "sharpness": "hard"}
    tracemalloc.start()
    with pytest.raises(af.OutOfTimeError, match=r"5,308,416 keys, about \d+ s on one core. Raise timeout"):
        af.constructions.max_affine("sin(3*x)*y", **many, timeout=5.0)
    assert tracemalloc.get_traced_memory()[1] < 5_308_416  # bytes: not one for each key
    tracemalloc.stop()
    monkeypatch.setattr(cost, "WORTH_SAYING", 1e-9)
    with pytest.warns(UserWarning, match="building max_affine: 256 keys, about .* GiB and 0 s; progress=True"):
        af.constructions.max_affine("sin(3*x)*y", PLANE, cells=8, effort="low")


def test_values_of_a_slow_callable_end_with_their_time(clock):
    """Half a minute of values is asked for at once; they come in batches, and between these the clock is looked at."""

    def slow(x):
        clock.passes(0.02 * len(x))
        return np.sin(3 * x)

    with pytest.raises(af.OutOfTimeError, match="within timeout"):
        af.compile(slow, LINE, 1e-6, timeout=1.0)
    assert 1.0 <= clock.now < 2.0


def test_a_callable_that_takes_long_to_call_is_called_with_many_points(clock):
    calls = []

    def function(x):
        calls.append(len(x))
        clock.passes(0.05)
        return np.sin(3 * x)

    net = af.compile(function, LINE, 1e-4, timeout=60.0)
    assert net.certificate.estimate.error <= 1e-4
    assert len(calls) < sum(calls) / 20


def test_a_timeout_that_is_not_reached_changes_no_weight(clock):
    free, timed = (af.compile(np.sin, LINE, 1e-6, **more) for more in ({}, {"timeout": 300.0}))
    assert free.certificate.digest == timed.certificate.digest


def test_effort_limits_the_anchors_that_a_fit_tries():
    needed = af.compile(np.sin, {"x": (-20, 20)}, 1e-8, construction="tensor_grid").anchors
    assert needed > 20
    with pytest.raises(af.RefusalError, match="at most 20 anchors"):
        af.compile(np.sin, {"x": (-20, 20)}, 1e-8, construction="tensor_grid", effort=af.Effort(anchors=20))
    table = np.linspace(0, 1, 200)
    rough = np.random.default_rng(0).normal(size=200)
    assert af.compile((table, rough), tol=1e-6).anchors > 100
    with pytest.raises(af.RefusalError, match="at most 100 anchors"):
        af.compile((table, rough), tol=1e-6, effort=af.Effort(anchors=100))


def test_effort_limits_the_rounds_of_a_polish(monkeypatch):
    from attnforge.compiler import polishing

    asked, solve = [], polishing.minimax_values

    def noted(*arguments):
        asked.append(arguments[-1])
        return solve(*arguments)

    monkeypatch.setattr(polishing, "minimax_values", noted)
    net = af.compile("sin(8*x)", LINE, 1e-3)
    for effort in (af.Effort(exchanges=1), "low", None, "high"):
        af.polish(net, effort=effort)
    assert asked == [1, 2, 8, 32]
