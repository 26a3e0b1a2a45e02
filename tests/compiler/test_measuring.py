"""The public ``attack``: the compiled network as it runs, against its own or another target."""

from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.errors import TargetError

NET = af.compile("sin(5*x)", {"x": (-1, 1)}, 1e-5)


def test_it_keeps_below_a_true_bound_and_reaches_what_measure_finds():
    found = af.attack(NET, seconds=None, evaluations=12_000)
    assert af.measure(NET, points=2000).sup * (1 - 1e-9) <= found.error <= NET.certificate.bound
    assert found.error <= found.largest_left <= NET.certificate.bound
    assert found.pruned > 0.9


def test_another_target():
    found = af.attack(NET, "sin(5*x) + 0.01*exp(-1000*(x - 0.123)^2)", seconds=None, evaluations=4000)
    assert found.error == pytest.approx(0.01, rel=1e-3)
    assert found.at[0] == pytest.approx(0.123, abs=1e-3)


def test_a_callable_has_no_bounds_on_boxes():
    found = af.attack(NET, lambda x: np.sin(5 * x), seconds=None, evaluations=4000)
    assert found.pruned is None
    assert found.error <= NET.certificate.bound * 1.001


def replaced(compiled, dtype):
    return af.Compiled(compiled.network, compiled.target, compiled.certificate, compiled.construction, dtype)


def test_the_rounding_of_the_dtype_counts():
    single = af.compile("sin(5*x)", {"x": (-1, 1)}, 1e-4, dtype="float32")
    found = af.attack(single, seconds=None, evaluations=4000)
    x, rounding = found.at, single.certificate.parts["rounding"]
    alone = float(np.abs(single(x) - single.target.values(x.astype(np.longdouble))).item())
    assert found.error == pytest.approx(alone, abs=2 * rounding)
    assert found.error > af.measure(replaced(single, "float64"), points=2000).sup
    assert found.error <= single.certificate.bound


def test_the_certificate_is_not_trusted():
    lie = replace(NET.certificate, bound=NET.certificate.bound / 10, estimate=None)
    forged = af.Compiled(NET.network, NET.target, lie, NET.construction, NET.dtype)
    assert af.attack(forged, seconds=None, evaluations=2000).error > forged.certificate.bound


def test_a_time_limit(clock):
    clock.tick = 0.01
    found = af.attack(NET, seconds=0.3)
    assert 0 < found.error <= NET.certificate.bound
    assert clock.now < 0.6


def test_a_table_is_refused():
    x = np.linspace(-1, 1, 20)
    with pytest.raises(TargetError, match=r"needs a domain to move in.*listed points.*Use measure"):
        af.attack(NET, (x, np.sin(5 * x)), seconds=None, evaluations=2000)
