r"""A formula of any number of inputs as a graph of registers: one small head a node, layers by depth.

**Layout.** One token an evaluation. Its features are registers: the constant 1, the inputs, one fresh column a node.
Layers of attention with a residual add the fresh columns. Queries, keys and values are linear in the registers, so sums
and multiples cost nothing.

**Size.** The errors of nodes add up at the output, each times its sensitivity S (:mod:`attnforge.targets.graph`). With
N nodes the tolerance is shared as $\delta_n = \mathrm{tol}/(N S_n)$; a fitted row of an analytic node takes
$O(\ln(1/\delta_n)/\ln\rho_n)$ keys, the other heads a fixed number. So the whole takes
$$ \sum_n O\bigl(\ln(N S_n/\mathrm{tol})/\ln\rho_n\bigr) \text{ keys,} $$
whatever the number of inputs: compositional functions have polynomial complexity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.anchors.grid_fit import GridFit, fit_grid
from attnforge.anchors.temperature import gate_sharpness
from attnforge.effort import check_time
from attnforge.errors import RefusalError
from attnforge.expression.evaluate import evaluate
from attnforge.expression.intervals import Interval, is_undefined
from attnforge.expression.text import to_text
from attnforge.lemmas.reciprocal import reciprocal_error
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term
from attnforge.outward import lower, machine, upper
from attnforge.targets import Box, Formula, Target
from attnforge.targets.formulas import Formulas
from attnforge.targets.graph import Composition, Form, Step, modulus
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.exponential import exponential_head
from attnforge.theorems.graph.decomposition import Decomposition, decompose
from attnforge.theorems.graph.registers import Registered
from attnforge.theorems.logistic import logistic_head, silu_head
from attnforge.theorems.multiplier import multiplier_head
from attnforge.theorems.registers import columns, one_hot, written
from attnforge.theorems.root import root_head
from attnforge.theorems.tensor_heads import axis_columns

Array = npt.NDArray[np.float64]

SHARE = 0.7  # of the tolerance for fits; the rest is for rounding and for what the proof does not tell apart
FITTED = ("row", "root", "multiplier")  # kinds of steps whose number of keys follows from their share
MULTIPLIERS = (5, 7, 9)  # keys of a product, the fewest that are precise enough
FEWEST = 2  # inputs from which on a graph is proposed: of one, all that is fitted is one row
FLOOR, POINTS = 64.0, 100  # roundings of the largest of so many values: no row is fitted more closely
BITS = 60  # two to minus that many is off by less than rounding
FINENESS = 200  # sizes tried between that of an argument and its rounding
NARROW = 2.0**-10  # width, beside its size, of the interval of a row whose form does not vary
WIDENED = 2.0  # times the error expected in a form: rows are fitted on ranges so much wider


@dataclass(frozen=True, eq=False)
class GraphPlan:
    """The registers, and what was chosen for each: a fitted row, or the keys of a product."""

    decomposition: Decomposition
    rows: dict[int, GridFit]
    keys: dict[int, int]
    shares: list[float]
    dtype: str

    @property
    def anchors(self) -> int:
        """Keys of all heads."""
        return sum(_count(self, i) for i in range(len(self.decomposition.steps)))

    @property
    def reason(self) -> str:
        """In words."""
        steps, layers = self.decomposition.steps, max(self.decomposition.layers, default=0)
        if not steps:
            return "affine formulas, which a linear map computes without attention"
        kinds = [f"{n} {kind}{'s' if n > 1 else ''}" for kind in _KINDS if (n := sum(s.kind == kind for s in steps))]
        plural = ["" if count == 1 else "s" for count in (len(steps), layers)]
        return f"a graph of {len(steps)} register{plural[0]} in {layers} layer{plural[1]}: {', '.join(kinds)}"


class GraphConstruction(Construction[GraphPlan]):
    """One head a node."""

    name = "graph"
    fitted = True
    function_class = "formulas of any number of inputs"
    rate = "geometric for analytic nodes: O(log(1/tol)) keys a node"
    conditions = "keys grow with the number of nodes and the logarithm of their sensitivities, not with inputs"
    reference = "ours"
    documentation = Documentation(
        theorem="ours",
        hypotheses="a closed form whose nodes are affine, of one form, products, exponentials or kinks",
        bound="sum over nodes of local error times sensitivity, by interval adjoints; sup norm in and out",
        heads="one a node",
        keys="5 to 9 a product, 2 an exponential, 3 a kink, 5 to 30 a row, 16 to 50 a root at 0",
        width="1 + inputs + nodes",
        example='af.constructions.graph("x*y*exp(-z^2)", {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}, tol=1e-6)',
    )
    law = Law(
        target=lambda: Formula("x*y/sqrt(1 + z^2)", Box([-1, -1, -1], [1, 1, 1]), ("x", "y", "z")),
        refused=lambda: Formula("sign(x)*y", Box([-1, -1], [1, 1]), ("x", "y")),
        tols=(1e-2, 1e-6),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Formulas that can be taken apart."""
        if not isinstance(target, Formula | Formulas):
            return "the target must be a formula"
        try:
            decomposed(target)
        except RefusalError as reason:
            return str(reason)
        return None

    def offers(self, target: Target) -> str | None:
        """Of its own accord for two inputs and more that are no sum of functions of one form, and for two outputs."""
        few = f"formulas of {FEWEST} inputs and more that multiply or nest forms"
        if isinstance(target, Formula) and target.domain.shape[0] < FEWEST:
            return few
        reason = self.accepts(target)
        if reason is not None or not isinstance(target, Formula):
            return reason
        found = decomposed(target)
        alone = all(len(step.forms) == 1 for step in found.graph.steps)
        return few if alone and max(found.layers, default=1) == 1 else None

    def size(self, target: Target, tol: float, dtype: str) -> GraphPlan:
        """Fit every row to its share of the tolerance."""
        assert isinstance(target, Formula | Formulas)
        found = decomposed(target)
        graph, steps = found.graph, found.steps
        shares = _shares(found, tol, dtype)
        local = [sum(each) for each in target.off] + [
            share if math.isfinite(share) and step.kind in ("row", "root") else 0.0
            for step, share in zip(steps, shares, strict=True)
        ]
        wide = graph.compose(local)
        rows, keys = {}, {}
        for i, step in enumerate(steps):
            check_time("fitting rows")
            if step.kind == "row":
                rows[i] = _row(step, graph.steps[i], graph.ranges[i], wide, i, shares[i], dtype)
            elif step.kind == "multiplier":
                keys[i] = _keys(step, wide, graph.steps[i], i, shares[i])
        return GraphPlan(found, rows, keys, shares, dtype)

    def cost(self, target: Target, plan: GraphPlan) -> Cost:
        """Keys of all heads, and maps from all registers."""
        found = plan.decomposition
        width = 1 + found.graph.inputs + len(found.steps)
        return Cost.of(plan.anchors, plan.anchors * 3 + len(found.steps) * 5 * width)

    def build(self, target: Target, plan: GraphPlan) -> Network:
        """The weights."""
        return graph_network(plan, self.name)

    def bound(self, target: Target, plan: GraphPlan) -> dict[str, float]:
        """No theorem bounds fitted rows: an enclosure of the network does."""
        return {"fit": math.inf}


