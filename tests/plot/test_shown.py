"""What figures of networks show is what the networks compute: curves, maps, dots, bounds and words."""

from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.plot import anchors, attention_map, error_map, overview, partition, section, weighted_sum
from tests.catalogue import network
from tests.refusals import refused

SQUARE = {"x": (-1, 1), "y": (0, 2)}
LINE = af.Box(0, 1, shape=(1,))
MADE = {
    "kinked": lambda: af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-3),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3),
    "polynomial": lambda: af.compile("x^3 - x", {"x": (-2, 2)}, tol=1e-13, construction="polynomial"),
    "named": lambda: af.compile("sin(a) + 10*b", {"a": (-1, 1), "b": (0, 2)}, tol=1e-2, construction="tensor_grid"),
    "ridge in the plane": lambda: af.compile("abs(x - 2*y)", SQUARE, tol=1e-3, construction="ridge"),
    "cells": lambda: af.constructions.max_affine("sin(5*x)*y", {"x": (0, 1), "y": (0, 2)}, cells=4, sharpness="hard"),
    "pairs": lambda: af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], LINE, LINE, grid=3),
    "sampled": lambda: af.constructions.max_affine(lambda x: np.sin(3 * x[..., 0]), LINE, cells=6),
    "flat": lambda: af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (1, 1)}, tol=1e-2),
    "table of two": lambda: af.compile((np.random.default_rng(0).uniform(size=(9, 2)), np.arange(9.0))),
    "table of three": lambda: af.compile((np.random.default_rng(0).uniform(size=(9, 3)), np.arange(9.0))),
    "constant form": lambda: af.constructions.gate([0.0], 0.25, -1, 1),
}


@cache
def built(kind):
    return MADE[kind]() if kind in MADE else network(kind)


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr("attnforge.plot.plane.COUNTS", (9, 33))


