"""Every record of the zoo, and one or two cheap networks of every kind: what is said of them, sizes, graphs, rebuilt.

That errors stay below bounds is a law over the catalogue; networks of prompts are measured here.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import attnforge as af
from attnforge.network import head_places, with_head
from attnforge.zoo import Size
from benchmarks.zoo import checked, fingerprint, measured
from tests.catalogue import network
from tests.refusals import refused

CHEAP = (
    "ramp", "gate", "hat", "rectified_rotation", "voronoi_cells", "softmax_tail", "product_of_two_inputs", "sine",
    "plane_wave", "table_of_a_kink", "hubble", "logistic", "lorenz", "trained_digits", "variance", "huber",
    "nadaraya_watson", "function_as_prompt", "head_as_prompt", "induction", "histogram",
)  # fmt: skip
RECORDS = [af.zoo.entries[name] for name in af.zoo.list()]


def built(name: str):
    return network(f"zoo: {name}")


def test_forty_networks_of_eight_kinds_none_but_for_a_constant_another() -> None:
    assert len(RECORDS) == len(set(af.zoo.list())) >= 40
    assert len(af.zoo.entries.kinds) >= 8
    assert {af.zoo.entries[name].kind for name in CHEAP} == set(af.zoo.entries.kinds)
    same = replace(RECORDS[0], computes="clamp(x, -2, 1) of every token")  # it would be seen
    texts = [re.sub(r"\d+(\.\d+)?", "#", f"{e.kind}: {e.computes} by {e.mechanism}") for e in (*RECORDS, same)]
    assert len(set(texts)) == len(texts) - 1


@pytest.mark.parametrize("entry", RECORDS, ids=lambda entry: entry.name)
def test_every_record_says_what_it_is(entry) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", entry.name)
    for text in (entry.computes, entry.inputs, entry.mechanism, entry.citation):
        assert text.strip() == text
        assert text.isprintable()
        assert not text.removesuffix("...").endswith(".")
    assert isinstance(entry.size, Size), "run benchmarks/zoo.py"
    assert entry.to_data()["size"]["layers"] == entry.size.layers
    assert str(entry).startswith(f"{entry.name}\n  kind       {entry.kind}")


@pytest.mark.parametrize("name", CHEAP)
def test_sizes_and_graphs(name: str) -> None:
    net, graph = built(name), built(name).causal_graph()
    assert Size.of(net) == af.zoo.entries[name].size, "run benchmarks/zoo.py"
    assert sum(node.kind == "head" for node in graph.nodes) == net.heads
    assert not graph.idle()
    assert {graph.nodes[i].kind for i in graph.parents(len(graph.nodes) - 1)} <= {"head", "softmax", "input"}


@pytest.mark.parametrize("name", ["variance", "huber", "nadaraya_watson", "function_as_prompt", "induction"])
def test_on_prompts_and_sequences_the_error_is_within_the_bound(name: str) -> None:
    assert 0 <= measured(built(name), points=500, prompts=2) <= built(name).certificate.bound


def test_measuring_sees_other_weights() -> None:
    net = built("huber")
    layer, head = head_places(net.network)[0]
    tilted = with_head(net.network, layer, head, output=1.01 * net.network.layers[layer].heads[head].output)
    assert measured(replace(net, network=tilted), prompts=2) > net.certificate.bound


@pytest.mark.parametrize("name", ["ramp", "hat", "trained_digits", "variance", "huber", "head_as_prompt", "induction"])
def test_rebuilt_it_is_the_same_to_the_byte(name: str) -> None:
    assert fingerprint(af.zoo.get(name)) == fingerprint(built(name))


@pytest.mark.parametrize("name", ["hubble", "sine", "huber", "nadaraya_watson", "head_as_prompt"])
def test_the_checker_confirms(name: str) -> None:
    assert checked(built(name)) == "confirmed"


def test_the_list_in_words_and_names_that_are_none() -> None:
    assert "| lorenz | graph | 14 |" in af.zoo.entries._repr_markdown_()
    assert len(str(af.zoo.entries).splitlines()) == 1 + len(af.zoo.list())
    for ask, known in ((lambda: af.zoo.get("lorens"), "lorenz"), (lambda: af.zoo.list("furry"), "graph")):
        with refused(af.TargetError) as caught:
            ask()
        assert known in str(caught.value)
