"""Every kind of layer on cells, against exact values at points and runs in every dtype."""

import numpy as np
import pytest
import torch
from flint import arb

from attnforge.balls import lower, machine, upper
from attnforge.certification.checker.layers import is_alone, run
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Space
from attnforge.certification.checker.taylor import Cell
from attnforge.certification.checker.values import Place
from attnforge.network import Attention, Head, Linear, Network, Rows, Softmax, Term, rounded
from attnforge.runtime import AttentionNetwork
from tests.certification.checker.reference import network_at, networks

KINDS = tuple(networks(np.random.default_rng(0)))
DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "bfloat16", "float16")}
ORDER = 3


def place_of(low, high, dtype, order=ORDER):
    whole = Space((-1.0,) * len(low), (1.0,) * len(low))
    return Place(whole, Cell(tuple(low.tolist()), tuple(high.tolist()), order), machine(dtype))


def cells(rng, count):
    for _ in range(count):
        low = rng.uniform(-1, 0.9, 2)
        high = np.minimum(low + 10.0 ** rng.uniform(-5, 0.3, 2), 1.0)
        yield low, high


def outputs(network, place, negligible=0.0):
    return [row() for row in run(place, network, network.tokens, negligible)]


@pytest.mark.parametrize("kind", KINDS)
def test_models_contain_the_exact_values(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    with exactly(ORDER):
        for sharpness in (1.0, 8.0, 200.0):
            network = networks(rng, sharpness)[kind]
            for low, high in cells(rng, 3):
                place = place_of(low, high, "float64")
                found = outputs(network, place)
                loose = outputs(network, place, 1e-3)
                for x in [*rng.uniform(low, high, size=(4, 2)), low, high]:
                    exact = network_at(network, x.reshape(network.tokens, network.features))
                    for values, loosely, row in zip(found, loose, exact, strict=True):
                        for value, other, wanted in zip(values, loosely, row, strict=True):
                            assert place.cell.range(value.model).overlaps(wanted)
                            assert (place.cell.range(other.model) + arb(0, other.off)).overlaps(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_at_the_middle_are_exact(kind):
    """Values, and slopes against differences of exact values."""
    rng, h = np.random.default_rng(KINDS.index(kind)), 2.0**-30
    network = networks(rng)[kind]
    low, high = np.array([0.125, -0.25]), np.array([0.25, -0.125])
    with exactly(ORDER):
        place = place_of(low, high, "float64")
        middle = np.array([float(m) for m in place.cell.middle])
        shape = (network.tokens, network.features)
        exact = network_at(network, middle.reshape(shape))
        for axis, k in enumerate(place.cell.terms.axes):
            step = h * np.eye(2)[axis]
            after, before = (network_at(network, (middle + s).reshape(shape)) for s in (step, -step))
            for i, values in enumerate(outputs(network, place)):
                for j, value in enumerate(values):
                    assert value.model.at[0].overlaps(exact[i][j])
                    assert abs(float(value.model.at[k] - (after[i][j] - before[i][j]) / (2 * h))) < 1e-12


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_runs_stay_within_off(kind, dtype):
    """In PyTorch, in every dtype, and in NumPy: never further from the exact value than stated."""
    rng = np.random.default_rng(10 + KINDS.index(kind))
    with exactly(ORDER):
        for sharpness in (2.0, 60.0):
            network = rounded(networks(rng, sharpness)[kind], dtype)
            module = AttentionNetwork(network, DTYPES[dtype])
            for low, high in cells(rng, 2):
                found = outputs(network, place_of(low, high, dtype))
                points = np.array([*rng.uniform(low, high, size=(4, 2)), low, high])
                tokens = points.reshape(-1, network.tokens, network.features)
                with torch.no_grad():
                    runs = [module(torch.tensor(tokens)).double().numpy()]
                runs += [network(tokens)] if dtype == "float64" else []
                for t, *told in zip(tokens, *runs, strict=True):
                    exact = network_at(network, t)
                    for each in told:
                        for i, j in np.ndindex(each.shape):
                            value = found[i][j]
                            assert abs(arb(float(each[i, j])) - exact[i][j]) <= arb(value.off)
                            assert value.run.overlaps(arb(float(each[i, j])))


def test_bounds_of_runs_are_of_the_size_of_rounding():
    """A bound that is always infinite would pass the tests above."""
    rng = np.random.default_rng(5)
    low = np.array([0.1, 0.2])
    with exactly(ORDER):
        for kind, network in networks(rng).items():
            for dtype, unit in (("float64", 2.0**-53), ("float32", 2.0**-24)):
                found = outputs(rounded(network, dtype), place_of(low, low + 1e-3, dtype))
                assert max(v.off for row in found for v in row) < 600 * unit, kind


def test_heads_are_added_in_any_order():
    """PyTorch adds the products of all heads in one sum: 1 + 2^-24 + 2^-24 + ... stays 1."""
    heads = [np.array([[2.0**-24, 2.0**-24]]) for _ in range(64)]
    heads[0] = np.array([[1.0, 2.0**-24]])
    layer = Attention(
        tuple(Head(np.zeros((1, 1)), np.ones((2, 1)), memory_keys=np.zeros((1, 1)), memory_values=v) for v in heads)
    )
    network = Network((layer,), 1, 1)
    with exactly(2):
        place = Place(Space((0.0,), (1.0,)), Cell((0.0,), (1.0,), 2), machine("float32"))
        ((value,),) = outputs(network, place)
    left_to_right = np.float32(0)
    for term in np.concatenate(heads).ravel():
        left_to_right = left_to_right + np.float32(term)
    assert value.off >= abs(float(left_to_right) - (1 + 127 * 2.0**-24)) > 7e-6


def test_overflow_is_never_a_small_error():
    """300 * 300 x is no float16 number for most x, though all weights are."""
    maps = [[300.0]], [[300.0]], [[2.0**-8]]
    network = Network(tuple(Linear((Term(np.array(m)),)) for m in maps), 1, 1)
    with exactly(2):
        place = Place(Space((0.0,), (1.0,)), Cell((0.5,), (1.0,), 2), machine("float16"))
        assert outputs(network, place)[0][0].off == np.inf
        calm = Place(Space((0.0,), (1.0,)), Cell((0.25,), (0.5,), 2), machine("float16"))
        assert outputs(network, calm)[0][0].off < 1.0


def test_scores_that_overflow_say_nothing():
    head = Head(
        np.array([[1e30]]), np.eye(1), memory_keys=np.array([[1e30], [-1e30]]), memory_values=np.array([[0.0], [1.0]])
    )
    network = Network((Attention((head,)),), 1, 1)
    with exactly(2):
        place = Place(Space((0.0,), (1.0,)), Cell((0.5,), (1.0,), 2), machine("float32"))
        assert outputs(rounded(network, "float32"), place)[0][0].off == np.inf
    with torch.no_grad():
        run_there = AttentionNetwork(network, torch.float32)(torch.full((1, 1, 1), 0.75))
    assert not torch.isfinite(run_there).all() or float(run_there) == 0.0


@pytest.mark.parametrize(
    "layers",
    [
        (Softmax(),),
        (Softmax(), Linear((Term(np.eye(2)), Term(np.eye(2))))),
        (Softmax(), Linear((Term(np.eye(2), np.eye(1)),))),
    ],
)
def test_a_softmax_is_read_whatever_follows(layers):
    network, low, high = Network(layers, 2, 1), np.array([-0.5, 0.25]), np.array([-0.25, 0.5])
    with exactly(2):
        (found,) = outputs(network, place_of(low, high, "float64", 2))
        for x in (low, high, (low + high) / 2):
            for value, exact in zip(found, network(x[None])[0].tolist(), strict=True):
                assert value.run.contains(arb(exact))
                assert upper(value.run) - lower(value.run) < 0.4 * abs(exact)


def test_heads_alone_read_one_token():
    memory = Head(np.eye(1), np.eye(1), memory_keys=np.ones((1, 1)), memory_values=np.ones((1, 1)))
    own = Head(np.eye(1), np.eye(1), key=np.eye(1), value=np.eye(1), key_rows=Rows("own"))
    every = Head(np.eye(1), np.eye(1), key=np.eye(1), value=np.eye(1), key_rows=Rows())
    first = Head(np.eye(1), np.eye(1), Rows.some([0]), memory_keys=np.ones((1, 1)), memory_values=np.ones((1, 1)))
    assert is_alone(memory)
    assert is_alone(own)
    assert not is_alone(every)
    assert not is_alone(first)
