"""A network as it runs, as models."""

from __future__ import annotations

import numpy as np

from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.kernel.run import run_network
from attnforge.network import Attention, Head, Network
from attnforge.outward import machine


def test_a_model_is_kept_where_it_varies_as_much_as_the_range():
    """On a cell where the output goes from end to end, what counts is what the model leaves out."""
    keys, values = np.array([[0.0], [1.0], [-1.0]]), np.array([[0.0], [1.0], [-1.0]])
    network = Network((Attention((Head(np.eye(1), np.eye(1), memory_keys=keys, memory_values=values),)),), 1, 1)
    inputs = Models.variables(degrees(1, 8), np.array([[-0.5]]), np.array([[0.5]]))
    found = run_network(network, inputs.shaped(1, 1, 1), machine("float64"))
    assert found.swing().values.item() > 0.2
    assert found.rest.values.item() < 1e-5
