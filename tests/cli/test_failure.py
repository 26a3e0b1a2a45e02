import json
from pathlib import Path

import pytest
import typer

from attnforge.cli.failure import ExitCode, exit_code
from attnforge.errors import (
    AttnforgeError,
    CertificateError,
    DomainError,
    FileFormatError,
    RefusalError,
    TargetError,
    ToleranceError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AttnforgeError("a"), 2),
        (TargetError("a"), 2),
        (DomainError("a"), 2),
        (typer.BadParameter("a"), 2),
        (RefusalError("a"), 3),
        (ToleranceError("a"), 3),
        (CertificateError("a"), 4),
        (FileFormatError("a"), 5),
        (ValueError("a"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_codes(error: BaseException, code: int) -> None:
    assert exit_code(error) is ExitCode(code)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("text", ["[red]x", "x[/red]", "x \x1b[31m", "x \u202e y", ":smile:"])
def test_hostile_expressions_are_shown_as_they_are(run, text: str, terminal: bool) -> None:
    settings = {"env": {"FORCE_COLOR": "1", "NO_COLOR": None}} if terminal else {}
    result = run("compile", text, "--domain", "x=-1:1", **settings)
    assert result.exit_code == 2
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    assert shown in result.stderr
    assert "\u202e" not in result.stderr
    assert "\x1b[31mx" not in result.stderr
    assert ("\x1b" in result.stderr) is terminal


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (["compile", "[red]x", "--domain", "x=-1:1"], "TargetError", 2),
        (["compile", "[red]x"], "UsageError", 2),
        (["compile", "x", "--domain", "[red]\x1b"], "UsageError", 2),
        (["compile", "x", "--domain", "x=-1:1", "--\x1b[31m"], "UsageError", 2),
        (["compile", "sin(x)", "--domain", "x=-1:1", "--tol", "1e-20"], "RefusalError", 3),
        (["inspect", "[red]none\x1b"], "FileFormatError", 5),
        (["certify", "none"], "FileFormatError", 5),
        (["measure", "none"], "FileFormatError", 5),
        (["apply", "none", "p.csv"], "FileFormatError", 5),
    ],
)
def test_errors_are_json_too(run, words: list[str], kind: str, code: int) -> None:
    result = run(*words, "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == code
    assert error["kind"] == kind
    assert error["message"]
    assert "\x1b" not in result.stderr + result.stdout
    assert "Traceback" not in result.stderr


def test_json_after_two_dashes_is_no_option(run) -> None:
    result = run("inspect", "--", "--json")
    assert result.exit_code == 5
    assert result.stdout == ""


def test_three_parts_on_three_lines(run) -> None:
    result = run("inspect", "none.safetensors")
    assert result.stderr == "error: A model file must exist.\n  Got none.safetensors.\n  Check the path.\n"


def test_the_unexpected_is_code_1_with_a_traceback(run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("[red]\x1b[31m")

    monkeypatch.setattr("attnforge.compiler.load", fail)
    result = run("inspect", model, "--json")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert r"unexpected: ZeroDivisionError: [red]\x1b[31m" in result.stderr
    assert "\x1b" not in result.stderr
    assert json.loads(result.stdout)["error"]["kind"] == "ZeroDivisionError"


def test_an_interrupt_is_one_line(run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnforge.compiler.measure", interrupt)
    result = run("measure", model)
    assert result.exit_code == 130
    assert result.output.strip() == "interrupted: nothing was left half-written"


def test_an_interrupted_file_is_not_left_half_written(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    words = ("compile", "clamp(x, 0, 1)", "--domain", "x=-1:2")
    assert run(*words, "-o", tmp_path / "f.safetensors").exit_code == 130
    assert run(*words, "--figure", tmp_path / "f.png").exit_code == 130
    assert list(tmp_path.iterdir()) == []


def test_a_file_the_system_does_not_let_us_read(run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("attnforge.compiler.load", forbidden)
    result = run("inspect", model)
    assert result.exit_code == 5
    assert "Permission denied" in result.stderr
