"""From a request to a call of the public interface: what runs is what the Python lines of the page say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

import attnforge as af
from attnforge.anchors import hard
from attnforge.anchors.saturation import sharpness_for
from attnforge.compiler.targets import as_target
from attnforge.effort import Effort
from attnforge.errors import TargetError
from attnforge.web.requests import Formula, Network, Plane

# A picture is drawn from the network; what is proved of it is asked for apart. Hard cells come to an end within some
# boxes, and where they do not, a Lipschitz constant is proved instead, which takes longer than they do.
SKETCH = Effort(points=1, climbers=1, rounds=0, tries=0, intervals=1, boxes=100, pairs=1.0)


@dataclass(frozen=True)
class Call:
    """A function of attnforge by its public name, and its arguments."""

    function: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def run(self, **asked: Any) -> af.Compiled:
        """Call it, with what every verb takes besides: effort, timeout, progress."""
        found = attrgetter(self.function)(af)(*self.arguments, **self.options, **asked)
        return cast(af.Compiled, found)

    def lines(self, *further: str) -> str:
        """The call as a Python script, and lines that use the network."""
        options = [f"{name}={_text(value)}" for name, value in self.options.items()]
        written = ", ".join([*map(_text, self.arguments), *options])
        return "\n".join(["import attnforge as af", "", f"net = af.{self.function}({written})", *further])


def call_for(asked: Formula) -> Call:
    """The call that a view's controls stand for."""
    if isinstance(asked, Network):
        return _one_input(asked)
    if isinstance(asked, Plane):
        return _on_a_grid(asked)
    return graph_call(asked)


def graph_call(asked: Formula) -> Call:
    """A graph of registers, to a tolerance."""
    options = {"tol": asked.tol, "construction": "graph", **_runs_in(asked)}
    return Call("compile", (asked.function, _domain(asked)), options)


def _one_input(asked: Network) -> Call:
    match asked.construction:
        case "compile":
            return Call("compile", (asked.function, _domain(asked)), {"tol": asked.tol, **_runs_in(asked)})
        case "max_affine" | "tensor_grid":
            return _on_a_grid(asked)
    return _truncated(asked)


def _on_a_grid(asked: Network | Plane) -> Call:
    """Cells, or anchors with fitted values, p along every axis."""
    options: dict[str, Any] = {("cells" if asked.construction == "max_affine" else "anchors"): asked.p}
    sharpness = _sharpness(asked)
    if sharpness is not None:
        options["sharpness"] = sharpness
    return Call(f"constructions.{asked.construction}", (asked.function, _domain(asked)), options | _runs_in(asked))


def _sharpness(asked: Network | Plane) -> str | float | None:
    """A regime by its name where the construction knows it, else beta = c / h^2 of the shortest step."""
    if asked.construction == "max_affine" and asked.sharpness in ("hard", "tuned"):
        return asked.sharpness
    if asked.construction == "tensor_grid" and asked.sharpness == "tuned":
        return None  # the sharpness that fits best is then searched for
    step = min(upper - lower for lower, upper in asked.domain.values()) / gaps(asked)
    return number(asked) / step**2


def number(asked: Network | Plane) -> float:
    """The c that is asked for by number, by tolerance or as hard."""
    if asked.sharpness == "tolerance":
        return sharpness_for(asked.tol)
    return hard(asked.dtype) if isinstance(asked.sharpness, str) else asked.sharpness


def gaps(asked: Network | Plane) -> int:
    """Steps from end to end of the domain: cells have their middles half a step inside, anchors sit on the ends."""
    return asked.p if asked.construction == "max_affine" else asked.p - 1


def _truncated(asked: Network) -> Call:
    """Range_[a, b](w x + t), read from the formula."""
    form = as_target(asked.function, _domain(asked)).truncated_form()
    lower, upper = float(form.lower.mid), float(form.upper.mid)
    w, t = [float(form.weights.mid[0, 0])], float(form.offsets.mid[0])
    if not lower < upper:
        raise TargetError("A truncated linear function rises or falls", f"the constant {lower:g}", "Add a slope")
    ((least, most),) = asked.domain.values()
    options: dict[str, Any] = {"domain": af.Box(least, most, shape=(1,)), **_runs_in(asked)}
    if asked.construction == "gate":
        return Call("constructions.gate", (w, t, lower, upper), options)
    counts: dict[str, int] = {"anchors": asked.p}
    step = (upper - lower) / (asked.p - 1)
    if asked.construction == "multihead_truncated_linear":
        tokens = -(-asked.p // asked.heads) + 2 * asked.sentinels
        counts = {"tokens": tokens, "heads": asked.heads, "sentinels": asked.sentinels}
        step = (upper - lower) / (asked.heads * (tokens - 2 * asked.sentinels) - 1)
    named = asked.sharpness if asked.sharpness in ("hard", "tuned") else number(asked) / step**2
    return Call(f"constructions.{asked.construction}", (w, t, lower, upper), counts | {"sharpness": named} | options)


def _domain(asked: Formula) -> dict[str, tuple[float, float]]:
    return {name: (lower, upper) for name, (lower, upper) in asked.domain.items()}


def _runs_in(asked: Formula) -> dict[str, str]:
    return {} if asked.dtype == "float64" else {"dtype": asked.dtype}


def _text(value: Any) -> str:
    """An argument as Python writes it."""
    if isinstance(value, af.Box):
        return f"af.Box({float(value.lower.min())!r}, {float(value.upper.max())!r}, shape={value.shape})"
    return repr(value)
