"""No test reads a clock, or waits for seconds: it would fail beside other work, and pass where it should not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import DECIDING

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "attnforge"

CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time", "sleep"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS - {"sleep"}}
MODULES = {"time", "timeit"}
PAUSES = {"sleep", "wait_for_timeout"}  # of whatever module or object
LIMITS = {"timeout", "seconds"}
# What ends at an event: its `timeout` is there only so that nothing hangs. The last one writes it into a file.
WAITS = {"run", "communicate", "Client", "wait_for_workers", "get", "result", "NotebookClient", "vnnlib"}

RECORDING = ("cli.bench", "experiments.", "web.worker")  # where seconds are written down, or progress is told
WRITTEN_DOWN = TESTS / "catalogue.py"  # what building took, which no test compares


def complaints(text: str) -> Iterator[str]:
    """What a test's source does with a clock, by line."""
    tree = ast.parse(text)
    has_clock = any("clock" in names(node) for node in ast.walk(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Import() if {alias.name for alias in node.names} & MODULES:
                yield f"{node.lineno}: imports a clock"
            case ast.ImportFrom(module=module) if module in MODULES:
                yield f"{node.lineno}: imports a clock"
            case ast.Attribute(value=ast.Attribute(attr="time"), attr=attr) if attr in CLOCKS:
                yield f"{node.lineno}: reads or replaces everybody's clock"
            case ast.Call() if called(node) in PAUSES and not is_zero(node.args):
                yield f"{node.lineno}: waits for seconds"
            case ast.Call() if limited(node) and called(node) not in WAITS and not has_clock:
                yield f"{node.lineno}: has a limit of seconds and no `clock` of the tests"


def names(node: ast.AST) -> set[str]:
    """The fixtures that a function asks for."""
    return {argument.arg for argument in node.args.args} if isinstance(node, ast.FunctionDef) else set()


def called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def limited(call: ast.Call) -> bool:
    """Whether a number of seconds is given, or something that may be one."""
    given = [each.value for each in call.keywords if each.arg in LIMITS]
    return any(not isinstance(each, ast.Constant) or isinstance(each.value, int | float) for each in given)


def is_zero(given: list[ast.expr]) -> bool:
    """Whether others are only let go first."""
    return [each.value for each in given if isinstance(each, ast.Constant)] == [0]


def test_no_test_reads_a_clock():
    read = {path: list(complaints(path.read_text("utf-8"))) for path in sorted(TESTS.rglob("*.py"))}
    assert [path.relative_to(TESTS) for path, each in read.items() if each] == [WRITTEN_DOWN.relative_to(TESTS)]


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import os, time as t",
        "from time import perf_counter as now",
        "evaluation.time.perf_counter()",
        "patch.setattr(evaluation.time.sleep)",
        "asyncio.sleep(0.3)",
        "page.wait_for_timeout(500)",
        "af.compile('x', timeout=0.5)",
        "af.attack(net, seconds=limit)",
        "def test(tmp_path): af.certify(net, timeout=1)",
    ],
)
def test_clocks_are_seen(text):
    assert len(list(complaints(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "asyncio.sleep(0)",
        "subprocess.run(command, timeout=60)",
        "af.attack(net, seconds=None)",
        "af.attack(net, seconds='a')",
        "def test(clock): af.certify(net, timeout=1)",
    ],
)
def test_what_hangs_on_no_clock_passes(text):
    assert list(complaints(text)) == []


def test_tests_can_replace_every_clock_that_decides():
    read = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if any("imports" in each for each in complaints(path.read_text("utf-8")))
    }
    assert {name for name in read if not name.startswith(RECORDING)} == set(DECIDING)
