r"""One softmax head on a cell.

Scores are taken relative to the winner w, the best key at the middle of the cell: $e_k = e^{s_k - s_w}$, $e_w = 1$.
Keys whose weight times value is negligible on the whole cell are left out, and what they could add is counted in
``off``. For the others
$$ \mathrm{out} = c + \frac{\sum_k e_k (v_k - c)}{\sum_k e_k} $$
by Taylor coefficients, c the output at the middle; and out lies between the smallest and the largest $v_k$ in any case.

The run has scores off by at most $\eta_k$ relative to the winner's: a dot product of r terms errs by
$\gamma_{r+4} \sum |q_f||k_f|$, an error of the query counts with $|k_f - w_f|$, and exponentials err by a few ulp. Then
$$ |\mathrm{out}' - \mathrm{out}| \le \frac{\sum_k e_k (e^{\eta_k} - 1)|v_k - \mathrm{out}|}{\sum_k e_k e^{-\eta_k}}
   + \gamma \sum_k w_k |v_k| . $$
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.checker import rounding
from attnforge.certification.checker.powers import few, sums
from attnforge.certification.checker.rounding import ANY, SLACK, Kernel
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ONE, ZERO, Model, is_affine, meet
from attnforge.certification.checker.values import Place, Value, combine, is_simple
from attnforge.network import Head
from attnforge.outward import gamma, upper
from attnforge.outward import lower as lower_end

Array = npt.NDArray[np.float64]
Row = Sequence[Value]

VANISHING = 2.0**-1000
MANY = 2000  # coefficients of keys, from which on they are added up in float64: faster, and off by roundings
STEEPEST = 700.0  # exponents are cut off here: what lies above is not known


@dataclass(frozen=True, eq=False)
class Relative:
    """For every key: bounds of s_k - s_w on the cell, ``middle`` plus or minus ``swing``, and the run's ``eta``."""

    winner: int
    middle: Array
    swing: Array
    eta: Array

    @property
    def high(self) -> Array:
        """Upper bounds of the run's weights, also of those that vanish in float64."""
        return np.exp(np.minimum(self.middle + self.swing + self.eta, STEEPEST)) * SLACK + VANISHING

    @property
    def low(self) -> Array:
        """Lower bounds of the run's weights."""
        return np.exp(self.middle - self.swing - self.eta) / SLACK


def attend(place: Place, head: Head, row: Row, rows: Sequence[Row], negligible: float) -> list[Value]:
    """The head's mixture of values at a query row, its keys being memory and the rows it reads."""
    kernel = Kernel.of(head)
    query = [combine(place, row, column) for column in head.query.T]
    memory_keys = np.zeros((0, len(query))) if head.memory_keys is None else head.memory_keys
    memory_values = np.zeros((0, len(head.output))) if head.memory_values is None else head.memory_values
    if head.key is None or head.value is None or not rows:
        return mixture(place, query, memory_keys, memory_values, negligible, kernel)
    keys = [*_constants(place, memory_keys), *([combine(place, each, c) for c in head.key.T] for each in rows)]
    values = [*_constants(place, memory_values), *([combine(place, each, c) for c in head.value.T] for each in rows)]
    return _over_rows(place, query, keys, values, negligible, kernel)


def select(place: Place, scores: Row, values: Array, negligible: float) -> list[Value]:
    """The softmax of a token's features, times a matrix: a head whose scores are the features."""
    winner = _best([score.model for score in scores])
    doubts = [(score.off + scores[winner].off) * SLACK for score in scores]
    relative, models = _given(place, [score.model for score in scores], winner, doubts, ANY)
    taken = 8 * place.machine.accumulation * _lead(relative, np.zeros(len(scores)))  # off the largest
    relative = replace(relative, eta=(relative.eta + taken) * SLACK + _overflow(scores))
    return _weighted(place, relative, models, _constants(place, values), negligible)


def _constants(place: Place, numbers: Array) -> list[list[Value]]:
    return [[combine(place, [], [], float(number)) for number in row] for row in numbers]


def mixture(
    place: Place, query: Row, keys: Array, values: Array, negligible: float, kernel: Kernel = ANY
) -> list[Value]:
    """The softmax mean of constant values, for constant keys."""
    relative = _relative_to_memory(place, query, keys, kernel)
    centre = _centre(relative, values)
    near = _near(relative, np.abs(values - centre).max(axis=1), negligible)
    best, apart = keys[relative.winner], values[near] - centre
    if all(q.form is not None for q in query) and len(near) * place.cell.terms.count > MANY:
        columns = sums(place, query, keys[near], best, np.c_[apart, np.ones(len(near))])
    else:
        numbers = [[place.cell.constant(arb(v) - arb(c)) for v, c in zip(values[k], centre, strict=True)] for k in near]
        columns = _products(place, relative, near, _curved(place, query, keys[near], best), numbers)
    found = _quotients(place, columns, centre)
    return _judged(place, relative, near, found, values, values, np.zeros_like(values))


