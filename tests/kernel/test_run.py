"""A network as it runs, as models: what it computes exactly, and what executions make of it, lie in them."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from flint import arb

from attnforge.errors import AttnforgeError
from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.kernel.rounding import EXACT, Sums
from attnforge.kernel.run import run_network
from attnforge.network import Attention, Head, Linear, Network, Softmax, Term, apply, rounded
from attnforge.outward import Machine, Up, machine, precision, round_to
from attnforge.runtime import AttentionNetwork
from tests.kernel.executions import Rounding, furthest, linear
from tests.readers.exact import exact_output
from tests.readers.networks import Case, fitted_case, product_case, random_case

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "12"))
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ROUGH = Machine("rough", 2.0**-7, 2.0**-7, 1e30, 0.0, 8)
FLUSHED = Machine("rough, flushed", 2.0**-30, 2.0**-30, 1e30, 2.0**-8, 8)


class Cell:
    """A random network's inputs as models on its box, and points there."""

    def __init__(self, case: Case, seed: int, order: int) -> None:
        self.case, rng = case, np.random.default_rng([seed, 1])
        table = degrees(len(case.lower), order)
        inputs = Models.variables(table, case.lower[None], case.upper[None])
        shape = (1, case.tokens, case.network.features)
        self.state, self.told = inputs[:, : case.inputs].shaped(*shape), None
        if case.network.context is not None:
            self.told = inputs[:, case.inputs :].shaped(1, case.told, case.network.context[1])
        self.points, middle = case.points(rng, 16), inputs.c[0, 0]
        radius = np.abs(inputs.c[1:, 0]).sum(axis=0)
        self.shares = (self.points - middle) / np.where(radius > 0, radius, 1.0)

    def run(self, network: Network, on: Machine, **options: float) -> Models:
        with np.errstate(all="ignore"):
            return run_network(network, self.state, on, self.told, **options)

    def outside(self, models: Models, point: int, values) -> bool:
        """Whether some of these outputs at a point are outside the models; in balls, where t is rounded, too."""
        low = getattr(models, "low", None)
        with precision(300):
            t = self._exact_shares(point)
            monomials = [_product(x ** int(e) for x, e in zip(t, row, strict=True)) for row in models.table.exponents]
            for i, value in enumerate(values):
                at = np.unravel_index(i, models.shape)
                rest = float(models.rest.values[at])
                if not np.isfinite(rest):
                    continue
                total = sum(
                    (arb(float(c)) * m for c, m in zip(models.c[(slice(None), *at)], monomials, strict=True)), arb(0)
                )
                total += 0 if low is None else arb(float(low[at]))
                if not abs(value - total).lower() <= rest:
                    return True
        return False

    def _exact_shares(self, point: int) -> list[arb]:
        inputs = Models.variables(degrees(len(self.case.lower), 1), self.case.lower[None], self.case.upper[None])
        middle, radius = inputs.c[0, 0], np.abs(inputs.c[1:, 0]).sum(axis=0)
        found = []
        for x, m, r in zip(self.points[point].tolist(), middle.tolist(), radius.tolist(), strict=True):
            found.append((arb(x) - arb(m)) / arb(r) if r else arb(0))
        return found


def _product(factors) -> arb:
    total = arb(1)
    for factor in factors:
        total *= factor
    return total


CASES = {"any": random_case, "fitted": fitted_case, "products": product_case}


@pytest.mark.parametrize("kind", CASES)
def test_models_of_the_machine_that_rounds_nothing_hold_the_networks_function(kind):
    known = 0
    for seed in range(EXAMPLES):
        case = CASES[kind](seed)
        cell = Cell(case, seed, order=1 + seed % 3)
        models = cell.run(case.network, EXACT, far=(42.0, 3.0)[seed % 2])
        for point in (0, 1, 9):
            tokens, context = case.split(cell.points[point])
            values = exact_output(case.network, tokens, context).ravel().tolist()
            assert not cell.outside(models, point, values), (kind, seed, point)
        known += bool(np.isfinite(models.rest.values).all())
    assert known > EXAMPLES / 2


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_runs_by_numpy_and_torch_lie_in_the_models(kind, dtype):
    for seed in range(EXAMPLES):
        case = CASES[kind](seed)
        try:
            network = rounded(case.network, dtype)
        except AttnforgeError:
            continue
        cell = Cell(case, seed, order=1 + seed % 2)
        models = cell.run(network, machine(dtype), far=(42.0, 3.0)[seed % 2])
        tokens, context = case.split(cell.points)
        given = [torch.from_numpy(tokens), *([] if context is None else [torch.from_numpy(context)])]
        runs = []
        for kernel in ("auto", "dense"):
            with torch.no_grad():
                runs.append(AttentionNetwork(case.network, DTYPES[dtype], kernel=kernel)(*given).double().numpy())
        if dtype == "float64":
            with np.errstate(all="ignore"):
                runs.append(apply(network, tokens, context))
        for outputs in runs:
            for point in (0, 1, 9):
                values = outputs[point].ravel().tolist()
                if np.isfinite(values).all():
                    assert not cell.outside(models, point, map(arb, values)), (kind, dtype, seed)
                else:
                    assert not np.isfinite(models.rest.values).all(), (kind, dtype, seed)


