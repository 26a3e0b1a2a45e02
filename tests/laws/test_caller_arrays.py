"""Arrays of every kind a caller may hand in: read by their names where they have any, or refused."""

import numpy as np
import pandas
import pytest
import torch

import attnforge as af

SQUARE = {"x": (-1, 1), "y": (-1, 1)}


@pytest.fixture(scope="module")
def net():
    return af.compile("x - 2*y", SQUARE)


def test_a_series_is_a_row_by_its_names(net):
    row = pandas.Series({"y": 0.85, "x": 0.5})
    assert net(row) == net(row[["x", "y"]]) == net(pandas.DataFrame([row]))[0] == net([0.5, 0.85])


def test_a_series_without_the_names_is_refused(net):
    with pytest.raises(af.DomainError):
        net(pandas.Series({"x": 0.5, "z": 0.85}))


@pytest.mark.parametrize(
    "given",
    [
        np.ma.masked_array([[0.5, 0.1]], [[False, True]]),
        torch.eye(2).to_sparse(),
        torch.eye(2).to_sparse_csr(),
    ],
)
def test_masks_and_gaps_are_refused(net, given):
    with pytest.raises(af.DomainError):
        net(given)
    with pytest.raises(af.DomainError):
        net(x=given, y=0.1)


def test_views_that_run_backwards_are_read(net):
    points = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    np.testing.assert_array_equal(net(points[::-1]), net(points)[::-1])
    mixed = net(x=torch.tensor(points[:, 0]), y=points[::-1, 1])
    np.testing.assert_array_equal(mixed.numpy(), net(np.stack([points[:, 0], points[::-1, 1]], axis=-1)))
