"""The example of in-context algorithms runs, draws its figures and keeps below its certificates."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

EXAMPLE = Path(__file__).parents[2] / "examples" / "in_context.py"
FIGURES = ("convergence", "drift", "prompts", "sharpness")
HEADS = {
    "least squares": 2, "ridge": 3, "lasso": 12, "elastic net": 13, "Huber": 5, "logistic": 3, "softmax": 5,
    "Poisson": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


def printed(capsys):
    """The rows of a table."""
    return [re.split(r" *\| *", line)[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]


def test_figures_are_drawn_as_svg_and_png(example, tmp_path):
    example["main"](["--quick", "--out", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {
        f"in_context_{name}.{kind}" for name in FIGURES for kind in ("png", "svg")
    }
    for name in FIGURES:
        pixels = imread(tmp_path / f"in_context_{name}.png")[..., :3]
        assert pixels.std() > 0.05  # something is drawn
        assert all((edge == 1.0).all() for edge in (pixels[[0, -1]], pixels[:, [0, -1]]))  # and nothing is cut off


def test_the_table_of_regressions(example, capsys):
    x, cases = example["problems"]()
    example["print_runs"]([example["run"](case, x, 20) for case in cases], x)
    rows = printed(capsys)
    assert {name: int(count) for name, count, *_ in rows} == HEADS
    for judge, apart, certified, _, q, single in np.array([[row[3], *row[4:]] for row in rows], dtype=float):
        assert judge <= 2e-3  # after 20 steps
        assert apart <= min(1e-9, certified) < single <= 1e-3
        assert q <= 1.0


def test_the_table_of_kernels(example, capsys):
    example["print_kernels"](2)
    rows = printed(capsys)
    assert len(rows) == 6
    for _, _, seen, certified, _, whole in rows:
        assert 0 < float(seen) <= float(certified) <= float(whole)
