"""From an error to what the user sees and to an exit code."""

from __future__ import annotations

import traceback
from contextlib import suppress
from enum import IntEnum

import typer
from rich.text import Text

from attnforge.cli.screen import clean, console, print_json
from attnforge.errors import AttnforgeError, CertificateError, FileFormatError, RefusalError, ToleranceError

# typer takes it from click or from its own copy of click, by version; the class above BadParameter is it in both
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class ExitCode(IntEnum):
    """What the shell is told."""

    OK = 0
    UNEXPECTED = 1
    WRONG_INPUT = 2
    REFUSED = 3
    NOT_CONFIRMED = 4
    UNREADABLE = 5
    NOT_PROVABLE = 6
    UNDECIDED = 7
    DIAGNOSED = 8
    INTERRUPTED = 130


EXIT_CODES = """\
Exit codes:

\b
  0  done
  1  unexpected: a defect of attnforge, or the reader of a pipe went away
  2  wrong usage or wrong input
  3  refused: no construction takes the target, or reaches the tolerance
  4  certificate not confirmed, or an error measured above the bound
  5  a file that cannot be read: missing, malformed or altered
  6  checked: intact, but the file does not hold what a proof needs
  7  checked: neither proved nor refuted within the limit
  8  diagnosed: a fault or a warning was found
  130  interrupted"""


def exit_code(error: BaseException) -> ExitCode:
    """The code that goes with an error."""
    match error:
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case RefusalError() | ToleranceError():
            return ExitCode.REFUSED
        case CertificateError():
            return ExitCode.NOT_CONFIRMED
        case FileFormatError():
            return ExitCode.UNREADABLE
        case AttnforgeError() | UsageError():
            return ExitCode.WRONG_INPUT
    return ExitCode.UNEXPECTED


def report_failure(error: BaseException, as_json: bool) -> ExitCode:
    """Tell the user on stderr, and with ``as_json`` also the program that reads stdout."""
    code = exit_code(error)
    if code is not ExitCode.INTERRUPTED:
        _say(error, code)
        if as_json:
            _print_data(error)
    return code


def _print_data(error: BaseException) -> None:
    """As JSON, if anybody still reads: typer looks after closed pipes only before an error reaches us."""
    with suppress(BrokenPipeError):
        print_json({"error": {"kind": _kind(error), "message": _message(error)}})


def _say(error: BaseException, code: ExitCode) -> None:
    out = console(stderr=True)
    usage = _usage(error)
    if usage:
        out.print(Text(clean(usage)))
    if code is ExitCode.UNEXPECTED:
        out.print(Text(clean("".join(traceback.format_exception(error)))))
    word = {ExitCode.REFUSED: "refused: ", ExitCode.UNEXPECTED: "unexpected: "}.get(code, "error: ")
    out.print(Text.assemble((word, "bold red"), clean(_block(error))))


def _block(error: BaseException) -> str:
    """The three parts of our own errors, one below the other."""
    if isinstance(error, AttnforgeError):
        got = None if error.got is None else f"Got {error.got.rstrip()}"
        return "\n  ".join(_closed(part.rstrip()) for part in (error.requirement, got, error.remedy) if part)
    if exit_code(error) is ExitCode.UNEXPECTED:
        return f"{_message(error)}\n  This is a defect of attnforge: please report it with the lines above."
    return _message(error)


def _closed(part: str) -> str:
    """With a full stop, unless it has one or ends in a drawing (a caret below the text)."""
    return part if part.endswith((".", "!", "?", "^")) else f"{part}."


def _message(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return str(getattr(error, "format_message", error.__str__)())
    return str(error).strip() if isinstance(error, AttnforgeError) else f"{type(error).__name__}: {error}"


def _kind(error: BaseException) -> str:
    return "UsageError" if isinstance(error, UsageError) else type(error).__name__


def _usage(error: BaseException) -> str:
    context = getattr(error, "ctx", None) if isinstance(error, UsageError) else None
    return "" if context is None else f"{context.get_usage()}\nTry '{context.command_path} --help' for help."
