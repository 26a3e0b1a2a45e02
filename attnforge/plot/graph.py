"""The network as a graph: inputs on top, layers below one another, a box a head, outputs at the bottom."""

from __future__ import annotations

from typing import Any

from attnforge.plot.given import network_of
from attnforge.plot.panels import Size, panels
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, WIDTH, fitted, inches
from attnforge.plot.wiring import Node, Wiring, wiring

LEFT = 1.45  # inches for the names of the layers
MARGIN = 0.08
ABREAST = 5  # boxes side by side
WIDEST, GAP = 1.75, 0.12  # inches: of a box, and between boxes
LINE, PAD = 0.135, 0.06  # inches: of a line of text, and above and below it
BAND, BETWEEN = 0.22, 0.26  # inches: of a linear map, and between stages
TITLE = 0.5
SIZE = 7.5  # points of letters
COLOURS = (BLUE, GREEN, ORANGE, PURPLE, SKY)


def graph(net: Any, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """What feeds what, from inputs to outputs: every head with what it claims to be and what it reads.

    Heads of a sum say of which inputs or form their term is, those of a ReLU network whose unit they compute. Layers of
    more than ten heads are folded into groups that claim alike, deep networks in the middle; where blocks of layers
    repeat, as the steps of an algorithm do, one is drawn and says how often. Edges are read from the weights, names
    from the claims.

    Args:
        net: a compiled target, an in-context network, or a bare network.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> import attnforge as af
    >>> net = af.compile("sin(5*x) + abs(y - 1)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-2)
    >>> [text.get_text() for text in graph(net).axes[0].texts][:4]
    ['inputs', 'x', 'y', 'linear map, 2 to 3']
    """
    found = wiring(net)
    drawn = panels(ax, figsize, (WIDTH, _height(found) + TITLE))
    axes = drawn.axes[0]
    if not drawn.given:  # a panel that fills the figure below the title, so that boxes are as large as letters need
        drawn.figure.set_layout_engine("none")
        axes.set_position((0.0, 0.0, 1.0, max(0.5, 1 - TITLE / inches(drawn.figure)[1])))
    draw_graph(axes, found)
    drawn.head(*_heading(net))
    return drawn.finished()


def _heading(net: Any) -> tuple[str, str]:
    """Construction and target; of a network without one, what it claims to be and the shape it takes."""
    target, network = getattr(net, "target", None), network_of(net)
    name = getattr(net, "construction", "") or network.construction or "network"
    if target is not None:
        return name, target.describe()
    known = {None: "any number of tokens", 1: "one token"}
    tokens = known.get(network.tokens, f"{network.tokens} tokens")
    return name, f"{tokens} of {network.features} feature{'s' * (network.features != 1)}"


def draw_graph(axes: Any, found: Wiring) -> None:
    """The graph in a panel, as large as fits: boxes and letters of :data:`WIDTH` inches are scaled alike."""
    height, (wide, tall) = _height(found), inches(axes)
    scale = min(wide / WIDTH, tall / height)
    left, above = (wide / scale - WIDTH) / 2, tall / scale - height
    axes.set_xlim(-left, WIDTH + left)
    axes.set_ylim(-above, height)
    axes.set_axis_off()
    size = SIZE * scale
    families = list(dict.fromkeys(_family(node) for node in found.nodes if node.kind == "head"))
    boxes: dict[int, tuple[float, float, float, float]] = {}
    top = height - MARGIN
    for stage in found.stages:
        tall = _stage_height([found.nodes[i] for i in stage.nodes])
        _name_stage(axes, stage.name, top - tall / 2, size, band=None if stage.nodes else tall)
        for i, place in zip(stage.nodes, _places([found.nodes[i] for i in stage.nodes], top), strict=True):
            boxes[i] = place
            _box(axes, found.nodes[i], place, families, size)
        top -= tall + BETWEEN
    for source, goal in sorted(found.edges):
        (x, y, width, _), (to_x, to_y, to_width, to_height) = boxes[source], boxes[goal]
        ends = {"xy": (to_x + to_width / 2, to_y + to_height), "xytext": (x + width / 2, y)}
        arrow = {"arrowstyle": "-|>", "color": GREY, "lw": 0.7, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 6 * scale}
        axes.annotate("", **ends, arrowprops=arrow, zorder=1)


def _places(nodes: list[Node], top: float) -> list[tuple[float, float, float, float]]:
    """Left, bottom, width and height of the boxes of a stage, at most five abreast, as even as can be."""
    if not nodes:
        return []
    lines = -(-len(nodes) // ABREAST)
    abreast = -(-len(nodes) // lines)
    tall, room = max(_box_height(node) for node in nodes), WIDTH - LEFT - MARGIN
    wide = min(WIDEST, room / abreast - GAP)
    places = []
    for i in range(len(nodes)):
        line, column = divmod(i, abreast)
        here = min(abreast, len(nodes) - line * abreast)
        left = LEFT + room * (column + 0.5) / here - wide / 2
        places.append((left, top - (line + 1) * tall - line * BETWEEN, wide, tall))
    return places


def _box(axes: Any, node: Node, place: tuple[float, float, float, float], families: list[str], size: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    left, bottom, width, height = place
    colour = COLOURS[families.index(_family(node)) % len(COLOURS)] if node.kind == "head" else GREY
    style: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.05", "linewidth": 1.1, "edgecolor": colour}
    axes.add_patch(FancyBboxPatch((left, bottom), width, height, zorder=2, facecolor="white", **style))
    if node.kind == "head":
        tint = FancyBboxPatch((left, bottom), width, height, zorder=2.5, facecolor=colour, alpha=0.12, **style)
        axes.add_patch(tint)
    for i, text in enumerate((node.name, *node.lines)):
        y = bottom + height - PAD - (i + 0.5) * LINE
        shown = fitted(text, width - 0.08, SIZE)
        weight = "bold" if i == 0 and node.kind == "head" else "normal"
        if weight == "bold":
            shown = fitted(text, (width - 0.08) / 1.12, SIZE)  # bold letters are wider
        look = {"ha": "center", "va": "center", "fontsize": size, "weight": weight}
        axes.text(left + width / 2, y, shown, parse_math=False, zorder=3, **look)


def _name_stage(axes: Any, name: str, middle: float, size: float, band: float | None) -> None:
    """The name of a stage on the left; a linear map is a band across, behind the edges."""
    from matplotlib.patches import Rectangle

    if band is not None:
        look: dict[str, Any] = {"facecolor": GREY, "alpha": 0.13, "linewidth": 0, "zorder": 0}
        axes.add_patch(Rectangle((MARGIN, middle - band / 2), WIDTH - 2 * MARGIN, band, **look))
    words = fitted(name, LEFT - 2 * MARGIN, SIZE)
    axes.text(2 * MARGIN, middle, words, ha="left", va="center", fontsize=size, parse_math=False)


def _family(node: Node) -> str:
    """What decides a node's colour: the claim, without the number of heads."""
    return node.name.partition(" heads: ")[2] or node.name


def _box_height(node: Node) -> float:
    return 2 * PAD + LINE * (1 + len(node.lines))


def _stage_height(nodes: list[Node]) -> float:
    if not nodes:
        return BAND
    lines = -(-len(nodes) // ABREAST)
    return lines * max(_box_height(node) for node in nodes) + (lines - 1) * BETWEEN


def _height(found: Wiring) -> float:
    heights = [_stage_height([found.nodes[i] for i in stage.nodes]) for stage in found.stages]
    return sum(heights) + BETWEEN * (len(heights) - 1) + 2 * MARGIN
