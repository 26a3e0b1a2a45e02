"""The verdict on a file: about what it is, whether it is true, and what nobody could know; every kind of network."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import attnforge as af
from attnforge.cli import app
from attnforge.network import Head, Linear, Network, Rows, Term, digest, head_places, rounded, with_head, with_heads
from tests.catalogue import network, sequential
from tests.refusals import refused

MAKE = af.constructions
CUBE = dict.fromkeys("xyz", (-1, 1))


@pytest.fixture
def judged(tmp_path):
    """The verdict on a network whose certificate is about whatever weights and bound are stated."""

    def verdict(net, changed=None, bound=None, cells=500, **certificate):
        changed = net.network if changed is None else changed
        told = certificate if bound is None else {"bound": bound, "parts": {"all": bound}, **certificate}
        certificate = replace(net.certificate, **{"digest": digest(changed), **told})
        replace(net, network=changed, certificate=certificate).save(tmp_path / "net")
        return af.check(tmp_path / "net", cells=cells)

    return verdict


def error(net, changed=None, points=4000):
    """The largest error seen of a function's network, ends of the box among the points."""
    changed, box = changed or net.network, net.target.domain
    x = np.random.default_rng(0).uniform(-0.2, 1.2, size=(points, *box.shape)).clip(0, 1)
    x = box.lower + x * (box.upper - box.lower)
    with np.errstate(all="ignore"):
        out = changed(x.reshape(len(x), -1, changed.features))
    return float(np.abs(out.reshape(len(x), -1) - net.target.values(x).reshape(len(x), -1)).max())


def head_at(whole, place):
    return whole.layers[place[0]].heads[place[1]]


def layer_replaced(whole, at, layer):
    layers = list(whole.layers)
    layers[at] = layer
    return replace(whole, layers=tuple(layers))


# What the certificate is about


def test_what_the_certificate_is_not_about_is_named(judged):
    net, other = network("sine"), network("bell")
    changes = {
        "network": {"digest": digest(other.network)},
        "target": {"target": other.certificate.target},
        "domain": {"domain": ((0.0, 1.0),)},
        "dtype": {"dtype": "float32"},
        "assumptions": {"assumptions": ()},
    }
    for what, change in changes.items():
        found = judged(net, **change)
        assert (found.verdict, found.what) == ("rejected", what)


@pytest.mark.parametrize("name", ["zoo: ridge", "zoo: softmax_kernel", "zoo: function_as_prompt"])
def test_no_assumption_of_a_prompts_certificate_may_be_left_out(judged, name):
    net = network(name)
    for left_out in net.certificate.assumptions:
        kept = tuple(each for each in net.certificate.assumptions if each != left_out)
        found = judged(net, assumptions=kept)
        assert (found.verdict, found.what) == ("rejected", "assumptions") or name == "zoo: function_as_prompt"


UNPROVABLE = {
    "another norm": ("sine", {"norm": "L2"}),
    "no bound": ("cell averages", {"norm": "sup"}),
    "a callable": ("callable on a row", {}),
    "a table without an error": ("table", {"estimate": None}),
    "no box of data": ("Poisson", None),
    "a function of a prompt": ("mean of a prompt", {}),
}


@pytest.mark.parametrize("what", UNPROVABLE)
def test_what_a_file_cannot_show_is_unprovable(judged, tmp_path, what):
    name, changes = UNPROVABLE[what]
    if changes is None:
        af.in_context.Poisson(steps=2, learning_rate=0.05).build(features=2).save(tmp_path / "net")
        assert af.check(tmp_path / "net").verdict == "unprovable"
    else:
        assert judged(network(name), **changes).verdict == "unprovable"


# Whether it is true


SEARCHED = ("sine", "readme", "truncated", "partition", "multiplier", "random 4")


