"""Mutations of built networks: no proof overlooks what its builder never writes. A slice of the benchmark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.effort import EFFORTS
from attnforge.network import Rows, digest
from attnforge.theorems.registry import CONSTRUCTIONS as REGISTRY
from tests.laws.cases import with_head
from tests.readers import judging
from tests.readers.built import BUILT, built, error_of
from tests.readers.judging import judge_mutations
from tests.readers.mutations import CONSTRUCTIONS, FIELDS, INDICES, NUMBERS, mutations


@pytest.mark.parametrize("name", BUILT)
def test_no_mutation_is_proved_or_confirmed_beyond_its_error(name):
    found = judge_mutations(name, each=1, seed=1, effort=EFFORTS["low"])
    assert found.violations == []
    assert found.counts["mutations"] > found.counts["cannot be made"]


def test_every_construction_is_mutated_under_every_name():
    names = {construction.name for construction in REGISTRY}
    assert names <= set(CONSTRUCTIONS)
    assert names <= {built(name).network.construction for name in BUILT}
    assert set(af.constructions.__all__) <= names


def test_every_field_and_array_is_mutated_in_every_way():
    said = {mutation.what for mutation in mutations(built("gate, literal").network, np.random.default_rng(0), 60)}
    assert set(FIELDS) <= said
    for name, ways in {"layer1.head0.query": NUMBERS, "layer1.head0.query_rows": INDICES}.items():
        assert {f"{name}: {way}" for way in ways} <= said


@pytest.mark.parametrize("name", ["gate", "sine", "relu"])
def test_a_prover_that_believes_the_old_certificate_is_seen(name, monkeypatch):
    net = built(name)
    monkeypatch.setattr(judging, "certify", lambda network, *_, **__: replace(net.certificate, digest=digest(network)))
    assert judge_mutations(name, each=1).violations


def test_a_slope_head_that_reads_the_constant_is_not_overlooked():
    """The bound of a LeakyReLU's copying head once left out the constant that stands beside the features."""
    net = built("leaky relu")
    head = net.network.heads[-1]
    value = head.value.copy()
    value[-1, 0] = 3e-3
    network = with_head(net.network, len(net.network.heads) - 1, value=value)
    wrong = error_of(af.Compiled(network, net.target, net.certificate, net.construction, net.dtype))
    assert 1e-4 < wrong <= af.certify(network, net.target).bound


@pytest.mark.parametrize("name", ["multihead", "leaky relu"])
def test_tokens_that_do_not_ask_are_not_overlooked(name):
    net = built(name)
    with pytest.raises(af.CertificateError, match=r"Every token asks"):
        af.certify(with_head(net.network, query_rows=Rows.some([0])), net.target)


@pytest.mark.parametrize("name", ["truncated, tokens", "gate, tokens"])
def test_what_stands_at_tokens_that_do_not_ask_is_bounded(name):
    """Where the number of tokens is known their rows are zero, which no lemma covers, and an enclosure does."""
    net = built(name)
    network = with_head(net.network, query_rows=Rows.some([0]))
    found = af.certify(network, net.target)
    error = error_of(af.Compiled(network, net.target, found, net.construction, net.dtype))
    assert 1.0 < error <= found.bound <= 1.1 * error
