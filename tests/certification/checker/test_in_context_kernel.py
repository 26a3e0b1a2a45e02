"""Kernel regression, saved and checked; every array of its head changed, never confirmed where wrong."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.checker.check import check
from attnforge.certification.checker.in_context import drift, sample
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.in_context import KernelRegression
from attnforge.network import Attention, Linear, Rows, Term, digest, editing
from tests.laws.in_context_mutations import Mutant, build, judged, mutants

NAMES, DTYPES = ("Gaussian kernel", "softmax kernel"), ("float64", "float32", "bfloat16")
CASES = [(name, dtype) for name in NAMES for dtype in DTYPES]


@cache
def built(name, dtype="float64"):
    return build(name, "small_sharpness", dtype)


def with_head(net, **changes):
    return editing.with_head(net.network, -1, 0, **changes)


def verdict_of(net, network):
    return check(network, net.target, replace(net.certificate, digest=digest(network)), net.dtype)


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("outputs", [1, 2])
def test_saved_loaded_and_checked(name, dtype, outputs, tmp_path):
    kernel = "gaussian" if name == NAMES[0] else "softmax"
    net = KernelRegression(0.7, kernel, dtype).build(2, outputs=outputs, data_bound=1.5)
    net.save(tmp_path / "net.safetensors")
    found = af.check(tmp_path / "net.safetensors")
    assert found.verdict == "confirmed", found.reason
    loaded, errors = af.load(tmp_path / "net.safetensors"), []
    for seed in range(4):
        prompt = sample(net.target, seed)
        errors.append(np.abs(loaded(*prompt) - net.target.average(*prompt)).max())
    assert max(errors) <= found.outcome.reached <= net.certificate.bound


@pytest.mark.parametrize("examples", [1, 2, 600, 5000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_examples(examples, dtype):
    for kernel in ("gaussian", "softmax"):
        net = KernelRegression(0.05, kernel, dtype).build(3, examples, data_bound=1.0)
        assert check(net.network, net.target, net.certificate, dtype).verdict == "confirmed"


def test_a_lower_bound_is_not_confirmed():
    net = built(NAMES[0])
    for part in (0.9, 1e-9):
        found = check(net.network, net.target, replace(net.certificate, bound=net.certificate.bound * part), "float64")
        assert found.verdict == ("undecided" if part == 0.9 else "rejected"), found.reason


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_a_certificate_says_what_it_assumes(left_out):
    net = built(NAMES[0])
    kept = tuple(each for i, each in enumerate(net.certificate.assumptions) if i != left_out)
    found = check(net.network, net.target, replace(net.certificate, assumptions=kept), "float64")
    assert (found.verdict, found.what) == ("rejected", "assumptions")


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("array", ["query", "key", "value", "output"])
def test_one_and_a_half_times_an_array_is_refuted(name, dtype, array):
    net = built(name, dtype)
    head = net.network.heads[0]
    network = with_head(net, **{array: 1.5 * getattr(head, array)})
    found = judged(net, Mutant(array, network, net.target))
    assert not found.false_proofs(net.certificate.bound)
    assert found.verdict == "rejected" or (dtype == "bfloat16" and found.verdict == "undecided")


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_of_every_array(name):
    """By a unit in the last place, and a hundredfold; zeros become small and large."""
    net, said = built(name), Counter()
    for array in ("query", "key", "value", "output"):
        held = getattr(net.network.heads[0], array)
        for where in np.ndindex(held.shape):
            old = held[where]
            for new in (old * (1 + 2.0**-52), old * 100) if old else (1e-17, 1e-3):
                changed = held.copy()
                changed[where] = new
                found = judged(net, Mutant(array, with_head(net, **{array: changed}), net.target))
                assert not found.false_proofs(net.certificate.bound), (array, where, new, found)
                said[found.verdict] += 1
                assert found.verdict != "confirmed" or abs(new) not in (abs(old) * 100, 1e-3), (array, where, new)
    assert said["rejected"] > 10


def test_changes_too_small_to_matter_are_confirmed():
    net = KernelRegression().build(1, data_bound=1.0)
    network = with_head(net, query=net.network.heads[0].query * (1 + 2.0**-52))
    assert verdict_of(net, network).verdict == "confirmed"
    assert drift(network, net.target, "float64", print) > drift(net.network, net.target, "float64", print)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_random_changes(name, dtype):
    net = built(name, dtype)
    for mutant in mutants(net, 20, seed=CASES.index((name, dtype))):
        found = judged(net, mutant)
        assert not found.false_proofs(net.certificate.bound), (mutant.what, found)


OTHERS = {
    "two heads": lambda net: replace(net.network, layers=(net.network.layers[0], Attention(net.network.heads * 2))),
    "some examples": lambda net: with_head(net, key_rows=Rows.some([0, 1], "context")),
    "a constant key": lambda net: with_head(net, memory_keys=np.zeros((1, 3)), memory_values=np.zeros((1, 1))),
    "examples mapped": lambda net: replace(net.network, context_layers=(Linear((Term(np.eye(4)),)),)),
    "queries mixed": lambda net: replace(
        net.network, layers=(Linear((Term(np.eye(2, 3)), Term(np.eye(2, 3)))), net.network.layers[-1])
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_not_understood_is_refused_by_both(other):
    net = built(NAMES[0])
    network = OTHERS[other](net)
    with pytest.raises(BeyondReachError, match="The checker understands"):
        drift(network, net.target, "float64", lambda _: None)
    with pytest.raises(af.CertificateError, match="The proof of kernel regression reads"):
        net.with_network(network)
    assert verdict_of(net, network).verdict in ("rejected", "undecided")
