"""Noisy tables by name: what is given is kept, rows of one point are averaged, wrong numbers are named."""

import numpy as np
import pytest

import attnforge as af
from attnforge import constructions as made
from tests.refusals import refused

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (120, 12))  # more inputs than a grid could have
Y = X @ np.arange(12.0) + RNG.normal(size=120)


def test_many_inputs_and_their_report(tmp_path) -> None:
    net = made.table(X, Y, anchors=30)
    assert (net.anchors, net.heads, net.construction) == (30, 1, "table")
    assert "values by ridge regression, alpha = " in net.reason
    assert net.certificate.estimate.error == pytest.approx(np.abs(net(X) - Y).max())
    net.save(tmp_path / "f.safetensors")
    assert np.array_equal(af.load(tmp_path / "f.safetensors")(X), net(X))


def test_many_inputs_are_met_too() -> None:
    net = af.compile((X, Y), tol=1e-3)
    assert np.abs(net(X) - Y).max() <= 1e-3


def test_rows_of_one_point_are_averaged() -> None:
    x = np.array([0.0, 0.0, 1.0, 2.0, 3.0])
    net = made.table(x, [1.0, 4.0, 1.0, 0.0, 5.0], sample_weight=[1, 2, 1, 1, 1], names=["t"])
    assert net.target.names == ("t",)
    assert net.target.values(np.array([[0.0]])).tolist() == [3.0]
    plain = made.table([0.0, 1.0, 2.0, 3.0], [3.0, 1.0, 0.0, 5.0], sample_weight=[3, 1, 1, 1])
    assert np.allclose(net(x), plain(x))


def test_the_same_call_gives_the_same_bytes() -> None:
    order = RNG.permutation(120)
    assert made.table(X, Y).certificate.digest == made.table(X[order], Y[order]).certificate.digest


WRONG = (
    {"sample_weight": [1.0]}, {"sample_weight": -np.ones(120)}, {"sample_weight": np.eye(1, 120)[0]},
    {"sample_weight": ["a"] * 120}, {"anchors": 5000}, {"alpha": np.nan}, {"sharpness": -1.0}, {"require": "proved"},
    {"names": ["a"]},
)  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=lambda given: next(iter(given)))
def test_wrong_numbers_are_refused(given) -> None:
    with refused():
        made.table(X, Y, **{"anchors": 5, **given})
