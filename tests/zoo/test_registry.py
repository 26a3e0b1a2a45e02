"""Every record of the zoo, and one or two cheap networks of every kind: proved, measured within the bound, rebuilt."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.errors import TargetError
from attnforge.network import Attention, digest
from attnforge.zoo import Entry, Size, registry
from attnforge.zoo.entry import Catalogue
from benchmarks.zoo import checked, fingerprint, measured
from scripts import tables

CHEAP = (
    "ramp", "gate", "hat", "rectified_rotation", "voronoi_cells", "softmax_tail", "product_of_two_inputs", "sine",
    "plane_wave", "table_of_a_kink", "hubble", "logistic", "lorenz", "trained_digits", "variance", "huber",
    "nadaraya_watson", "function_as_prompt", "head_as_prompt", "induction", "histogram",
)  # fmt: skip
CONFIRMED = ("hubble", "sine", "huber", "nadaraya_watson", "head_as_prompt")


@pytest.fixture(scope="module")
def built():
    """The cheap ones, built once."""
    return {name: af.zoo.get(name) for name in CHEAP}


def test_forty_networks_of_eight_kinds() -> None:
    assert len(af.zoo.list()) >= 40
    assert len(af.zoo.entries.kinds) >= 8
    assert len(set(af.zoo.list())) == len(af.zoo.list())
    assert {af.zoo.entries[name].kind for name in CHEAP} == set(af.zoo.entries.kinds)


@pytest.mark.parametrize("entry", registry.RECORDS, ids=lambda entry: entry.name)
def test_every_record_says_what_it_is(entry: Entry) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", entry.name)
    for text in (entry.computes, entry.inputs, entry.mechanism, entry.citation):
        assert text.strip() == text
        assert text.isprintable()
        assert not text.removesuffix("...").endswith(".")
    assert isinstance(entry.size, Size), "run benchmarks/zoo.py"
    assert entry.to_data()["size"]["layers"] == entry.size.layers


def test_no_two_differ_by_a_constant_alone() -> None:
    def bare(entry: Entry) -> str:
        return re.sub(r"\d+(\.\d+)?", "#", f"{entry.kind}: {entry.computes} by {entry.mechanism}")

    texts = [bare(entry) for entry in registry.RECORDS]
    assert len(set(texts)) == len(texts)
    assert bare(replace(registry.RECORDS[0], computes="clamp(x, -2, 1) of every token")) in texts  # it would be seen


@pytest.mark.parametrize("name", CHEAP)
def test_measured_within_the_bound(built, name: str) -> None:
    net = built[name]
    error = measured(net, points=500, prompts=2)
    if net.certificate.bound is None:
        assert af.zoo.entries[name].kind == "table"
        assert error <= net.certificate.estimate.error * (1 + 1e-12)
    else:
        assert 0 <= error <= net.certificate.bound


@pytest.mark.parametrize("name", CHEAP)
def test_sizes_and_graphs(built, name: str) -> None:
    net, graph = built[name], built[name].causal_graph()
    assert Size.of(net) == af.zoo.entries[name].size, "run benchmarks/zoo.py"
    assert sum(node.kind == "head" for node in graph.nodes) == net.heads
    assert not graph.idle()
    assert {graph.nodes[i].kind for i in graph.parents(len(graph.nodes) - 1)} <= {"head", "softmax", "input"}


@pytest.mark.parametrize("name", ["ramp", "hat", "trained_digits", "variance", "huber", "head_as_prompt", "induction"])
def test_rebuilt_it_is_the_same_to_the_byte(built, name: str) -> None:
    assert fingerprint(af.zoo.get(name)) == fingerprint(built[name])


@pytest.mark.parametrize("name", CONFIRMED)
def test_the_checker_confirms(built, name: str) -> None:
    assert checked(built[name]) == "confirmed"


def test_measuring_sees_other_weights(built) -> None:
    net = built["huber"]
    before = net.network.layers
    first = next(i for i, layer in enumerate(before) if isinstance(layer, Attention))
    head, *others = before[first].heads
    tilted = replace(before[first], heads=(replace(head, output=1.01 * head.output), *others))
    network = replace(net.network, layers=(*before[:first], tilted, *before[first + 1 :]))
    other = replace(net, network=network)
    assert digest(other.network) != digest(net.network)
    assert measured(other, prompts=2) > net.certificate.bound


def test_what_is_known_in_words() -> None:
    text = str(af.zoo.entries["lorenz"])
    assert text.startswith("lorenz\n  kind       graph")
    assert "1 layers of attention, 2 heads, 14 keys" in text
    assert "| lorenz | graph | 14 |" in af.zoo.entries._repr_markdown_()
    assert repr(af.zoo.entries) == f"<Catalogue of {len(af.zoo.list())} networks of {len(af.zoo.entries.kinds)} kinds>"
    assert len(str(af.zoo.entries).splitlines()) == 1 + len(af.zoo.list())


def test_names_that_are_none() -> None:
    with pytest.raises(TargetError, match="Did you mean lorenz"):
        af.zoo.get("lorens")
    with pytest.raises(TargetError, match="one of ramp, relu"):
        af.zoo.list("furry")


def test_a_new_one_is_one_record(monkeypatch: pytest.MonkeyPatch, run_zoo) -> None:
    def build() -> af.Compiled:
        return af.compile("clamp(x, 0, 1)", {"x": (-1, 2)}, 1e-9)

    toy = Entry("toy", "toys", "clamp(x, 0, 1)", "x in [-1, 2]", "a gate", "nobody", build)
    monkeypatch.setitem(vars(registry.entries), "records", (*registry.RECORDS, toy))
    assert af.zoo.list("toys") == ["toy"]
    assert toy.size is None
    net = af.zoo.get("toy")
    assert net.certificate.status == "proved"
    np.testing.assert_allclose(net(np.array([-0.5, 0.25, 1.5])), [0, 0.25, 1], atol=1e-9)
    assert "| `toy` | toys | clamp(x, 0, 1) | x in [-1, 2] |" in tables.TABLES["zoo"]()
    assert "toy   toys        x in [-1, 2]  clamp(x, 0, 1)" in run_zoo("list", "--kind", "toys").stdout
    assert "L0H0 gate <- x" in run_zoo("get", "toy").stdout


@pytest.fixture
def run_zoo():
    from typer.testing import CliRunner

    from attnforge.cli import app

    return lambda *words: CliRunner().invoke(app, ["zoo", *words])


def test_a_catalogue_is_a_mapping() -> None:
    small = Catalogue(registry.RECORDS[:2])
    assert list(small) == ["ramp", "ramp_padded"]
    assert small["ramp"] is registry.RECORDS[0]
    assert "reverse" not in small