_KINDS = ("row", "root", "multiplier", "exponential", "logistic", "gate")


@lru_cache(maxsize=4)
def decomposed(target: Formula | Formulas) -> Decomposition:
    """The registers of a target; once for all who ask."""
    trees = (target.tree,) if isinstance(target, Formula) else target.trees
    pairs = zip(target.domain.lower.tolist(), target.domain.upper.tolist(), strict=True)
    sides = [Interval(arb(a), arb(b)) for a, b in pairs]
    found = decompose(trees, target.names, sides, target.conditions_on_registers)
    for step, ranges in zip(found.steps, found.graph.ranges, strict=True):
        if any(is_undefined(each) or not (each.upper - each.lower).is_finite() for each in ranges.values()):
            raise RefusalError("Every part of a formula has a range", to_text(step.tree)[:80], "Shrink the domain")
    bounded = found.graph.compose([0.0] * (found.graph.inputs + len(found.steps))).bounded
    for step, known, ranges, tame in zip(found.steps, found.graph.steps, found.graph.ranges, bounded, strict=True):
        if not tame and not modulus(known.function, ranges, dict.fromkeys(ranges, arb(0.5) ** BITS)).is_finite():
            requirement, remedy = "Every part of a formula is continuous, with a known modulus", "Shrink the domain"
            raise RefusalError(requirement, to_text(step.tree)[:80], remedy)
    return found


def _shares(found: Decomposition, tol: float, dtype: str) -> list[float]:
    """The local error that each step may have: parts of the tolerance, divided by its sensitivity.

    A step without a bounded slope takes half of its part for itself. The other half is what its arguments may move it
    by, through its modulus of continuity; that much each argument may be off, and it is shared like a tolerance.
    """
    graph, steps = found.graph, found.steps
    plain = graph.compose([0.0] * (graph.inputs + len(steps)))
    shares = _parts(found, plain.bounded, graph.sensitivities(plain.slopes), tol)
    for i in reversed(range(len(steps))):
        if not plain.bounded[i]:
            shares[i] /= 2
            reach = _reach(steps[i], graph.steps[i], graph.ranges[i], shares[i], machine(dtype).roundoff)
            for form in graph.steps[i].forms.values():
                mine = _parts(found, plain.bounded, graph.sensitivities(plain.slopes, form), reach)
                shares = [min(pair) for pair in zip(shares, mine, strict=True)]
    return shares


