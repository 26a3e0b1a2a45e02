"""Heads on registers, run on points, against 50 digits."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import numpy.typing as npt
import torch

from attnforge.network import Head, Network, apply
from attnforge.runtime import AttentionNetwork
from attnforge.theorems.registers import one_node

Array = npt.NDArray[np.float64]


def network_of(made: tuple[Head, Array] | Head) -> Network:
    """The network of a head, and of the form that comes with it."""
    head, form = made if isinstance(made, tuple) else (made, np.zeros(made.output.shape[1]))
    return one_node(head, form, "")


def run(network: Network, points: Array) -> Array:
    """In NumPy."""
    return np.asarray(apply(network, points[:, None, :])).ravel()


def run_torch(network: Network, points: Array, dtype: torch.dtype) -> Array:
    """As a module."""
    return np.asarray(AttentionNetwork(network, dtype)(torch.tensor(points[:, None, :])).double()).ravel()


def exactly(function: Callable[..., mpmath.mpf], points: Array, *forms: Array) -> Array:
    """A function of forms of the registers (1, inputs, 0), rounded to float64 at the end."""
    with mpmath.workdps(50):
        return np.array([float(function(*(_form(form, point) for form in forms))) for point in points])


def _form(form: Array, point: Array) -> mpmath.mpf:
    return mpmath.fdot(form.tolist(), [1.0, *point.tolist(), 0.0])


def random_form(rng: np.random.Generator, inputs: int) -> Array:
    """Weights of the constant, the inputs, and none of the node."""
    return np.append(rng.normal(size=1 + inputs), 0.0)


def reach(form: Array) -> tuple[float, float]:
    """Between which numbers the form lies for inputs in [-1, 1]."""
    spread = float(np.abs(form[1:]).sum()) * (1 + 2.0**-50)
    return float(form[0]) - spread, float(form[0]) + spread