def _curved(place: Place, query: Row, keys: Array, winner: Array) -> list[Model]:
    """Scores relative to the winner's."""
    apart = arb_mat([[arb(x) - arb(w) for x, w in zip(key, winner.tolist(), strict=True)] for key in keys.tolist()])
    count = place.cell.terms.count
    terms = 1 + len(place.cell.terms.axes) if all(is_affine(place.cell, q.model) for q in query) else count
    sides = [[side[:terms] for side in each] for each in zip(*((q.model.at, q.model.over) for q in query), strict=True)]
    at, over = (apart * arb_mat(side) for side in sides)
    rest = [ZERO] * (count - terms)
    return [
        Model([*(at[i, k] for k in range(terms)), *rest], [*(over[i, k] for k in range(terms)), *rest])
        for i in range(len(keys))
    ]


def _level(place: Place, relative: Relative, near: npt.NDArray[np.int64], models: list[Model]) -> list[Model]:
    """Relative scores less their mean slope, a common factor of all weights: what is left is as flat as can be."""
    cell = place.cell
    shares = np.exp(np.minimum(relative.middle[near], 0.0))
    shares = (shares / shares.sum()).tolist()
    for i, k in enumerate(cell.terms.axes):
        mean = sum(share * float(model.at[k].mid()) for share, model in zip(shares, models, strict=True))
        tilt = cell.add(cell.variable(i), cell.constant(-cell.middle[i]))
        models = [cell.add(model, cell.scale(arb(-mean if mean == mean else 0.0), tilt)) for model in models]
    return [cell.tight(model) for model in models]


def _relative_to_memory(place: Place, query: Row, keys: Array, kernel: Kernel) -> Relative:
    machine, r = place.machine, keys.shape[1]
    middle, slopes, rest = (np.array(part) for part in zip(*(_affine(place, q) for q in query), strict=True))
    scores = keys @ middle
    winner = int(scores.argmax())
    apart, both = keys - keys[winner], np.abs(keys) + np.abs(keys[winner])
    radius = np.array([upper(each) for each in place.cell.radius])
    told, off = np.array([q.size + q.off for q in query]), np.array([q.off for q in query])
    doubt = gamma(r + 8) * (both @ (np.abs(middle) + np.abs(slopes) @ radius)) + np.abs(apart) @ rest
    swing = (np.abs(apart @ slopes) @ radius + doubt) * SLACK
    at = apart @ middle
    swing[winner] = at[winner] = 0.0
    size = np.abs(scores) + np.abs(keys) @ (np.abs(slopes) @ radius + rest + off) + doubt
    wide = swing + gamma(r + 4, machine.accumulation) * (both @ told) + np.abs(apart) @ off
    lead = max(0.0, float((at + wide).max())) - at + wide
    exact = np.array([is_simple(q) for q in query]) | np.isin(np.abs(np.frexp(keys)[0]), (0.0, 0.5))
    eta = rounding.scores(np.abs(keys) * told, exact, size * SLACK, lead * SLACK, machine, kernel)
    eta = (eta + rounding.exponentials(len(keys), machine, kernel) + np.abs(apart) @ off) * SLACK
    return Relative(winner, at, swing, eta + _overflow(query))


def _overflow(values: Row) -> float:
    """What nothing survives where one of the values may overflow, else nothing: a softmax of that is no mean."""
    return np.nan if any(value.off == np.inf for value in values) else 0.0


def _affine(place: Place, value: Value) -> tuple[float, list[float], float]:
    """Midpoint, slopes and a bound of the rest, as floats: m + slopes . t, up to the rest."""
    cell, at = place.cell, value.model.at
    middle = float(at[0].mid())
    slopes = [float(at[k].mid()) for k in cell.terms.axes]
    straight = cell.constant(arb(middle))
    for i, slope in enumerate(slopes):
        part = cell.variable(i)
        straight = cell.add(straight, cell.scale(arb(slope), cell.add(part, cell.constant(-cell.middle[i]))))
    rest = upper(abs(cell.range(cell.add(value.model, cell.scale(arb(-1), straight)))))
    if np.isfinite(rest) and np.isfinite([middle, *slopes]).all():
        return middle, slopes, rest
    span = value.model.over[0]
    return float(span.mid()), [0.0] * len(slopes), upper(abs(span - arb(span.mid())))


