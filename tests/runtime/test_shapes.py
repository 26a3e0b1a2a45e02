"""Modules have the shapes of their targets: functions take (..., d) and return (...), tokens keep their places."""

from __future__ import annotations

import pytest
import torch

import attnforge as af
from tests.catalogue import network
from tests.refusals import refused

SHAPES = [
    ("sine", (), ()),
    ("sine", (6,), (6,)),
    ("sine", (1,), (1,)),
    ("sine", (5, 1), (5,)),
    ("sine", (3, 5, 1), (3, 5)),
    ("grid", (2,), ()),
    ("grid", (5, 2), (5,)),
    ("grid", (3, 5, 2), (3, 5)),
    ("two outputs", (3,), (2,)),
    ("two outputs", (4, 5, 3), (4, 5, 2)),
    ("gate", (4, 2), (4,)),
    ("gate", (7, 4, 2), (7, 4)),
    ("gate", (2, 3, 4, 2), (2, 3, 4)),
    ("partition, sequence", (7, 2, 1), (7, 2, 1)),
]


@pytest.mark.parametrize(("name", "shape", "wanted"), SHAPES)
def test_leading_axes_are_those_of_the_input(name, shape, wanted):
    net, x = network(name), 0.5 * torch.ones(shape, dtype=torch.float64)
    module = net.module()
    assert module(x).shape == wanted
    torch.testing.assert_close(module(x), torch.as_tensor(net(x)), rtol=0, atol=1e-14)
    tokens = (1,) if name in ("sine", "grid", "two outputs") else ()
    for weights in (each for layer in module.attention(x) for each in layer):
        places = wanted[:-1] if name in ("two outputs", "partition, sequence") else wanted
        assert weights.shape[:-1] == (*(places or (1,) * (name == "sine")), *tokens)


@pytest.mark.parametrize(("name", "shape"), [("grid", (3,)), ("grid", ()), ("sine", (4, 2)), ("gate", (4, 3))])
def test_a_wrong_shape_is_refused(name, shape):
    for call in (network(name), network(name).module()):
        with refused(af.DomainError):
            call(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize(("x", "y", "wanted"), [
    ((), (), ()), ((7,), (7,), (7,)), ((7, 1), (1,), (7,)), ((4, 1, 1), (6, 1), (4, 6)), ((0,), (0,), (0,)),
])  # fmt: skip
def test_two_inputs_broadcast(x, y, wanted):
    net = network("cross-attention")
    assert net.module()(torch.zeros(x), torch.zeros(y)).shape == net(torch.zeros(x), torch.zeros(y)).shape == wanted


def test_two_inputs_of_other_shapes_are_refused():
    net = network("cross-attention")
    for call, y in ((net, (4, 2)), (net.module(), (4, 2)), (net, (3,))):
        with refused(af.DomainError):
            call(torch.zeros(4, 1), torch.zeros(y))


@pytest.mark.parametrize(("x", "told", "wanted"), [
    ((4, 2), (5, 6), (4, 2)), ((3, 4, 2), (3, 1, 5, 6), (3, 4, 2)), ((2,), (7, 5, 6), (7, 2)),
])  # fmt: skip
def test_points_and_prompts_broadcast(x, told, wanted):
    module, source = af.in_context.FunctionNetwork(2, 2).module(), torch.Generator().manual_seed(0)
    points, tokens = (torch.randn(*shape, generator=source, dtype=torch.float64) for shape in (x, told))
    found, last = module(points, tokens), (-1,) * (len(wanted) - 1)
    assert found.shape == wanted
    one = points.expand(*wanted[:-1], 2)[last], tokens.expand(*wanted[:-1], *told[-2:])[last]
    torch.testing.assert_close(found[last], module(*one))
