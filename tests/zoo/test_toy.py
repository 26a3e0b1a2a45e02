"""A record of the zoo is all that a new network needs: the list, the shell and the documentation's table follow."""

import numpy as np
from typer.testing import CliRunner

import attnforge as af
from attnforge.cli import app
from attnforge.zoo import registry
from scripts import tables


def test_a_toy_that_is_added_is_listed_built_and_shown(monkeypatch):
    def build() -> af.Compiled:
        return af.compile("clamp(x, 0, 1)", {"x": (-1, 2)}, 1e-9)

    toy = af.zoo.Entry("toy", "toys", "clamp(x, 0, 1)", "x in [-1, 2]", "a gate", "nobody", build)
    monkeypatch.setitem(vars(af.zoo.entries), "records", (*registry.RECORDS, toy))
    assert af.zoo.list("toys") == ["toy"]
    net = af.zoo.get("toy")
    assert net.certificate.status == "proved"
    np.testing.assert_allclose(net(np.array([-0.5, 0.25, 1.5])), [0, 0.25, 1], atol=1e-9)
    assert "| `toy` | toys | clamp(x, 0, 1) | x in [-1, 2] |" in tables.TABLES["zoo"]()
    shown = CliRunner().invoke(app, ["zoo", "get", "toy"]).stdout
    assert "L0H0 gate <- x" in shown
