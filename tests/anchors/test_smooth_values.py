"""Values of many anchors as polynomials: as close as values fitted one by one, and in the memory of the result."""

import tracemalloc

import numpy as np
import pytest

from attnforge.anchors.axis import Axis
from attnforge.anchors.fitting import Samples, cuts_between
from attnforge.anchors.panels import Panels
from attnforge.anchors.smooth_values import smooth_fits
from attnforge.targets import Box, Formula
from attnforge.theorems.tensor_grid import TensorGrid


@pytest.mark.parametrize(("rate", "degree"), [(8, 30), (60, 100)])
def test_they_are_as_close_as_values_fitted_one_by_one(rate, degree):
    panels, axis = Panels.whole(-1.0, 1.0, degree), Axis.uniform(-1.0, 1.0, 220, 10, 0.24)
    columns, cuts, errors = np.sin(rate * panels.nodes)[:, None], cuts_between(1e-9, 4e-16), []
    for per_degree, fits in ((3, smooth_fits), (1300 / degree, Samples.fits)):
        at, check = panels.samples(per_degree), panels.samples(2.3 * per_degree)
        samples = Samples(at, check, panels.interpolation(at), panels.interpolation(check), columns)
        best = min(fits(samples, axis, cuts), key=lambda fit: fit.residual)
        x = np.linspace(-1, 1, 3001)
        errors.append(np.abs(axis.weights(x) @ best.values(columns)[:, 0] - np.sin(rate * x)).max())
    assert errors[0] <= 2 * errors[1] + 1e-14
    assert errors[0] < 1e-11


def test_a_large_grid_is_built_within_four_times_its_memory():
    target = Formula("sin(8*x)*cos(5*y) + exp(x*y)", Box([-1, 0], [1, 1]), ("x", "y"))
    construction = TensorGrid()
    tracemalloc.start()
    plan = construction.with_counts(target, [300, 300], "float64")
    (head,) = construction.build(target, plan).heads
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = (head.memory_keys, head.memory_values, head.claims.positions)
    assert peak <= 4 * (sum(each.nbytes for each in kept) + 8 * len(head.claims.roles))
    x = np.random.default_rng(0).uniform([-1, 0], [1, 1], size=(100, 2))
    (axis, other) = plan.heads[0].axes
    found = np.einsum("ni,nj,ij->n", axis.weights(x[:, 0]), other.weights(x[:, 1]), plan.heads[0].values[..., 0])
    np.testing.assert_allclose(found, target.values(x), rtol=0, atol=1e-11)
