"""No false proof of a network that reads a prompt, however it or its target is changed."""

from dataclasses import replace
from functools import cache

import pytest

from attnforge.network import digest
from tests.laws import in_context_mutations as changes
from tests.laws.in_context_mutations import ALGORITHMS, ROUTES, build, judged, mutants

NETWORKS = [(a, r, d) for a in ALGORITHMS for r in ROUTES for d in ("float64", "float32")]
EACH = 4  # changes of each network; ./test laws --examples N makes N / 100
BELIEVED = ("least squares", ROUTES[0], "float64")


@cache
def built(*case):
    return build(*case)


@pytest.mark.parametrize("case", NETWORKS, ids=" ".join)
def test_no_change_is_confirmed_or_proved_beyond_its_error(case):
    net = built(*case)
    if net is None or net.certificate is None or net.certificate.bound is None:
        assert case[0] in ("softmax", "Poisson") or "kernel" in case[0], "no certificate for all prompts"
        return
    for mutant in mutants(net, EACH, seed=NETWORKS.index(case)):
        found = judged(net, mutant)
        assert found.false_proofs(net.certificate.bound) == [], (mutant.what, found)


def test_a_checker_that_believes_the_file_is_seen(monkeypatch):
    net = built(*BELIEVED)
    monkeypatch.setattr(changes.af, "check", lambda _: type("Verdict", (), {"verdict": "confirmed"}))
    assert any("checker" in judged(net, each).false_proofs(net.certificate.bound) for each in mutants(net, 8))


def test_a_prover_that_believes_the_old_certificate_is_seen(monkeypatch):
    net = built(*BELIEVED)

    def believing(run, network):
        return replace(run, certificate=replace(net.certificate, digest=digest(network)))

    monkeypatch.setattr(type(net), "with_network", believing)
    assert any("prover, box" in judged(net, each).false_proofs(net.certificate.bound) for each in mutants(net, 8))
