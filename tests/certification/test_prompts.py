"""Networks that read prompts, changed in every way: no bound is proved or confirmed that runs do not keep to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention, Linear, Rows, Term, digest, with_head
from tests.certification.figures import one_prompt
from tests.laws.in_context_mutations import ALGORITHMS, ARRAYS, Mutant, build, judged, mutants
from tests.refusals import refused

ITERATIONS = [name for name in ALGORITHMS if not name.endswith("kernel") and name != "Poisson"]
KERNELS = ("Gaussian kernel", "softmax kernel")
CASES = [
    *((each, route, dtype) for each in ITERATIONS for route in ("small_sharpness", "interpolation")
      for dtype in ("float64", "float32") if (each, route) != ("softmax", "interpolation")),
    *((each, "small_sharpness", dtype) for each in KERNELS for dtype in ("float64", "float32", "bfloat16")),
]  # fmt: skip


@cache
def built(algorithm, route="small_sharpness", dtype="float64", steps=2):
    return build(algorithm, route, dtype, steps)


@pytest.fixture
def verdict(tmp_path):
    """On a file whose certificate says the old bound, or another one, of the network as it is now."""

    def of(net, changed=None, **told):
        changed = changed or net.network
        certificate = replace(net.certificate, digest=digest(changed), **told)
        replace(net, network=changed, certificate=certificate).save(tmp_path / "net")
        return af.check(tmp_path / "net")

    return of


def with_block(net, change, place, blocks=None):
    """The network whose block has another layer at ``place``, in all blocks or in those given."""
    layers, length = list(net.network.layers), len(net.block)
    for t in range(net.steps) if blocks is None else blocks:
        layers[t * length + place] = change(net.block[place])
    return replace(net.network, layers=tuple(layers))


def heads_with(change):
    return lambda layer: replace(layer, heads=tuple(change(head) for head in layer.heads))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_random_changes(case):
    for mutant in mutants(built(*case), 3, seed=CASES.index(case)):
        found = judged(built(*case), mutant)
        assert not found.false_proofs(built(*case).certificate.bound), (mutant.what, found)


@pytest.mark.parametrize(
    ("algorithm", "route"), [*((each, "small_sharpness") for each in ITERATIONS), ("elastic net", "interpolation")]
)
def test_every_array_of_a_block(algorithm, route):
    """In the last block: in the first, w = 0 and nothing decays."""
    net, said = built(algorithm, route), Counter()
    for place, layer in enumerate(net.block):
        for i, head in enumerate(layer.heads if isinstance(layer, Attention) else ()):
            for name in (each for each in ARRAYS if np.any(getattr(head, each))):
                heads = (*layer.heads[:i], replace(head, **{name: getattr(head, name) * 1.5}), *layer.heads[i + 1 :])
                found = judged(
                    net, Mutant(name, with_block(net, lambda _, h=heads: Attention(h, True), place, [1]), net.target)
                )
                assert not found.false_proofs(net.certificate.bound), (place, i, name, found)
                said[found.verdict] += 1
                steeper = head.memory_size == 2 and name in ("query", "memory_keys")  # a gate, no worse for it
                assert found.verdict != "confirmed" or steeper, (place, i, name, found)
    assert said["rejected"] >= 4


@pytest.mark.parametrize("blocks", [None, [1]], ids=["all blocks", "one block"])
@pytest.mark.parametrize("algorithm", ITERATIONS)
def test_one_and_a_half_times_the_outputs_is_refuted(algorithm, blocks, verdict):
    net = built(algorithm)
    place = next(i for i in reversed(range(len(net.block))) if len(net.block[i].heads[0].query_rows.indices) > 0)
    larger = heads_with(lambda head: replace(head, output=head.output * 1.5))
    found = verdict(net, with_block(net, larger, place, blocks))
    assert (found.verdict, found.what) == ("rejected", "bound"), found.reason


@pytest.mark.parametrize(("name", "far"), [("ridge", "undecided"), ("Gaussian kernel", "rejected")])
def test_a_bound_below_what_is_reached_is_not_confirmed(name, far, verdict):
    net = built(name)
    reached = verdict(net).outcome.reached
    assert 0.5 * net.certificate.bound < reached <= net.certificate.bound
    for part, said in ((0.999, "undecided"), (1e-9, "rejected")):
        found = verdict(net, bound=part * reached, parts={"all": part * reached})
        assert found.verdict in (said, far)


def with_cancelling_decays(layer):
    decay = layer.heads[-1]
    large = np.where(decay.output != 0, 1.1e12, 0.0)
    return replace(layer, heads=(*layer.heads, replace(decay, output=large), replace(decay, output=-large)))


SMALL = "small_sharpness"
ATTACKS = {
    "a row that prefers the farthest anchors": (
        ("Huber", "interpolation"), 2, heads_with(lambda head: replace(head, query=-head.query))
    ),
    "keys that overflow": (
        ("least squares", SMALL),
        0,
        heads_with(lambda head: replace(head, query=head.query * 2.0**-1023, key=head.key * 2.0**1023)),
    ),
    "values that overflow": (
        ("least squares", SMALL),
        0,
        heads_with(lambda head: replace(head, value=head.value * 2.0**1023, output=head.output * 2.0**-1023)),
    ),
    "decays that cancel": (("ridge", SMALL), 0, with_cancelling_decays),
    "rows of a query exchanged": (
        ("Huber", SMALL), 1, heads_with(lambda head: replace(head, query=np.roll(head.query, 1, axis=0)))
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_products_that_look_right_and_do_not_run_so(attack, verdict):
    case, place, change = ATTACKS[attack]
    net = built(*case, steps=60 if "decays" in attack else 2)
    changed = with_block(net, change, place)
    assert verdict(net, changed).verdict != "confirmed"
    with refused():
        replace(net, network=changed).certify(*one_prompt(net))
    try:
        assert net.with_network(changed).certificate is None
    except af.CertificateError:
        return


OTHERS = {
    "two heads": lambda net: replace(net, layers=(net.layers[0], Attention(net.heads * 2))),
    "some examples": lambda net: with_head(net, -1, 0, key_rows=Rows.some([0, 1], "context")),
    "a constant key": lambda net: with_head(net, -1, 0, memory_keys=np.zeros((1, 3)), memory_values=np.zeros((1, 1))),
    "examples mapped": lambda net: replace(net, context_layers=(Linear((Term(np.eye(4)),)),)),
    "queries mixed": lambda net: replace(
        net, layers=(Linear((Term(np.eye(2, 3)), Term(np.eye(2, 3)))), net.layers[-1])
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_kernel_is_refused_by_both(other, verdict):
    net = built(KERNELS[0])
    changed = OTHERS[other](net.network)
    with refused(af.CertificateError):
        net.with_network(changed)
    assert verdict(net, changed).verdict in ("rejected", "undecided")


HEAD = af.in_context.attention_prompt(*(np.random.default_rng(0).normal(size=(3, w)) for w in (2, 2, 2)), tokens=5)[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda head: replace(head, output=1.5 * head.output),
        lambda head: replace(head, memory_keys=head.memory_keys[1:], memory_values=head.memory_values[1:]),
        lambda head: replace(head, query_rows=Rows.some([0])),
    ],
    ids=["larger outputs", "a key less", "one token asks"],
)
def test_a_head_in_a_prompt_is_what_it_says(change, verdict):
    net = HEAD.compiled
    assert verdict(net).verdict == "confirmed"
    assert (
        verdict(net, bound=net.certificate.bound / 10, parts={"all": net.certificate.bound / 10}).verdict == "undecided"
    )
    project = net.network.layers[1]
    other = replace(
        net.network,
        layers=(
            net.network.layers[0],
            replace(project, heads=(change(project.heads[0]), *project.heads[1:])),
            net.network.layers[2],
        ),
    )
    assert verdict(net, other).verdict in ("rejected", "undecided")