def _parts(found: Decomposition, bounded: list[bool], sensitivities: list[float], tol: float) -> list[float]:
    """Of the tolerance of a form, for all fitted steps that it depends on: half for those without a bounded slope.

    Rows pay for a smaller part with its logarithm only.
    """
    mine = sensitivities[found.graph.inputs :]
    fitted = [step.kind in FITTED and size > 0 for step, size in zip(found.steps, mine, strict=True)]
    counts = {tame: sum(each and b == tame for each, b in zip(fitted, bounded, strict=True)) for tame in (True, False)}
    half = 2 if all(counts.values()) else 1
    return [
        SHARE * tol / (half * max(1, counts[tame]) * max(size, 1e-300))
        for tame, size in zip(bounded, mine, strict=True)
    ]


def _reach(step: Registered, known: Step, ranges: dict[str, Interval], share: float, roundoff: float) -> float:
    """How far the arguments of a step may be off, all alike, so that it moves by no more than its share."""
    size = max(float(abs(each.lower).max(abs(each.upper))) for each in ranges.values()) or 1.0
    for off in np.geomspace(size, roundoff * size, FINENESS):
        if modulus(known.function, ranges, dict.fromkeys(ranges, arb(float(off)))) <= share:
            return float(off)
    got = f"{to_text(step.tree)[:80]}, which may be off by {share:.1e}"
    raise RefusalError("Every part of a formula has a bounded slope, or moves little by rounding", got, "Raise tol")


def _count(plan: GraphPlan, i: int) -> int:
    kind = plan.decomposition.steps[i].kind
    if kind == "row":
        return plan.rows[i].anchors
    if kind == "root":
        return _head(plan, i, 1 + plan.decomposition.graph.inputs + len(plan.decomposition.steps)).memory_size
    return plan.keys[i] if kind == "multiplier" else 3 if kind == "gate" else 2


def _row(
    step: Registered, known: Step, ranges: dict[str, Interval], wide: Composition, i: int, share: float, dtype: str
) -> GridFit:
    """Anchors along the first form, on its range and as far beyond it as errors may lead."""
    name = next(iter(known.forms))
    if not known.forms[name].weights:
        raise RefusalError("What a row reads varies", to_text(step.tree)[:80], "Write down its value instead")
    inside, around = ranges[name], wide.ranges[i][name]
    low, high = float(inside.lower), float(inside.upper)
    width = high - low or NARROW * max(1.0, abs(low))
    beyond = WIDENED * max(float(inside.lower - around.lower), float(around.upper - inside.upper), 0.0)
    values = _along(known)
    for margin in (min(beyond, width / 4) if low < high else width, 0.0):
        ends = np.array([low - margin]), np.array([high + margin])
        if np.isfinite(values(np.array([ends[0], ends[1]]))).all():
            break
    if not ends[0] < ends[1]:
        raise RefusalError("What a row reads varies, or is inside its domain", to_text(step.tree)[:80], "Simplify it")
    if not share > 0 or not math.isfinite(share):
        raise RefusalError("The output depends on every register in a bounded way", to_text(step.tree)[:80])
    roundoff = machine(dtype).roundoff
    size = float(np.abs(values(np.linspace(*ends, POINTS))).max())
    return fit_grid(values, *ends, max(share, FLOOR * roundoff * size), roundoff)


def _along(step: Step) -> Callable[[Array], Array]:
    """The function of a step along its first form: the others are affine functions of that."""
    first = next(iter(step.forms.values()))
    pivot = max(first.weights, key=lambda p: abs(float(first.weights[p])))
    lines: dict[str, tuple[np.longdouble, np.longdouble]] = {}
    for name, form in step.forms.items():
        slope = form.weights.get(pivot, arb(0)) / first.weights[pivot]
        lines[name] = _long(slope), _long(form.offset - slope * first.offset)

    def values(points: Array) -> Array:
        y = np.asarray(points[:, 0], dtype=np.longdouble)
        found = evaluate(step.function, {name: slope * y + offset for name, (slope, offset) in lines.items()})
        return np.asarray(found, dtype=np.float64)[:, None]

    return values


def _long(value: arb) -> np.longdouble:
    """A number to the digits of a long double."""
    high = float(value.mid())
    return np.longdouble(high) + np.longdouble(float((value - arb(high)).mid()))


