"""The figures of the page: those that apply to a network, as PNG images inside the page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from attnforge import plot
from attnforge.display.markup import Markup, element
from attnforge.errors import AttnforgeError
from attnforge.labels import labels_of
from attnforge.plot.paths import form_of

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled

DPI = 160
SITTING = {"anchor", "cell", "centre"}  # roles of keys whose places are worth a figure


@dataclass(frozen=True)
class Picture:
    """How to draw a figure, and what it shows, in words."""

    draw: Callable[[Any], Any]
    caption: str


def pictures(compiled: Compiled) -> Iterator[Markup]:
    """The figures, one after the other. One that does not apply, or needs a target that is not known, is left out."""
    for picture in _chosen(compiled):
        try:
            figure = picture.draw(compiled)
        except AttnforgeError:
            continue
        yield _embedded(figure, picture.caption, compiled)


def _chosen(compiled: Compiled) -> list[Picture]:
    form = form_of(compiled.target, compiled.network) is not None
    along = Picture(plot.overview, "Target, output, error against bound, and attention")
    whole = along if form else Picture(plot.section, PANELS)
    seen = ERROR if compiled.certificate.bound is None else BOUNDED
    parts = [] if form else [Picture(plot.error_map, seen), Picture(plot.attention_map, ATTENTION)]
    return [whole, *parts, *_placed(compiled), Picture(plot.graph, GRAPH)]


def _placed(compiled: Compiled) -> list[Picture]:
    roles = {role for head in labels_of(compiled.network).heads for role in head.roles}
    cells = [Picture(plot.partition, CELLS)] if roles & {"cell", "centre"} else []
    return [*cells, Picture(plot.anchors, ANCHORS)] if roles & SITTING else cells


def _embedded(figure: Any, caption: str, compiled: Compiled) -> Markup:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    source = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
    width = f"{round(figure.get_figwidth() * 100)}"
    alternative = f"{caption.rstrip('.')}, for {compiled.target.describe()[:200]}"
    image = element("img", src=source, alt=alternative, width=width)
    return element("figure", image, element("figcaption", caption))


PANELS = "Target, output and error. Between the points drawn errors may be larger than those seen."
ERROR = "The error, on a logarithmic scale, with the worst point seen, which is no bound."
BOUNDED = "The error over the domain, on a logarithmic scale, with the worst point seen and the bound."
ATTENTION = "How much attention every key gets, input by input; dots mark the key that gets most."
CELLS = "The cells into which the head divides the domain, and their values."
ANCHORS = "Where the anchors are and which values they hold; ghosts lie beyond the domain, for the sake of its edge."
GRAPH = "What feeds what: edges are read from the weights, names from what the heads claim to be."
