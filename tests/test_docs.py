"""The documentation leads somewhere and runs: its links, its blocks of Python, its lines for the shell."""

import ast
import doctest
import io
import re
import shlex
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from attnforge.cli import app
from scripts.documentation.fences import FENCE, Block, blocks

CHECKOUT = Path(__file__).resolve().parents[1]
GUIDE = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
PAGES = [*GUIDE, *sorted((CHECKOUT / "experiments/results").glob("**/*.md"))]

PYTHON = [page for page in GUIDE if any(block.language == "python" for block in blocks(page.read_text("utf-8")))]
SHELL = [page for page in GUIDE if any(block.language == "console" for block in blocks(page.read_text("utf-8")))]
SHOWN = {"text", "bibtex", ""}  # what is printed, or quoted

LONG = ("docs/explorer.md", "docs/in-context.md", "docs/limits.md", "docs/scaling.md")  # the gate leaves them to --all

COMMANDS = ("./run", "attnforge", "python -m attnforge")
SCHEDULER = "tcp://127.0.0.1:8786"
EXPECTED = re.compile(r"# -> (.*)")


def name(page: Path) -> str:
    return page.relative_to(CHECKOUT).as_posix()


def cases(pages: list[Path]) -> list[Any]:
    """Pages as parameters of a test that runs them."""
    return [pytest.param(page, marks=[pytest.mark.slow] * (name(page) in LONG)) for page in pages]


def missing(page: Path, text: str) -> list[str]:
    links = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text))
    files = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    return [link for link in files if not (page.parent / link).exists()]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    assert missing(path, path.read_text("utf-8")) == []


def test_a_link_to_nowhere_is_seen() -> None:
    assert missing(PAGES[0], "[a](LICENSE) [b](https://x.org) [c](#d) ![e](no/such.png)") == ["no/such.png"]


def outcomes(block: Block, names: dict[str, Any], source: str) -> Iterator[tuple[str, str, str]]:
    """Run a block; of every expression with a comment ``-> text``: itself, the text, and what it gave."""
    expected = {}
    for token in tokenize.generate_tokens(io.StringIO(block.code).readline):
        if token.type == tokenize.COMMENT and (found := EXPECTED.match(token.string)):
            expected[token.start[0]] = found[1]
    for statement in ast.parse(block.code).body:
        ast.increment_lineno(statement, block.line - 1)
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), source, "eval"), names)
            wanted = expected.pop(statement.end_lineno - block.line + 1, None)
            if wanted is not None:
                yield ast.unparse(statement), wanted, repr(value)
        else:
            exec(compile(ast.Module([statement], []), source, "exec"), names)
    assert not expected, f"{source}: only of an expression can be said what it gives: {expected}"


def differing(page: Path, text: str) -> list[str]:
    """Run the blocks of a page one after the other; the outcomes that are not as stated."""
    names: dict[str, Any] = {"__name__": "__main__"}
    checker, ellipsis = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return [
        f"{expression} gave {value}, not {wanted}"
        for block in blocks(text)
        if block.language == "python" and block.runs
        for expression, wanted, value in outcomes(block, names, str(page))
        if not checker.check_output(f"{wanted}\n", f"{value}\n", ellipsis)
    ]


@pytest.fixture
def text(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A page, in whose folder nothing is written; where it speaks of a cluster, of one that there is."""
    monkeypatch.chdir(tmp_path)
    found = path.read_text("utf-8")
    if SCHEDULER not in found:
        return found
    return found.replace(SCHEDULER, request.getfixturevalue("standing_cluster"))


@pytest.mark.parametrize("path", cases(PYTHON), ids=name)
def test_every_block_of_python_runs(path: Path, text: str) -> None:
    assert differing(path, text) == []


@pytest.mark.parametrize("path", cases(SHELL), ids=name)
def test_every_line_for_the_shell_runs(text: str) -> None:
    for block in blocks(text):
        if block.language == "console" and block.runs:
            for line in block.code.splitlines():
                call(line.removeprefix("$ ").partition("  #")[0].strip())


def call(line: str) -> None:
    """A line for the shell: the command, in this process; or a file that printf writes."""
    if line.startswith("printf "):
        _, text, mark, path = shlex.split(line)
        assert mark == ">"
        Path(path).write_text(text.replace("\\n", "\n"), "utf-8")
        return
    command = next((each for each in COMMANDS if line == each or line.startswith(f"{each} ")), None)
    assert command, f"neither the command nor a file: {line}"
    done = CliRunner().invoke(app, shlex.split(line.removeprefix(command)))
    assert done.exit_code == 0, f"{line}: {done.output}"


def test_every_block_says_what_it_is() -> None:
    """What is Python or for the shell is run, or says why not; the rest is quoted."""
    known = {"python", "console"} | SHOWN
    assert [
        f"{name(page)}:{b.line}" for page in GUIDE for b in blocks(page.read_text("utf-8")) if b.language not in known
    ] == []
    quoted = [(page, b) for page in GUIDE for b in blocks(page.read_text("utf-8")) if b.language in SHOWN]
    assert [f"{name(page)}:{b.line}" for page, b in quoted if b.code.startswith(("$ ", "attnforge ", "import "))] == []


SAMPLE = """
```python
x = 1 / 3
x  # -> 0.333...
x + 1  # -> 2
```
<!-- not run: it would fail -->
```python
raise SystemExit
```
"""


def test_a_false_outcome_is_seen_and_what_is_not_run_is_not() -> None:
    assert differing(PAGES[0], SAMPLE) == ["x + 1 gave 1.3333333333333333, not 2"]
    with pytest.raises(SystemExit):
        differing(PAGES[0], re.sub("<!--.*-->\n", "", SAMPLE))
