"""What tests have instead of a clock: one that they move by hand, and limits that are counted in calls.

A test that reads the machine's clock fails beside other work; ``tests/test_no_clock.py`` refuses one.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

DECIDING = (  # the modules of the package in which a clock decides what is done
    "effort",
    "outward.branch_and_bound",
    "certification.enclosure.cost",
    "compiler.page.cost",
    "measurement.judge",
    "measurement.pace",
    "plot.sampling",
    "targets.evaluation",
    "targets.function",
)


class Clock:
    """It stands still until a test lets time pass; with a ``tick``, so many seconds pass at every look."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick, self.looks = 0.0, tick, 0

    def look(self) -> float:
        """The time, in seconds."""
        self.looks += 1
        self.now += self.tick
        return self.now

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def install(self, patch: pytest.MonkeyPatch, *modules: str) -> None:
        """Let these modules of the package, or all in which a clock decides, look at this one."""
        time = types.SimpleNamespace(monotonic=self.look, perf_counter=self.look, process_time=self.look)
        for module in modules or DECIDING:
            patch.setattr(importlib.import_module(f"attnforge.{module}"), "time", time)


class TooManyCallsError(AssertionError):
    """More work than was allowed."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail at the first call of a function, in Python or C, beyond so many: the same on every machine, and no hang.

    A single call into C that takes for ever is not interrupted; nor does it end, which is seen, too.
    """
    count = 0

    def counted(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > calls:
            raise TooManyCallsError(f"more than {calls:,} calls")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        yield
    finally:
        sys.setprofile(before)
    if count > calls:  # and somebody kept quiet about it
        raise TooManyCallsError(f"more than {calls:,} calls")
