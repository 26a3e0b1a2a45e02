"""Knobs keep the function, hide the mechanism, and are certified anew; no proof overlooks what they leave."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.certification.stream import is_distractor
from attnforge.network import Attention, Rows, causal_graph, digest, head_places, with_head
from attnforge.zoo import knobs
from attnforge.zoo.knobs.basis import orthogonal
from attnforge.zoo.knobs.streams import Coordinates, carried, hidden_streams, readers
from tests.readers import judging
from tests.readers.built import error_of
from tests.refusals import refused
from tests.zoo.knobbed import judged, knobbed, measured, plain

NAMES = "xyz"
PROVED = [
    ("row of anchors", "basis"),
    ("row of anchors, float32", "basis, distractors"),
    ("product of rows", "distractors"),
    ("sum of rows", "basis, distractors"),
    ("ridge", "all"),
    ("truncated linear", "basis, distractors"),
    ("gate", "basis, distractors"),
    ("cells, callable", "basis, distractors"),
    ("ReLU network", "basis"),
    ("ReLU network", "superposed"),
    ("hardtanh network", "basis, distractors"),
    ("graph, terms added", "basis, distractors"),
    ("graph, terms added", "superposed"),
    ("multiplier", "basis, distractors"),
    ("exponential", "basis"),
    ("logistic", "superposed"),
    ("program: balanced", "basis, distractors"),
    ("program: majority", "superposed"),
]
ROUNDING = {"float64": 1e-12, "float32": 1e-5}  # what a change of basis may add to a bound of networks of size 1
CARRIED = 1e-6  # the same, of a bound: sharp heads and slopes of formulas make more of roundings


@pytest.mark.parametrize(("kind", "knob"), PROVED)
def test_what_is_turned_is_proved_anew_and_hardly_worse(kind, knob):
    before, net = plain(kind), knobbed(kind, knob)
    assert type(net) is type(before)
    assert net.certificate.digest == digest(net.network) != before.certificate.digest
    assert net.certificate.status == before.certificate.status
    noise = 1e-8 if knob == "all" else 0.0
    allowed = before.certificate.bound * (1 + CARRIED) + ROUNDING[net.dtype] + noise
    assert measured(net) <= net.certificate.bound <= allowed


def test_noise_is_charged_by_what_it_does():
    before = plain("graph, terms added").certificate.bound
    bounds = [knobs.apply(plain("graph, terms added"), noise=size).certificate.bound for size in (1e-9, 1e-7)]
    assert before < bounds[0] < bounds[1]
    noisy = knobs.apply(plain("graph, terms added"), noise=1e-7)
    assert before < error_of(noisy) <= noisy.certificate.bound


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    net = plain("multiplier")
    made = [knobs.apply(net, basis="random", distractors=1, noise=1e-12, seed=seed) for seed in (3, 3, 4)]
    assert digest(made[0].network) == digest(made[1].network) != digest(made[2].network)
    bases = [knobs.apply(net, basis=basis, seed=seed) for basis, seed in (("random", 5), (5, 0), (6, 0))]
    assert digest(bases[0].network) == digest(bases[1].network) != digest(bases[2].network)


def test_no_knob_is_the_network_itself():
    assert knobs.apply(plain("gate")) is plain("gate")


def test_in_a_random_basis_every_feature_is_read_and_the_function_is_kept():
    net = plain("graph, terms added")
    hidden = knobs.apply(net, basis="random")
    (stream,) = hidden_streams(hidden.network)
    assert np.all(hidden.network.heads[0].query != 0)
    assert np.count_nonzero(readers(net.network, stream)) < np.count_nonzero(readers(hidden.network, stream))
    x = np.random.default_rng(0).uniform(-1, 1, size=(50, 3))
    assert hidden(x) == pytest.approx(net(x), abs=1e-12)


def test_superposed_registers_share_directions():
    net = plain("graph, terms added")
    (stream,) = hidden_streams(net.network)
    read = readers(net.network, stream)
    lengths = np.linalg.norm(read, axis=0)
    spare = stream.width - int(np.linalg.matrix_rank(read[:, lengths > 0] / lengths[lengths > 0]))
    assert spare > 0
    for amount, fewer in ((1, 1), (1.0, spare)):
        (after,) = hidden_streams(knobs.apply(net, superposed=amount).network)
        assert after.width == stream.width - fewer
    directions = [head.output[0] for head in knobs.apply(net, superposed=1.0).network.heads]
    assert np.linalg.matrix_rank(directions) < len(directions)
    with refused(af.RefusalError):
        knobs.apply(net, superposed=spare + 1)


@pytest.mark.parametrize("knob", ["basis", "superposed", "basis, distractors", "all"])
def test_the_mechanism_can_still_be_read(knob):
    net, hidden = plain("graph, terms added"), knobbed("graph, terms added", knob)
    wanted, found = causal_graph(net.network, NAMES), knobs.mechanism(hidden.network, NAMES)
    kept = [i for i, node in enumerate(found.nodes) if node.role != "distractor"]
    assert {found.nodes[i].role for i in found.idle()} <= {"distractor"}
    assert [found.nodes[i].formula for i in kept] == [node.formula for node in wanted.nodes]
    for place, node in enumerate(kept):
        assert found.parents(node) == tuple(kept[i] for i in wanted.parents(place))


def test_the_mechanism_of_programs_and_what_is_not_followed():
    net, hidden = plain("program: majority"), knobbed("program: majority", "basis")
    assert str(knobs.mechanism(hidden.network)) == str(causal_graph(net.network))
    with refused(af.RefusalError):
        knobs.mechanism(plain("cross-attention").network)


def test_distractors_are_like_the_heads_beside_them():
    net, crowded = plain("graph, terms added"), knobbed("graph, terms added", "distractors")
    shapes = {(head.query.shape[1], head.memory_size, len(head.output)) for head in net.network.heads}
    added = [head for head in crowded.network.heads if is_distractor(head)]
    layers = sum(isinstance(layer, Attention) for layer in net.network.layers)
    assert len(added) == 2 * layers == len(crowded.network.heads) - len(net.network.heads)
    assert {(head.query.shape[1], head.memory_size, len(head.output)) for head in added} <= shapes
    x = np.random.default_rng(0).uniform(-1, 1, size=(50, 3))
    assert np.array_equal(crowded(x), net(x))


UNPROVABLE = [
    ("regression in context", {"basis": 1}),
    ("regression in context", {"distractors": 1}),
    ("multiplier", {"superposed": 1}),
    ("two layers, callable", {"basis": 1}),
    ("leaky ReLU network", {"distractors": 1}),
    ("program: majority", {"noise": 0.5}),
]
NONSENSE = [
    {"basis": "orthogonal"}, {"basis": -1}, {"basis": True}, {"distractors": -1}, {"distractors": 1.5},
    {"superposed": 1.5}, {"superposed": "all"}, {"noise": -1e-3}, {"noise": 1.0}, {"noise": float("nan")},
    {"distractors": 1, "seed": 0.5},
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arguments"), UNPROVABLE)
def test_what_cannot_be_proved_is_refused(kind, arguments):
    with refused(af.RefusalError):
        knobs.apply(plain(kind), **arguments)


@pytest.mark.parametrize("arguments", NONSENSE)
def test_arguments_that_mean_nothing_are_refused(arguments):
    with refused(af.TargetError):
        knobs.apply(plain("graph, terms added"), **arguments)
    with refused(af.TargetError):  # a network without a certificate of its own
        knobs.apply(plain("gate").network, basis=1)


@pytest.mark.parametrize(
    ("kind", "knob"),
    [
        ("sum of rows", "basis, distractors"),
        ("hardtanh network", "basis, distractors"),
        ("logistic", "superposed"),
        ("program: majority", "basis, distractors"),
    ],
)
def test_no_mutation_is_proved_beyond_its_error(kind, knob):
    found = judged(knobbed(kind, knob), each=1, seed=2)
    assert found.violations == []
    assert found.counts["prover: proved"] > 0


def test_a_prover_that_believes_the_old_certificate_is_seen(monkeypatch):
    net = knobbed("sum of rows", "basis, distractors")
    monkeypatch.setattr(judging, "certify", lambda network, *_, **__: replace(net.certificate, digest=digest(network)))
    assert judged(net, each=1, seed=2).violations


@pytest.mark.parametrize("kind", ["gate", "hardtanh network", "logistic", "program: majority"])
@pytest.mark.parametrize("name", ["query_rows", "key_rows"])
def test_a_distractor_of_tokens_that_may_be_missing_is_refused(kind, name):
    """Proofs once left distractors out with the rows that they name: short sequences do not have these."""
    net = knobbed(kind, "basis, distractors")
    place = next(place for place in head_places(net.network) if is_distractor(_head(net, place)))
    head = _head(net, place)
    maps = {"key": head.query, "value": head.query @ np.ones((head.query.shape[1], len(head.output)))}
    changes = ({} if name == "query_rows" else maps) | {name: Rows.some([2])}
    with pytest.raises((af.CertificateError, af.TargetError)):
        net.with_network(with_head(net.network, *place, **changes))


def _head(net, place):
    return net.network.layers[place[0]].heads[place[1]]


@pytest.mark.parametrize("kind", ["gate", "hardtanh network", "graph, terms added", "sum of rows"])
def test_a_distractor_that_matters_is_charged(kind):
    net = knobbed(kind, "basis, distractors")
    network, rng = net.network, np.random.default_rng(0)
    for place in head_places(network):
        output = _head(net, place).output
        if is_distractor(_head(net, place)):
            network = with_head(network, *place, output=output + 0.1 * rng.normal(size=output.shape))
    _is_charged(net, network)


@pytest.mark.parametrize("kind", ["gate", "hardtanh network", "graph, terms added", "sum of rows"])
def test_a_basis_that_is_none_is_charged(kind):
    net, rng = plain(kind), np.random.default_rng(0)
    stream = hidden_streams(net.network)[0]
    basis = orthogonal(stream.width, rng)
    moved = basis + 1e-3 * rng.normal(size=basis.shape)
    _is_charged(net, carried(net.network, {stream: Coordinates(basis, moved.T)}))


def _is_charged(net, network):
    error = error_of(af.Compiled(network, net.target, net.certificate, net.construction, net.dtype))
    assert error > net.certificate.bound
    try:
        found = af.certify(network, net.target)
    except (af.CertificateError, af.RefusalError):
        return
    assert found.bound is None or error <= found.bound
