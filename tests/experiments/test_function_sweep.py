"""Sweeps over one's own function: what is built, measured, fitted, refused and written."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import attnforge as af
from attnforge.experiments.sweep_result import Sweep
from attnforge.experiments.table import Table

LINE = {"x": (-1, 1)}
FEW = {"points": 500, "effort": "low"}


@pytest.fixture(scope="module")
def sines() -> Sweep:
    return af.sweep("sin(3*x)", LINE, anchors=[8, 16, 32], **FEW)


@pytest.fixture(scope="module")
def clamps() -> Sweep:
    return af.sweep("clamp(2*x, -1, 1)", LINE, heads=[1, 2, 4], anchors=12, dtype=["float64", "float32"], **FEW)


def test_every_row_keeps_the_law(sines: Sweep, clamps: Sweep) -> None:
    for found in (sines, clamps):
        assert all(0 < row["rms"] <= row["error"] <= row["bound"] for row in found.rows)
        assert all(row["status"] == "proved" for row in found.rows)


def test_all_combinations_in_order(sines: Sweep, clamps: Sweep) -> None:
    kinds = [(row["construction"], row.get("sharpness"), row["anchors"]) for row in sines.rows]
    words = [("max_affine", "hard"), ("max_affine", "tuned"), ("tensor_grid", None)]
    assert kinds == [(*word, p) for word in words for p in (8, 16, 32)]
    assert [(row["dtype"], row["sharpness"], row["heads"]) for row in clamps.rows] == [
        (dtype, word, heads) for dtype in ("float64", "float32") for word in ("hard", "tuned") for heads in (1, 2, 4)
    ]
    assert {row["construction"] for row in clamps.rows} == {"multihead_truncated_linear"}
    assert [row["keys"] for row in clamps.rows[:3]] == [16, 32, 64]  # twelve anchors a head and two sentinels a side


def test_rates_are_those_of_the_theorems(sines: Sweep, clamps: Sweep) -> None:
    hard, tuned, fitted = sines.rates
    assert hard.error.value == pytest.approx(-1, abs=0.05)
    assert tuned.error.value < -1.5
    assert (hard.against, hard.label, hard.base) == ("anchors", "max_affine, hard", None)
    assert fitted.stated.startswith("geometric")
    (steep,) = af.sweep("sin(8*x)", LINE, anchors=[2, 4, 6], construction="tensor_grid", **FEW).rates
    assert steep.base is not None
    assert steep.base.value < 0.2
    assert str(steep).startswith(f"tensor_grid: error ~ {steep.base.value:.3f}^anchors (95 % CI ")
    assert [rate.label for rate in clamps.rates] == [
        "float64, hard", "float64, tuned", "float32, hard", "float32, tuned"
    ]  # fmt: skip
    assert all(rate.against == "heads" and rate.error.value == pytest.approx(-1, abs=0.1) for rate in clamps.rates)
    assert "max_affine, hard: error ~ anchors^-" in str(sines)
    assert "; stated: O(1/G) hard" in str(sines)


def test_the_error_is_the_one_that_measure_finds(sines: Sweep) -> None:
    net = af.constructions.max_affine("sin(3*x)", LINE, cells=8, sharpness="hard")
    assert sines.rows[0]["error"] == pytest.approx(af.measure(net, points=500).sup, rel=1e-3)
    assert sines.rows[0]["bound"] == pytest.approx(net.certificate.bound, rel=1e-2)


def test_text_has_the_columns_that_differ(sines: Sweep) -> None:
    lines = str(sines).splitlines()
    assert lines[0] == "sin(3*x), float64"
    assert lines[1].split() == ["construction", "sharpness", "anchors", "keys", "error", "bound", "status"]
    assert lines[2].split()[:4] == ["max_affine", "hard", "8", "8"]
    assert len(lines) == 2 + 9 + 3


def test_data_frames_and_files_have_all_columns(sines: Sweep) -> None:
    frame = sines.to_dataframe()
    assert list(frame.columns)[:4] == ["construction", "dtype", "sharpness", "anchors"]
    assert frame["error"].tolist() == [row["error"] for row in sines.rows]
    assert isinstance(frame, pd.DataFrame)
    assert sines.to_csv().splitlines()[0].startswith("construction,dtype,sharpness,anchors")


def test_latex_has_every_row_and_every_rate(sines: Sweep, tmp_path: Path) -> None:
    text = sines.to_latex()
    assert text.startswith("\\begin{tabular}{llrrrrl}\n\\toprule\nconstruction & sharpness & anchors")
    assert text.count("\\\\") == 1 + 9 + 3
    assert text.count("multicolumn{7}{l}") == 3
    assert "max\\_affine, hard: error $\\sim$ anchors$^{-" in text
    assert "multicolumn" not in sines.to_latex(rates=False)
    if shutil.which("pdflatex"):
        page = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}{text}\\end{{document}}"
        (tmp_path / "t.tex").write_text(page)
        subprocess.run(["pdflatex", "-interaction=batchmode", "t.tex"], cwd=tmp_path, check=True)


def test_figures_have_a_curve_a_kind_and_take_axes(sines: Sweep) -> None:
    from matplotlib.figure import Figure

    figure = sines.plot()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "max_affine, hard", "max_affine, tuned", "tensor_grid"
    ]  # fmt: skip
    axes = Figure().subplots()
    assert sines.plot(ax=axes) is axes.figure
    assert axes.get_xlabel() == "anchors p"
    assert axes.get_ylabel() == "largest error found; dotted: bound"
    with pytest.raises(af.RefusalError, match="two sizes"):
        af.sweep("sin(x)", LINE, anchors=8, sharpness="hard", **FEW).plot()


def test_markup_is_escaped() -> None:
    hostile = "<script>alert(1)</script> 50% of_it"
    found = Sweep(hostile, Table.of([{"construction": hostile, "anchors": 8, "error": 0.1, "status": "proved"}]))
    assert "<script>" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()
    both = Table.of([*found.rows, {**found.rows[0], "construction": "b", "anchors": 9}])
    assert "50\\% of\\_it" in Sweep("f", both).to_latex(rates=False)


def test_tolerances_are_compiled_to() -> None:
    told: list[float] = []
    found = af.sweep(
        lambda x: np.exp(-(x**2)), LINE, tol=[1e-2, 1e-4], points=500, progress=lambda part, _: told.append(part)
    )
    assert [row["tol"] for row in found.rows] == [1e-2, 1e-4]
    assert all(row["error"] <= row["tol"] and row["status"] == "sampled" for row in found.rows)
    assert found.rows[0]["keys"] < found.rows[1]["keys"]
    assert found.rates[0].against == "keys"
    assert told == [0.5, 1.0]


def test_what_is_refused_is_a_row_that_stops_nothing() -> None:
    found = af.sweep("sin(3*x)", LINE, tol=[1e-2, 1e-12], dtype="float32", points=500)
    assert [row["status"] for row in found.rows] == ["proved", "refused"]
    assert "Ask for tol >= " in found.rows[1]["reason"]
    assert "refused: No construction reached tol=1e-12 in float32" in str(found)
    with pytest.raises(af.RefusalError, match="1e-12"):
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
    assert heads.plot().axes[0].get_xlabel() == "sharpness beta"
    finest = af.sweep("clamp(x, -0.5, 0.5)", LINE, construction="gate", **FEW)
    assert finest.rows[0]["error"] < 1e-13


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"anchors": 8, "tol": 1e-3}, "tolerances, or over sizes"),
        ({"heads": 2}, "`heads` must be a size of what is built"),
        ({"construction": "graph"}, "A sweep over sizes takes truncated_linear"),
        ({"construction": "gate"}, "truncated linear function"),
        ({"construction": "nothing", "tol": 1e-3}, "`construction` must be"),
        ({"construction": "tensor_grid", "sharpness": "hard"}, "`sharpness` must be a size"),
        ({"anchors": 8, "dtype": "float7"}, "float7"),
        ({"anchors": 1, "sharpness": "hard", "construction": "tensor_grid"}, "`sharpness` must be a size"),
        ({"anchors": 0, "construction": "tensor_grid"}, "at least 2"),
    ],
)
def test_what_makes_no_sense_is_refused(given, words: str) -> None:
    with pytest.raises(af.AttnforgeError, match=words):
        af.sweep("sin(3*x)", LINE, **given)


def test_a_function_that_fails_is_named() -> None:
    def broken(x):
        raise ZeroDivisionError("of mine")

    with pytest.raises(af.TargetError, match="of mine"):
        af.sweep(broken, LINE, anchors=4, construction="tensor_grid")