@pytest.mark.parametrize("name", SEARCHED)
def test_a_bound_just_below_the_error_is_refuted_at_a_point_that_shows_it(judged, name):
    net = network(name)
    seen = af.measure(net, points=2000).sup
    found = judged(net, bound=0.95 * seen, cells=3000)
    assert (found.verdict, found.what) == ("rejected", "bound")
    at = float(np.abs(net(np.array([found.outcome.at])) - net.target.values(np.array([found.outcome.at]))).max())
    assert 0.95 * seen < found.outcome.seen <= at * (1 + 1e-6) + 1e-13


@pytest.mark.parametrize("name", ["sine", "grid", "table", "additive", "truncated, tokens"])
def test_too_few_cells_decide_nothing(judged, name):
    assert judged(network(name), cells=2).verdict == "undecided"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_below_rounding_nothing_is_confirmed(judged, dtype):
    """The identity against x: right up to roundings of the run, no further."""
    net = MAKE.tensor_grid("x", {"x": (0, 1)}, anchors=2, dtype=dtype)
    copy = Network((Linear((Term(np.array([[3.0]])),)), Linear((Term(np.array([[1 / 3]])),))), 1, 1)
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24
    assert judged(net, copy, bound=8 * unit).verdict == "confirmed"
    assert judged(net, copy, bound=unit / 2, cells=60).verdict != "confirmed"


def test_a_jump_is_confirmed_only_beyond_half_its_height(judged):
    net = af.compile("step(x - 0.3)", {"x": (0, 1)}, 1.1, construction="max_affine")
    half = Network((Linear((Term(np.zeros((1, 1))),), np.array([[0.5]])),), 1, 1)
    assert judged(net, half, bound=0.999).verdict == "confirmed"  # 1/2 is within 1/2 of both sides
    assert judged(net, half, bound=0.4999).verdict == "rejected"


def test_errors_of_a_table_are_those_at_its_points(judged):
    net = network("table")
    assert judged(net).verdict == "confirmed"
    lower = replace(net.certificate.estimate, error=net.certificate.estimate.error / 2)
    assert judged(net, estimate=lower).verdict == "rejected"
    twice = (Linear((Term(np.array([[each]])),)) for each in (6e4, 2.0, 1 / 1.2e5))
    large = rounded(replace(net.network, layers=(*twice, *net.network.layers)), "float16")
    assert judged(replace(net, dtype="float16"), large, dtype="float16").verdict != "confirmed"  # 1.2e5 overflows


def test_a_network_of_more_outputs_or_other_tokens_is_rejected(judged):
    net = network("sine")
    two = replace(net.network, layers=(*net.network.layers, Linear((Term(np.ones((1, 2))),))))
    with refused(af.FileFormatError):
        judged(net, two)
    tokens = network("truncated, tokens")
    first, *others = tokens.network.layers
    turned = replace(
        first, terms=(replace(first.terms[0], map=first.terms[0].map[::-1]),), constant=first.constant[::-1]
    )
    assert judged(tokens, replace(tokens.network, layers=(turned, *others))).verdict != "confirmed"


def test_functions_of_one_form_are_looked_at_along_it(judged):
    """Eight inputs, which no cells could divide; a head that reads a little of another direction is seen."""
    net = af.compile("tanh(" + " + ".join(f"x[{i}]" for i in range(8)) + ")", af.Box(-1, 1, shape=(8,)), 1e-2)
    assert judged(net, cells=2000).verdict == "confirmed"
    first, *others = net.network.layers
    spoilt = first.terms[0].map.copy()
    spoilt[0] *= 1.5
    off = replace(net.network, layers=(replace(first, terms=(Term(spoilt),)), *others))
    assert error(net, off) > net.certificate.bound
    assert judged(net, off).verdict != "confirmed"


# Graphs of registers, claim by claim


