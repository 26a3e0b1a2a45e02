"""Figures draw with one curve a variant."""

from __future__ import annotations

from attnforge.experiments.constructed_vs_trained import ConstructedVsTrained, ConstructedVsTrainedSettings
from attnforge.experiments.constructed_vs_trained.task import STARTS
from tests.experiments.constructed_vs_trained.made_up import made_up


def test_figures_draw_with_one_curve_a_variant() -> None:
    figures = ConstructedVsTrained().figures(made_up(), ConstructedVsTrainedSettings())
    heads, spread, continued = (figures[f"constructed-vs-trained-{name}"] for name in ("heads", "time", "continued"))
    assert len(heads.axes[0].lines) == 1 + len(STARTS)
    assert len(spread.axes[0].lines) == 6
    assert [len(axes.lines) for axes in continued.axes] == [6] * 9
