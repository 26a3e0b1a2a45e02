"""Networks that run an algorithm: saved, loaded, checked; changed in every way, never confirmed where wrong."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from flint import arb
from typer.testing import CliRunner

import attnforge as af
from attnforge.balls import machine, precision, upper
from attnforge.certification.checker.check import check
from attnforge.certification.checker.in_context import KERNEL, drift, sample
from attnforge.certification.checker.in_context_reading import read
from attnforge.certification.checker.in_context_row import Row
from attnforge.certification.checker.in_context_step import Box, Step
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.in_context import certify as prover
from attnforge.cli import app
from attnforge.errors import AttnforgeError
from attnforge.network import Attention, digest
from tests.laws.in_context_mutations import ALGORITHMS, ARRAYS, Mutant, build, judged, mutants

ROUTES, DTYPES = ("small_sharpness", "interpolation"), ("float64", "float32")
ITERATIONS = [name for name in ALGORITHMS if not name.endswith("kernel")]
ALL = [(a, r, d) for a in ITERATIONS for r in ROUTES for d in DTYPES if (a, r) != ("softmax", "interpolation")]
KERNELS = [(a, "small_sharpness", d) for a in ALGORITHMS if a not in ITERATIONS for d in (*DTYPES, "bfloat16")]
CERTIFIED = [each for each in ALL if each[0] != "Poisson"]
RANDOM = 4  # changes of each network


@cache
def built(algorithm, route="small_sharpness", dtype="float64", steps=2):
    return build(algorithm, route, dtype, steps)


def changed(net, change, place, blocks=None):
    """The network whose block has another layer at ``place``, in all blocks or in those given."""
    layers, length = list(net.network.layers), len(net.block)
    for t in range(net.steps) if blocks is None else blocks:
        layers[t * length + place] = change(net.block[place])
    return replace(net.network, layers=tuple(layers))


def heads_with(change):
    return lambda layer: replace(layer, heads=tuple(change(head) for head in layer.heads))


def verdict_of(net, network):
    return check(network, net.target, replace(net.certificate, digest=digest(network)), net.dtype)


@pytest.mark.parametrize(("algorithm", "route", "dtype"), ALL)
def test_saved_loaded_and_checked(algorithm, route, dtype, tmp_path):
    path, net = tmp_path / "net", built(algorithm, route, dtype)
    net.save(path)
    found = af.check(path)
    if algorithm == "Poisson":
        assert found.verdict == "unprovable"
        assert "no certificate for all prompts" in found.reason
        return
    assert found.verdict == "confirmed", found.reason
    loaded, errors = af.load(path), []
    for seed in range(4):
        x, y = sample(net.target, seed)
        errors.append(np.abs(loaded(x, y) - net.target.weights(x, y)).max())
    assert max(errors) <= found.outcome.reached <= net.certificate.bound


def test_the_command_says_what_was_recomputed(tmp_path):
    path = tmp_path / "net"
    built("lasso").save(path)
    done = CliRunner().invoke(app, ["certify", str(path), "--check"])
    assert done.exit_code == 0
    assert "recomputed bound" in done.output
    assert "cells" not in done.output
    data = json.loads(CliRunner().invoke(app, ["certify", str(path), "--check", "--json"]).output)
    assert data["verdict"] == "confirmed"
    assert 0 < data["recomputed"] <= built("lasso").certificate.bound


def test_a_lower_bound_is_not_confirmed():
    net = built("ridge")
    reached = check(net.network, net.target, net.certificate, "float64").outcome.reached
    assert 0.5 * net.certificate.bound < reached <= net.certificate.bound
    found = check(net.network, net.target, replace(net.certificate, bound=0.999 * reached), "float64")
    assert found.verdict == "undecided"
    assert "certify it again" in found.reason


@pytest.mark.parametrize("lacking", [KERNEL, "prompts of 3 examples"])
def test_a_certificate_says_what_it_assumes(lacking):
    net = built("ridge")
    kept = tuple(each for each in net.certificate.assumptions if each != lacking)
    assert len(kept) < len(net.certificate.assumptions)
    found = check(net.network, net.target, replace(net.certificate, assumptions=kept), "float64")
    assert (found.verdict, found.what) == ("rejected", "assumptions")


def test_prover_and_checker_assume_the_same():
    assert (KERNEL, 1024) == (prover.KERNEL, prover.EXAMPLES)


@pytest.mark.parametrize("blocks", [None, [1]], ids=["all blocks", "one block"])
@pytest.mark.parametrize("algorithm", [each for each in ITERATIONS if each != "Poisson"])
def test_one_and_a_half_times_the_outputs_is_refuted(algorithm, blocks):
    net = built(algorithm)
    place = next(i for i in reversed(range(len(net.block))) if len(net.block[i].heads[0].query_rows.indices) > 0)
    larger = heads_with(lambda head: replace(head, output=head.output * 1.5))
    found = verdict_of(net, changed(net, larger, place, blocks))
    assert (found.verdict, found.what) == ("rejected", "bound"), found.reason
    assert "seed" in found.reason


@pytest.mark.parametrize(
    ("algorithm", "route"),
    [*((each, "small_sharpness") for each in ITERATIONS if each != "Poisson"), ("elastic net", "interpolation")],
)
def test_every_array_of_a_block(algorithm, route):
    """In the last block: in the first, w = 0 and nothing decays."""
    net, said = built(algorithm, route), Counter()
    for place, layer in enumerate(net.block):
        if not isinstance(layer, Attention):
            continue
        for i, head in enumerate(layer.heads):
            for name in ARRAYS:
                array = getattr(head, name)
                if array is None or not array.any():
                    continue
                heads = (*layer.heads[:i], replace(head, **{name: array * 1.5}), *layer.heads[i + 1 :])
                network = changed(net, lambda _, heads=heads: Attention(heads, True), place, [1])
                found = judged(net, Mutant(name, network, net.target))
                assert not found.false_proofs(net.certificate.bound), (place, i, name, found)
                said[found.verdict] += 1
                steeper = head.memory_size == 2 and name in ("query", "memory_keys")  # a gate, no worse for it
                assert found.verdict != "confirmed" or steeper, (place, i, name, found)
    assert said["rejected"] >= 4


@pytest.mark.parametrize(("algorithm", "route", "dtype"), [*CERTIFIED, *KERNELS])
def test_random_changes(algorithm, route, dtype):
    net, seed = built(algorithm, route, dtype), [*ALL, *KERNELS].index((algorithm, route, dtype))
    for mutant in mutants(net, RANDOM, seed=seed):
        found = judged(net, mutant)
        assert not found.false_proofs(net.certificate.bound), (mutant.what, found)


def test_changes_too_small_to_matter_are_confirmed():
    net = built("logistic", "interpolation")
    place = len(net.block) - 1
    network = changed(net, heads_with(lambda head: replace(head, output=head.output * (1 - 2.0**-52))), place)
    assert verdict_of(net, network).verdict == "confirmed"
    assert drift(network, net.target, "float64", lambda _: None) != drift(
        net.network, net.target, "float64", lambda _: None
    )


def with_cancelling_decays(layer):
    decay = layer.heads[-1]
    large = np.where(decay.output != 0, 1.1e12, 0.0)
    return replace(layer, heads=(*layer.heads, replace(decay, output=large), replace(decay, output=-large)))


ATTACKS = {
    "a row that prefers the farthest anchors": (
        ("Huber", "interpolation"),
        2,
        heads_with(lambda head: replace(head, query=-head.query)),
    ),
    "keys that overflow": (
        ("least squares", "small_sharpness"),
        0,
        heads_with(lambda head: replace(head, query=head.query * 2.0**-1023, key=head.key * 2.0**1023)),
    ),
    "values that overflow": (
        ("least squares", "small_sharpness"),
        0,
        heads_with(lambda head: replace(head, value=head.value * 2.0**1023, output=head.output * 2.0**-1023)),
    ),
    "decays that cancel": (("ridge", "small_sharpness"), 0, with_cancelling_decays),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_products_that_look_right_and_do_not_run_so(attack):
    case, place, change = ATTACKS[attack]
    net = build(*case, "float64", 60 if "decays" in attack else 2)
    network = changed(net, change, place)
    assert verdict_of(net, network).verdict != "confirmed"
    x, y = sample(net.target, 1)
    with pytest.raises(AttnforgeError):
        prover.certify_prompt(network, net.target, "float64", x, y)
    with pytest.raises(AttnforgeError):
        prover.certify_box(network, net.target, "float64")


@pytest.mark.parametrize("link", ["identity", "clamp", "logistic"])
@pytest.mark.parametrize("c", [0.5, 2.7, 40.0])
def test_the_error_of_a_row_is_the_largest_there_is(link, c):
    levels = np.linspace(-2, 2, 9)
    links = {
        "identity": lambda s: s,
        "clamp": lambda s: np.clip(s, -2, 2),
        "logistic": lambda s: 1 / (1 + np.exp(-s)) - 0.5,
    }
    answers, beta = links[link](levels), c / 0.25
    forms = np.linspace(-2.6, 2.6, 4001)

    def largest(reach, disturbance=0.0):
        s = forms[np.abs(forms) <= reach]
        shift = disturbance * np.sign(answers - s[:, None] * (link == "identity"))
        weights = np.exp(-beta * (s[:, None] - levels) ** 2 + shift)
        return np.abs(weights @ answers / weights.sum(axis=1) - links[link](s)).max()

    with precision():
        row = Row(levels, levels**2, answers, arb(beta), link, 2.0)
        for reach in (1.1, 2.0, 2.6):
            found = upper(row.error(arb(reach), arb(0)))
            assert largest(reach) <= found
            assert found <= 1.02 * largest(reach) or reach > 2.0  # beyond, the bound is a simple one
            assert largest(reach, 0.2) <= upper(row.error(arb(reach), arb(0.2)))


def test_a_row_must_increase():
    with pytest.raises(BeyondReachError, match="increase"):
        Row(np.arange(3.0), np.arange(3.0) ** 2, np.array([0.0, 2.0, 1.0]), arb(1), "identity", 1.0)


@pytest.mark.parametrize("algorithm", ["least squares", "lasso", "elastic net", "Huber", "logistic", "softmax"])
def test_exact_iterates_stay_within_their_bound(algorithm):
    net = built(algorithm, steps=30)
    with precision():
        box = Box(net.target, machine("float64"))
        for seed in range(4):
            x, y = sample(net.target, seed)
            for t, w in enumerate(net.target.trajectory(x, y), start=1):
                assert np.linalg.norm(w) <= upper(box.weights(t))


def test_sums_depart_from_the_gradient_by_less_than_their_bound():
    net = built("least squares")
    length = len(net.block)
    with precision():
        box = Box(net.target, machine("float64"))
        step = Step(read(net.network.layers[:length], net.target.features), box, net.algorithm.learning_rate)
        for seed in range(5):
            rng = np.random.default_rng(seed)
            x, rho = rng.uniform(-1, 1, (3, 2)), rng.uniform(-1, 1, 3) * 10.0**seed
            total = np.zeros(2)
            for beta, factor in ((float(b), float(f)) for b, f in step.block.sums):
                total += factor * (np.sinh(beta * rho) @ x) / np.cosh(beta * rho).sum()
            gain = sum(float(b * f) for b, f in step.block.sums)
            reach, mean = np.abs(rho).max(), np.sqrt(np.mean(rho**2))
            off = np.linalg.norm(total - gain * rho @ x / 3)
            bound = upper(step._departure(arb(reach), arb(mean)))
            assert off <= np.sqrt(2) * bound + 1e-15 * abs(gain) * reach


def test_what_is_not_understood_is_named():
    net = built("Huber")
    network = changed(net, heads_with(lambda head: replace(head, query=np.roll(head.query, 1, axis=0))), 1)
    with pytest.raises(BeyondReachError, match="the layer of links, head 0"):
        drift(network, net.target, "float64", lambda _: None)
