"""What the gate's reader says against scores and values in exact rational arithmetic, and against the run."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import attnforge as af
from attnforge.balls import MACHINES, machine
from attnforge.certification.anchored import Problem
from attnforge.certification.three_keys import _read, bound_gate, gate_of
from attnforge.network import rounded
from tests.laws.cases import changed, running, with_claims, with_head, worst

W, T, A, B = [0.7, -1.3], 0.4, -1.0, 2.0


def build(dtype="float64", layout="memory", **options):
    return af.constructions.gate(W, T, A, B, dtype=dtype, layout=layout, domain=af.Box(-3, 3), **options)


def problem_of(net, network=None):
    run = rounded(net.network if network is None else network, net.dtype)
    box = net.target.domain.fixed((run.tokens or 1, run.features))
    form = net.target.truncated_form()
    return Problem((run.layers[0],), run.heads, form, box.lower, box.upper, 0, machine(net.dtype)), run


@pytest.mark.parametrize("dtype", MACHINES)
@pytest.mark.parametrize("beta", [1.0, 37.3, 1000.0])
def test_disturbance_covers_exact_scores(dtype, beta):
    """In exact arithmetic with the rounded weights the scores depart from -beta (y - a), beta (y - b) by less."""
    net = build(dtype, sharpness=beta)
    problem, run = problem_of(net)
    found = _read(problem, gate_of(problem), problem.tokens(problem.lower, problem.upper))
    encode, head = run.layers[0], run.heads[0]
    worst_gap = Fraction(0)
    for x in np.random.default_rng(3).uniform(-3, 3, size=(60, 2)):
        row = [
            sum(Fraction(float(v)) * Fraction(float(p)) for v, p in zip(x, column, strict=True)) + Fraction(float(c))
            for column, c in zip(encode.terms[0].map.T, encode.constant[0], strict=True)
        ]
        query = [sum(r * Fraction(float(m)) for r, m in zip(row, column, strict=True)) for column in head.query.T]
        scores = [sum(q * Fraction(float(k)) for q, k in zip(query, key, strict=True)) for key in head.memory_keys]
        y = sum(Fraction(w) * Fraction(float(v)) for w, v in zip(W, x, strict=True)) + Fraction(T)
        wanted = [-Fraction(beta) * (y - Fraction(A)), Fraction(beta) * (y - Fraction(B))]
        worst_gap = max(worst_gap, *(abs(s - t) for s, t in zip(scores, wanted, strict=True)))
        assert abs(row[0] - y) <= Fraction(float(found.self_value[0]))
    assert worst_gap <= Fraction(float(found.scores[0]))
    assert dtype == "float64" or worst_gap > 0


@pytest.mark.parametrize("layout", ["memory", "literal"])
@pytest.mark.parametrize("beta", [3.0, 30.0])
def test_a_soft_gate_reaches_two_thirds_of_its_bound(layout, beta):
    net = build(layout=layout, sharpness=beta)
    y = np.linspace(A - 1, B + 1, 20_001)
    x = np.stack([np.clip((y - T) / 2.0, -3, 3), np.clip(-(y - T) / 2.0, -3, 3)], axis=-1)[:, None]
    assert 0.66 * net.certificate.bound <= worst(net, x) <= net.certificate.bound


def test_other_tokens_are_charged():
    """Without the bonus on its own position a token sees the others, and the leakage says so."""
    net = af.constructions.gate([[0.7, -1.3]] * 3, T, A, B, layout="literal", sharpness=50.0, domain=af.Box(-3, 3))
    query = net.network.heads[0].query.copy()
    query[4:, 2:] *= 0.1
    mutant = with_head(net.network, query=query)
    problem, _ = problem_of(net, mutant)
    parts = bound_gate(problem)
    assert parts["leakage"] > 100 * net.certificate.parts["leakage"]
    assert sum(parts.values()) >= worst(running(net, mutant))


@pytest.mark.parametrize("entry", [0, 1])
def test_outer_values_are_charged(entry):
    net = build()
    values = net.network.heads[0].memory_values
    mutant = with_head(net.network, memory_values=changed(values, (entry, 0), values[entry, 0] + 0.01))
    assert 0.01 <= af.certify(mutant, net.target).bound <= 0.0101
    assert worst(running(net, mutant)) == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize(("row", "size"), [(1, 0.1), (2, 0.05)])
def test_outer_values_that_follow_the_input_are_charged(row, size):
    """Rows of the literal layout that become keys of the ends, and read a part of the token beside their constants."""
    net = build(layout="literal")
    encode = net.network.layers[0]
    mix = encode.terms[0].mix.copy()
    mix[row, 0] = size
    network = replace(
        net.network,
        layers=(replace(encode, terms=(replace(encode.terms[0], mix=mix),)), *net.network.layers[1:]),
    )
    problem, _ = problem_of(net, network)
    x = np.array([sign * np.array([[3.0, -3.0]]) for sign in (-1.0, 1.0)])  # the form's ends: where the ends' keys win
    assert sum(bound_gate(problem).values()) >= worst(running(net, network), x) > 0.25


@pytest.mark.parametrize(
    "changes",
    [{"roles": ("high", "low", "self")}, {"roles": ("self", "low", "high")}, {"sharpness": 7.0}, {"sharpness": -3.0}],
)
def test_claims_are_not_read(changes):
    net = build()
    assert af.certify(with_claims(net.network, **changes), net.target).bound == net.certificate.bound


def test_an_end_without_a_key_is_charged():
    """A gate that has a high key only does not cut off below: the proof may not take its low end for granted."""
    net = build()
    head = net.network.heads[0]
    keys, values = head.memory_keys[1:], head.memory_values[1:]
    claims = replace(head.claims, roles=("high", "self"), positions=head.claims.positions[1:])
    mutant = with_head(net.network, memory_keys=keys, memory_values=values, claims=claims)
    assert 1.0 < worst(running(net, mutant)) <= af.certify(mutant, net.target).bound


def test_a_second_key_for_an_end_is_refused():
    """The proof reads one key for each end: another one under the same name could do anything."""
    net = build()
    head = net.network.heads[0]
    keys = np.vstack([head.memory_keys, [[0.0, 1.0]]])
    values = np.vstack([head.memory_values, [[50.0]]])
    claims = replace(
        head.claims, roles=("low", "high", "low", "self"), positions=np.insert(head.claims.positions, 2, 50.0)
    )
    mutant = with_head(net.network, memory_keys=keys, memory_values=values, claims=claims)
    problem, _ = problem_of(net, mutant)
    with pytest.raises(af.CertificateError, match="score falls with y"):
        bound_gate(problem)
    assert 1.0 < worst(running(net, mutant)) <= af.certify(mutant, net.target).bound
