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
from tests.refusals import refused

LINE = {"x": (-1, 1)}
PLANE = {"x": (-1, 1), "y": (-1, 1)}


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


def test_whoever_watches_is_told_fractions_and_words():
    told = []
    af.compile("sin(3*x) + y", PLANE, 1e-4, progress=lambda fraction, text: told.append((fraction, text)))
    assert all(0 <= fraction <= 1 for fraction, _ in told)
    words = {text for _, text in told}
    assert {"trying additive", "proving additive", "measuring additive"} <= words
    seen = []
    af.constructions.gate([1.0], 0.0, -1.0, 1.0, progress=lambda fraction, text: seen.append(text))
    assert any(text.startswith("building gate: 3 keys") for text in seen)


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


def test_values_of_a_slow_callable_end_with_their_time(clock):
    """Half a minute of values is asked for at once; they come in batches, and between these the clock is looked at."""

    def slow(x):
        clock.passes(0.02 * len(x))
        return np.sin(3 * x)

    with refused(af.OutOfTimeError):
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


def test_the_best_so_far_says_why_it_is_no_better(monkeypatch):
    monkeypatch.setattr("attnforge.outward.branch_and_bound.time_is_up", lambda: True)
    net = af.compile("1/(1 + 25*x^2 + 25*y^2)", PLANE, 1e-4, construction="tensor_grid")
    assert net.certificate.status == "sampled"
    assert net.certificate.estimate.error <= 1e-4
    assert "the proof ended at the time allowed" in net.certificate.assumptions[0]
    assert "SAMPLED: no error bound is proved" in net.report().splitlines()[1]


def test_what_is_required_is_reached_or_refused():
    assert af.compile("sin(3*x)", LINE, 1e-4, require="proved").certificate.status == "proved"
    given = af.compile(lambda x: np.sin(3 * x), LINE, 0.1, lipschitz=3, require="conditional")
    assert given.certificate.status == "conditional"
    for call in (
        lambda: af.compile(lambda x: np.sin(3 * x), LINE, 1e-2, require="conditional"),
        lambda: af.constructions.tensor_grid(lambda x: np.sin(x[..., 0]), [(-1, 1)], tol=1e-3, require="proved"),
        lambda: af.certify(given, require="proved"),
    ):
        with refused(af.RefusalError):
            call()


def test_searches_take_one_thread_and_give_back_the_others():
    torch.set_num_threads(2)
    try:
        seen = []
        af.compile(lambda x: seen.append(torch.get_num_threads()) or np.sin(x), LINE, 1e-2)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_what_takes_long_says_so_at_once(monkeypatch, clock):
    tracemalloc.start()
    with refused(af.OutOfTimeError):
        af.constructions.max_affine("sin(3*x)*y", PLANE, cells=2304, sharpness="hard", timeout=5.0)
    assert tracemalloc.get_traced_memory()[1] < 2304**2  # bytes: not one for each key
    tracemalloc.stop()
    monkeypatch.setattr("attnforge.compiler.cost.WORTH_SAYING", 1e-9)
    with pytest.warns(UserWarning, match="building max_affine: 256 keys, about .* GiB and 0 s; progress=True"):
        af.constructions.max_affine("sin(3*x)*y", PLANE, cells=8, effort="low")


def test_effort_limits_the_anchors_that_a_fit_tries():
    rough = np.linspace(0, 1, 200), np.random.default_rng(0).normal(size=200)
    for most, call in (
        (20, lambda **how: af.compile(np.sin, {"x": (-20, 20)}, 1e-8, construction="tensor_grid", **how)),
        (100, lambda **how: af.compile(rough, tol=1e-6, **how)),
    ):
        assert call().anchors > most
        with refused(af.RefusalError):
            call(effort=af.Effort(anchors=most))


def test_effort_limits_the_rounds_of_a_polish():
    net = af.compile("sin(3*x) + exp(y)/(1 + x^2)", {"x": (-1, 1), "y": (-1, 1)}, 1e-3, construction="additive")
    one, many = (af.polish(net, effort=af.Effort(exchanges=rounds)) for rounds in (1, 32))
    assert many.certificate.estimate.error < one.certificate.estimate.error < net.certificate.estimate.error
