"""Where figures are drawn: the same words for every one of them, in new figures, in the caller's and in notebooks."""

import inspect
from functools import cache

import nbformat
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from nbclient import NotebookClient

import attnforge as af
from attnforge import programs
from tests.catalogue import network
from tests.refusals import refused

CURVES = [af.plot.Curve("hard", [10, 20, 40], [0.1, 0.05, 0.025])]
STEPS = np.stack([0.5 ** np.arange(1, 9), 0.8 ** np.arange(1, 9)], axis=-1)
MADE = {
    "graded": lambda: af.compile("abs(x)", {"x": (-1, 1)}, tol=1e-2, construction="tensor_grid"),
    "program": lambda: programs.compile(programs.library["reverse"], max_length=8),
}
DRAWN = {  # what is drawn, of what, and in how many panels
    "overview": ("truncated", 3),
    "overview, fitted": ("sine", 3),
    "section": ("sine", 2),
    "section, graded": ("graded", 3),
    "section, plane": ("two bells", 3),
    "section, table": ("table", 2),
    "attention_map": ("sine", 1),
    "anchors": ("sine", 1),
    "anchors, graded": ("graded", 2),
    "anchors, heads": ("multihead", 1),
    "anchors, sum": ("additive", 2),
    "partition": ("free cells", 1),
    "partition, intervals": ("partition", 2),
    "error_map": ("sine", 1),
    "error_map, plane": ("two bells", 1),
    "graph": ("additive", 1),
    "weighted_sum": ("sine", 3),
    "program": ("program", 3),
    "rate_curves": ("", 1),
    "trajectory": ("", 1),
    "trajectory, reference": ("", 2),
    "net.plot": ("truncated", 3),
    "optimality": ("sine", 1),
}


@cache
def built(kind):
    return MADE[kind]() if kind in MADE else network(kind)


def draw(name, **at):
    net = built(DRAWN[name][0]) if DRAWN[name][0] else None
    match name:
        case "program":
            return af.plot.program(net, list("abcd"), **at)
        case "rate_curves":
            return af.plot.rate_curves(CURVES, x_label="p", y_label="error", **at)
        case "trajectory":
            return af.plot.trajectory(STEPS, **at)
        case "trajectory, reference":
            return af.plot.trajectory(STEPS, [0.0, 0.0], **at)
        case "net.plot":
            return net.plot(**at)
        case "optimality":
            return af.optimality(net).plot(**at)
    return getattr(af.plot, name.partition(",")[0])(net, **at)


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    monkeypatch.setattr("attnforge.plot.plane.COUNTS", (9,))


def test_every_function_of_the_package_takes_both_and_is_tried_here():
    functions = [name for name in af.plot.__all__ if inspect.isfunction(getattr(af.plot, name))]
    for name in functions:
        parameters = inspect.signature(getattr(af.plot, name)).parameters
        for each in ("ax", "figsize"):
            assert parameters[each].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[each].default is None
    assert set(functions) <= {name.partition(",")[0] for name in DRAWN}


@pytest.mark.parametrize("name", DRAWN)
def test_panels_of_the_callers_are_drawn_into_and_returned(name):
    count = DRAWN[name][1]
    figure = Figure(figsize=(4 * count, 4), layout="constrained")
    axes = figure.subplots(1, count)
    found = draw(name, ax=axes)
    assert found is axes if count == 1 else all(a is b for a, b in zip(found, axes, strict=True))
    assert all(each.has_data() or each.texts for each in figure.axes[:count])
    assert figure.get_suptitle() == ""  # that is the caller's
    assert not figure.legends
    figure.draw_without_rendering()
    if count > 1:
        with pytest.raises(af.TargetError) as refusal:
            draw(name, ax=Figure().subplots())
        assert str(count) in refusal.value.requirement


@pytest.mark.parametrize("name", DRAWN)
def test_a_part_of_the_callers_figure_gets_the_panels_it_needs(name):
    count = DRAWN[name][1]
    whole = Figure(figsize=(12, 5), layout="constrained")
    left, right = whole.subfigures(1, 2)
    found = draw(name, ax=right)
    assert isinstance(found, Axes) if count == 1 else len(found) == count
    assert len(right.axes) >= count
    assert not left.axes
    whole.draw_without_rendering()


@pytest.mark.parametrize("name", DRAWN)
def test_a_new_figure_is_as_large_as_asked_for_and_no_text_leaves_it(name):
    size = (3.4, 1.6 + 1.4 * DRAWN[name][1])
    figure = draw(name, figsize=size)
    assert isinstance(figure, Figure)
    assert figure.get_size_inches().tolist() == pytest.approx(size)
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for text in figure.findobj(lambda artist: hasattr(artist, "get_text")) if text.get_text().strip()]
    for text in texts:
        if text.get_visible() and not text.get_clip_on():
            extent = text.get_window_extent(renderer)
            assert extent.x0 >= -1, text
            assert extent.x1 <= figure.bbox.width + 1, text


NOWHERE = {
    "a word": {"ax": "left"},
    "a number": {"ax": [1.0]},
    "no axes": {"ax": []},
    "round axes": {"ax": Figure().add_subplot(projection="polar")},
    "too many axes": {"ax": Figure().subplots(1, 2)},
    "both": {"ax": Figure().subplots(), "figsize": (3, 2)},
    "no height": {"figsize": (3, 0)},
    "one number": {"figsize": 3},
    "not a number": {"figsize": (3, np.nan)},
    "pixels": {"figsize": (720, 340)},
    "words": {"figsize": ("a", "b")},
}


@pytest.mark.parametrize("settings", NOWHERE.values(), ids=NOWHERE)
def test_what_cannot_be_drawn_into_is_refused(settings):
    with refused(af.TargetError):
        af.plot.rate_curves(CURVES, x_label="p", y_label="error", **settings)


def test_a_notebook_shows_a_figure_once(monkeypatch):
    image, size = draw("rate_curves", figsize=(3, 2))._repr_png_()
    assert (image[:4], size) == (b"\x89PNG", {"width": 300, "height": 200})
    monkeypatch.delenv("MPLBACKEND", raising=False)  # notebooks choose their own
    curve = "af.plot.rate_curves([af.plot.Curve('c', [1, 2], [1, 2])], x_label='x', y_label='y'{})"
    cells = {
        "import attnforge as af": 0,
        "af.constructions.gate([1.0], 0.0, -1, 1).plot()": 1,
        f"figure = {curve.format('')}": 0,  # is no cell's value
        f"import matplotlib.pyplot as plt\n{curve.format('')}": 1,
        "figure": 1,
        f"held, axes = plt.subplots()\n{curve.format(', ax=axes')}": 1,  # by pyplot, to which it belongs
    }
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    images = [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in book.cells]
    assert images == list(cells.values())
