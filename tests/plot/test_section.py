"""The section figure: any target, along the diagonal of its domain."""

import numpy as np
import pytest

import attnforge as af

LINE = af.Box(0, 1, shape=(1,))
NETS = {
    "formula": lambda: af.compile("sin(3*x) + x", {"x": (0, 1)}, tol=0.1),
    "cells": lambda: af.constructions.max_affine(lambda x: np.sin(3 * x[..., 0]), LINE, cells=12, lipschitz=3),
    "sampled": lambda: af.constructions.max_affine(lambda x: x[..., 0] * x[..., 1], af.Box(0, 1, shape=(2,)), cells=4),
    "tokens": lambda: af.constructions.two_layer(
        lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 1)), grid=4, lipschitz=1
    ),
    "pairs": lambda: af.constructions.cross_attention(
        lambda x, y: x[..., 0] * y[..., 0], LINE, LINE, grid=4, lipschitz=2
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_every_target_has_a_figure(name, tmp_path):
    net = NETS[name]()
    figure = net.plot()
    top, bottom = figure.axes
    assert [text.get_text() for text in top.get_legend().get_texts()][:2] == ["target", "attention output"]
    said = [text.get_text() for text in bottom.get_legend().get_texts()]
    assert (len(said) == 2) == (net.certificate.bound is not None)
    error = bottom.get_lines()[0].get_ydata()
    assert 0 < error.max() <= (net.certificate.bound or np.inf)
    assert bottom.get_xlabel() in ("x", "position on the diagonal of the domain")
    figure.savefig(tmp_path / "figure.png", dpi=40)
    assert (tmp_path / "figure.png").stat().st_size > 1000