def _over_rows(
    place: Place, query: Row, keys: Sequence[Row], values: Sequence[Row], negligible: float, kernel: Kernel
) -> list[Value]:
    """Keys that may depend on the inputs."""
    cell = place.cell
    scores = [cell.tight(_score(place, query, key)) for key in keys]
    winner = _best(scores)
    relative, models = _given(place, scores, winner, [_doubt(place, query, key, keys[winner]) for key in keys], kernel)
    told = np.array([[(q.size + q.off) * (k.size + k.off) for q, k in zip(query, key, strict=True)] for key in keys])
    exact = np.array([[is_simple(q) or is_simple(k) for q, k in zip(query, key, strict=True)] for key in keys])
    known = np.array([[q.size * k.size for q, k in zip(query, key, strict=True)] for key in keys])
    size = np.array([upper(abs(score.over[0])) for score in scores]) + np.maximum(told - known, 0.0).sum(axis=1)
    wrong = gamma(len(query) + 4, place.machine.accumulation) * told.sum(axis=1)
    made = rounding.scores(told * SLACK, exact, size * SLACK, _lead(relative, wrong), place.machine, kernel)
    made = made + _overflow([*query, *(k for key in keys for k in key)])
    return _weighted(place, replace(relative, eta=(relative.eta + made) * SLACK), models, values, negligible)


def _doubt(place: Place, query: Row, key: Row, winner: Row) -> float:
    """What errors of the run's queries and keys may do to the difference of two scores."""
    cell, found = place.cell, 0.0
    for q, k, w in zip(query, key, winner, strict=True):
        if q.off or k.off or w.off:
            apart = upper(abs(cell.range(cell.add(k.model, cell.scale(arb(-1), w.model)))))
            found += q.off * (apart + k.off + w.off) + q.size * (k.off + w.off)
    return found * SLACK


def _score(place: Place, query: Row, key: Row) -> Model:
    """The dot product; with a constant key that of linear forms is one, and stays exact."""
    pairs = [(q.form, _number(k)) for q, k in zip(query, key, strict=True)]
    forms = [form.times(number) for form, number in pairs if form is not None and number is not None]
    if len(forms) == len(pairs):
        return place.space.model(reduce(Form.plus, forms), place.cell)
    return place.cell.add(*(_product(place, q, k) for q, k in zip(query, key, strict=True)))


def _product(place: Place, a: Value, b: Value) -> Model:
    for number, other in ((_number(a), b), (_number(b), a)):
        if number is not None:
            return place.cell.scale(number, other.model)
    return place.cell.multiply(a.model, b.model)


def _number(value: Value) -> arb | None:
    """The value, if it is a constant."""
    return value.form.constant if value.form is not None and not value.form.slopes else None


def _best(scores: Sequence[Model]) -> int:
    return max(range(len(scores)), key=lambda k: float(scores[k].at[0].mid()))


def _given(
    place: Place, scores: list[Model], winner: int, doubts: list[float], kernel: Kernel
) -> tuple[Relative, list[Model]]:
    """Scores relative to the winner's; ``doubts`` bound what the run does to them before exponentials are taken."""
    cell = place.cell
    best = cell.scale(arb(-1), scores[winner])
    models = [cell.tight(cell.add(score, best)) for score in scores]
    models[winner] = cell.constant(ZERO)
    middle = np.array([float(model.over[0].mid()) for model in models])
    swing = np.array([upper(abs(model.over[0] - arb(m))) for model, m in zip(models, middle.tolist(), strict=True)])
    eta = (np.array(doubts) + rounding.exponentials(len(scores), place.machine, kernel)) * SLACK
    return Relative(winner, middle, swing, eta), models


def _lead(relative: Relative, wrong: Array) -> Array:
    """How far the run's largest score may lie above each; ``wrong`` bounds the rounding of its dot products."""
    wide = relative.swing + relative.eta + wrong + wrong[relative.winner]
    return np.asarray((max(0.0, float((relative.middle + wide).max())) - relative.middle + wide) * SLACK)


def _weighted(
    place: Place, relative: Relative, models: list[Model], values: Sequence[Row], negligible: float
) -> list[Value]:
    """The mixture of values that may depend on the inputs."""
    cell = place.cell
    ends = np.array([[[lower_end(v.model.over[0]), upper(v.model.over[0])] for v in row] for row in values])
    centre = _centre(relative, ends.mean(axis=2))
    spread = np.ptp(ends, axis=2).max()  # of values, and so of outputs: how far these may be from the centre
    near = _near(relative, np.abs(ends - np.array(centre)[:, None]).max(axis=(1, 2)) + spread, negligible)
    apart = [[cell.add(v.model, cell.constant(-arb(c))) for v, c in zip(values[k], centre, strict=True)] for k in near]
    columns = _products(place, relative, near, [models[k] for k in near], apart)
    found = _quotients(place, columns, centre)
    off = np.array([[v.off for v in row] for row in values])
    return _judged(place, relative, near, found, ends[..., 0], ends[..., 1], off)


