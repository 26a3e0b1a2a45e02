"""Networks of the catalogue are healthy, and five faults put into them are named."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import attnforge as af
from attnforge.network import head_places, moved, scaled, without_keys
from tests.catalogue import ENTRIES, network
from tests.laws.forms import GAPS, form

EXACT = ("float64", "float32")  # half types may have fewer keys than an interval needs, and are told so
EVERY = [
    (name, dtype)
    for name, entry in ENTRIES.items()
    for dtype in entry.dtypes
    if dtype in EXACT and entry.kind != "random"
]
KNOWN = {
    "cell averages": "uniform attention",  # the sharpness of a mean error is lower than that of the largest one
    "zoo: hubble": "interpolation drift",  # a smooth curve through noisy points is meant to leave its values
}


def diagnosed(name: str, dtype: str | None = None) -> Any:
    """What is found on points of the domain."""
    net = network(name, dtype)
    if net is None:
        pytest.skip("refused in this dtype")
    if (form(net), "diagnose") in GAPS:
        pytest.skip(GAPS[form(net), "diagnose"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return af.diagnose(net, points=256)


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_what_was_built_is_healthy(name, dtype):
    diagnosis = diagnosed(name, dtype)
    signatures = {each.signature for each in diagnosis.findings if each.severity != "note"}
    assert signatures == ({KNOWN[name]} if name in KNOWN else set()), str(diagnosis)


def sharpened(net: af.Compiled, factor: float) -> Any:
    """All scores of all heads times a factor."""
    other = net.network
    for layer, head in head_places(other):
        other = scaled(other, layer, head, factor)
    return other


def shifted(net: af.Compiled) -> Any:
    """The second key of the second head half a step towards the next one: there a sentinel stands."""

    def change(keys: Any) -> Any:
        step = keys[2, 0] - keys[1, 0]
        keys[1] = keys[1, 0] + step / 2, (keys[1, 0] + step / 2) ** 2
        return keys

    return moved(net.network, "layer1.head1.memory_keys", change)


FAULTS: dict[str, tuple[str, Callable[[af.Compiled], Any], str]] = {
    "scores twenty times smaller": ("sine", lambda net: sharpened(net, 0.05), "uniform attention"),
    "scores eight times larger": ("sine", lambda net: sharpened(net, 8.0), "interpolation drift"),
    "keys beyond the domain left out": (
        "ridge",
        lambda net: without_keys(net.network, "ghost"),
        "boundary artefact",
    ),
    "a sentinel moved": ("multihead", shifted, "boundary artefact"),
    "values half as large again": (
        "gate",
        lambda net: moved(net.network, "layer1.head0.memory_values", lambda values: 1.5 * values),
        "contradicted claims",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    name, change, signature = FAULTS[fault]
    net = network(name)
    ill = af.Compiled(change(net), net.target, net.certificate, net.construction, net.dtype)
    diagnosis = af.diagnose(ill, points=256)
    assert not diagnosis.healthy
    assert signature in {each.signature for each in diagnosis.findings}