GRAPHS = {
    "kinks": ("max(x*y, z) - abs(x + z)", CUBE),
    "logistic": ("tanh(x + 2*y)*sigmoid(z - x)", CUBE),
    "exponential": ("x*exp(-y^2 - z)", CUBE),
    "root": ("sqrt(x^2 + (y - z)^2)", CUBE),
    "several": ("[x*y*z, exp(x - y)*z, x + max(y, z)]", CUBE),
}


@pytest.fixture(scope="module", params=GRAPHS)
def graph(request):
    return MAKE.graph(*GRAPHS[request.param], 1e-5)


def test_heads_of_other_values_and_false_claims_are_refuted_by_name(graph, judged):
    for place in head_places(graph.network)[-3:]:
        head = head_at(graph.network, place)
        name = "value" if head.value is not None and head.value.any() else "memory_values"
        column = int(np.flatnonzero(head.output.any(axis=0))[0])
        claim = replace(head.claims, formula=f"({head.claims.formula})*1.001")
        for change in ({name: 1.01 * getattr(head, name)}, {"claims": claim}):
            found = judged(graph, with_head(graph.network, *place, **change), cells=50)
            assert found.verdict == "rejected", change
            assert f"r[{column}] = " in found.reason


@pytest.mark.parametrize("output", range(3))
def test_every_output_of_a_graph_is_looked_at(judged, output):
    net = MAKE.graph(*GRAPHS["several"], 1e-5)
    *others, last = net.network.layers
    for size, register in itertools.product((2 * net.certificate.bound, 0.1), (0, 1 + output, -1)):
        weights = last.terms[0].map.copy()
        weights[register, output] += size
        changed = replace(net.network, layers=(*others, Linear((Term(weights),))))
        assert error(net, changed) > net.certificate.bound
        assert judged(net, changed, cells=50).verdict in (["rejected"] if size == 0.1 else ["rejected", "undecided"])
    turned = Linear((Term(np.roll(last.terms[0].map, 1, axis=1)),))
    assert judged(net, replace(net.network, layers=(*others, turned)), cells=50).verdict == "rejected"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("x*exp(-y^2 - z)", "x*exp(-y^2 - z) + 1e-5*x"),
        ("x*exp(-y^2 - z)", "x*exp(-y^2 - z)*(1 + 1e-5*y^4)"),
        ("x*y*z + x + y + z - 0.05", "x*y*z + relu(x + y + z + 2.95) - 3"),  # apart in one corner alone
    ],
)
def test_the_formulas_of_registers_put_together_must_be_the_target(judged, text, near):
    """The same weights and claims against a formula that is a little further away than the bound."""
    net, told = MAKE.graph(text, CUBE, 1e-6), af.compile(near, CUBE, 0.1)
    against = replace(net, target=told.target)
    found = judged(against, bound=net.certificate.bound, target=told.certificate.target, cells=50)
    assert found.verdict != "confirmed"


def test_errors_before_a_root_at_zero_count_by_its_modulus(judged):
    """A square off by 1e-8 moves the root of it by 1e-4 at 0, and hardly elsewhere."""
    net = MAKE.graph(*GRAPHS["root"], 1e-5)
    place = head_places(net.network)[0]
    head = head_at(net.network, place)
    changed = with_head(net.network, *place, memory_values=head.memory_values + 1e-8 / np.abs(head.output).max())
    zero = np.zeros((1, 1, 3))
    seen = abs(float(changed(zero)[0, 0, 0]) - float(net.network(zero)[0, 0, 0]))
    assert seen > 5e-5
    assert judged(net, changed, bound=0.5 * seen, cells=50).verdict != "confirmed"
    assert judged(net, changed, bound=3e-4, cells=50).verdict == "confirmed"


# ReLU networks, followed side by side