def _products(
    place: Place, relative: Relative, near: npt.NDArray[np.int64], scores: list[Model], values: list[list[Model]]
) -> list[Model]:
    """Sums of weights times values, and of the weights."""
    cell = place.cell
    constant = all(x is ZERO for row in values for value in row for x in value.over[1:])
    if cell.terms.order > 1 and constant and all(is_affine(cell, score) for score in scores):
        return few(cell, scores, [[*(value.at[0] for value in row), ONE] for row in values])
    flat = _level(place, relative, near, scores)
    weights = [cell.exponential(model) for model in flat]
    columns = zip(*values, strict=True)
    found = [cell.add(*(cell.multiply(w, v) for w, v in zip(weights, column, strict=True))) for column in columns]
    return [*found, cell.add(*weights)]


def _near(relative: Relative, apart: Array, negligible: float) -> npt.NDArray[np.int64]:
    """The keys that matter on the cell: the winner, and those whose weight times their value's distance counts."""
    share = relative.high * apart
    share[relative.winner] = np.inf
    return np.flatnonzero(~(share <= negligible / len(apart) + VANISHING * apart))


def _centre(relative: Relative, values: Array) -> list[float]:
    """About the output at the middle: any number near it serves."""
    weights = np.exp(np.minimum(relative.middle, STEEPEST))
    found = weights @ values / weights.sum()
    return [float(c) if np.isfinite(c) else 0.0 for c in found]


def _quotients(place: Place, columns: list[Model], centre: list[float]) -> list[Model]:
    """Numerators over the last column, the sum of the weights, counted from the centre."""
    cell = place.cell
    return [
        cell.add(cell.constant(arb(c)), cell.divide(each, columns[-1]))
        for each, c in zip(columns[:-1], centre, strict=True)
    ]


def _judged(
    place: Place,
    relative: Relative,
    near: npt.NDArray[np.int64],
    found: list[Model],
    low: Array,
    high: Array,
    off: Array,
) -> list[Value]:
    """The near keys' output with its range cut down to their values', and what far keys and the run may add."""
    machine, count = place.machine, len(low)
    far = np.setdiff1d(np.arange(count), near)
    run = relative.high
    total = relative.low.sum() / SLACK  # zero on a cell too large to know anything: then infinite bounds
    share = np.minimum(run * SLACK / total, 1.0)
    half, unit = machine.roundoff > machine.accumulation, machine.accumulation
    rescaled = gamma(rounding.blocks(count) - 1, unit)
    normed = rounding.added(share, unit) + rescaled
    normed = normed / (1 - normed) if normed < 0.5 else np.inf
    outputs = []
    for j, model in enumerate(found):
        least, most = float(low[near, j].min()), float(high[near, j].max())
        model = replace(model, over=[meet(model.over[0], arb(least).union(arb(most))), *model.over[1:]])
        span = model.over[0]
        reach = np.maximum(high[:, j] - lower_end(span), upper(span) - low[:, j]) * SLACK
        beyond = float(share[far] @ np.maximum(high[far, j] - least, most - low[far, j]))
        size = np.maximum(np.abs(low[:, j]), np.abs(high[:, j])) + off[:, j]
        signed = np.where(low[:, j] >= off[:, j], size, -size)
        if np.any((low[:, j] < off[:, j]) & (high[:, j] > -off[:, j])):
            signed = size  # of unknown sign: as if all were positive
        mass = min(float(share @ size), float(size.max()))
        carried = min(float(share @ off[:, j]), float(off[:, j].max()))
        sums = rounding.added(share * signed, unit) + (rescaled + gamma(3, unit)) * mass
        apart = float(run[far] @ reach[far] + (run * -np.expm1(-relative.eta)) @ reach) / total
        moved = min(apart, most - least + beyond) * SLACK
        made = sums * (1 + normed) + normed * min(upper(abs(span)) + moved + carried, float(size.max()))
        made = carried + made + gamma(2 if half else 0, machine.roundoff) * (mass + made)
        made = (made + 2 * count * machine.underflow * (float(size.max()) + 1)) * SLACK
        made = made if rounding.fits(count * size.max(), machine) else np.inf
        inside = arb(least).union(arb(most)) + arb(0, (beyond * SLACK + made) * SLACK)
        outputs.append(Value(place, model, (moved + made) * SLACK, inside))
    return outputs
