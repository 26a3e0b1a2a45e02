"""Do the formulas of registers, put into each other, say what the target says?

Both have the same terms in canonical form (:mod:`attnforge.expression.canonical`); what coefficients differ by
is charged. These forms are the prover's, too: what they say is tested at random points, by balls. They are identities
where both sides are defined, so roots are taken of what is not negative, or of what the target takes roots of, and the
target is proved to have values on the whole domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from flint import arb

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.local import extended
from attnforge.certification.checker.registers import Registers, Step, UnknownError, size
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ZERO
from attnforge.certification.checker.values import anywhere
from attnforge.errors import CertificateError
from attnforge.expression.canonical import Canonical
from attnforge.expression.intervals import Interval
from attnforge.expression.simplify import plus, times
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold
from attnforge.outward import lower, machine, upper
from attnforge.targets.defined import has_values


class Meaning:
    """Outputs as formulas of the inputs r[1], r[2], ..., and those that they should be."""

    def __init__(
        self, box: Sequence[Interval], steps: Sequence[Step], outputs: Sequence[Form], wanted: Sequence[Node]
    ) -> None:
        self.box, self.wanted, self.canonical = box, wanted, Canonical(self._least)
        trees: dict[str, Node] = {"r[0]": Constant(1.0)}
        self.roots = list[Node]()
        for column, step in enumerate(steps, start=1 + len(box)):
            self.roots += [substituted(each, trees) for each in _roots(step.tree)]
            trees[f"r[{column}]"] = substituted(step.tree, trees)
        self.outputs = [substituted(_sum(output), trees) for output in outputs]

    def apart(self) -> float:
        """By how much outputs may differ from what they should be; infinity where they may have no value."""
        sides, worst = {f"r[{i}]": side for i, side in enumerate(self.box, start=1)}, 0.0
        plain = (extended(tree) if all(map(self._is_taken, _roots(tree))) else tree for tree in self.wanted)
        if any(self._least(root) < 0 for root in self.roots) or not all(has_values(tree, sides) for tree in plain):
            return math.inf
        for tree, output in zip(self.wanted, self.outputs, strict=True):
            terms = self.canonical.difference(output, tree)
            worst = max(worst, upper(sum((abs(each) * size(self._range(term)) for each, term in terms), ZERO)))
        return worst

    def _is_taken(self, root: Node) -> bool:
        return self._least(root) >= 0 or any(self.canonical.multiple(root, each) for each in self.roots)

    def test(self, points: Sequence[Sequence[float]], apart: float) -> None:
        """CertificateError if an output is further from what it should be at a point."""
        place = anywhere(machine("float64"))
        for point in points:
            values = {f"r[{i + 1}]": Form({}, arb(x)) for i, x in enumerate(point)}
            for pair in zip(self.wanted, self.outputs, strict=True):
                a, b = (FormulaOn(values, place.space, place.cell)(each).at[0] for each in pair)
                if lower(abs(a - b)) > apart:
                    got = f"not at {', '.join(f'{x:.6g}' for x in point)}"
                    raise CertificateError("The registers put into each other are the target", got)

    def _range(self, node: Node) -> Interval:
        """Where a formula lies; anywhere, where that is not known."""
        try:
            return Registers(self.box, [Step(node)]).follow(self.box, [ZERO] * (len(self.box) + 1)).values[-1]
        except UnknownError:
            return Interval(arb.neg_inf(), arb.pos_inf())

    def _least(self, node: Node) -> float:
        return lower(self._range(node).lower)


def substituted(node: Node, values: Mapping[str, Node]) -> Node:
    """The formula with formulas in place of variables."""

    def visit(each: Node, parts: Sequence[Node]) -> Node:
        if isinstance(each, Apply):
            return Apply(each.function, tuple(parts))
        return values.get(each.name, each) if isinstance(each, Variable) else each

    return fold(node, visit)


def _sum(output: Form) -> Node:
    terms = [times(Constant(float(w)), Variable(f"r[{p}]")) for p, w in output.slopes.items()]
    return plus(Constant(float(output.constant)), *terms)


def _roots(tree: Node) -> Iterator[Node]:
    """What roots are taken of."""
    return (node.arguments[0] for node in bottom_up(tree) if isinstance(node, Apply) and node.function == "sqrt")
