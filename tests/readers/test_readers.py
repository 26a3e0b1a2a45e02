"""All readers of a random network agree, and each comparison can fail.

``./test laws --examples N`` compares N random networks, and writes ``benchmarks/results/readers.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from attnforge.network import Attention, Linear, Network, apply
from tests.network.examples import NETWORKS, inputs
from tests.readers import comparison
from tests.readers.built import QUICK
from tests.readers.comparison import compare_prover, compare_readers
from tests.readers.exact import exact_output
from tests.readers.judging import Tally
from tests.readers.networks import product_case, random_case

SEEDS, PRODUCTS = (range(0, 120, 2), range(1, 120, 2)), (range(0, 30, 2), range(1, 30, 2))
PROVED = range(150)
OVERFLOWING = (189, 391, 1213, 3072, 3791, 9446)  # float16: into a softmax, into a score, under a weight of zero


def added(tallies) -> Tally:
    total = Tally()
    for tally in tallies:
        total = total.plus(tally)
    return total


@pytest.mark.parametrize("seeds", SEEDS)
def test_runs_lie_in_the_checkers_enclosures(seeds):
    found = added(map(compare_readers, seeds))
    assert found.violations == []
    for dtype in comparison.DTYPES:
        narrow, runs = found.counts[f"{dtype}: narrow enclosures"], found.counts[f"{dtype}: torch"]
        assert narrow > len(seeds) / 2, "most enclosures say something"
        assert runs > 0.9 * len(seeds), "few networks are refused"
        assert found.counts[f"{dtype}: torch, batched"] > len(seeds) / 10


@pytest.mark.parametrize("seeds", PRODUCTS)
def test_kernels_lie_in_the_same_enclosures(seeds):
    found = added(compare_readers(seed, product_case) for seed in seeds)
    assert found.violations == []
    for dtype in comparison.DTYPES:
        runs = found.counts[f"{dtype}: torch, dense"]
        assert found.counts[f"{dtype}: torch"] == runs > len(seeds) / 2, "most are run by both kernels"


@pytest.mark.parametrize("seed", OVERFLOWING)
def test_what_overflows_is_not_known_whatever_comes_after_it(seed):
    assert compare_readers(seed).violations == []


def test_no_run_is_further_off_than_is_proved():
    found = added(compare_prover(seed, QUICK) for seed in PROVED)
    assert found.violations == []
    assert found.counts["prover: proved"] > len(PROVED) / 5


def test_the_generator_reaches_the_whole_representation():
    seen = {feature for seed in range(400) for feature in _features(random_case(seed).network)}
    assert seen == {
        "free tokens", "fixed tokens", "context", "free context", "fixed context", "context layers", "repeated layers",
        "Linear", "Attention", "Softmax", "several terms", "constant", "constant per token", "map per token", "mix",
        "lengthened", "residual", "several heads", "queries of all", "queries of some", "memory", "memory and rows",
        "own of the state", "all of the state", "some of the state", "all of the context", "some of the context",
    }  # fmt: skip


def _features(network: Network) -> Iterator[str]:
    yield "free tokens" if network.tokens is None else "fixed tokens"
    if network.context is not None:
        yield from ("context", "free context" if network.context[0] is None else "fixed context")
        yield from ("context layers",) * bool(network.context_layers)
    yield from ("repeated layers",) * (len({id(layer) for layer in network.layers}) < len(network.layers))
    for layer in network.layers:
        yield type(layer).__name__
        if isinstance(layer, Linear):
            yield from ("several terms",) * (len(layer.terms) > 1)
            if layer.constant is not None:
                yield "constant" if len(layer.constant) == 1 else "constant per token"
            for term in layer.terms:
                yield from ("map per token",) * (term.map is not None and term.map.ndim == 3)
                if term.mix is not None:
                    yield "lengthened" if len(term.mix) > term.mix.shape[1] else "mix"
        elif isinstance(layer, Attention):
            yield from (*("residual",) * layer.residual, *("several heads",) * (len(layer.heads) > 1))
            for head in layer.heads:
                rows = head.key_rows
                yield f"queries of {head.query_rows.kind}"
                yield "memory" if rows is None else f"{rows.kind} of the {rows.source}"
                yield from ("memory and rows",) * (rows is not None and bool(head.memory_size))


@pytest.mark.parametrize("name", NETWORKS)
def test_numpy_is_the_exact_meaning_to_rounding(name):
    network = NETWORKS[name]
    given = inputs(network)
    balls = exact_output(network, *given)
    wanted = np.array([[float(ball.mid()) for ball in row] for row in balls])
    np.testing.assert_allclose(apply(network, *given), wanted, rtol=1e-12, atol=1e-13)


BROKEN = {
    "numpy": ("apply", lambda run: lambda *given: run(*given) * (1 + 1e-6) + 1e-9),
    "torch": ("_torch", lambda run: lambda *given: run(*given) * (1 + 1e-6) + 1e-9),
    "the exact value": (
        "exact_output",
        lambda run: lambda *given: run(*given) * 1.01 + 1e-3,
    ),
}


@pytest.mark.parametrize("reader", BROKEN)
def test_a_reader_that_errs_a_little_is_seen(monkeypatch, reader):
    """Relative errors of 1e-6: float64's enclosures on points and small boxes are far narrower."""
    name, broken = BROKEN[reader]
    monkeypatch.setattr(comparison, name, broken(getattr(comparison, name)))
    assert any(reader in text for seed in range(12) for text in compare_readers(seed).violations)


def test_a_checker_that_forgets_rounding_is_seen(monkeypatch):
    encloses = comparison.enclose

    def forgetful(case, dtype, order):
        values = encloses(case, dtype, order)
        for value in values:
            value.off, value.run = 0.0, value.model.over[0]
        return values

    monkeypatch.setattr(comparison, "enclose", forgetful)
    assert any("bfloat16: torch" in text for seed in range(12) for text in compare_readers(seed).violations)


def test_a_prover_that_halves_its_bounds_is_seen(monkeypatch):
    certify = comparison.certify

    def halved(*given, **options):
        found = certify(*given, **options)
        return found if found.bound is None else replace(found, bound=found.bound / 2)

    monkeypatch.setattr(comparison, "certify", halved)
    assert any(compare_prover(seed).violations for seed in range(60))
