r"""A graph of formulas as blocks of registers, so that its errors compose as those of layers and steps do.

Registers of one depth are a block of :mod:`attnforge.certification.registers`. A function of k forms, whose error is
$\sum_i s_i p_i + \lambda$ with slopes $s_i$ known on a box, is k entries of it that all who read the register add up;
$\lambda$ is in the first. What a step without bounded slopes moves by, through its modulus, is in $\lambda$ already
(:mod:`attnforge.targets.graph`): its slopes are zero here. Many boxes are looked at together.

Sums over paths with intervals as slopes, signs kept to the end, are another bound: of slopes that are known up to a
large part, such as kinks, middles and radii forget more. The smaller is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attnforge.certification.registers import Registers
from attnforge.expression.intervals import Interval, is_undefined
from attnforge.outward import Balls, Up, upper
from attnforge.outward import lower as from_below
from attnforge.targets.graph import Composition, Form, Graph

Array = npt.NDArray[np.float64]
NONE = 0.0, 0.0


class Blocks:
    """The entries (step, form) of every block behind the inputs, and where a register's error is found."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.inputs, self.outputs = graph, graph.inputs, graph.outputs
        self.blocks: list[list[tuple[int, str]]] = []
        self.forms: list[list[Form]] = []
        self._places = [[(0, p)] for p in range(graph.inputs)]
        for i, step in enumerate(graph.steps):
            read = [self._places[p - 1][0][0] for form in step.forms.values() for p in form.weights]
            depth = max(read, default=0)
            if depth == len(self.blocks):
                self.blocks.append([])
                self.forms.append([])
            first = len(self.blocks[depth])
            self.blocks[depth] += [(i, name) for name in step.forms]
            self.forms[depth] += step.forms.values()
            self._places.append([(depth + 1, first + k) for k in range(len(step.forms))])

    def errors(self, parts: Sequence[Composition], rounded: Sequence[float]) -> Up:
        """Of the outputs on boxes (B, k, 2): what enters beside rounding, and that, on each of these parts."""
        entered, made = np.array([part.entered for part in parts]), np.array(rounded)
        beside = np.maximum(np.nextafter(entered - made, np.inf), 0.0)
        local = np.stack([beside, np.broadcast_to(made, entered.shape)], axis=-1)
        registers = Registers()
        registers.start(Up.of(local[:, : self.inputs]))
        for entries, forms in zip(self.blocks, self.forms, strict=True):
            ends = np.array([[_ends(part.slopes[i][name]) for i, name in entries] for part in parts])
            first = np.array([k == 0 or entries[k - 1][0] != i for k, (i, _) in enumerate(entries)])
            own = local[:, [self.inputs + i for i, _ in entries]] * first[:, None]
            slopes = Balls.between(ends[..., 0], ends[..., 1])
            known = registers.read(self._weights(forms), Up.zeros(len(parts), len(entries), 2))
            registers.write(
                known, Balls(slopes.mid, np.where(ends[..., 0] == ends[..., 1], 0.0, slopes.rad)), Up.of(own)
            )
        found = registers.read(self._weights(self.outputs), Up.zeros(len(parts), len(self.outputs), 2)).error
        paths = [[self.graph.sensitivities(part.slopes, output) for output in self.outputs] for part in parts]
        return found.least(Up.of(paths) @ Up.of(local))

    def _weights(self, forms: Sequence[Form]) -> dict[int, Balls]:
        """Of forms, by blocks: a register's on all its entries."""
        found: dict[int, Balls] = {}
        for column, form in enumerate(forms):
            for place, low, high in zip(*form.arrays, strict=True):
                weight = Balls.between(low, high)
                for block, row in self._places[place]:
                    width = len(self.blocks[block - 1]) if block else self.inputs
                    into = found.setdefault(block, Balls.exact(np.zeros((width, len(forms)))))
                    into.mid[row, column], into.rad[row, column] = weight.mid, 0.0 if low == high else weight.rad
        return found


def _ends(slope: Interval) -> tuple[float, float]:
    return NONE if is_undefined(slope) else (from_below(slope.lower), upper(slope.upper))
