"""Figures in notebooks: shown once where they are a cell's value, and not by pyplot."""

import nbformat
from nbclient import NotebookClient

import attnforge as af


def test_the_image_is_a_png_and_says_how_large_it_is():
    figure = af.plot.rate_curves([af.plot.Curve("c", [1, 2], [1, 2])], x_label="x", y_label="y", figsize=(3, 2))
    image, size = figure._repr_png_()
    assert image.startswith(b"\x89PNG")
    assert size == {"width": 300, "height": 200}


def test_a_notebook_shows_a_figure_once(monkeypatch):
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
