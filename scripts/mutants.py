"""Which small changes of the code that is trusted do the tests notice?

``sample`` draws changes (mutants) by a seed: an operator, a comparison, a number, a condition exchanged in a function
of the chosen folders. ``run`` copies the checkout, runs the suite once with a probe before every changed statement,
which writes down the tests that enter it, and then applies one change after another: the tests that enter it run, the
quickest first, until one fails. ``compare`` reads two results of the same sample.

    python -m scripts.mutants run before.json --count 150 --seed 1 --workers 2
    python -m scripts.mutants run after.json --after before.json
    python -m scripts.mutants compare before.json after.json
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
FOLDERS = ("attnforge/outward", "attnforge/kernel", "attnforge/certification")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".attnforge-catalogue", "__pycache__", "dist", "site")
LIMIT = 120  # seconds of the processor for the tests of one mutant
FIRST = (1, 12, 60, 240)  # tests of the first rounds; what is left is the last one
OK, NONE = 0, 5  # exit codes of pytest: all passed, none were collected
PROBE = "mutant_probe"

BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor",
         "minimum": "maximum", "maximum": "minimum", "lower": "upper", "upper": "lower"}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: a file, the text that is replaced (by places in bytes), the statement before which a probe stands."""

    path: str
    line: int
    start: int
    end: int
    text: str
    replacement: str
    statement: int


UNCHANGED = Mutant("attnforge/__init__.py", 1, 0, 0, "", "", 1)
PLAIN = ["tests/outward"]  # tests that survive no change at all


@dataclass
class Outcome:
    """What became of a mutant: killed by a test, survived, out of time, or never entered."""

    verdict: str
    test: str = ""
    entered_by: int = 0
    seconds: float = 0.0


@dataclass
class Result:
    """All that a run writes down."""

    seed: int
    mutants: list[Mutant] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


# Which changes there are


def changed(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that may stand in the place of one."""
    other = copy.deepcopy(node)
    match other:
        case ast.BinOp() if type(other.op) in BINARY:
            other.op = BINARY[type(other.op)]()
            yield other
        case ast.Compare() if type(other.ops[0]) in COMPARED:
            other.ops[0] = COMPARED[type(other.ops[0])]()
            yield other
        case ast.BoolOp():
            other.op = ast.Or() if isinstance(other.op, ast.And) else ast.And()
            yield other
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield other.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not other.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(
                other.value + 1 if isinstance(other.value, int) else 2 * other.value + (other.value == 0)
            )
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            other.func = ast.Name(NAMES[name], ast.Load())
            yield other
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            other.func.attr = NAMES[name]
            yield other


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file's functions; annotations, docstrings, defaults and texts are left as they are."""
    source = path.read_text("utf-8")
    starts = [0]
    for row in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(row.encode()))
    raw = source.encode()
    for statement, node in _expressions(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        for other in changed(node):
            yield Mutant(
                path.relative_to(CHECKOUT).as_posix(), node.lineno, begin, end, raw[begin:end].decode(),
                f"({ast.unparse(other)})", statement,
            )  # fmt: skip


def _expressions(tree: ast.Module) -> Iterator[tuple[int, Any]]:
    """Every expression that a function evaluates, with the line of the statement it belongs to."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in _statements(function.body):
                for child in _own(statement):
                    yield from ((statement.lineno, each) for each in _within(child))


def _is_definition(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body and of the blocks in it, but for functions inside, which are visited on their own."""
    for statement in body:
        if _is_definition(statement):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []))
        for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _statements(part.body)


def _own(statement: ast.stmt) -> Iterator[ast.expr]:
    """Expressions of a statement itself, not of the blocks in it."""
    for name, value in ast.iter_fields(statement):
        if name != "annotation":
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.expr))


