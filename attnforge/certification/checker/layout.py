"""Which head writes which register: the layout of a graph, read from its numbers.

The first layer makes (1, inputs, zeros). A head writes one column, which nobody else writes, from columns of earlier
layers; residuals keep them. So every column is, to the last bit, what its head writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attnforge.certification.checker.heads import attend
from attnforge.certification.checker.layers import is_alone, one_map
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.checker.registers import Step, register_of
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.values import Place, Value, combine
from attnforge.errors import AttnforgeError, CertificateError
from attnforge.expression import parse, to_text
from attnforge.expression.tree import variables
from attnforge.network import Attention, Head, Linear, Network

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Written:
    """A head, the column that it writes, and the formula of registers that it claims."""

    head: Head
    column: int
    step: Step
    layer: int

    @property
    def text(self) -> str:
        """In words."""
        return f"r[{self.column}] = {to_text(self.step.tree)[:80]}"

    @cached_property
    def read(self) -> list[int]:
        """The registers it reads, or claims to."""
        used = np.any(self.head.query != 0, axis=1)
        for matrix in (self.head.key, self.head.value):
            used = used if matrix is None else used | np.any(matrix != 0, axis=1)
        return sorted({0, *np.flatnonzero(used).tolist(), *map(register_of, variables(self.step.tree))})

    def run(self, place: Place, row: Sequence[Value], negligible: float) -> Value:
        """What it writes; ``row`` has the registers that it reads."""
        head, rows = self.head, self.read
        parts = {name: getattr(head, name) for name in ("query", "key", "value")}
        some = {name: matrix[rows] for name, matrix in parts.items() if matrix is not None}
        mixed = attend(place, replace(head, **some), row, [] if head.key_rows is None else [row], negligible)
        return combine(place, mixed, head.output[:, self.column].tolist())


def is_graph(network: Network) -> bool:
    """Whether all heads add to registers, and claim formulas of them; affine formulas need none."""
    first, *middle, last = network.layers if len(network.layers) > 1 else (None, None)
    plain = isinstance(first, Linear) and isinstance(last, Linear) and network.tokens == 1
    adds = all(isinstance(layer, Attention) and layer.residual for layer in middle)
    return plain and adds and all(h.claims is not None and h.claims.formula for h in network.heads)


def layout(network: Network) -> tuple[list[Written], Array]:
    """The heads in the order of their columns, and the weights (width, outputs) of the read-out."""
    first, *middle, last = network.layers
    inputs, width = network.features, 1 + network.features + len(network.heads)
    made, read = one_map(first), one_map(last)
    plain = made is not None and np.array_equal(made[0], np.eye(inputs, width, 1)) and read is not None
    if not plain or made is None or read is None or not np.array_equal(made[1], np.eye(1, width)[0]):
        raise BeyondReachError("Registers begin with 1 and the inputs, and are zero beyond", "others")
    if read[0].shape[0] != width or read[1].any():
        raise BeyondReachError("The outputs are weighted sums of the registers", "another read-out")
    written = [
        _written(head, depth)
        for depth, layer in enumerate(middle, start=1)
        if isinstance(layer, Attention)
        for head in layer.heads
    ]
    written.sort(key=lambda each: each.column)
    if [each.column for each in written] != list(range(1 + inputs, width)):
        raise BeyondReachError("Every register beside the inputs is written by one head", "another set of them")
    layers = dict.fromkeys(range(1 + inputs), 0) | {each.column: each.layer for each in written}
    for each in written:
        late = [p for p in each.read if not (p < each.column and layers.get(p, each.layer) < each.layer)]
        if late:
            raise BeyondReachError("A head reads what earlier layers write", f"{each.text} from {late}")
    return written, read[0]


def _written(head: Head, layer: int) -> Written:
    columns = np.flatnonzero(np.any(head.output != 0, axis=0))
    if len(columns) != 1 or not is_alone(head):
        raise BeyondReachError("A head reads its own token, and writes one register", "another head")
    assert head.claims is not None
    try:
        with exactly(2):
            step = Step(parse(head.claims.formula or ""))
    except AttnforgeError as reason:
        raise CertificateError(f"r[{columns[0]}] is a formula of registers", str(reason)[:80]) from None
    return Written(head, int(columns[0]), step, layer)