@pytest.mark.parametrize(
    "change",
    [
        lambda head: replace(head, key_rows=Rows()) if head.key_rows is not None else head,
        lambda head: replace(head, query_rows=Rows.some([0])),
    ],
    ids=["other tokens' keys", "one token asks"],
)
def test_tokens_that_see_each_other_are_rejected(judged, change):
    """One token alone would not show it, and the bound at two would be false by far."""
    module = sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    net = MAKE.relu_network(module, af.Box(-1.0, 1.0, shape=(2, 2)))
    assert judged(net, bound=1e-13).verdict == "confirmed"
    assert judged(net, with_heads(net.network, change), bound=1e-13).verdict == "rejected"


def test_folded_ranges_are_followed_into_the_next_stage(judged):
    """|x| on [-1, 1] is 1 at both ends and 0 between: a gate that is wrong near 0 must be seen, without a witness."""
    nn = torch.nn
    module = nn.Sequential(nn.Linear(1, 1), nn.LeakyReLU(-1.0), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for k, (w, b) in {0: (1.0, 0.0), 2: (1.0, -0.0001), 4: (1.0, 0.0)}.items():
            module[k].weight.fill_(w)
            module[k].bias.fill_(b)
    net = MAKE.relu_network(module, af.Box(-1.0, 1.0))
    layer = net.network.layers[3]
    wrong = replace(layer, heads=(replace(layer.heads[0], memory_values=np.array([[100.0]])),))
    found = judged(net, layer_replaced(net.network, 3, wrong), bound=1.0)
    assert found.verdict != "confirmed"
    assert found.outcome is None or found.outcome.reached > 99


def test_a_head_that_writes_nothing_is_looked_at_all_the_same(judged):
    """Its scores overflow: not a number, which times zero is none either."""
    net = network("relu", "float32")
    layer = net.network.layers[1]
    width, out = layer.heads[0].query.shape[0], layer.heads[0].output.shape[1]
    silent = Head(np.full((width, 1), 1e30), np.zeros((1, out)),
                  memory_keys=np.full((2, 1), 1e30), memory_values=np.ones((2, 1)))  # fmt: skip
    changed = layer_replaced(net.network, 1, replace(layer, heads=(*layer.heads, silent)))
    assert judged(net, changed).verdict != "confirmed"


# Sums of more inputs than cells are cut in

TEXT = "sin(a) + exp(b)*c + cos(2*d) + g^2 + sin(f)*f"


@pytest.fixture(scope="module")
def terms():
    return af.compile(TEXT, dict.fromkeys("abcdfg", (-1, 1)), tol=1e-3, construction="additive")


def test_sums_are_checked_group_by_group(terms, judged):
    place, seen = iter((1.0, -1.0, 0.0, 0.0, 0.0)), error(terms, points=20_000)
    assert [judged(terms, cells=cells).verdict for cells in (10, 4000)] == ["undecided", "confirmed"]
    assert judged(terms, bound=0.01 * seen).verdict == "rejected"
    cancelling = with_heads(terms.network, lambda h: replace(h, memory_values=h.memory_values + next(place)))
    assert judged(terms, cancelling, bound=1.01 * terms.certificate.bound, cells=4000).verdict == "confirmed"


@pytest.mark.parametrize("which", range(5))
def test_another_head_of_a_sum_is_not_confirmed(terms, judged, which):
    place, by = iter(range(9)), terms.certificate.bound
    moved = with_heads(
        terms.network, lambda head: replace(head, memory_values=head.memory_values + by * (next(place) == which))
    )
    assert judged(terms, moved, cells=4000).verdict != "confirmed"


def test_the_command_says_what_was_recomputed(tmp_path):
    network("zoo: lasso").save(tmp_path / "net")
    done = CliRunner().invoke(app, ["certify", str(tmp_path / "net"), "--check"])
    assert done.exit_code == 0
    assert "recomputed bound" in done.output
    data = json.loads(CliRunner().invoke(app, ["certify", str(tmp_path / "net"), "--check", "--json"]).output)
    assert data["verdict"] == "confirmed"
    assert 0 < data["recomputed"] <= network("zoo: lasso").certificate.bound
