"""What the shell sees of every verb: help, versions, exit codes, streams, colours, pipes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnforge as af

MAIN = "from attnforge.cli import main; main()"
BOX = "─━│╭╮╰╯═║┃"
VERBS = (
    "compile", "inspect", "certify", "measure", "diagnose", "report", "apply", "export", "constructions", "explore",
    "bench", "experiment", "zoo",
)  # fmt: skip


def start(*words: object, code: str = MAIN, **settings: object) -> subprocess.CompletedProcess[str]:
    """A true process: what only shows outside the test runner."""
    command = [sys.executable, "-c", code, *map(str, words)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    return subprocess.run(command, text=True, timeout=60, check=False, **streams)


def test_the_main_help_names_every_verb_and_every_exit_code(run) -> None:
    assert run("--version").stdout == f"attnforge {af.__version__}\n"
    text = run("--help").stdout
    listed = re.findall(r"^  (\w+)  +\S", text.partition("Commands:")[2].partition("Example:")[0], re.MULTILINE)
    assert tuple(listed) == VERBS
    assert [int(code) for code in re.findall(r"^ +(\d)  \w", text, re.MULTILINE)] == list(range(9))
    assert "..." not in text.partition("Commands:")[2]  # no summary is cut short


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_teaches_by_example(run, verb: str) -> None:
    text = run(verb, "--help").stdout
    assert re.search(rf"^    attnforge {verb}\b", text.partition("Example:")[2], re.MULTILINE)
    assert "--json" in text
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("words", [["constructions"], ["inspect"], ["--help"], ["compile", "--help"], ["comple"]])
def test_pipes_get_plain_lines(run, model: Path, words: list[str]) -> None:
    output = run(*words, *([model] if words == ["inspect"] else [])).output
    assert len(output) > 100
    assert not set(output) & {*BOX, "\x1b"}
    assert all(line == line.rstrip() for line in output.splitlines())
    assert words != ["comple"] or "'compile'" in output  # a misspelt verb gets a suggestion


def test_terminals_get_colour_unless_they_say_no(run, model: Path) -> None:
    colour = {"FORCE_COLOR": "1", "NO_COLOR": None, "TERM": "xterm-256color", "COLUMNS": "80"}
    assert "\x1b[36mtarget" in run("inspect", model, env=colour).stdout
    assert "\x1b[36m" not in run("inspect", model, env=colour | {"NO_COLOR": "1"}).stdout
    assert "multihead_truncated_linear" in run("constructions", env=colour).stdout  # names stay whole


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["compile", "x", "--domain", "1"]])
def test_what_needs_no_network_loads_nothing_heavy(words: list[str]) -> None:
    """Beyond what `import attnforge` loads, only typer, rich and what they need."""
    code = f"""
import sys, attnforge
before = set(sys.modules)
try:
    {MAIN}
finally:
    heavy = [n for n in ("torch", "matplotlib", "sympy", "pandas") if n in sys.modules]
    new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
    print("HEAVY", *heavy, *new & {{"numpy", "scipy", "flint", "safetensors"}}, file=sys.stderr)
"""
    assert start(*words, code=code).stderr.splitlines()[-1] == "HEAVY"


@pytest.mark.slow  # two imports of torch
def test_exit_code_and_streams(model: Path, forged: Path) -> None:
    for path, code in ((model, 0), (forged, 4)):
        found = start("certify", path, "--json")
        assert (found.returncode, found.stderr) == (code, "")
        assert json.loads(found.stdout)["confirmed"] is (code == 0)


@pytest.mark.parametrize(("as_json", "missing", "code"), [(True, False, 1), (False, False, 1), (True, True, 5)])
def test_a_closed_pipe_is_quiet(model: Path, as_json: bool, missing: bool, code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    found = start("inspect", f"{model}{'.none' * missing}", *["--json"] * as_json, stdout=write)
    os.close(write)
    assert found.stderr.startswith("error: ") if missing else found.stderr == ""
    assert not {"Traceback", "BrokenPipeError"} & set(found.stderr.replace(":", " ").split())
    assert found.returncode == code


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (["compile", "[red]x", "--domain", "x=-1:1"], "TargetError", 2),
        (["compile", "[red]x"], "UsageError", 2),
        (["compile", "x", "--domain", "[red]\x1b"], "UsageError", 2),
        (["compile", "x", "--domain", "x=-1:1", "--\x1b[31m"], "UsageError", 2),
        (["compile", "x", "--domain", "x=0:1", "--domain", "[red]\x1b[31m=0:1"], "TargetError", 2),
        (["compile", "sin(x)", "--domain", "x=-1:1", "--tol", "1e-20"], "RefusalError", 3),
        (["inspect", "[red]none\x1b"], "FileFormatError", 5),
        *(([verb, "none", *["p.csv"] * (verb == "apply")], "FileFormatError", 5) for verb in VERBS[1:7]),
    ],
)
def test_errors_are_data_too(run, data, words: list[str], kind: str, code: int) -> None:
    error = data(*words, code=code)["error"]
    assert (error["kind"], bool(error["message"])) == (kind, True)
    result = run(*words, "--json")
    assert "\x1b" not in result.output
    assert "Traceback" not in result.stderr


def test_three_parts_on_three_lines_and_no_option_after_two_dashes(run) -> None:
    result = run("inspect", "--", "--json")
    assert (result.exit_code, result.stdout) == (5, "")
    assert [line[:2].strip() for line in result.stderr.splitlines()] == ["er", "", ""]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ZeroDivisionError("[red]\x1b[31m"), 1, r"ZeroDivisionError: [red]\x1b[31m"),
        (MemoryError(), 1, "MemoryError"),
        (PermissionError(13, "Permission denied"), 5, "Permission denied"),
        (af.CertificateError("A bound must hold", "none", "Build it anew"), 4, "Build it anew."),
        (af.ToleranceError("A tolerance must exceed rounding", "0", "Ask for more"), 3, "Ask for more."),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_goes_wrong_inside_is_told_by_code(run, model: Path, monkeypatch, error, code: int, said: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("attnforge.compiler.load", fail)
    result = run("inspect", model, "--json")
    assert result.exit_code == code
    assert said in result.stderr
    assert "\x1b" not in result.output
    assert ("Traceback" in result.stderr) == (code == 1)
    if code < 100:
        assert json.loads(result.stdout)["error"]["kind"] in (type(error).__name__, "FileFormatError")
