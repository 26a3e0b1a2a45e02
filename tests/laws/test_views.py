"""Every network of the catalogue can be looked at in every way: text, cards, labels, graphs, figures, attention."""

from __future__ import annotations

import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import attnforge as af
from tests.catalogue import ENTRIES, network
from tests.laws.forms import GAPS, form, given

NETWORKS = list(ENTRIES)
DRAWN = [name for name in NETWORKS if not name.startswith(("law: ", "random "))]


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Figures are drawn from few points."""
    monkeypatch.setattr("attnforge.plot.plane.COUNTS", (9,))
    yield
    plt.close("all")


@pytest.mark.parametrize("name", NETWORKS)
def test_it_can_be_read(name):
    """As text, as a card of a notebook, as labels and as a graph of who reads whom, which data can hold."""
    net = network(name)
    report, card = net.report(), net._repr_html_()
    assert str(net) == report
    assert net.certificate is None or net.certificate.status.upper() in report.upper()
    assert card.count("<div") == card.count("</div")
    assert "\n" not in repr(net)
    labels, graph = net.labels(), net.causal_graph()
    for each in (labels, graph):
        assert str(each)
        json.dumps(each.to_data())
    assert sum(len(layer) for layer in heads(labels)) == net.heads


def heads(labels: Any) -> list[Any]:
    """The heads of every layer that labels name."""
    return [layer["heads"] for layer in labels.to_data()["layers"] if layer.get("heads")]


@pytest.mark.parametrize("name", DRAWN)
def test_it_can_be_drawn(name, tmp_path):
    net = network(name)
    if (form(net), "plot") in GAPS:
        pytest.skip(GAPS[form(net), "plot"])
    figure = net.plot()
    figure.savefig(tmp_path / "figure.png", dpi=20)
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize("name", NETWORKS)
def test_its_attention_is_that_of_its_heads(name):
    """Weights are positive and sum to one over the keys."""
    net = network(name)
    layers = net.attention(*given(net, 3))
    assert sum(map(len, layers)) == net.heads
    for weights in (np.asarray(each, dtype=np.float64) for layer in layers for each in layer):
        asked = weights.sum(axis=-1)
        assert ((weights >= 0) & (weights <= 1)).all()
        assert np.isclose(asked, 1.0, atol=1e-6).all() or set(np.unique(asked.round(6))) <= {0.0, 1.0}


@pytest.mark.parametrize("law", sorted({law for _, law in GAPS}))
def test_a_gap_in_the_table_is_one(law):
    """What can be done by now leaves the table."""
    tries = {
        "measure": af.measure,
        "attack": lambda net: af.attack(net, seconds=None, evaluations=100),
        "certify": af.certify,
        "diagnose": af.diagnose,
        "plot": lambda net: net.plot(),
        "save": lambda net: net.save("/dev/null/net"),
        "range": lambda net: net.range(),
    }
    names = {form(network(name)): name for name in ENTRIES}
    for kind in (kind for kind, each in GAPS if each == law):
        with pytest.raises((af.AttnforgeError, AttributeError)) as refusal:
            tries[law](network(names[kind]))
        assert not isinstance(refusal.value, af.FileFormatError)
