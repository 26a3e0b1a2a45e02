"""No false proof of a program: every array of every layer is changed, and what is still proved is still true.

Proved is more than the result: how far every register may be from what the program says. So that is what is looked at,
on all short sequences.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge import programs as p
from attnforge.network import apply_layer, flatten, unflatten

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


def encoded(net, sequences):
    return np.stack([np.asarray(net.encode(each)) for each in sequences])


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
        yield encoded(net, sequences), np.stack([exact_registers(net, each) for each in sequences])


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
    errors, result = [], net.layout.result
    for n in range(1, LENGTH + 1):
        sequences = [list(each) for each in itertools.product(tokens, repeat=n)]
        for sequence, out in zip(sequences, network(encoded(net, sequences)), strict=True):
            values = p.evaluate(net.program, sequence)[net.program]
            labels = [result.labels.index(v) for v in values] if result.labels else None
            exact = np.array([[float(v)] for v in values]) if labels is None else np.eye(result.size)[labels]
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
def test_what_is_still_proved_of_a_changed_network_is_true(key):
    tokens = p.library[key].small[:2]
    net = p.compile(p.library[key], tokens, max_length=LENGTH)
    cases, refused, proved = list(runs(net, tokens)), 0, 0
    assert np.all(worst(net.network, cases) <= bounds(net, net.certificate))
    for name, network in mutants(net.network, seed=len(key)):
        try:
            certificate = net.with_network(network).certificate
        except (af.CertificateError, af.RefusalError):
            refused += 1
            continue
        proved += 1
        if certificate.registers:
            assert np.all(worst(network, cases) <= bounds(net, certificate)), name
        else:
            assert result_error(network, net, tokens) <= certificate.bound, name
    assert min(refused, proved) > 10


def test_what_is_another_program_or_none_is_refused():
    """A head without one of its weights; a layer less, more or elsewhere; a larger length; other selections."""
    induction, net = (p.compile(p.library[name], max_length=4) for name in ("induction", "histogram"))
    skeleton, arrays = flatten(induction.network)
    names = [f"layer1.head0.{part}" for part in ("query", "key", "value", "output", "memory_keys", "memory_values")]
    tries = [(induction, unflatten(skeleton, {**arrays, name: np.zeros_like(arrays[name])})) for name in names]
    first, one, two, last = net.network.layers
    for layers in ((first, one, last), (first, two, one, last), (first, one, two, two, last)):
        tries.append((net, replace(net.network, layers=layers)))
    longer = p.compile(p.library["histogram"], max_length=5)
    other = p.compile(p.selector_width(p.select(p.tokens, p.tokens, "!=")), net.vocabulary, 4)
    for model, network in [*tries, (longer, net.network), (other, net.network)]:
        with pytest.raises((af.CertificateError, af.RefusalError)):
            model.with_network(network)