def _keys(step: Registered, wide: Composition, known: Step, i: int, share: float) -> int:
    """The fewest keys of a product whose error, relative to the largest value written, is small enough."""
    ranges = [wide.ranges[i][name] for name in known.forms]
    largest = math.prod(float(abs(each.lower).max(abs(each.upper))) for each in ranges)
    return next((k for k in MULTIPLIERS if reciprocal_error(k) * largest <= share), MULTIPLIERS[-1])


def graph_network(plan: GraphPlan, construction: str) -> Network:
    """Registers, layers of heads that add their columns, and the outputs."""
    found = plan.decomposition
    inputs, width = found.graph.inputs, 1 + found.graph.inputs + len(found.steps)
    heads = [_head(plan, i, width) for i in range(len(found.steps))]
    layers: list[Linear | Attention] = [Linear((Term(np.eye(inputs, width, 1)),), one_hot(0, width)[None])]
    depths = found.layers
    for depth in range(1, max(depths, default=0) + 1):
        layers.append(Attention(tuple(h for h, d in zip(heads, depths, strict=True) if d == depth), residual=True))
    layers.append(Linear((Term(columns(*(_form(form, width) for form in found.graph.outputs))),)))
    return Network(tuple(layers), inputs, 1, construction=construction)


def _form(form: Form, width: int) -> Array:
    """As weights of all registers, the offset on the first."""
    weights = np.zeros(width)
    weights[0] = float(form.offset)
    for p, weight in form.weights.items():
        weights[p] = float(weight)
    return weights


def _head(plan: GraphPlan, i: int, width: int) -> Head:
    found = plan.decomposition
    step, column = found.steps[i], 1 + found.graph.inputs + i
    forms = [_form(Form.of(tree), width) for tree in step.forms]
    match step.kind:
        case "row":
            head = _row_head(plan.rows[i], forms[0], column, plan.dtype)
        case "root":
            (inside,) = found.graph.ranges[i].values()
            largest = upper(inside.upper)
            share = min(plan.shares[i], math.sqrt(largest) or 1.0)  # more may be allowed where little depends on it
            head = root_head(forms[0], max(largest, share**2), share, column)
        case "multiplier":
            low, high = step.ends
            head, _ = multiplier_head(forms[0], forms[1], float(low or 0.0), float(high or 0.0), column, plan.keys[i])
        case "exponential":
            name = _exponent(found.graph.steps[i], step)
            head = exponential_head(forms[1], forms[0], upper(found.graph.ranges[i][name].upper), column, plan.dtype)
        case "logistic" if step.tree.function == "silu":  # type: ignore[union-attr]
            head = silu_head(forms[0], column)
        case "logistic":
            twice = step.tree.function == "tanh"  # type: ignore[union-attr]
            head = logistic_head(forms[0] * (2.0 if twice else 1.0), column, *((2.0, -1.0) if twice else (1.0, 0.0)))
        case "gate":
            head = _gate(forms[0], step, found.graph.ranges[i], column, plan.dtype)
    keys = head.memory_size + (head.key_rows is not None)
    roles = ("anchor",) * head.memory_size + ("self",) * (head.key_rows is not None)
    claims = Claims(step.kind, 0.0, np.zeros(keys), roles, formula=to_text(step.tree))
    return replace(head, claims=claims)


def _exponent(known: Step, step: Registered) -> str:
    """The name of the form that is the exponent."""
    wanted = Form.of(step.forms[0])
    return next(name for name, form in known.forms.items() if form.weights.keys() == wanted.weights.keys())


def _row_head(fit: GridFit, form: Array, column: int, dtype: str) -> Head:
    (axis,) = fit.axes
    keys = axis_columns(axis, dtype)
    query = np.zeros((len(form), keys.shape[1]))
    query[:, 0] = axis.linear * axis.scale * (form - axis.origin * one_hot(0, len(form)))
    query[0, 1:] = -axis.square
    return Head(query, written(column, len(form)), memory_keys=keys, memory_values=fit.values.reshape(-1, 1))


def _gate(form: Array, step: Registered, ranges: dict[str, Interval], column: int, dtype: str) -> Head:
    """Keys for the ends that the form may pass, and the token itself."""
    (inside,) = ranges.values()
    reach = max(abs(lower(inside.lower)), abs(upper(inside.upper)), *(abs(e) for e in step.ends if e is not None))
    beta, one = gate_sharpness(reach, dtype), one_hot(0, len(form))
    keys = [[-1.0, step.ends[0]]] if step.ends[0] is not None else []
    keys += [[1.0, -step.ends[1]]] if step.ends[1] is not None else []
    ends = [end for end in step.ends if end is not None]
    return Head(
        query=columns(beta * form, beta * one),
        output=written(column, len(form)),
        key=np.zeros((len(form), 2)),
        value=columns(form),
        key_rows=Rows("own"),
        memory_keys=np.array(keys),
        memory_values=np.array(ends)[:, None],
    )
