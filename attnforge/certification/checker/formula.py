"""A formula on a cell: linear forms as long as it is linear, Taylor coefficients from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from flint import arb, arb_series

from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import UNKNOWN, ZERO, Cell, Coefficients, Model, meet
from attnforge.errors import CertificateError
from attnforge.expression.functions import FUNCTIONS, function_of
from attnforge.expression.intervals import Interval, is_undefined
from attnforge.expression.series import NotSmoothError
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold

Value = Form | Model
Series = Callable[..., arb_series]

LARGEST_POWER = 64  # whole exponents up to here by multiplication


class FormulaOn:
    """The formula on one cell."""

    def __init__(self, inputs: Mapping[str, Form], space: Space, cell: Cell) -> None:
        self.inputs, self.space, self.cell = inputs, space, cell

    def __call__(self, tree: Node) -> Model:
        """Its Taylor coefficients."""
        return self._model(fold(tree, self._visit))

    def _visit(self, node: Node, arguments: Sequence[Value]) -> Value:
        if isinstance(node, Constant):
            return Form({}, arb(node.value))
        if isinstance(node, Variable):
            return self.inputs[node.name]
        linear = linear_form(node, arguments)
        return linear if linear is not None else self._apply(node, [self._model(each) for each in arguments])

    def _model(self, value: Value) -> Model:
        return self.space.model(value, self.cell) if isinstance(value, Form) else value

    def _apply(self, node: Apply, arguments: list[Model]) -> Model:
        cell = self.cell
        match node.function, arguments:
            case "+", _:
                return cell.tight(cell.add(*arguments))
            case "*", _:
                return reduce(cell.multiply, arguments)
            case "-", [u]:
                return cell.scale(arb(-1), u)
            case "/", [u, v]:
                return cell.divide(u, v)
            case "abs", [u]:
                return self._larger(u, cell.scale(arb(-1), u))
            case "relu", [u]:
                return self._larger(u, cell.constant(ZERO))
            case "max", _:
                return reduce(self._larger, arguments)
            case "min", _:
                return reduce(self._smaller, arguments)
            case "clamp", [u, a, b]:
                return self._smaller(self._larger(u, a), b)
            case "where", [u, v, a, b]:
                return self._either(self._range_of_difference(u, v), u.at[0] - v.at[0], a, b)
            case "hypot", _:
                return self._length(function_of(node).interval, arguments)
            case "atan2", [y, x]:
                return self._angle(y, x)
            case "exp", [u]:
                return cell.exponential(u)
            case "sqrt", [u] if isinstance(inner := node.arguments[0], Apply) and inner.function == "relu":
                return self._composed(u, function_of(node).series, _root)
            case "^", [u, v]:
                return self._power(node, u, v)
            case _, [u]:
                return self._composed(u, function_of(node).series, function_of(node).interval)
        raise CertificateError("The checker reads the functions of the table", node.function)

    def _larger(self, u: Model, v: Model) -> Model:
        """The larger of both; where the cell does not decide, its value, range and both slopes are known."""
        if v.over[0] <= u.over[0] or self._range_of_difference(u, v) >= 0:
            return u
        if u.over[0] <= v.over[0] or self._range_of_difference(u, v) <= 0:
            return v
        count, degree = self.cell.terms.count, self.cell.terms.degree
        at = [u.at[0].max(v.at[0]), *[UNKNOWN] * (count - 1)]
        over = [u.over[k].union(v.over[k]) if degree[k] == 1 else UNKNOWN for k in range(count)]
        over[0] = u.over[0].max(v.over[0])
        return Model(at, over)

    def _either(self, gap: arb, middle: arb, a: Model, b: Model) -> Model:
        """One of two branches; where the cell does not decide, the ranges of both, and no slope: they may not meet."""
        if gap < 0 or gap >= 0:
            return a if gap < 0 else b
        if not gap.is_finite():
            return self._unknown()
        unknown = [UNKNOWN] * (self.cell.terms.count - 1)
        at = a.at[0] if middle < 0 else b.at[0] if middle >= 0 else a.at[0].union(b.at[0])
        return Model([at, *unknown], [self.cell.range(a).union(self.cell.range(b)), *unknown])

    def _length(self, length: Callable[..., Interval], arguments: list[Model]) -> Model:
        """The root of a sum of squares; its slopes are at most the sum of the arguments', also where it vanishes."""
        root, total = FUNCTIONS["sqrt"], self.cell.add(*(self.cell.multiply(u, u) for u in arguments))
        found = self._composed(total, root.series, root.interval)
        at, over = list(found.at), list(found.over)
        at[0] = meet(at[0], _ball(length(*(_ends(u.at[0]) for u in arguments))))
        over[0] = meet(over[0], _ball(length(*(_ends(u.over[0]) for u in arguments))))
        for k in self.cell.terms.axes:
            slope = sum((abs(u.over[k]) for u in arguments), ZERO)
            over[k] = meet(over[k], slope.union(-slope))
        return self.cell.tight(Model(at, over))

    def _angle(self, y: Model, x: Model) -> Model:
        """By the arctangent of y/x to the right of the cut, of x/y above and below it and where that is smaller."""
        atan, cell = FUNCTIONS["atan"], self.cell
        if x.over[0] > 0 and not abs(y.over[0]) > x.over[0]:
            return self._composed(cell.divide(y, x), atan.series, atan.interval)
        if y.over[0] > 0 or y.over[0] < 0:
            turn = self._composed(cell.divide(x, y), atan.series, atan.interval)
            side = arb.pi() / (2 if y.over[0] > 0 else -2)
            return cell.add(cell.constant(side), cell.scale(arb(-1), turn))
        return self._unknown()

    def _unknown(self) -> Model:
        nothing = [UNKNOWN] * self.cell.terms.count
        return Model(nothing, nothing)

    def _range_of_difference(self, u: Model, v: Model) -> arb:
        return self.cell.range(self.cell.add(u, self.cell.scale(arb(-1), v)))

    def _smaller(self, u: Model, v: Model) -> Model:
        negative = [self.cell.scale(arb(-1), each) for each in (u, v)]
        return self.cell.scale(arb(-1), self._larger(*negative))

    def _power(self, node: Apply, u: Model, v: Model) -> Model:
        """Whole powers by multiplication, constant ones by their series, others as exp(v log u)."""
        record, exponent = function_of(node), _number(node.arguments[1])
        if exponent is None:
            logarithm, exponential = FUNCTIONS["log"], FUNCTIONS["exp"]
            product = self.cell.multiply(v, self._composed(u, logarithm.series, logarithm.interval))
            return self._composed(product, exponential.series, exponential.interval)
        if exponent.is_integer() and 0 < exponent <= LARGEST_POWER:
            found = reduce(self.cell.multiply, [u] * int(exponent))
            return Model(
                found.at,
                [meet(found.over[0], _ball(record.interval(_ends(u.over[0]), _ends(arb(exponent))))), *found.over[1:]],
            )
        power = arb_series([arb(exponent)])
        return self._composed(
            u, lambda s: record.series(s, power), lambda ends: record.interval(ends, _ends(arb(exponent)))
        )

    def _composed(self, u: Model, series: Series, interval: Callable[[Interval], Interval]) -> Model:
        """A function of one argument: its own series at the argument's value, and its range by monotone pieces."""
        at, over = (self._expanded(series, side) for side in (u.at, u.over))
        return self.cell.tight(Model(at, [meet(over[0], _ball(interval(_ends(u.over[0])))), *over[1:]]))

    def _expanded(self, series: Series, argument: Coefficients) -> Coefficients:
        table = self.cell.terms
        if not argument[0].is_finite():
            return [UNKNOWN] * table.count
        try:
            outer = series(arb_series([argument[0], 1]))
        except NotSmoothError:
            return [UNKNOWN] * table.count
        return table.compose([outer[j] for j in range(table.order + 1)], argument)


