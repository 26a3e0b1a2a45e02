"""Mutations of built networks: no proof overlooks what its builder never writes; names and claims change nothing.

``./test laws --examples N`` makes N / 500 mutations of every field and array, and writes the pages of both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Rows, digest
from tests.accounts import read, title
from tests.laws.cases import with_head
from tests.readers import judging
from tests.readers.built import BUILT, QUICK, built, error_of
from tests.readers.erasing import SIZES, erased, is_deep, perturbed, proved, written_size
from tests.readers.judging import judge_mutations
from tests.readers.mutations import CONSTRUCTIONS, FIELDS, INDICES, NUMBERS, mutations

GOLDEN = read()
BOUNDED = [name for name, place in BUILT.items() if GOLDEN[title(*place)].get("bound") is not None]
NETWORKS = ("relu", "leaky relu", "hardtanh")
ONE_INPUT = ("truncated, two inputs [float32]", "multihead", "partition", "partition, hard", "sine", "polynomial")


@pytest.mark.parametrize("name", BUILT)
def test_no_mutation_is_proved_or_confirmed_beyond_its_error(name):
    found = judge_mutations(name, each=1, seed=1, effort=QUICK)
    assert found.violations == []
    assert found.counts["mutations"] > found.counts["cannot be made"]


def test_every_construction_is_mutated_under_every_name():
    names = set(af.constructions.__all__)
    assert names <= set(CONSTRUCTIONS)
    assert names <= {built(name).network.construction for name in BUILT}


def test_every_field_and_array_is_mutated_in_every_way():
    said = {mutation.what for mutation in mutations(built("gate, literal").network, np.random.default_rng(0), 60)}
    assert set(FIELDS) <= said
    for name, ways in {"layer1.head0.query": NUMBERS, "layer1.head0.query_rows": INDICES}.items():
        assert {f"{name}: {way}" for way in ways} <= said


@pytest.mark.parametrize("name", ["gate", "sine", "relu"])
def test_a_prover_that_believes_the_old_certificate_is_seen(name, monkeypatch):
    net = built(name)
    monkeypatch.setattr(judging, "certify", lambda network, *_: replace(net.certificate, digest=digest(network)))
    assert any("proved" in each for each in judge_mutations(name, each=1).violations)


@pytest.mark.parametrize("name", ["gate", "sine", "relu"])
def test_a_checker_that_believes_the_file_is_seen(name, monkeypatch):
    monkeypatch.setattr(judging.af, "check", lambda *_, **__: type("Verdict", (), {"verdict": "confirmed"}))
    assert any("confirmed" in each for each in judge_mutations(name, each=1).violations)


@pytest.mark.parametrize("name", BUILT)
def test_a_name_changes_nothing(name):
    net = built(name)
    found = proved(net, erased(net.network, claims=False))
    assert (found.status, found.bound) == (net.certificate.status, net.certificate.bound)


@pytest.mark.parametrize("name", BUILT)
def test_claims_change_nothing(name):
    """Of one layer of attention, and of ReLU networks; deeper graphs may be refused, never bounded wrongly."""
    net = built(name)
    found = proved(net, erased(net.network, claims=True))
    if is_deep(net.network) and name not in NETWORKS:
        assert found.status in ("refused", net.certificate.status)
        return
    assert (found.status, found.bound) == (net.certificate.status, net.certificate.bound)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", BOUNDED)
def test_moved_values_are_proved_anew(name, size):
    """By no more than ten times what they moved by; twenty where they are scores of a later layer."""
    net = built(name)
    found = proved(net, perturbed(net.network, size, 0, everything=False))
    assert found.status == net.certificate.status
    assert found.error <= found.bound
    if not name.startswith("head in"):  # whose outputs are divided by a small sharpness
        factor = 20 if is_deep(net.network) and name not in NETWORKS else 10
        assert found.bound <= net.certificate.bound + factor * size * written_size(net)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ONE_INPUT + NETWORKS)
def test_moved_weights_get_a_bound_near_the_error(name, size):
    net = built(name)
    for seed in range(3):
        found = proved(net, perturbed(net.network, size, seed, everything=True))
        assert found.error <= found.bound <= 10 * found.error


def test_a_slope_head_that_reads_the_constant_is_not_overlooked():
    """The bound of a LeakyReLU's copying head once left out the constant that stands beside the features."""
    net = built("leaky relu")
    value = net.network.heads[-1].value.copy()
    value[-1, 0] = 3e-3
    network = with_head(net.network, len(net.network.heads) - 1, value=value)
    assert 1e-4 < error_of(replace(net, network=network)) <= af.certify(network, net.target).bound


@pytest.mark.parametrize("name", ["multihead", "leaky relu"])
def test_tokens_that_do_not_ask_are_not_overlooked(name):
    net = built(name)
    with pytest.raises(af.CertificateError):
        af.certify(with_head(net.network, query_rows=Rows.some([0])), net.target)


@pytest.mark.parametrize("name", ["truncated, tokens", "gate, tokens"])
def test_what_stands_at_tokens_that_do_not_ask_is_bounded(name):
    """Where the number of tokens is known their rows are zero, which no lemma covers, and an enclosure does."""
    net = built(name)
    network = with_head(net.network, query_rows=Rows.some([0]))
    found = af.certify(network, net.target)
    assert 1.0 < error_of(replace(net, network=network)) <= found.bound <= 1.1 * error_of(replace(net, network=network))
