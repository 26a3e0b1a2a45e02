"""The same laws for constructions on continuous maps: random targets of known modulus, random grids, every dtype."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import attnforge as af
from attnforge.compiler import Compiled
from tests.laws.cases import PROVED

MAKE = af.constructions
DTYPES = ("float64", "float32", "float16")


@dataclass(frozen=True)
class Ridges:
    """Sums over i of a_i |sin(w_i . x + t_i)|, one an output; Lipschitz constant max_k sum_i |a_ki| |w_i|_1."""

    a: np.ndarray  # (k, m)
    w: np.ndarray  # (m, D)
    t: np.ndarray  # (m,)

    @property
    def slope(self) -> float:
        return float((np.abs(self.a) @ np.abs(self.w).sum(axis=1)).max())

    def flat(self, x: np.ndarray) -> np.ndarray:
        return np.abs(np.sin(x @ self.w.T + self.t)) @ self.a.T

    def function(self, x: np.ndarray) -> np.ndarray:
        return self.flat(x)[..., 0]

    def tokens(self, x: np.ndarray) -> np.ndarray:
        found = self.flat(x.reshape(*x.shape[:-2], -1))
        return found.reshape(*x.shape[:-2], x.shape[-2], -1)

    def joint(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.flat(np.concatenate([x, y], axis=-1))[..., 0]


@st.composite
def ridges(draw: st.DrawFn, inputs: int, outputs: int) -> Ridges:
    number = st.floats(-1.0, 1.0).map(lambda value: round(value, 4))
    terms = draw(st.integers(1, 3))
    draws = [draw(st.lists(number, min_size=n, max_size=n)) for n in (outputs * terms, terms * inputs, terms)]
    a, w, t = (np.array(values) for values in draws)
    return Ridges(a.reshape(outputs, terms), draw(st.sampled_from([1.0, 5.0])) * w.reshape(terms, inputs), 3 * t)


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> af.Box:
    lower = draw(st.sampled_from([-3.0, 0.0, 0.5]))
    return af.Box(lower, lower + draw(st.sampled_from([0.25, 1.0, 4.0])), shape=shape)


Build = Callable[[], Compiled]


def on_functions(make: Callable[..., Compiled], key: str, most: int) -> Callable[[st.DrawFn, str], Build]:
    def case(draw: st.DrawFn, dtype: str) -> Build:
        sharpness, cells = draw(st.sampled_from(["hard", "tuned", "soft"])), draw(st.integers(2, most))
        tokens = draw(st.booleans())
        target, box = draw(ridges(2, 2 if tokens else 1)), draw(boxes((2, 1) if tokens else (2,)))
        if sharpness == "soft":  # of a head over cells beta = 3 / h^2, of bumps simply 3
            sharpness = 3.0 * (cells / float((box.upper - box.lower).max())) ** 2 if key == "cells" else 3.0
        options = {key: cells, "sharpness": sharpness, "lipschitz": target.slope, "dtype": dtype, "effort": PROVED}
        return lambda: make(target.tokens if tokens else target.function, box, **options)

    return case


def on_pairs(draw: st.DrawFn, dtype: str) -> Build:
    target, cells = draw(ridges(2, 1)), draw(st.integers(2, 8))
    keys, query, sharpness = draw(boxes((1,))), draw(boxes((1,))), draw(st.sampled_from(["hard", "tuned"]))
    options = {"sharpness": sharpness, "lipschitz": target.slope, "dtype": dtype, "effort": PROVED}
    return lambda: MAKE.cross_attention(target.joint, keys, query, grid=cells, **options)


def on_free_cells(draw: st.DrawFn, dtype: str) -> Build:
    d = draw(st.integers(1, 2))
    target, box = draw(ridges(d, 1)), draw(boxes((d,)))
    cells = af.anchors.Adaptive(draw(st.integers(2, 20)))
    options = {"sharpness": "hard", "lipschitz": target.slope, "dtype": dtype, "effort": PROVED}
    return lambda: MAKE.max_affine(target.function, box, cells=cells, **options)


def on_networks(draw: st.DrawFn, dtype: str) -> Build:
    torch.manual_seed(draw(st.integers(0, 1000)))
    activation = draw(st.sampled_from([nn.ReLU(), nn.LeakyReLU(0.2), nn.Hardtanh(-0.5, 0.5), nn.ReLU6()]))
    module = nn.Sequential(nn.Linear(2, 5), activation, nn.Linear(5, 4), activation, nn.Linear(4, 2)).double()
    by = {} if draw(st.booleans()) else {"by": "anchors", "anchors": draw(st.integers(5, 30))}
    box = draw(boxes((2,)))
    return lambda: MAKE.relu_network(module, box, dtype=dtype, effort=PROVED, **by)


CASES: dict[str, Callable[[st.DrawFn, str], Build]] = {
    "max_affine": on_functions(MAKE.max_affine, "cells", 10),
    "two_layer": on_functions(MAKE.two_layer, "grid", 6),
    "softmax_tail": on_functions(MAKE.softmax_tail, "grid", 6),
    "cross_attention": on_pairs,
    "adaptive cells": on_free_cells,
    "relu_network": on_networks,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_measured_errors_stay_below_the_certified_bound(name, dtype):
    seen: Counter[str] = Counter()

    @settings(max_examples=12)
    @given(st.data())
    def law(data: Any) -> None:
        build = CASES[name](data.draw, dtype)
        try:
            net = build()
        except af.RefusalError:
            if dtype == "float64":
                raise
            seen["refused"] += 1
            return
        seen["certified"] += 1
        assert net.certificate.status in ("proved", "conditional")
        assert af.measure(net, points=400, seed=3).sup <= net.certificate.bound

    law()
    assert seen["certified"] >= seen.total() / 4, f"the law is nearly empty: {seen}"


TARGET = Ridges(np.array([[1.0, 0.5], [0.3, -0.7]]), np.array([[3.0, 1.0], [-1.0, 2.0]]), np.array([0.1, 0.7]))
SMALL: dict[str, Callable[..., Compiled]] = {
    "max_affine": lambda n=8, **k: MAKE.max_affine(TARGET.tokens, af.Box(0, 1, shape=(2, 1)), cells=n, **k),
    "two_layer": lambda n=8, **k: MAKE.two_layer(TARGET.tokens, af.Box(0, 1, shape=(2, 1)), grid=n, **k),
    "softmax_tail": lambda n=8, **k: MAKE.softmax_tail(TARGET.tokens, af.Box(0, 1, shape=(2, 1)), grid=n, **k),
    "cross_attention": lambda n=8, **k: MAKE.cross_attention(
        TARGET.joint, af.Box(0, 1, shape=(1,)), af.Box(0, 1, shape=(1,)), grid=n, **k
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_errors_halve_when_the_grid_doubles(name):
    options = {"sharpness": "hard", "lipschitz": TARGET.slope, "effort": PROVED}
    errors = [af.measure(SMALL[name](n, **options), points=8000).sup for n in (6, 12, 24)]
    assert np.polyfit(np.log([6, 12, 24]), np.log(errors), 1)[0] == pytest.approx(-1.0, abs=0.12)


@pytest.mark.parametrize("name", SMALL)
def test_building_twice_gives_the_same_bytes_and_loading_the_same_numbers(name, tmp_path):
    first, second = (SMALL[name](lipschitz=TARGET.slope) for _ in range(2))
    first.save(tmp_path / "first")
    second.save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    again = af.load(tmp_path / "first")
    assert again.certificate == first.certificate
    points = np.random.default_rng(0).uniform(first.domain.lower, first.domain.upper, (20, *first.domain.shape))
    assert np.array_equal(again.at_points(points), first.at_points(points))


@pytest.mark.parametrize("name", SMALL)
def test_without_a_constant_there_is_no_bound(name):
    certificate = SMALL[name](effort="low").certificate
    assert (certificate.status, certificate.bound) == ("sampled", None)
    assert certificate.estimate.error > 0


@pytest.mark.parametrize("name", SMALL)
def test_a_constant_too_small_makes_the_law_fail(name):
    """The mutation of soundness: with a tenth of the true slope the bound is exceeded, and the constant is refuted."""
    with pytest.raises(af.TargetError, match=r"must be Lipschitz with constant .* above bound"):
        SMALL[name](sharpness="hard", lipschitz=TARGET.slope / 10)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("n", [0, 10**5, 10**9])
def test_senseless_and_absurd_grids_are_refused(name, n):
    with pytest.raises(af.RefusalError):
        SMALL[name](n, lipschitz=TARGET.slope)