def linear_form(node: Apply, arguments: Sequence[object]) -> Form | None:
    """Sums, multiples and quotients of linear forms stay linear forms; numbers such as pi are such."""
    if not node.arguments:
        return Form({}, function_of(node).series()[0])
    forms = [each for each in arguments if isinstance(each, Form)]
    if len(forms) != len(arguments):
        return None
    constants = [form.constant for form in forms if not form.slopes]
    varying = [form for form in forms if form.slopes]
    match node.function:
        case "+":
            return reduce(Form.plus, forms)
        case "-":
            return forms[0].times(arb(-1))
        case "*" if len(varying) <= 1:
            factor = reduce(lambda a, b: a * b, constants, arb(1))
            return varying[0].times(factor) if varying else Form({}, factor)
        case "/" if not forms[1].slopes and not forms[1].constant.contains(0):
            return forms[0].times(1 / forms[1].constant)
        case "^" if not varying and constants[0] > 0:
            return Form({}, constants[0] ** constants[1])
    return None


def _root(inside: Interval) -> Interval:
    """Of what is not negative, whatever balls around it say."""
    return FUNCTIONS["sqrt"].interval(Interval(inside.lower.max(ZERO), inside.upper))


def _number(node: Node) -> float | None:
    """The number an exponent is written as, its sign included."""
    if isinstance(node, Apply) and node.function == "-" and isinstance(node.arguments[0], Constant):
        return -node.arguments[0].value
    return node.value if isinstance(node, Constant) else None


def _ends(ball: arb) -> Interval:
    return Interval(ball.lower(), ball.upper())


def _ball(found: Interval) -> arb:
    return UNKNOWN if is_undefined(found) else found.lower.union(found.upper)
