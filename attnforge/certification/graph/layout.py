"""The layout of a graph of registers, read from a network: which head writes which column, and what it claims.

Register 0 is 1, the next are the inputs; a head writes one column that nobody else writes and that is zero before,
reads columns of earlier layers only, and a residual keeps all of them. So every column is what its head writes, to the
last bit. Streams without a column for each register are :mod:`.directions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from attnforge.certification.stream import Noise, is_distractor
from attnforge.errors import AttnforgeError, CertificateError
from attnforge.expression import parse
from attnforge.expression.intervals import Interval
from attnforge.expression.simplify import over, plus, times
from attnforge.expression.tree import Constant, Node, variables
from attnforge.network import Attention, Head, Linear, Network
from attnforge.targets import Formula
from attnforge.targets.formulas import Formulas
from attnforge.targets.graph import SIGNLESS, number_of, register, substituted

Array = npt.NDArray[np.float64]

LAYOUT = "A graph of registers is a map to (1, inputs, zeros), attention with residuals, and a read-out"
REMEDY = "Rebuild the network"


@dataclass(frozen=True, eq=False)
class Written:
    """A head that writes a register, the formula it claims, its layer, and the noise in what it reads."""

    head: Head
    column: int
    tree: Node
    layer: int
    noise: Noise = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Columns:
    """A column a register: the heads in their order, and weights (registers, outputs) of the read-out."""

    written: list[Written]
    read_out: Array

    def on_registers(self, depth: int, _: Sequence[Interval]) -> dict[int, Written]:
        """The heads of a layer of attention, by register."""
        return {each.column: each for each in self.written if each.layer == depth}


def is_graph(network: Network) -> bool:
    """Whether heads add to registers, and each claims its formula; the only one of a network need not.

    Formulas that are all affine need no head, and are read out at once.
    """
    if len(network.layers) < 2:
        return False
    first, *middle, last = network.layers
    adds = all(isinstance(layer, Linear) or (isinstance(layer, Attention) and layer.residual) for layer in middle)
    if not adds or not isinstance(first, Linear) or not isinstance(last, Linear) or network.tokens != 1:
        return False
    claiming = [head for head in network.heads if not is_distractor(head)]
    claimed = bool(claiming) and all(map(claims_formula, claiming))
    read = last.terms[0].map
    return claimed or not network.heads or (len(claiming) == 1 and read is not None and read.shape[1] == 1)


def read_columns(network: Network, target: object) -> Columns:
    """The heads by their columns, and the weights of the read-out; anything else is refused."""
    first, *middle, last = network.layers
    width = 1 + network.features + len(network.heads)
    if network.tokens != 1 or network.context is not None or not isinstance(first, Linear):
        raise CertificateError(LAYOUT, "another network", REMEDY)
    _check_first(first, network.features, width)
    weights = _read_out(last, width)
    written = [
        _written(head, depth, width, target, weights)
        for depth, layer in enumerate(middle, start=1)
        for head in _heads(layer)
    ]
    written.sort(key=lambda each: each.column)
    if [each.column for each in written] != list(range(1 + network.features, width)):
        raise CertificateError("Every column beside the inputs is written by one head", "another set", REMEDY)
    depths = dict.fromkeys(range(1 + network.features), 0) | {each.column: each.layer for each in written}
    for each in written:
        _check_reads(each, depths)
    return Columns(written, weights)


def _check_first(layer: Linear, inputs: int, width: int) -> None:
    plain = len(layer.terms) == 1 and layer.terms[0].mix is None and layer.terms[0].map is not None
    constant = None if layer.constant is None else layer.constant
    if not plain or constant is None or constant.shape != (1, width):
        raise CertificateError(LAYOUT, "another first layer", REMEDY)
    made = np.zeros(0) if layer.terms[0].map is None else layer.terms[0].map
    if not np.array_equal(made, np.eye(inputs, width, 1)) or not np.array_equal(constant, np.eye(1, width)):
        raise CertificateError("Registers begin with 1 and the inputs, and are zero beyond", "others", REMEDY)


def _heads(layer: object) -> tuple[Head, ...]:
    if not isinstance(layer, Attention) or not layer.residual:
        raise CertificateError(LAYOUT, "another layer", REMEDY)
    return layer.heads


def _written(head: Head, depth: int, width: int, target: object, weights: Array) -> Written:
    columns = np.flatnonzero(np.any(head.output != 0, axis=0))
    alone = head.query_rows.indices is None and (head.key_rows is None or head.key_rows.kind == "own")
    if len(columns) != 1 or not alone or head.output.shape[1] != width:
        raise CertificateError("A head asks and reads its own token, and writes one register", "another", REMEDY)
    tree = claimed_formula(head) if claims_formula(head) else left(target, weights, int(columns[0]))
    return Written(head, int(columns[0]), tree, depth)


def claims_formula(head: Head) -> bool:
    """Whether it says what it writes."""
    return head.claims is not None and bool(head.claims.formula)


def claimed_formula(head: Head) -> Node:
    """What a head claims to write, as an expression of registers."""
    text = None if head.claims is None else head.claims.formula
    if text is None:
        raise CertificateError("Every head claims its formula", "a head without one", REMEDY)
    try:
        return parse(text)
    except AttnforgeError as reason:
        raise CertificateError("A register is a formula of registers", str(reason)[:80], REMEDY) from None


def left(target: object, weights: Array, column: int) -> Node:
    """What the only head must write where nothing is claimed: the target, without what is read from the inputs."""
    (tree, *more), names = trees_of(target)
    if more:
        raise CertificateError("Of several outputs, every head claims its formula", "a head without one", REMEDY)
    inputs = substituted(tree, {name: register(i + 1) for i, name in enumerate(names)})
    others = np.where(np.arange(len(weights)) == column, 0.0, weights[:, 0])
    if not weights[column, 0]:
        raise CertificateError("The output reads the register that is written", "others", REMEDY)
    rest = plus(inputs, times(Constant(-1.0), output_of(others)))
    return SIGNLESS.factored(over(rest, Constant(float(weights[column, 0]))))


def _check_reads(written: Written, depths: dict[int, int]) -> None:
    numbers = [*np.flatnonzero(written.head.reads).tolist(), *(number_of(name) for name in variables(written.tree))]
    late = [n for n in numbers if not (n < written.column and depths.get(n, written.layer) < written.layer)]
    if late or 0 in (number_of(name) for name in variables(written.tree)):
        got = f"register {written.column} from {sorted(set(late))}"
        raise CertificateError("A register is computed from earlier layers", got, REMEDY)


def _read_out(layer: object, width: int) -> Array:
    """Weights (m, k), the constant among those of register 0."""
    if not isinstance(layer, Linear) or len(layer.terms) != 1 or layer.terms[0].mix is not None:
        raise CertificateError(LAYOUT, "another read-out", REMEDY)
    weights = layer.terms[0].map
    if weights is None or weights.ndim != 2 or weights.shape[0] != width or layer.constant is not None:
        raise CertificateError(LAYOUT, "another read-out", REMEDY)
    return weights


def output_of(weights: Array) -> Node:
    """What a column of the read-out computes."""
    terms = [times(Constant(float(w)), register(p)) for p, w in enumerate(weights[1:], start=1) if w]
    return plus(Constant(float(weights[0])), *terms)


def trees_of(target: object) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """The target's formulas, and the names of its inputs."""
    found = formulas_of(target)
    return ((found.tree,) if isinstance(found, Formula) else tuple(found.trees)), found.names


def formulas_of(target: object) -> Formula | Formulas:
    """The target, if it is made of formulas."""
    if isinstance(target, Formula | Formulas):
        return target
    raise CertificateError("A graph of registers is compared with formulas", type(target).__name__, REMEDY)
