"""compile: forms it recognises, what it chooses and says of it, limits, and refusals with their reasons."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
import sympy

import attnforge as af
from tests.refusals import refused

LINE, SQUARE = {"x": (-1, 1)}, {"x": (-1, 1), "y": (0, 2)}


def test_two_inputs_in_the_order_of_the_domain():
    text, point = "clamp(2*x + 0.3*y - 1, -1, 1)", np.array([0.75, -1.0])
    first = af.compile(text, {"x": (-1, 1), "y": (-3, 3)}, 1e-6)
    second = af.compile(text, {"y": (-3, 3), "x": (-1, 1)}, 1e-6)
    for found in (first(point), second(point[::-1]), first(x=0.75, y=-1.0), second(x=0.75, y=-1.0)):
        assert found == pytest.approx(0.2, abs=1e-6)
    assert first.target.names == ("x", "y")


@pytest.mark.parametrize(
    ("text", "domain", "point"),
    [
        ("clamp(2*x[0] + 0.3*x[1] - 1, -1, 1)", [(-1, 1), (-3, 3)], [0.75, -1.0]),
        ("clamp(2*x[0] + 0.3*x[1] - 1, -1, 1)", af.Box([-1, -3], [1, 3]), [0.75, -1.0]),
        *(("clamp(2*x - 1/2, -1, 1)", domain, 0.35) for domain in ([(-1, 1)], af.Box(-1, 1), af.Box([-1], [1]), LINE)),
    ],
)
def test_inputs_need_no_names(text, domain, point):
    assert af.compile(text, domain, 1e-6)(np.array(point)) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "domain", "taken"),
    [
        ("clamp(x, -1/2, 1/2)", LINE, "gate"),
        ("max(x, 1 - y)", SQUARE, "relu_network"),
        ("sin(x + 2*y)", SQUARE, "ridge"),
        ("sin(5*x) + exp(y)", SQUARE, "additive"),
        ("x^3 - x", LINE, "polynomial"),
        ("sin(8*x)", LINE, "tensor_grid"),
        ("x*y", SQUARE, "graph"),
    ],
)
def test_what_is_taken_and_its_reason_survives_a_file(text, domain, taken, tmp_path):
    net = af.compile(text, domain, 1e-6)
    assert net.construction == taken
    assert net.certificate.estimate.error <= 1e-6
    assert len(net.reason) > 20
    assert net.reason in net.report()
    net.save(tmp_path / "net")
    assert af.load(tmp_path / "net").reason == net.reason


def test_callables_are_sampled_or_with_a_lipschitz_constant_bounded():
    net = af.compile(lambda x: np.sin(8 * x), LINE, 1e-6)
    assert (net.construction, net.certificate.status, net.certificate.bound) == ("tensor_grid", "sampled", None)
    given = af.compile(lambda x: np.sin(3 * x), LINE, 2e-2, lipschitz=3.0)
    assert (given.construction, given.certificate.status) == ("max_affine", "conditional")
    assert given.certificate.bound <= 2e-2


def test_what_hard_selection_would_need_follows_from_slope_and_tol():
    """A slope of 8 on an interval of length 2 takes 2 * 8 / (2 tol) cells."""
    assert "sampled values would need about 8e+04 anchors hard" in af.compile("sin(8*x)", LINE, 1e-4).reason


def test_a_refusal_lists_every_construction():
    noise = np.random.default_rng(0)
    with refused(af.RefusalError) as caught:
        af.compile(lambda x: noise.normal(size=x.shape), LINE, 1e-6)
    names = {*af.constructions.__all__} - {"cross_attention"}
    assert {name for name in names if not re.search(rf"\b{name}\b", str(caught.value))} == set()
    assert "table: the target is not a table" in str(caught.value)  # and auto samples none


# Targets


TARGETS = {
    "text": ("x + y", None),
    "text of two": ("[x + y, x*y]", 2),
    "a list": (["x + y", "x*y"], 2),
    "a list with sympy": (["x + y", sympy.Symbol("x") * 2], 2),
    "one in brackets": (" [x] ", 1),
    "steps before two": ("t = sin(x); [t, t*y]", 2),
    "a traced function": (af.formula(lambda x, y: np.sin(x) * y), None),
    "two traced": (af.formula(lambda y, x: (x, y)), 2),
    "a callable": (lambda x: x[..., 0] * x[..., 1], None),
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets_of_every_kind(name):
    target, outputs = TARGETS[name]
    net = af.compile(target, SQUARE, 1e-2, effort="low")
    assert net.target.outputs == outputs
    assert net.certificate.status == ("sampled" if name == "a callable" else "proved")
    assert np.shape(net(x=0.5, y=0.5)) == (() if outputs is None else (outputs,))


def test_axes_follow_the_names_of_a_traced_function():
    net = af.compile(af.formula(lambda y, x: y - x), SQUARE)
    assert net.target.names == ("y", "x")
    assert net(np.array([2.0, 1.0])) == pytest.approx(1.0)
    assert af.compile(af.formula(lambda x: np.sin(3 * x)), LINE, 1e-2).target.describe() == "sin(3*x)"


def test_affine_formulas_need_no_attention():
    net = af.compile(["x", "2*x + y"], SQUARE)
    assert (net.heads, net.certificate.status) == (0, "proved")
    assert np.abs(net(x=0.3, y=0.2) - [0.3, 0.8]).max() <= net.certificate.bound < 1e-14


FORMULAS = [
    ("sinc(2*x)", {"x": (-3.0, 3.0)}, 1e-3),
    ("besselj0(2*x) - besselj1(x)", {"x": (-3.0, 3.0)}, 1e-3),
    ("erfc(x) + normcdf(-x)", {"x": (-3.0, 3.0)}, 1e-3),
    ("lgamma(x)", {"x": (-0.8, -0.2)}, 1e-3),
    ("where(x < 0, exp(x) - 1, x)", {"x": (-3.0, 3.0)}, 1e-2),
    ("where(x > 1, log(x), x - 1)", {"x": (-3.0, 3.0)}, 1e-2),  # without a value where it is not chosen
    ("where(x[0] < x[1], 2*x[1] - x[0], x[0])", {"x[0]": (-1, 1), "x[1]": (-1, 1)}, 1e-9),
    ("mean(cos(2*pi*x))", {"x[0]": (-1, 1), "x[1]": (-1, 1)}, 1e-2),
    ("norm(x)", {"x[0]": (-1, 1), "x[1]": (-1, 1)}, 0.05),
]


@pytest.mark.parametrize(("text", "domain", "tol"), FORMULAS, ids=[each[0] for each in FORMULAS])
def test_functions_of_the_language_are_proved_and_confirmed(text, domain, tol, tmp_path):
    net = af.compile(text, domain, tol, require="proved")
    points = np.random.default_rng(0).uniform(*np.array(list(domain.values())).T, size=(500, len(domain)))
    errors = np.abs(net(points).reshape(-1) - net.target.accurate(points).astype(np.float64))
    assert errors.max() <= net.certificate.bound <= tol
    if len(domain) == 1:  # in the plane it may take minutes
        net.save(tmp_path / "net")
        assert af.check(tmp_path / "net").verdict == "confirmed"


# Refusals


REFUSED = {
    "no domain": (af.DomainError, ("clamp(x, -1, 1)", None)),
    "another name": (af.TargetError, ("clamp(x, -1, 1)", {"y": (-1, 1)})),
    "names for numbers": (af.TargetError, ("clamp(x + y, -1, 1)", [(-1, 1), (-1, 1)])),
    "exchanged ends": (af.DomainError, ("clamp(x, -1, 1)", {"x": (1, -1)})),
    "an end at infinity": (af.DomainError, ("clamp(x, -1, 1)", {"x": (-1, float("inf"))})),
    "an end alone": (af.DomainError, ("clamp(x, -1, 1)", {"x": 3})),
    "a number for a domain": (af.DomainError, ("clamp(x, -1, 1)", 7)),
    "sides that cannot be divided by": (af.DomainError, ("x", {"x": (1e-310, 3e-310)}, 1e-3)),
    "sides that overflow": (af.DomainError, ("x", {"x": (-1e308, 1e308)}, 1e-3)),
    "half a formula": (af.TargetError, ("clamp(x, -1,", LINE)),
    "a pole": (af.TargetError, ("1/x", LINE)),
    "a jump": (af.TargetError, ("floor(2*x) + x", {"x": (-3, 3)}, 1e-2)),
    "a number": (af.TargetError, (3, SQUARE)),
    "nothing": (af.TargetError, ([], SQUARE)),
    "a number in a list": (af.TargetError, (["x", 3], SQUARE)),
    "a list in a list": (af.TargetError, (["[x, y]", "x"], SQUARE)),
    "a comma": (af.TargetError, (["x, y"], SQUARE)),
    "another name in a list": (af.TargetError, (["x", "z"], SQUARE)),
    "names of a traced function": (af.DomainError, (af.formula(lambda a, b: a), SQUARE)),
    "a traced function without a domain": (af.DomainError, (af.formula(lambda x: x),)),
    "a traced function that is another": (
        af.TargetError, (af.formula(lambda x: x if isinstance(x, float) else 2 * x), {"x": (0.5, 1)}),
    ),
    "a slope steeper than stated": (af.TargetError, (lambda x: np.sin(40 * x), LINE, 0.05, {"lipschitz": 1.0})),
    **{f"tol={tol!r}": (af.ToleranceError, ("x", LINE, tol)) for tol in (0, -1e-3, np.nan, np.inf, "a", None, [1e-3])},
    "another norm": (af.ToleranceError, ("x", LINE, {"norm": "L2"})),
    "another dtype": (af.RefusalError, ("x", LINE, {"dtype": "float128"})),
    "another construction": (af.RefusalError, ("x", LINE, {"construction": "magic"})),
    "a sine by a gate": (af.RefusalError, ("sin(8*x)", LINE, {"construction": "gate"})),
    "more than bfloat16 holds": (af.RefusalError, ("clamp(1e3*x, -1000, 1000)", LINE, 1e-9, {"dtype": "bfloat16"})),
    "few anchors": (af.RefusalError, ("abs(x)", LINE, 1e-2, {"construction": "max_affine", "max_anchors": 5})),
    "few bytes": (af.RefusalError, ("abs(x)", LINE, 1e-3, {"construction": "max_affine", "max_bytes": 1000})),
    **{
        f"{name}={value!r}": (af.AttnforgeError, ("sin(x)", LINE, {name: value}))
        for name, value in [
            ("dtype", 3), ("construction", None), ("norm", 2), ("effort", 3), ("timeout", "a"), ("workers", "a"),
            ("workers", 1.5), ("max_anchors", "a"), ("max_bytes", "a"), ("require", 3), ("require", "certain"),
            ("polish", "values"), ("polish", 3), ("tokens", "a"),
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused(what):
    kind, (*given, last) = REFUSED[what]
    options = last if isinstance(last, dict) and len(given) > 1 else {}
    with refused(kind) as caught:
        af.compile(*given, *(() if options else (last,)), **options)
    if what.partition("=")[0] in ("tol", *options):
        assert f"`{what.partition('=')[0]}`" in str(caught.value)  # told by its name


def clamp(tol, name):
    return af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, tol, construction=name)


MAKE = af.constructions
ABSURD = {
    "anchors": lambda: MAKE.truncated_linear([1.0], 0.0, -1, 1, anchors=10**12),
    "anchors beyond floats": lambda: MAKE.truncated_linear([1.0], 0.0, -1, 1, anchors=10**400),
    "tokens": lambda: MAKE.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=10**12, heads=4),
    "heads": lambda: MAKE.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=10**12),
    "sentinels": lambda: MAKE.multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=10**7, heads=2, sentinels=10**6),
    "tolerance": lambda: clamp(1e-200, "truncated_linear"),
    "cells": lambda: af.compile(
        lambda x: x.sum(axis=-1), af.Box(0, 1, shape=(6,)), 1e-2, lipschitz=6.0, construction="max_affine"
    ),
}


@pytest.mark.parametrize("what", ABSURD)
def test_absurd_sizes_are_refused_before_memory_is_spent(what):
    tracemalloc.start()
    with refused():
        ABSURD[what]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20
