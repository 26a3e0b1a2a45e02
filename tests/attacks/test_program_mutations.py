"""No false proof of a program: every array of every layer is changed, and what is still proved is still true.

Proved is more than the result: how far every register may be from what the program says. So that is what is looked at,
on all short sequences.
"""

import itertools

import numpy as np
import pytest

import attnforge as af
from attnforge import programs as p
from attnforge.certification.programs import certify_program
from attnforge.network import apply_layer, flatten, unflatten
from attnforge.programs.running import encoded

AMOUNTS = (1e3, -64.0, 1.0, -0.3, 1e-3, -1e-5, 1e-8, 2.0**-40)
LENGTH = 3
SOME = [
    "reverse",
    pytest.param("sort", marks=pytest.mark.slow),
    "most_frequent",
    "count_compare",
    "induction",
    "addition",
]


def exact_registers(net, sequence):
    """The features (n, m) that the program says, by hand: labels one-hot, numbers, 1/(1 + w)."""
    nodes = [node for node, _ in net.layout.registers if node is not None]
    known = p.evaluate(net.program, sequence, *nodes)
    found = np.zeros((len(sequence), net.features))
    found[:, 0] = 1.0
    for (node, part), register in net.layout.registers.items():
        if node is None:
            continue
        if register.labels is not None:
            found[:, register.features] = np.eye(register.size)[[register.labels.index(v) for v in known[node]]]
        else:
            found[:, register.start] = [float(v) if part == "value" else 1 / (1 + v) for v in known[node]]
    return found


def runs(net, tokens):
    """All sequences of each length, as the network takes them, and their exact registers."""
    for n in range(1, LENGTH + 1):
        sequences = [list(each) for each in itertools.product(tokens, repeat=n)]
        yield encoded(net.layout, sequences), np.stack([exact_registers(net, each) for each in sequences])


def worst(network, cases):
    """The largest error (m,) of each feature, over all cases."""
    errors = []
    for given, exact in cases:
        state = given
        for layer in network.layers[:-1]:
            state = apply_layer(layer, state)
        errors.append(np.abs(state - exact).max(axis=(0, 1)))
    return np.max(errors, axis=0)


def bounds(net, certificate):
    """Proved errors (m,); and what float64 makes of an exact number that is compared with."""
    found = np.zeros(net.features)
    for register, bound in zip(net.layout.registers.values(), certificate.registers, strict=True):
        size = 1.0 if register.labels is not None else float(max(abs(register.lower), abs(register.upper)))
        found[register.features] = bound.error + 2.0**-52 * size
    return found


def result_error(network, net, tokens):
    """The largest error of the result's features, over all cases."""
    errors = []
    for n in range(1, LENGTH + 1):
        sequences = [list(each) for each in itertools.product(tokens, repeat=n)]
        result, found = net.layout.result, network(encoded(net.layout, sequences))
        for sequence, out in zip(sequences, found, strict=True):
            values = p.evaluate(net.program, sequence)[net.program]
            exact = np.eye(result.size)[[result.labels.index(v) for v in values]] if result.labels else None
            exact = np.array([[float(v)] for v in values]) if exact is None else exact
            errors.append(np.abs(out - exact).max())
    return max(errors)


def mutants(network, seed):
    """Each array with one entry changed, by a large and by a small amount."""
    source, (skeleton, arrays) = np.random.default_rng(seed), flatten(network)
    for name, array in arrays.items():
        for amount in AMOUNTS:
            changed, at = array.copy(), tuple(source.integers(0, size) for size in array.shape)
            changed[at] += amount * source.choice([1.0, max(abs(array[at]), 2.0**-20)])
            yield name, unflatten(skeleton, {**arrays, name: changed})


@pytest.mark.parametrize("key", SOME)
def test_what_is_still_proved_of_a_changed_network_is_true(key) -> None:
    entry = p.library[key]
    tokens = entry.small[:2]
    net = p.compile(entry, tokens, max_length=LENGTH)
    cases = list(runs(net, tokens))
    assert np.all(worst(net.network, cases) <= bounds(net, net.certificate))
    refused, proved = 0, 0
    for name, network in mutants(net.network, seed=len(key)):
        try:
            certificate = certify_program(network, net.layout, "float64")
        except (af.CertificateError, af.RefusalError):
            refused += 1
            continue
        proved += 1
        if certificate.registers:
            assert np.all(worst(network, cases) <= bounds(net, certificate)), name
        else:
            assert result_error(network, net, tokens) <= certificate.bound, name
    assert refused > 10
    assert proved > 10


def without(network, part):
    """The network with one weight of one head set to zero: a way in which it is wrong."""
    skeleton, arrays = flatten(network)
    return unflatten(skeleton, {**arrays, part: np.zeros_like(arrays[part])})


@pytest.mark.parametrize("part", ["query", "key", "value", "output", "memory_keys", "memory_values"])
def test_a_head_without_one_of_its_weights_is_refused(part) -> None:
    net = p.compile(p.library["induction"], max_length=4)
    with pytest.raises(af.CertificateError):
        net.with_network(without(net.network, f"layer1.head0.{part}"))


def test_a_missing_layer_is_refused() -> None:
    net = p.compile(p.library["histogram"], max_length=4)
    first, one, two, last = net.network.layers
    for layers in ((first, one, last), (first, two, one, last), (first, one, two, two, last)):
        network = af.Network(layers, net.network.features)
        with pytest.raises(af.CertificateError):
            net.with_network(network)


def test_a_proof_for_a_larger_length_or_another_program_is_refused() -> None:
    net = p.compile(p.library["histogram"], max_length=4)
    longer = p.compile(p.library["histogram"], max_length=5)
    with pytest.raises((af.CertificateError, af.RefusalError)):
        longer.with_network(net.network)
    other = p.compile(p.selector_width(p.select(p.tokens, p.tokens, "!=")), net.vocabulary, 4)
    with pytest.raises((af.CertificateError, af.RefusalError)):
        other.with_network(net.network)
