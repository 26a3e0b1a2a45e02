"""Hard, tuned and fitted at the same number of anchors: the orders of magnitude between them."""

from __future__ import annotations

from typing import Any

from attnforge.errors import AttnforgeError
from attnforge.progress import Told
from attnforge.web.calls import SKETCH, call_for
from attnforge.web.jobs.line import first_heads, inputs_along, sample_along, worst
from attnforge.web.requests import Network

SWITCH = {
    "hard": {"construction": "max_affine", "sharpness": "hard"},
    "tuned": {"construction": "max_affine", "sharpness": "tuned"},
    "fitted": {"construction": "tensor_grid", "sharpness": "tolerance"},
}


def comparison(asked: Network, tell: Told) -> dict[str, Any]:
    """The largest error seen with each; None where it is refused."""
    return {name: _largest(asked.model_copy(update=change), tell) for name, change in SWITCH.items()}


def _largest(asked: Network, tell: Told) -> float | None:
    try:
        net = call_for(asked).run(effort=SKETCH, progress=tell)
    except AttnforgeError:
        return None
    along = inputs_along(asked, first_heads(net))
    return worst(along, sample_along(net, along))["error"]
