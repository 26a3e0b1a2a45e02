"""Random networks of the whole representation, as torch runs them in four dtypes, lie in their Taylor models."""

import numpy as np

from attnforge.balls import Up, machine
from attnforge.certification.enclosure.degrees import degrees
from attnforge.certification.enclosure.model_layers import run_network
from attnforge.certification.enclosure.taylor_models import Models
from attnforge.errors import AttnforgeError
from attnforge.network import rounded
from tests.readers.comparison import DTYPES, _torch
from tests.readers.networks import Case, random_case

SEEDS = range(100)
OWN = 2.0**-40  # what evaluating the polynomial in float64 may add, of its coefficients


def inputs_of(case: Case, order: int) -> tuple[Models, Models | None]:
    """Both inputs as rows, on the whole box."""
    table, middle = degrees(len(case.lower), order), case.lower / 2 + case.upper / 2
    found = Models.constant(table, middle)
    found.c[1 : 1 + len(middle)] = np.eye(len(middle))[::-1] * radius_of(case)  # the last input's index comes first

    def rows(part: slice, count: int) -> Models:
        c, rest = found.c[:, part], found.rest.values[part]
        return Models(table, c.reshape(len(table), 1, count, -1), Up(rest.reshape(1, count, -1)))

    told = None if case.network.context is None else rows(slice(case.inputs, None), case.told)
    return rows(slice(0, case.inputs), case.tokens), told


def radius_of(case: Case) -> np.ndarray:
    middle = case.lower / 2 + case.upper / 2
    radius = np.maximum(case.upper - middle, middle - case.lower)
    return np.nextafter(radius, np.inf) * (radius > 0)


def leaves(seed: int) -> list[str]:
    """The dtypes whose runs leave the models."""
    case, rng = random_case(seed), np.random.default_rng([seed, 1])
    points, order, found = case.points(rng, 24), int(rng.integers(1, 3)), []
    shares = (points - (case.lower / 2 + case.upper / 2)) / np.where(radius_of(case) > 0, radius_of(case), 1.0)
    for dtype in DTYPES:
        try:
            network = rounded(case.network, dtype)
        except AttnforgeError:
            continue
        state, told = inputs_of(case, order)
        with np.errstate(all="ignore"):
            models = run_network(network, state, machine(dtype), told)
            monomials = np.prod(shares[:, None] ** models.table.exponents, axis=2)
            c, rest = models.c.reshape(len(models.c), -1), models.rest.values.ravel()
            inside = np.abs(_torch(case, dtype, points) - monomials @ c) <= rest + OWN * np.abs(c).sum(axis=0)
        if not np.all(inside | np.isinf(rest)):
            found.append(dtype)
    return found


def test_runs_lie_in_their_models():
    assert [seed for seed in SEEDS if leaves(seed)] == []


def test_models_that_forget_rounding_are_seen(monkeypatch):
    monkeypatch.setattr(Models, "wider", lambda models, _: models)
    assert any("bfloat16" in leaves(seed) for seed in range(12))
