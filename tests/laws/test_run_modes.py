"""However torch is made to run a module, the error stays inside the bound of its dtype, or a warning says it may not.

Networks of every kind, in every dtype in which something is proved of them, times derivatives, transforms, casts,
settings of the process and hooks. ``ATTNFORGE_EXAMPLES`` sets the points of each, and where it is set
graphs are captured of every network.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from tests.laws.cases import DTYPES
from tests.laws.run_modes import GRAPHS, LOOPS, MODES, REDUCED, Mode
from tests.laws.run_subjects import NETWORKS, Subject, subject

WHOLE = "ATTNFORGE_EXAMPLES" in os.environ
EVERY = [(name, dtype) for name in NETWORKS for dtype in DTYPES]
CAPTURED = EVERY if WHOLE else [("row of 200", "float16"), ("row of 84", "float32"), ("least squares", "float64")]
BUILT = EVERY if WHOLE else [("row of 84", "float16")]
LOOPED = ("fine grid", "windows", "truncated, window")
UNCOVERED = "no certificate covers"


def excesses(name: str, modes: Mapping[str, Mode], dtypes: Iterable[str] = DTYPES) -> list[str]:
    """Where a run of a network is further off than proved without saying so, or says so without need or not at all."""
    found = []
    for dtype in dtypes:
        net = subject(name, dtype)
        for mode in modes if net is not None else ():
            said, over = _run(net, modes[mode])
            wanted = dtype == "float32" and mode in REDUCED
            if said != wanted or (over > 0 and not said):
                found.append(f"{name}, {dtype}, {mode}: {over:.3g} beyond the bound, warned: {said}")
    return found


def _run(net: Subject, mode: Mode) -> tuple[bool, float]:
    """Whether a run warns, and by how much it is further off than proved; inputs stay as they are."""
    before = [each.clone() for each in net.inputs]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        over = max((some.excess(values) for some, values in mode(net, net.make())), default=-float("inf"))
    assert all(torch.equal(one, other) for one, other in zip(before, net.inputs, strict=True))
    return any(UNCOVERED in str(each.message) for each in caught), over


@pytest.mark.parametrize("name", NETWORKS)
def test_every_run_stays_inside_its_bound(name):
    assert excesses(name, MODES) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), CAPTURED)
def test_every_captured_graph_stays_inside_its_bound(name, dtype):
    modes = ("traced", "compiled by eager", "compiled by aot_eager", "attention by math in half types, compiled")
    assert excesses(name, {mode: GRAPHS[mode] for mode in modes}, [dtype]) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), BUILT)
def test_every_compiled_graph_stays_inside_its_bound(name, dtype):
    assert excesses(name, {"compiled by inductor": GRAPHS["compiled by inductor"]}, [dtype]) == []


@pytest.mark.parametrize("name", LOOPED)
def test_compiled_loops_stay_inside_their_bounds(name):
    assert excesses(name, LOOPS, ["float64", "float32"]) == []


def test_most_networks_are_there_in_every_dtype():
    there = [(name, dtype) for name in NETWORKS for dtype in DTYPES if subject(name, dtype) is not None]
    assert len({name for name, _ in there}) >= 40
    assert all(sum(dtype == own for _, own in there) >= 40 for dtype in DTYPES)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_states_and_patterns_warn_of_products_in_fewer_bits(precision):
    net = subject("least squares", "float32")
    prompted = net.make()
    tokens = prompted.tokens(*net.inputs)
    torch.set_float32_matmul_precision(precision)
    try:
        for run in (lambda: prompted.trajectory(*net.inputs), lambda: prompted.core.attention(tokens)):
            with pytest.warns(UserWarning, match=UNCOVERED):
                run()
    finally:
        torch.set_float32_matmul_precision("highest")


def _same(given: Any) -> Any:
    return given


def _never(*_: Any) -> bool:
    return False


def _unchanged(_: torch.device) -> Any:
    return nullcontext()


# what makes the arithmetic another one, where, and the runs that must show it
WRONG: dict[str, tuple[str, str, Callable[..., Any], str, str, tuple[str, ...]]] = {
    "softmax in the half type forwards": (
        "dense", "wide", _same, "row of 200", "float16", ("jvp", "vmap of jvp", "jvp of vmap"),
    ),
    "attention in the half type": (
        "dense", "halves_stay_halves", _never, "row of 200", "float16", ("attention by math in half types",),
    ),
    "autocast around products": (
        "module", "as_written", _unchanged, "row of 200", "float32", ("autocast to bfloat16", "autocast to float16"),
    ),
    "nothing said of fewer bits": (
        "arithmetic", "reduced_precision", lambda _: None, "gate", "float32", REDUCED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", WRONG)
def test_another_arithmetic_is_noticed(change, monkeypatch):
    where, name, wrong, network, dtype, modes = WRONG[change]
    chosen = {mode: MODES[mode] for mode in modes}
    assert excesses(network, chosen, [dtype]) == []
    monkeypatch.setattr(f"attnforge.runtime.{where}.{name}", wrong)
    assert len(excesses(network, chosen, [dtype])) == len(modes)