def said(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def dots(axes):
    """Positions of all scattered dots, role by role."""
    return [c.get_offsets() for c in axes.collections if type(c).__name__ == "PathCollection"]


def shown(figure):
    return np.asarray(figure.axes[0].images[0].get_array()).T  # (inputs, keys)


def curve(axes, label):
    return next(line for line in axes.get_lines() if line.get_label() == label)


# Target, output and error


@pytest.mark.parametrize("kind", ["truncated", "truncated, tokens", "gate", "multihead, literal", "constant form"])
def test_the_overview_shows_target_output_and_error_below_the_bound(kind):
    net = built(kind)
    top, middle, bottom = overview(net).axes[:3]
    target, output = (curve(top, label).get_ydata() for label in ("target", "attention output"))
    error, bound = (line.get_ydata() for line in middle.get_lines()[:2])
    assert np.allclose(np.abs(output - target), error, atol=1e-12)
    assert error.max() <= bound[0] == net.certificate.bound
    assert bottom.get_ylabel().startswith("key")


@pytest.mark.parametrize("kind", ["kinked", "callable on a row", "two layers, tokens", "two outputs", "plane", "flat"])
@pytest.mark.usefixtures("coarse")
def test_sections_show_the_error_below_the_bound(kind):
    net = built(kind)
    figure = section(net)
    error = next(axes for axes in figure.axes if axes.get_ylabel() == "error" or "error" in axes.get_title())
    bound = net.certificate.bound or np.inf
    if error.images:  # a map, of logarithms
        assert 10 ** error.images[0].get_array().max() <= bound * (1 + 1e-6) + 1e-12
    else:
        assert error.get_lines()[0].get_ydata().max() <= bound
    figure.draw_without_rendering()


def test_points_are_taken_between_the_closest_anchors_and_at_the_worst_point():
    net = built("kinked")
    bottom = next(axes for axes in section(net).axes if axes.get_ylabel() == "error")
    at = np.sort(net.network.heads[0].claims.positions[:, 0])
    along = bottom.get_lines()[0].get_xdata()
    assert np.diff(along).min() < np.diff(at[(at >= -1) & (at <= 1)]).min()
    worst = error_map(net).axes[0].get_lines()[-1].get_ydata()[0]
    assert net.certificate.estimate.error <= worst <= net.certificate.bound


def test_a_slow_function_is_sampled_less(clock):
    net = af.compile(lambda x: np.sin(3 * x), {"x": (0, 1)}, tol=1e-3)
    clock.tick = 100.0
    assert len(section(net).axes[0].get_lines()[0].get_xdata()) == 65


@pytest.mark.usefixtures("coarse")
def test_maps_have_directions_names_and_the_worst_point():
    net = built("named")
    left, middle, right = section(net).axes[:3]
    values, found = (axes.images[0].get_array() for axes in (left, middle))
    assert (left.get_xlabel(), left.get_ylabel()) == ("a", "b")
    assert list(left.images[0].get_extent()) == [-1, 1, 0, 2]
    assert values[-1, 0] == pytest.approx(np.sin(-1) + 20)  # rows are b
    assert values[0, -1] == pytest.approx(np.sin(1))
    logs = right.images[0].get_array()
    assert np.allclose(np.log10(np.maximum(np.abs(values - found), 10.0 ** logs.min())), logs, atol=1e-3)
    ring = right.get_lines()[0].get_xydata()
    at = net.certificate.estimate.at
    assert net.domain.lower.tolist() <= ring[0].tolist()
    assert np.abs(net(ring[0]) - (np.sin(ring[0][0]) + 10 * ring[0][1])) >= 0.99 * np.abs(
        net(at) - (np.sin(at[0]) + 10 * at[1])
    )
    (lines,) = section(built("ridge in the plane")).axes[2].collections  # where its form is constant
    assert len(lines.levels) > 5


def test_a_largest_error_that_was_seen_is_not_called_a_bound(tmp_path):
    assert "not a bound" in said(error_map(built("sampled")).axes[0])[-1]
    assert f"{built('kinked').certificate.bound:.2g}" in said(error_map(built("kinked")).axes[0])[1]
    built("sampled").save(tmp_path / "net")
    with refused(af.TargetError):  # the target is not in the file
        error_map(af.load(tmp_path / "net"))
    assert said(weighted_sum(af.load(tmp_path / "net")).axes[2]) == ["sum: the output"]


@pytest.mark.parametrize("kind", ["table", "table of two", "table of three"])
def test_tables_are_drawn_at_their_listed_points_alone(kind):
    net = built(kind)
    figure = section(net)
    figure.draw_without_rendering()
    if kind == "table of two":
        assert figure.axes[0].images
        assert len(figure.axes[1].collections[0].get_array()) == 9
    else:
        error = figure.axes[-1].get_lines()[0].get_ydata()
        points = net.target.points
        wanted = np.abs(net.at_points(points) - net.target.values(points))
        assert sorted(error) == pytest.approx(sorted(wanted), abs=1e-12)
    error_map(net).draw_without_rendering()


# Keys


def test_anchors_stand_where_they_are_with_the_value_they_hold():
    net = built("kinked")
    top, gaps = anchors(net).axes
    head, found = net.network.heads[0], np.concatenate(dots(top))
    held = dict(zip(head.claims.positions[:, 0], head.memory_values[:, 0], strict=True))
    assert len(found) == net.anchors
    assert all(held[x] == y for x, y in found)
    assert [text.partition(" ")[0] for text in said(top)] == ["domain", "ghost", "anchor"]
    assert gaps.get_yscale() == "log"
    assert len(anchors(built("truncated")).axes) == 1  # even ones have no panel of gaps


def test_heads_sums_and_grids_of_anchors():
    axes = anchors(built("heads")).axes[0]
    assert said(axes) == ["ghost", "anchor", "sentinel"]
    assert sum(map(len, dots(axes))) == 30
    assert {y for at in dots(axes) for _, y in at} == {0, 1, 2}
    names = [f"x{i}" for i in range(1, 6)]
    net = af.compile("x1 + abs(x2) + sin(x3) + x4*0.5 + x5", dict.fromkeys(names, (-1, 1)), tol=0.1)
    panels = [each for each in anchors(net).axes if each.get_legend() is not None]
    assert [each.get_xlabel() for each in panels] == ["x2", "x3", "x1 + 0.5 x4 + x5"]
    cells, _ = anchors(built("cells")).axes
    (drawn,) = [c for c in cells.collections if type(c).__name__ == "PathCollection"]
    head = built("cells").network.heads[0]
    assert np.array_equal(drawn.get_offsets(), head.claims.positions)
    assert np.array_equal(drawn.get_array(), head.memory_values[:, 0])


def test_cells_are_intervals_where_the_largest_score_chooses():
    net = built("partition, hard")
    top, bottom = partition(net).axes
    envelope = curve(top, "the largest, which chooses").get_ydata()
    others = [line.get_ydata() for line in top.get_lines() if len(line.get_ydata()) == len(envelope)]
    assert np.allclose(np.max(others, axis=0), envelope)
    (steps,) = [patch.get_data() for patch in bottom.patches]
    assert np.allclose(steps.edges, [-1, -0.5, 0, 0.5, 1])
    assert np.allclose(steps.values, net.network.heads[0].memory_values[:, 0])


@pytest.mark.parametrize(("kind", "count"), [("cells", 16), ("free cells", 3), ("pairs", 9), ("callable on cells", 9)])
def test_cells_of_the_plane_tile_it_and_ghosts_are_none(kind, count):
    net, paths = built(kind), partition(built(kind)).axes[0].collections[0].get_paths()
    areas = [abs((v[:-1, 0] * v[1:, 1] - v[1:, 0] * v[:-1, 1]).sum()) / 2 for v in (path.vertices for path in paths)]
    assert (len(paths), sum(areas)) == (count, pytest.approx(np.prod(net.domain.upper - net.domain.lower)))
    if kind != "pairs":
        middles = np.array([path.vertices[:-1].mean(axis=0) for path in paths])
        assert len(set(net.partition(middles).tolist())) == count


# Attention, and what it adds up to


def test_the_map_is_the_attention_and_the_dots_its_largest():
    net = built("truncated, two inputs")
    axes, table = attention_map(net).axes[0], shown(attention_map(net))
    assert np.allclose(table.sum(axis=1), 1)
    along = np.linspace(*axes.images[0].get_extent()[:2], len(table) + 1)
    middles = (along[1:] + along[:-1]) / 2
    for place, key in axes.collections[0].get_offsets():
        assert table[np.abs(middles - place).argmin()].argmax() == key
    assert axes.get_yticklabels()[0].get_text() == "anchor -1"
    whole, second = (shown(attention_map(built("heads"), head=head)) for head in (None, 1))
    assert np.array_equal(whole[:, 10:20], second)
    x = np.array([-1.0, 0.0, 0.5])
    assert np.allclose(shown(attention_map(built("kinked"), x)), built("kinked").attention(x)[0][0][:, 0])
    pair = attention_map(built("pairs"), (np.full((2, 1), 0.5), np.array([[0.1], [0.9]])))
    assert shown(pair).shape[0] == 2


def test_weights_alone_and_many_keys_in_blocks():
    import torch

    weights = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    for given in (weights, torch.tensor(weights, requires_grad=True), torch.tensor(weights).to(torch.bfloat16)):
        assert np.array_equal(shown(attention_map(given)), weights)
    assert np.array_equal(shown(attention_map(np.stack([weights, weights[:, ::-1]])))[:, 2:], weights[:, ::-1])
    assert attention_map(np.full((2, 10), 0.1)).axes[0].images[0].get_clim() == (0.0, 0.1)  # a scale of its own
    many = np.zeros((3, 1025))
    many[1, 1024] = 1.0
    figure = attention_map(many)
    assert (shown(figure).shape, shown(figure)[1, -1]) == ((3, 342), 1.0)
    assert figure.axes[0].get_ylim() == (-0.5, 1024.5)


SUMS = ["gate", "truncated", "truncated, literal", "multihead", "partition", "kinked", "relu", "softmax tail", "plane"]


@pytest.mark.parametrize("kind", SUMS)
def test_what_the_keys_add_is_the_output(kind):
    net = built(kind)
    figure = weighted_sum(net)
    bottom = figure.axes[2]
    total, target = curve(bottom, "sum: the output"), curve(bottom, "target")
    assert np.abs(total.get_ydata() - target.get_ydata()).max() <= net.certificate.bound
    if net.domain.lower.size == 1 and net.target.layout == "function":
        assert np.allclose(total.get_ydata(), net(total.get_xdata()), atol=1e-9)
    figure.draw_without_rendering()


def test_bumps_are_the_attention_and_the_sum_is_written_out():
    net = built("partition")
    bumps = [line for line in weighted_sum(net).axes[0].get_lines() if len(line.get_xdata()) > 1]
    assert len(bumps) == net.anchors
    for number in (1, 3):
        x, y = bumps[number].get_data()
        assert np.allclose(net.attention(x)[0][0][:, 0, number], y)
    words = weighted_sum(net, at=0.3).get_suptitle().split(":  ")[-1].replace("\n", " ")
    terms, total = words.split(" = ")
    numbers = terms.replace(" by others", "").replace("×", "*").replace("(", "").replace(")", "").split(" + ")
    added = sum(np.prod([float(factor) for factor in term.split(" * ")]) for term in numbers)
    assert added == pytest.approx(float(total), abs=2e-3)
    assert float(total) == pytest.approx(net(0.3), abs=1e-3)


def test_roles_of_keys_one_head_of_several_and_an_earlier_layer():
    assert said(weighted_sum(built("heads")).axes[0]) == ["ghost (4)", "anchor (18)", "sentinel (8)"]
    assert said(weighted_sum(built("gate")).axes[0]) == ["low", "high", "self"]
    whole, one = (weighted_sum(built("heads"), head=head).axes[2] for head in (None, 1))
    assert np.allclose(*(curve(axes, "sum: the output").get_ydata() for axes in (whole, one)))
    layers = af.constructions.two_layer("x^2", {"x": (-1, 1)}, grid=4)
    assert said(weighted_sum(layers, 0).axes[2]) == ["sum of each head", "sum"]  # and no target


REFUSED = {
    "a layer too many": (af.DomainError, lambda: attention_map(built("heads"), layer=1)),
    "a layer from the end": (af.DomainError, lambda: attention_map(built("heads"), layer=-1)),
    "a head too many": (af.DomainError, lambda: attention_map(built("heads"), head=3)),
    "a query too many": (af.DomainError, lambda: attention_map(built("heads"), query=1)),
    "no matrix": (af.DomainError, lambda: attention_map(np.ones(3))),
    "no keys": (af.DomainError, lambda: attention_map(np.ones((2, 0)))),
    "not a number": (af.DomainError, lambda: attention_map([[np.nan]])),
    "four axes": (af.DomainError, lambda: attention_map(np.ones((1, 1, 1, 1)))),
    "a layer of a sum": (af.DomainError, lambda: weighted_sum(built("heads"), layer=1)),
    "a head of a sum": (af.DomainError, lambda: weighted_sum(built("heads"), head=3)),
    "an output of a sum": (af.DomainError, lambda: weighted_sum(built("heads"), output=1)),
    "a place of a sum": (af.DomainError, lambda: weighted_sum(built("heads"), at=9.0)),
    "nowhere": (af.DomainError, lambda: weighted_sum(built("heads"), at=float("nan"))),
    "a sum of two inputs": (af.RefusalError, lambda: weighted_sum(built("pairs"))),
    "anchors of three inputs": (af.RefusalError, lambda: anchors(built("grid of three"))),
    "anchors of registers": (af.RefusalError, lambda: anchors(built("graph"))),
    "cells of a gate": (af.RefusalError, lambda: partition(built("gate"))),
    "cells of a fit": (af.RefusalError, lambda: partition(built("sine"))),
    "cells of three inputs": (
        af.RefusalError,
        lambda: partition(af.constructions.max_affine("x*y*z", dict.fromkeys("xyz", (0, 1)), cells=2)),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_shown_is_refused(what):
    kind, draw = REFUSED[what]
    with refused(kind):
        draw()


@pytest.mark.parametrize("figure", [overview, section, anchors, partition, error_map, attention_map, weighted_sum])
@pytest.mark.parametrize("kind", ["bare", "in context", "text", "nothing"])
def test_what_is_no_compiled_target_is_refused(figure, kind):
    others = {"bare": lambda: built("gate").network, "in context": lambda: built("kernel ridge"), "text": lambda: "x"}
    with refused():
        figure(others.get(kind, lambda: None)())