def test_a_model_is_kept_where_it_varies_as_much_as_the_range():
    """On a cell where the output goes from end to end, what counts is what the model leaves out."""
    keys, values = np.array([[0.0], [1.0], [-1.0]]), np.array([[0.0], [1.0], [-1.0]])
    network = Network((Attention((Head(np.eye(1), np.eye(1), memory_keys=keys, memory_values=values),)),), 1, 1)
    inputs = Models.variables(degrees(1, 8), np.array([[-0.5]]), np.array([[0.5]]))
    found = run_network(network, inputs.shaped(1, 1, 1), machine("float64"))
    assert found.swing().values.item() > 0.2
    assert found.rest.values.item() < 1e-5


# Linear maps

MAPS = {
    "one product": ([1.3], [[0.7]], [], 0.97),
    "one sum": ([1.3, 1.7], [[1.0], [2.0]], [], 0.95),
    "products and a sum": ([1.3, 1.7], [[0.7], [0.9]], [], 0.9),
    "sums of one sign": ([1.3, 1.7, 1.9, 1.1], [[0.7], [0.9], [0.8], [1.1]], [], 0.55),
    "sums that cancel": ([1.3, -1.7, 1.9, -1.1], [[0.7], [0.9], [0.8], [1.1]], [], 0.3),
    "a constant that is large": ([1.3, 1.7, 1.9], [[0.7], [0.9], [0.8]], [100.0], 0.6),
    "a constant alone": ([1.3], [[0.0]], [3.0], None),
}  # fmt: skip


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("name", MAPS)
def test_the_worst_executions_of_linear_maps_stay_within_what_is_charged(name, flushed):
    row, weights, constant, least = MAPS[name]
    on, size = (FLUSHED, 2.0**-8) if flushed else (ROUGH, 1.0)
    rows, weights, constant = np.array([row]) * size, np.array(weights), np.array(constant) * size
    layer = Linear((Term(weights),), constant[None] if len(constant) else None)
    given = Models.constant(degrees(1, 1), rows[None])
    found = run_network(Network((layer,), rows.shape[1], 1), given, Machine("float64", *list(vars(on).values())[1:]))
    middle, radius = found.c[0].item(), found.swing().values.item()
    taken = []
    for seed in range(12):

        def execute(run: Rounding) -> np.ndarray:
            return linear(run, [np.full(len(run.deviations), x) for x in rows[0]], weights, constant)[0]

        ends = furthest(execute, on, seed, 12)
        assert np.abs(ends - middle).max() <= radius * (1 + 1e-9)
        taken.append(0.0 if least is None else np.abs(ends - middle).max() / radius)
    assert radius < 1e-290 if least is None else flushed or max(taken) >= least


def test_a_product_by_a_constant_power_of_two_is_exact():
    """Of weights, or of features that are constants of the run."""
    sizes = Up.of([[0.75, 2.0, 0.3]])
    sums = Sums.of(sizes, np.array([[False, True, False]]), np.array([[0.5], [0.7], [0.0]]))
    assert sums.addends.item() == 2
    assert sums.inexact.values.item() < 1e-290
    assert 1.775 <= sums.sizes.values.item() < 1.776
    assert 0 < sums.error(Up.of([[0.1]]), 2.0**-8, 0.0).values.item() < 0.1 * 2.0**-8 * 1.05


def test_an_unknown_feature_times_zero_is_not_known():
    """Of weights, and of other features."""
    unknown, simple = Up(np.array([[np.inf, 1.0]])), np.zeros((1, 2), dtype=bool)
    by_weights = Sums.of(unknown, simple, np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    assert np.isinf(by_weights.sizes.values).all()
    assert np.isinf(Sums.products(unknown, Up.zeros(1, 2), simple).sizes.values).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_inputs_are_cast_to_the_dtype(dtype):
    given = np.random.default_rng(0).normal(size=(1, 200, 1))
    found = run_network(Network((Linear((Term(),)),), 1), Models.constant(degrees(1, 1), given), machine(dtype))
    off = np.abs(round_to(given, dtype) - given)
    assert np.all(off <= found.rest.values)
    assert (off / found.rest.values).max() > 0.9


def test_what_may_leave_the_dtype_is_not_known():
    layer = Linear((Term(np.array([[1.0, 60000.0], [1.0, -60000.0]])),))
    found = run_network(
        Network((layer,), 2, 1), Models.constant(degrees(1, 1), np.array([[[3.0, 2.5]]])), machine("float16")
    )
    assert np.isfinite(found.rest.values).tolist() == [[[True, False]]]


def test_a_constant_that_is_added_before_the_others_costs_a_softmax_its_roundings():
    """Weights of a softmax are read by a map whose constant is far larger than what is read."""
    layers = (Softmax(), Linear((Term(np.array([[0.3], [0.7], [0.9]])),), np.array([[1000.0]])))
    given = Models.constant(degrees(1, 1), np.zeros((1, 1, 3)))
    found = run_network(Network(layers, 3, 1), given, machine("float32"))
    assert found.rest.values.item() > 3 * 1000 * 2.0**-24