def _within(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return
    if isinstance(node, ast.expr):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _within(child)


def sample(count: int, seed: int, folders: tuple[str, ...] = FOLDERS) -> list[Mutant]:
    """So many mutants of the folders, at most one a statement, in the order of files and lines."""
    paths = sorted(path for folder in folders for path in (CHECKOUT / folder).rglob("*.py"))
    every = [mutant for path in paths for mutant in mutants_of(path)]
    random.Random(seed).shuffle(every)
    chosen = {(each.path, each.statement): each for each in reversed(every)}
    first = [each for each in every if chosen[each.path, each.statement] is each][:count]
    return sorted(first, key=lambda each: (each.path, each.start))


# Which tests enter them

PROBE_TEXT = '''
import os, pathlib
FOLDER, NOW = pathlib.Path({folder!r}), "PYTEST_CURRENT_TEST"
seen = set()

def write(name, *row):
    if row not in seen:
        seen.add(row)
        with open(FOLDER / f"{{name}}.{{os.getpid()}}", "a") as file:
            file.write("\\t".join(map(str, row)) + "\\n")

def test():
    return os.environ.get(NOW, "").rpartition(" (")[0]

def hit(number):
    if test():
        write("hits", number, test())

def pytest_configure():
    """Who asks for a network of the catalogue enters what builds it, though another test may have built it."""
    from tests import catalogue
    built, build = catalogue.built, catalogue._build
    def asked(name, dtype=None):
        if test():
            write("uses", "entry:" + name + "|" + (dtype or catalogue.ENTRIES[name].dtypes[0]), test())
        return built(name, dtype)
    def made(entry, dtype):
        before = os.environ.get(NOW)
        os.environ[NOW] = "entry:" + entry.name + "|" + dtype + " (call)"
        try:
            return build(entry, dtype)
        finally:
            os.environ.pop(NOW) if before is None else os.environ.update({{NOW: before}})
    catalogue.built, catalogue._build = asked, made

def pytest_runtest_logreport(report):
    if report.when == "call" and not os.environ.get("PYTEST_XDIST_WORKER"):
        write("durations", report.duration, report.nodeid, report.outcome)
'''


def reach(chosen: list[Mutant], folder: Path, slow: bool) -> tuple[list[list[str]], dict[str, float]]:
    """The tests that enter the statement of every mutant, and how long each test takes; failing ones are left out."""
    work = folder / "probed"
    shutil.copytree(CHECKOUT, work, ignore=LEFT_OUT)
    (work / f"{PROBE}.py").write_text(PROBE_TEXT.format(folder=str(folder)))
    for path in sorted({each.path for each in chosen}):
        lines = {each.statement: number for number, each in enumerate(chosen) if each.path == path}
        tree = ast.parse((work / path).read_text("utf-8"))
        _Probing(lines).visit(tree)
        (work / path).write_text(ast.unparse(ast.fix_missing_locations(tree)), "utf-8")
    spread = ["-n", "auto", "--dist", "worksteal"]
    some = [] if slow else ["-m", "not slow"]
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=600", "-p", PROBE, *spread, *some]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(work)}
    subprocess.run(command, cwd=work, env=surroundings, stdout=(folder / "suite.log").open("w"), check=False)
    durations = {test: float(seconds) for seconds, test, outcome in _rows(folder, "durations") if outcome == "passed"}
    askers = defaultdict(set)
    for entry, test in _rows(folder, "uses"):
        askers[entry].add(test)
    entered: list[set[str]] = [set() for _ in chosen]
    for number, test in _rows(folder, "hits"):
        entered[int(number)] |= askers.get(test, {test})
    shutil.rmtree(work)
    if not durations:
        raise SystemExit((folder / "suite.log").read_text("utf-8")[-2000:])
    print(f"{len(durations)} tests in {sum(durations.values()):.0f} s", flush=True)
    return [sorted(tests & durations.keys(), key=durations.__getitem__) for tests in entered], durations


def _rows(folder: Path, name: str) -> Iterator[list[str]]:
    for path in folder.glob(f"{name}.*"):
        yield from (row.split("\t") for row in path.read_text("utf-8").splitlines())


class _Probing(ast.NodeTransformer):
    """Puts a probe before the statements of these lines."""

    def __init__(self, lines: dict[int, int]) -> None:
        self.lines = lines

    def visit(self, node: ast.AST) -> Any:
        found = super().visit(node)
        if (
            isinstance(node, ast.stmt)
            and node.lineno in self.lines
            and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        ):
            number = self.lines[node.lineno]
            return [*ast.parse(f"__import__({PROBE!r}).hit({number})").body, found]
        return found


# What becomes of them

SERVER = """
import json, os, resource, sys
import flint, hypothesis, joblib, matplotlib.pyplot, mpmath, numpy, pytest, rich, scipy.interpolate, scipy.linalg
import scipy.optimize, torch
for line in sys.stdin:
    seconds, tests = json.loads(line)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        class Failed:
            test = ""
            def pytest_runtest_logreport(self, report):
                if report.failed:
                    self.test = self.test or report.nodeid
            pytest_collectreport = pytest_runtest_logreport
        failed = Failed()
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0"]
        code = pytest.main([*options, *tests], plugins=[failed])
        with open("outcome", "w") as file:
            json.dump([int(code), failed.test], file)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime]), flush=True)
"""


class Worker:
    """A copy of the checkout, and a process that has imported the libraries and forks for every round of tests.

    Seconds are those of the processor: other work beside it makes no mutant late.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(CHECKOUT, folder, ignore=LEFT_OUT)
        surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONPATH": str(folder)}
        self.server: Any = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            cwd=folder,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def outcome(self, mutant: Mutant, tests: list[str]) -> Outcome:
        """Apply it, run the tests round by round, and take it back."""
        path = self.folder / mutant.path
        before = path.read_bytes()
        path.write_bytes(before[: mutant.start] + mutant.replacement.encode() + before[mutant.end :])
        verdict, test, spent = "survived" if tests else "never entered", "", 0.0
        try:
            for each in rounds(tests):
                failed, test, seconds = self._run(each, LIMIT - spent)
                spent += seconds
                if failed:
                    verdict = "killed"
                elif spent >= LIMIT - 1:
                    verdict = "out of time"
                if verdict != "survived":
                    break
        finally:
            path.write_bytes(before)
            shutil.rmtree(self.folder / ".attnforge-catalogue", ignore_errors=True)
        return Outcome(verdict, test, len(tests), round(spent, 1))

    def _run(self, tests: list[str], seconds: float) -> tuple[bool, str, float]:
        """Whether one failed, which, and the seconds it took; where pytest could not run any, that is an error."""
        (self.folder / "outcome").unlink(missing_ok=True)
        self.server.stdin.write(json.dumps([max(1, round(seconds)), tests]) + "\n")
        self.server.stdin.flush()
        signal, spent = json.loads(self.server.stdout.readline())
        if (self.folder / "outcome").exists():
            code, test = json.loads((self.folder / "outcome").read_text())
            if code not in (OK, NONE) and not test:
                raise SystemExit(
                    f"pytest must run the tests. Got its exit code {code} for {tests[:3]}. Run them by hand."
                )
            return bool(test), test, spent
        return spent < seconds - 1 and signal != 0, "the process itself", spent

    def close(self) -> None:
        """End the process."""
        self.server.stdin.close()
        self.server.wait()


def rounds(tests: list[str]) -> Iterator[list[str]]:
    """The tests in growing parts: most mutants are killed by the first."""
    start = 0
    for count in (*FIRST, len(tests)):
        if tests[start : start + count]:
            yield tests[start : start + count]
        start += count


def run(count: int, seed: int, workers: int, slow: bool, before: dict[str, Any] | None, reached: Path | None) -> Result:
    """Sample, probe, mutate; of an earlier run of the same sample, the test that failed is tried first."""
    chosen = sample(count, seed)
    if before is not None and before["mutants"] != [asdict(each) for each in chosen]:
        raise SystemExit("The earlier run must be of the same mutants. Got other ones. Give the same count and seed.")
    earlier = [""] * len(chosen) if before is None else [each["test"] for each in before["outcomes"]]
    with tempfile.TemporaryDirectory(prefix="mutants.") as name:
        folder = Path(name)
        if reached and reached.exists():
            entered = json.loads(reached.read_text("utf-8"))
        else:
            entered, _ = reach(chosen, folder, slow)
            if reached:
                reached.write_text(json.dumps(entered, ensure_ascii=False), "utf-8")
        idle: SimpleQueue[Worker] = SimpleQueue()
        everyone = [Worker(folder / f"worker{number}") for number in range(workers)]
        for each in everyone:
            idle.put(each)
        if everyone[0].outcome(UNCHANGED, PLAIN).verdict != "survived":
            raise SystemExit(f"Tests must pass without a change. Got a failure in {PLAIN}. Mend them first.")

        def judged(given: tuple[Mutant, list[str], str]) -> Outcome:
            mutant, tests, first = given
            worker = idle.get()
            try:
                found = worker.outcome(mutant, sorted(tests, key=lambda test: test != first))
            finally:
                idle.put(worker)
            print(f"{found.verdict:13} {found.seconds:5.0f} s  {mutant.path}:{mutant.line}  {mutant.text!r} -> "
                  f"{mutant.replacement!r}  {found.test}", flush=True)  # fmt: skip
            return found

        with ThreadPoolExecutor(workers) as pool:
            outcomes = list(pool.map(judged, zip(chosen, entered, earlier, strict=True)))
        for each in everyone:
            each.close()
    return Result(seed, chosen, outcomes)


def compared(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """What is killed in one and not in the other, and both counts."""
    if before["mutants"] != after["mutants"]:
        raise SystemExit("The results must be of the same mutants. Got two samples. Run both with one seed and code.")
    for mutant, was, now in zip(before["mutants"], before["outcomes"], after["outcomes"], strict=True):
        if was["verdict"] != now["verdict"]:
            where = f"{mutant['path']}:{mutant['line']} {mutant['text']!r} -> {mutant['replacement']!r}"
            yield f"{was['verdict']} -> {now['verdict']}: {where} ({was['test'] or now['test']})"
    for name, each in (("before", before), ("after", after)):
        yield f"{name}: {dict(Counter(outcome['verdict'] for outcome in each['outcomes']))}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    running = verbs.add_parser("run", help="sample, probe, mutate; write what became of every mutant")
    running.add_argument("path", type=Path)
    running.add_argument("--count", type=int, default=150)
    running.add_argument("--seed", type=int, default=1)
    running.add_argument("--workers", type=int, default=2)
    running.add_argument("--after", type=Path, help="an earlier run, whose failing tests are tried first")
    running.add_argument("--reach", type=Path, help="a file for the tests that enter each mutant: read if it is there")
    running.add_argument("--slow", action="store_true", help="with the tests that ./test leaves to ./test --all")
    comparing = verbs.add_parser("compare", help="what one run killed and the other did not")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.verb == "run":
        before = json.loads(given.after.read_text("utf-8")) if given.after else None
        found = run(given.count, given.seed, given.workers, given.slow, before, given.reach)
        given.path.write_text(json.dumps(asdict(found), indent=1, ensure_ascii=False), "utf-8")
        print(dict(Counter(each.verdict for each in found.outcomes)))
    else:
        print("\n".join(compared(*(json.loads(path.read_text("utf-8")) for path in (given.before, given.after)))))


if __name__ == "__main__":
    main()
