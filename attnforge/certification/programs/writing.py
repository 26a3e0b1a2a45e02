r"""What a layer writes: means of values, register by register, and what it does to registers that are not its own.

A head's mean of values $x_k W_V$ is taken to the features by W_O. Where values should be $E x_k$ (a label's code, a
number's form), the weights depart from it by $W_V W_O - E$, times what registers hold. Weights of keys add:

- *leakage*: what is not selected weighs at most $\mu$ of the selected, which moves a mean by $\mu$ times the range;
- *spread*: selected keys whose log-weights differ by at most s move the mean of unequal values by at most
  $\tanh(s/4)$ times the range (the worst case is two groups of keys, at both ends);
- rounding of W_V, of the mean, of W_O and of the sum over heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.certification.programs.held import Held, State
from attnforge.certification.programs.lookup import Found
from attnforge.certification.programs.products import is_power_of_two, rounding
from attnforge.certification.programs.scores import Scores
from attnforge.certification.programs.selection import Selection
from attnforge.errors import CertificateError
from attnforge.outward import Balls, Machine, Up, gamma
from attnforge.targets.programs.language import LabelAggregate, Labels, NumberAggregate, Numbers
from attnforge.targets.programs.registers import Layout, Register

Array = npt.NDArray[np.float64]
REMEDY = "Build the network anew, for a smaller length or in a wider dtype"


@dataclass(frozen=True)
class Written:
    """A register as its head writes it: leakage, rounding, and rounding relative to the number."""

    leakage: float
    rounding: float
    relative: float = 0.0


def expected(layout: Layout, node: Labels | Numbers, register: Register) -> Balls:
    """E (m, size): the features of a value, as a linear map of registers."""
    weights = Balls.exact(np.zeros((layout.features, register.size)))
    if isinstance(node, Labels):
        held, stands = layout.typed.root(node)
        assert register.labels is not None
        rows = layout[held].start + np.arange(len(stands))
        weights.mid[rows, [register.labels.place(label) for label in stands]] = 1.0
        return weights
    form = layout.typed.form(node)
    for each in [*form.weights, None]:
        entries = (form.constant,) if each is None else form.weights[each]
        for at, entry in enumerate(entries, layout[each].start):
            weights.mid[at, 0] = float(entry)
            weights.rad[at, 0] = 0.0 if entry == float(entry) else abs(float(entry)) * 2.0**-52
    return weights


def encoded(register: Register, value: object) -> Balls:
    """A value as the register should hold it, (size,)."""
    row = np.zeros(register.size)
    if register.labels is not None:
        row[register.labels.place(value)] = 1.0
        return Balls.exact(row)
    assert isinstance(value, int | Fraction)
    return Balls(np.array([float(value)]), np.array([0.0 if value == float(value) else abs(float(value)) * 2.0**-52]))


def linear_error(state: State, weights: Array, wanted: Balls, machine: Machine, added: Array | None = None) -> Up:
    """How far features times weights (and an ``added`` constant) may be from ``wanted``, in a run: (r,)."""
    departure = Up.of(Balls.exact(weights) - wanted).values
    further = None if added is None else Up.of(added)
    return state.nominal(departure) + state.errors(weights) + rounding(state, weights, machine, further)


def mean_written(
    scores: Scores, layout: Layout, aggregate: LabelAggregate | NumberAggregate, register: Register, found: Selection
) -> Written:
    """A mean over selected tokens; the constant key, where there is one, has the default."""
    node, selector, default = aggregate.values, aggregate.selector, aggregate.default
    head, state = scores.head, scores.state
    assert head.value is not None
    output = head.output[:, register.features]
    product = Balls.exact(head.value) @ Balls.exact(output)
    wanted = expected(layout, node, register)
    departure = state.nominal(Up.of(product - wanted).values)
    carried = _through(scores.value_error, output)
    if head.memory_values is not None:
        constant = Balls.exact(head.memory_values) @ Balls.exact(output)
        departure = departure.larger(Up.of(constant[0] - encoded(register, default)))
    sizes = _value_sizes(scores)
    shared = isinstance(node, Labels) or layout.typed.share_number(selector, node)
    moved = Up.of(0.0) if shared else (up_float(found.spread) * 0.25).tanh()
    width = Up.of(1.0) if isinstance(node, Labels) else Up.of(_range(register))
    mass = _mass(found, scores.keys)
    error = departure + carried + _mean_rounding(scores, sizes, output) + width * moved
    return Written(float(width * mass), float(error.most()))


def _mass(found: Selection, keys: int) -> Up:
    """What is not selected, relative to what is: others and the constant key; tokens, where nothing is selected."""
    total = Up.of(0.0) if found.gap is None else up_exp(-found.gap) * float(keys)
    if found.level is None and found.other is None:
        return total
    if found.level is not None:
        total = total + up_exp(-found.level[0])
    return total if found.other is None else total.larger(up_exp(found.other) * float(keys))


def count_written(scores: Scores, register: Register, found: Selection) -> Written:
    r"""1/(1 + w), relative to it: $e^D - 1$ for selected scores within D of the constant key's, and what others weigh.

    $(1 + w)/(1 + \sum e^{d_k} + \epsilon)$ lies between $e^{-D} - \epsilon$ and $e^D$.
    """
    head = scores.head
    output = head.output[:, register.features]
    assert head.value is not None
    assert head.memory_values is not None
    tokens = _through(scores.state.sizes(head.value) + scores.made("value", head.value), output)
    constant = Balls.exact(head.memory_values) @ Balls.exact(output)
    departure = Up.of(constant[0] - encoded(register, 1)).most()
    level = Fraction(0) if found.level is None else max(abs(found.level[0]), abs(found.level[1]))
    weight = up_float(level).expm1()
    if found.other is not None:
        weight = weight + up_exp(found.other) * float(scores.keys)
    arithmetic, after = scores.arithmetic, _output_rounding(scores, output)
    relative = (arithmetic.mean() + after + weight + departure).expm1()  # of a product of factors 1 + e
    lost = arithmetic.lost(Up.of(head.memory_values).most() + tokens.most()) * (Up.of(output).most() + 1.0)
    absolute = tokens.most() + tokens.most() * (arithmetic.mean() + after).expm1() + lost
    return Written(0.0, float(absolute), float(relative))


def lookup_written(scores: Scores, register: Register, found: Iterable[Found]) -> Written:
    """A value of the winning key, in the worst of all classes."""
    head = scores.head
    assert head.memory_values is not None
    output = head.output[:, register.features]
    values = Balls.exact(head.memory_values) @ Balls.exact(output)
    plain = register.labels is None
    leakage = rest = Up.of(0.0)
    for part in found:
        leaked = _leaked(values, part)
        if not np.all(leaked.values < np.inf):
            raise CertificateError(f"{register.name}: one key is above all others", "a class with no winner", REMEDY)
        wanted = [encoded(register, result) for result in part.results]
        mids, rads = np.stack([each.mid for each in wanted]), np.stack([each.rad for each in wanted])
        departure = Up.of(values[part.winners] - Balls(mids, rads))
        leakage, rest = leakage.larger(leaked.most()), rest.larger(departure.most())
    sizes = Up.of(head.memory_values).most(0)
    if not plain or np.count_nonzero(output) != 1:
        return Written(float(leakage), float(rest + _mean_rounding(scores, sizes, output).most()))
    arithmetic = scores.arithmetic
    relative = (arithmetic.mean() + _output_rounding(scores, output)).expm1()
    lost = arithmetic.lost(sizes.most()) * (Up.of(output).most() + 1.0)
    return Written(float(leakage), float(rest + lost + (leakage + rest) * relative), float(relative))


def _leaked(values: Balls, part: Found) -> Up:
    """Sums of weights times differences of values, (classes, size)."""
    columns = []
    for f in range(values.shape[1]):
        column = values[:, f]
        differ = Up.of(
            Balls(column.mid[part.winners][:, None], column.rad[part.winners][:, None])
            - Balls(column.mid[None, :], column.rad[None, :])
        )
        columns.append((Up(part.weights) * differ).sum(1).values)
    return Up(np.stack(columns, axis=1))


def _value_sizes(scores: Scores) -> Up:
    """Of values in a run, (v,): tokens' and constants'."""
    head = scores.head
    assert head.value is not None
    sizes = scores.state.sizes(head.value) + scores.made("value", head.value)
    return sizes if head.memory_values is None else sizes.larger(Up.of(head.memory_values).most(0))


def _mean_rounding(scores: Scores, sizes: Up, output: Array) -> Up:
    """What the mean of values of these sizes (v,) and its product with W_O round, (size,)."""
    arithmetic = scores.arithmetic
    mean = sizes * arithmetic.mean() + arithmetic.lost(sizes)
    factors = Up.of([gamma(int(count), scores.machine.roundoff) for count in _output_roundings(output)])
    return _through(mean, output) + _through(sizes + mean, output) * factors


def _through(sizes: Up, weights: Array) -> Up:
    """Of numbers of these sizes (v,), times weights (v, r): (r,)."""
    return (Up(sizes.values[None, :]) @ Up.of(weights))[0]


def _output_rounding(scores: Scores, output: Array) -> float:
    """The same, relative to the sum of sizes, of the worst feature."""
    return gamma(int(_output_roundings(output).max()), scores.machine.roundoff)


def _output_roundings(output: Array) -> Array:
    """Roundings (size,) of means times W_O: sums of what is not zero, and products that are rounded."""
    inexact = ~np.all(is_power_of_two(output), axis=0)
    return np.asarray(np.maximum(np.count_nonzero(output, axis=0) - 1.0, 0.0) + inexact)


def _range(register: Register) -> float:
    return float(np.nextafter(float(register.upper - register.lower), np.inf))


def up_exp(exponent: Fraction) -> Up:
    """Of e to the power of a rational number, rounded up."""
    return Up.exp_of(_above(exponent))


def up_float(value: Fraction) -> Up:
    """Of a rational number, rounded up."""
    return Up.of(_above(value))


def _above(value: Fraction) -> float:
    found = float(value)
    return found if found >= value else float(np.nextafter(found, np.inf))


def written_by_mistake(heads: list[tuple[Scores, Register]]) -> Up:
    """What heads write to features that are not their register's, (m,), and what sums with the residual round.

    A feature to which one product is added, and which was zero, or none, is not rounded.
    """
    state, machine = heads[0][0].state, heads[0][0].machine
    width = heads[0][0].head.output.shape[1]
    stray, terms, sizes = Up.zeros(width), np.zeros(width), np.zeros(width)
    for each in state:
        sizes[each.register.features] = float(each.nominal + each.error)
    terms += sizes > 0
    whole = Up(sizes)
    for scores, register in heads:
        means, beside = _mean_sizes(scores), scores.head.output.copy()
        beside[:, register.features] = 0.0
        stray, whole = stray + _through(means, beside), whole + _through(means, scores.head.output)
        terms += np.count_nonzero(scores.head.output, axis=0)
    factors = Up.of([gamma(int(count + 1) if count > 1 else 0, machine.roundoff) for count in terms])
    return stray + whole * factors


def _mean_sizes(scores: Scores) -> Up:
    """Of a head's mean of values, (v,), in a run."""
    head = scores.head
    if head.value is not None:
        sizes = _value_sizes(scores)
    else:
        assert head.memory_values is not None
        sizes = Up.of(head.memory_values).most(0)
    return sizes + sizes * scores.arithmetic.mean() + scores.arithmetic.lost(sizes)


def after_writing(state: State, written: dict[Register, Written], stray: Up) -> State:
    """The registers after a layer."""
    found = []
    for each in state:
        register = each.register
        amount = float(stray[register.features].most())
        if register in written:
            made = written[register]
            before = Held(register, True, made.leakage, made.rounding, made.relative)
            found.append(before.worse(float(each.error)).worse(amount))
        else:
            found.append(each.worse(amount))
    return state.but(found)
