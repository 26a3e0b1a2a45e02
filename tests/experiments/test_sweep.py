"""``af.sweep`` over one's own function: what is built, measured, fitted, refused and written."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

import attnforge as af
from tests.refusals import refused

LINE = {"x": (-1, 1)}
FEW = {"points": 500, "effort": "low"}


@pytest.fixture(scope="module")
def sines():
    return af.sweep("sin(3*x)", LINE, anchors=[8, 16, 32], **FEW)


@pytest.fixture(scope="module")
def clamps():
    return af.sweep("clamp(2*x, -1, 1)", LINE, heads=[1, 2, 4], anchors=12, dtype=["float64", "float32"], **FEW)


def test_every_row_keeps_the_law_and_all_combinations_are_in_order(sines, clamps) -> None:
    for found in (sines, clamps):
        assert all(0 < row["rms"] <= row["error"] <= row["bound"] for row in found.rows)
        assert all(row["status"] == "proved" for row in found.rows)
    kinds = [(row["construction"], row.get("sharpness"), row["anchors"]) for row in sines.rows]
    words = [("max_affine", "hard"), ("max_affine", "tuned"), ("tensor_grid", None)]
    assert kinds == [(*word, p) for word in words for p in (8, 16, 32)]
    assert [(row["dtype"], row["sharpness"], row["heads"]) for row in clamps.rows] == [
        (dtype, word, heads) for dtype in ("float64", "float32") for word in ("hard", "tuned") for heads in (1, 2, 4)
    ]
    assert [row["keys"] for row in clamps.rows[:3]] == [16, 32, 64]  # twelve anchors a head and two sentinels a side


def test_rates_are_those_of_the_theorems_and_of_a_regression(sines, clamps) -> None:
    hard, tuned, fitted = sines.rates
    assert hard.error.value == pytest.approx(-1, abs=0.05)
    assert tuned.error.value < -1.5
    assert (hard.against, hard.base, fitted.stated.startswith("geometric")) == ("anchors", None, True)
    rows = [row for row in sines.rows if row.get("sharpness") == "hard"]
    line = stats.linregress(*(np.log([row[name] for row in rows]) for name in ("anchors", "error")))
    reach = stats.t.ppf(0.975, 1) * line.stderr
    assert hard.error.value == pytest.approx(line.slope)
    assert (hard.error.low, hard.error.high) == pytest.approx((line.slope - reach, line.slope + reach))
    (steep,) = af.sweep("sin(8*x)", LINE, anchors=[2, 4, 6], construction="tensor_grid", **FEW).rates
    assert steep.base.value < 0.2
    assert len({rate.label for rate in clamps.rates}) == 4
    assert all(rate.against == "heads" and rate.error.value == pytest.approx(-1, abs=0.1) for rate in clamps.rates)


def test_the_error_is_the_one_that_measure_finds(sines) -> None:
    net = af.constructions.max_affine("sin(3*x)", LINE, cells=8, sharpness="hard")
    assert sines.rows[0]["error"] == pytest.approx(af.measure(net, points=500).sup, rel=1e-3)
    assert sines.rows[0]["bound"] == pytest.approx(net.certificate.bound, rel=1e-2)


def test_text_frames_and_files(sines, tmp_path: Path) -> None:
    lines = str(sines).splitlines()
    assert lines[0] == "sin(3*x), float64"
    assert lines[1].split() == ["construction", "sharpness", "anchors", "keys", "error", "bound", "status"]
    assert len(lines) == 2 + 9 + 3
    frame = sines.to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert frame["error"].tolist() == [row["error"] for row in sines.rows]
    (tmp_path / "t.csv").write_text(sines.to_csv())
    assert pd.read_csv(tmp_path / "t.csv")["error"].tolist() == pytest.approx(frame["error"].tolist(), rel=1e-15)


def test_latex_has_every_row_and_every_rate(sines, tmp_path: Path) -> None:
    text = sines.to_latex()
    assert (text.count("\\\\"), text.count("multicolumn{7}{l}")) == (1 + 9 + 3, 3)
    assert "max\\_affine, hard: error $\\sim$ anchors$^{-" in text
    assert "multicolumn" not in sines.to_latex(rates=False)
    if shutil.which("pdflatex"):
        page = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}{text}\\end{{document}}"
        (tmp_path / "t.tex").write_text(page)
        subprocess.run(["pdflatex", "-interaction=batchmode", "t.tex"], cwd=tmp_path, check=True)


def test_figures_have_a_curve_a_kind_and_take_axes(sines) -> None:
    legend = [text.get_text() for text in sines.plot().legends[0].get_texts()]
    assert legend == ["max_affine, hard", "max_affine, tuned", "tensor_grid"]
    axes = Figure().subplots()
    assert sines.plot(ax=axes) is axes.figure
    assert axes.get_xlabel() == "anchors p"
    with refused(af.RefusalError):
        af.sweep("sin(x)", LINE, anchors=8, sharpness="hard", **FEW).plot()


def test_names_of_functions_are_no_markup() -> None:
    def wave(x):
        return np.sin(x)

    wave.__name__ = wave.__qualname__ = "<script>alert(1)</script> 50% of_it"
    found = af.sweep(wave, LINE, anchors=[4, 6], construction="tensor_grid", **FEW)
    assert "<script>" not in found._repr_html_()
    assert "50% of_it" not in found.to_latex()


def test_tolerances_are_compiled_to() -> None:
    told: list[float] = []
    settings = {"tol": [1e-2, 1e-4], "points": 500, "progress": lambda part, _: told.append(part)}
    found = af.sweep(lambda x: np.exp(-(x**2)), LINE, **settings)
    assert all(row["error"] <= row["tol"] and row["status"] == "sampled" for row in found.rows)
    assert found.rows[0]["keys"] < found.rows[1]["keys"]
    assert (found.rates[0].against, told) == ("keys", [0.5, 1.0])


def test_what_is_refused_is_a_row_that_stops_nothing() -> None:
    found = af.sweep("sin(3*x)", LINE, tol=[1e-2, 1e-12], dtype="float32", points=500)
    assert [row["status"] for row in found.rows] == ["proved", "refused"]
    assert found.rows[1]["reason"]
    assert "1e-12" in str(found)
    with refused(af.RefusalError):
        af.sweep("sin(3*x)", LINE, tol=1e-12, dtype="float32", points=500)


def test_lambdas_go_to_other_processes_and_come_back_in_order() -> None:
    slope = 3.0
    sizes = {"anchors": [6, 4, 8], "sharpness": "hard", "construction": "max_affine"}
    found = af.sweep(lambda x: np.sin(slope * x), LINE, **sizes, lipschitz=3.0, workers=2, **FEW)
    assert [row["anchors"] for row in found.rows] == [6, 4, 8]
    assert {row["status"] for row in found.rows} == {"conditional"}


def test_gates_fall_with_their_sharpness_and_others_have_a_best_one() -> None:
    gates = af.sweep("clamp(x, -0.5, 0.5)", LINE, construction="gate", sharpness=[1e2, 1e3, 1e4], **FEW)
    assert gates.rates[0].error.value == pytest.approx(-1, abs=0.02)
    heads = af.sweep("clamp(x, -0.5, 0.5)", LINE, anchors=10, sharpness=[30.0, 300.0, 3000.0], **FEW)
    assert heads.rates == ()
    assert af.sweep("clamp(x, -0.5, 0.5)", LINE, construction="gate", **FEW).rows[0]["error"] < 1e-13


NONSENSE = {
    "sizes and tolerances": {"anchors": 8, "tol": 1e-3},
    "heads alone": {"heads": 2},
    "a construction by tolerance": {"construction": "graph"},
    "no clamp": {"construction": "gate"},
    "no construction": {"construction": "nothing", "tol": 1e-3},
    "no sharpness": {"construction": "tensor_grid", "sharpness": "hard"},
    "a dtype of nobody": {"anchors": 8, "dtype": "float7"},
    "one anchor": {"anchors": 1, "sharpness": "hard", "construction": "tensor_grid"},
    "no anchor": {"anchors": 0, "construction": "tensor_grid"},
}


@pytest.mark.parametrize("given", NONSENSE.values(), ids=NONSENSE)
def test_what_makes_no_sense_is_refused(given) -> None:
    with refused():
        af.sweep("sin(3*x)", LINE, **given)


def test_a_function_that_fails_is_named() -> None:
    def broken(x):
        raise ZeroDivisionError("of mine")

    with refused(af.TargetError) as caught:
        af.sweep(broken, LINE, anchors=4, construction="tensor_grid")
    assert "of mine" in str(caught.value)
