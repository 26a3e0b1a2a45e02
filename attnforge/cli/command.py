"""Typer with our manners: exit codes, errors without tracebacks, and `-x` as an expression."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from attnforge.cli.failure import ExitCode, report_failure
from attnforge.cli.screen import note


class Group(TyperGroup):
    """The command itself: whatever goes wrong below becomes one readable block and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, then exit: always standalone, since typer's own way of being so prints errors its way."""
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
        except (Exception, KeyboardInterrupt) as error:
            code = report_failure(error, as_json=_wants_json(words))
        if code == ExitCode.INTERRUPTED:  # by now typer has made an exit code of the exception
            note("interrupted: nothing was left half-written")
        sys.exit(code if isinstance(code, int) else 0)


class ExpressionCommand(TyperCommand):
    """A verb whose arguments may be expressions."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """A word such as ``-x+1`` is an expression where no option takes it: a blank before it says so."""
        options = [option for option in self.params if getattr(option, "param_type_name", "") == "option"]
        valued = {name for option in options if not getattr(option, "is_flag", False) for name in option.opts}
        short = tuple(name for option in self.get_params(ctx) for name in option.opts if not name.startswith("--"))
        marked = [
            f" {word}" if _is_negated(word, short) and previous not in valued else word
            for previous, word in zip(["", *args], args, strict=False)
        ]
        return super().parse_args(ctx, marked)


def _is_negated(word: str, short: tuple[str, ...]) -> bool:
    return len(word) > 1 and word[0] == "-" and word[1] != "-" and not word.startswith(short)


def _wants_json(words: list[str]) -> bool:
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options
