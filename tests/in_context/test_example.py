"""The example of in-context algorithms runs, draws its figures and keeps below its certificates."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

EXAMPLE = Path(__file__).parents[2] / "examples" / "in_context.py"
FIGURES = ("convergence", "drift", "prompts", "sharpness")


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("sklearn")
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(scope="module")
def quick(example, tmp_path_factory):
    """The folder that ``--quick`` filled."""
    folder = tmp_path_factory.mktemp("figures") / "new"
    example["main"](["--quick", "--out", str(folder)])
    return folder


def test_figures_are_drawn_as_svg_and_png(quick):
    assert sorted(path.name for path in quick.iterdir()) == [
        f"in_context_{name}.{kind}" for name in FIGURES for kind in ("png", "svg")
    ]
    for name in FIGURES:
        pixels = imread(quick / f"in_context_{name}.png")[..., :3]
        edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        assert pixels.std() > 0.05  # something is drawn
        assert (edge == 1.0).all()  # and nothing is cut off


def test_the_table_of_regressions(example, capsys):
    x, cases = example["problems"]()
    example["print_runs"]([example["run"](case, x, 20) for case in cases], x)
    rows = [re.split(r" *\| *", line)[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    heads = {name: int(count) for name, count, *_ in rows}
    assert heads == {
        "least squares": 2, "ridge": 3, "lasso": 12, "elastic net": 13,
        "Huber": 5, "logistic": 3, "softmax": 5, "Poisson": 5,
    }  # fmt: skip
    for _, _, _, judge, apart, certified, _, q, single in rows:
        assert float(judge) <= 2e-3  # after 20 steps
        assert float(apart) <= 1e-9 < float(single) <= 1e-3
        assert float(apart) <= float(certified)
        assert float(q) <= 1.0


def test_the_table_of_kernels(example, capsys):
    example["print_kernels"](2)
    rows = [re.split(r" *\| *", line)[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(rows) == 6
    for _, _, seen, certified, _, whole in rows:
        assert 0 < float(seen) <= float(certified) <= float(whole)
